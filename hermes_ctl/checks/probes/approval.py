"""An approval surfaces, waits for its answer, and a denial is honoured."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from hermes_ctl.api.answers import Answer
from hermes_ctl.checks.deep import (
    Tail,
    ask,
    deep,
    field_of,
    offered,
    state_of,
    submit,
    tail_of,
    unsettled,
    until_terminal,
    wrong,
)
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import TERMINAL_EVENTS
from hermes_ctl.text import one_line

_APPROVAL = "/v1/runs/{run_id}/approval"
_MANUAL = "set approvals.mode to manual in config.yaml, and restart the gateway"
_EXPECTED = "asked once, still waiting when nobody answers, denied by request id, and not run"


@dataclass(frozen=True, slots=True)
class Dangerous:
    """A command that every release flags and that does no harm: there is no such folder.

    `proof` is what it prints when it runs; it does not stand in the command's own text.
    """

    command: str
    proof: str


def dangerous() -> Dangerous:
    number = 1_000_000 + secrets.randbelow(8_000_000)
    folder = f"./hermesctl-no-such-folder-{secrets.token_hex(4)}"
    return Dangerous(f"rm -rf {folder}; echo RAN-$(({number} + 1))", f"RAN-{number + 1}")


async def work(subject: Subject, trail: Trail) -> str:
    """A flagged command: it has to be asked for, nobody may answer but us, and `deny` has to hold."""
    await offered(subject, "run_approval_response", "approval_events")
    settings = subject.checklist.approval
    danger = dangerous()
    prompt = settings.prompt.replace("{command}", danger.command)
    run_id = await submit(subject, "approval", prompt.replace("{token}", subject.token()))
    async with tail_of(subject, run_id) as tail:
        await _asked(subject, trail, tail, run_id, danger)
        await _unattended(subject, trail, tail, run_id)
        by_id = await _deny(subject, trail, tail, run_id)
        await _not_again(tail, settings.deadline)
        run = await until_terminal(subject, run_id, settings.deadline)
        await tail.until_end(5.0)
        again = await ask(
            subject, trail, "POST", _APPROVAL, 404, 409, values={"run_id": run_id}, json=_denial()
        )
        subject.recorder.error("an approval answered after the run's end", again)
    _ran(subject, tail, danger)
    how = "by request id" if by_id else "without a request id, which this release does not give"
    return (
        f"asked once, waited {settings.unattended:g} s for us, denied {how}; the run {run.status}"
    )


def _denial(request_id: str | None = None) -> dict[str, str]:
    return {"choice": "deny", **({"request_id": request_id} if request_id else {})}


async def _asked(
    subject: Subject, trail: Trail, tail: Tail, run_id: str, danger: Dangerous
) -> None:
    limit = subject.checklist.approval.deadline
    event = await tail.until("approval.request", limit=limit)
    if event is None:
        done = tail.seen("tool.completed")
        if done is None:
            raise unsettled("the model made no tool call, so nothing was to be approved")
        if done.data.get("error") is True:
            raise wrong("the flagged command was refused without asking anybody")
        raise wrong("the flagged command ran, and nobody was asked")
    trail.add("event approval.request", one_line(str(event.data.get("command")), 160))
    if danger.command.split(";")[0] not in str(event.data.get("command")):
        raise wrong("the approval names another command than the one that waits")
    choices = event.data.get("choices")
    if not isinstance(choices, list) or "deny" not in choices:
        raise wrong("the approval offers no choice deny")
    run = await state_of(subject, run_id)
    if run.status != "waiting_for_approval":
        raise wrong(f"the run is {one_line(run.status, 40)} while it waits for an approval")


async def _unattended(subject: Subject, trail: Trail, tail: Tail, run_id: str) -> None:
    """Nobody answers for a while: nothing may happen. The stream's keepalive is seen meanwhile."""
    began = len(tail.events)
    waited = subject.checklist.approval.unattended
    happened = await tail.until("approval.responded", "tool.completed", limit=waited, after=began)
    if happened is not None or tail.terminal is not None:
        name = happened.name if happened else str(tail.terminal and tail.terminal.name)
        raise wrong(f"nobody had answered, and {one_line(name, 40)} came all the same")
    run = await state_of(subject, run_id)
    if run.status != "waiting_for_approval":
        raise wrong(f"nobody had answered, and the run became {one_line(run.status, 40)}")
    trail.add("unattended", f"still waiting for approval after {waited:g} s")


async def _deny(subject: Subject, trail: Trail, tail: Tail, run_id: str) -> bool:
    """Deny, first under a wrong request id. Whether the request had an id.

    Up to 0.20.4 a wrong id still answers the oldest request (wire.md, 0.17); a denial does no harm.
    """
    event = tail.seen("approval.request")
    given = event.data.get("request_id") if event else None
    request_id = given if isinstance(given, str) else None
    values = {"run_id": run_id}
    if request_id is not None:
        foreign = _denial("hermesctl-no-such-request")
        answer = await ask(subject, trail, "POST", _APPROVAL, 200, 409, values=values, json=foreign)
        refused = answer.status == 409
        taken = "refused" if refused else "taken for the oldest request"
        subject.recorder.behaviour("wrong approval request id", taken)
        if not refused:
            _accepted(answer)
            return True
    answer = await ask(
        subject, trail, "POST", _APPROVAL, 200, values=values, json=_denial(request_id)
    )
    _accepted(answer)
    if await tail.until("approval.responded", limit=10.0) is None:
        raise wrong("the denial was accepted, and no approval.responded came")
    return request_id is not None


async def _not_again(tail: Tail, limit: float) -> None:
    """Until the run has ended nobody may be asked a second time."""
    first = next(n for n, event in enumerate(tail.events, 1) if event.name == "approval.request")
    names = ("approval.request", *TERMINAL_EVENTS)
    event = await tail.until(*names, limit=limit, after=first)
    if event is not None and event.name == "approval.request":
        raise wrong("asked again for a command that had been denied")


def _accepted(answer: Answer) -> None:
    if field_of(answer, "choice") != "deny" or field_of(answer, "resolved") != 1:
        raise wrong("the denial was not taken as one denial")


def _ran(subject: Subject, tail: Tail, danger: Dangerous) -> None:
    """Whether the denied command ran after all: by the tool's own error flag, and in the lab by
    what the model got to see of it."""
    done = tail.seen("tool.completed")
    if done is not None and done.data.get("error") is not True:
        raise wrong("denied, and the tool completed without an error")
    requests = subject.settings.provider_requests
    if requests is not None and any(danger.proof in str(one.get("last")) for one in requests()):
        raise wrong("denied, and the command ran all the same")


PROBE = Probe(
    name="approval",
    title="Approvals",
    proves=(
        "A command that Hermes flags is asked for once, with its text and a choice to deny. A node "
        "that nobody attends does not approve by itself. A denial under the request's id is "
        "accepted, told as an event, and the command does not run."
    ),
    causes=(
        Cause("the command ran and nobody was asked: approvals.mode is off, or smart", _MANUAL),
        Cause("refused without asking", "approvals.mode denies by itself: " + _MANUAL),
        Cause("a wrong request id is taken for the oldest one", "0.22 and later refuse it"),
    ),
    settle=deep(_EXPECTED, work, _MANUAL),
    needs_runs=True,
    deep=True,
)
