"""A steer reaches the model while it works."""

from __future__ import annotations

from hermes_ctl.checks.deep import (
    ask,
    deep,
    field_of,
    offered,
    submit,
    tail_of,
    unsettled,
    until_terminal,
    wrong,
)
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_STEER = "/v1/runs/{run_id}/steer"
_RELEASE = "install a release that delivers a steer: 0.20 and later do"


async def work(subject: Subject, trail: Trail) -> str:
    """While a tool works, another answer is asked for: the run has to end with that one."""
    await offered(subject, "run_steer")
    settings = subject.checklist.steer
    first, second = subject.token(), subject.token()
    async with subject.lanes:
        run_id = await submit(subject, "steer", settings.prompt.replace("{token}", first))
        async with tail_of(subject, run_id) as tail:
            if await tail.until("tool.started", limit=settings.deadline) is None:
                raise unsettled("the model made no tool call, so there was no moment to steer")
            text = settings.text.replace("{token}", second)
            answer = await ask(
                subject, trail, "POST", _STEER, 200, values={"run_id": run_id}, json={"input": text}
            )
            if field_of(answer, "accepted") is not True:
                raise wrong("the steer was answered with 200 and not accepted")
            run = await until_terminal(subject, run_id, settings.deadline)
            await tail.until_end(5.0)
        late = await ask(
            subject, trail, "POST", _STEER, 404, 409, values={"run_id": run_id}, json={"input": "x"}
        )
    subject.recorder.error("a steer after the run's end", late)
    trail.add("GET /v1/runs/{run_id}", f"{run.status}, output {len(run.output or '')} characters")
    if second in (run.output or ""):
        return "accepted while a tool worked, and the model obeyed it"
    if run.pending_steer:
        raise wrong("the steer was accepted and came back as pending: the model never saw it")
    if _seen_by_model(subject, second):
        raise unsettled("the steer reached the model, which did not do what it asked")
    raise wrong("the steer was accepted, and the run ended as if there had been none")


def _seen_by_model(subject: Subject, token: str) -> bool:
    requests = subject.settings.provider_requests
    return requests is not None and any(token in str(one) for one in requests())


PROBE = Probe(
    name="steer",
    title="Steering",
    proves="A text that is sent to a run while one of its tools works is in what the model sees next.",
    causes=(
        Cause("not advertised", _RELEASE),
        Cause("accepted, and never delivered: it comes back as pending_steer", _RELEASE),
    ),
    settle=deep("accepted, and the model acts on it", work, _RELEASE),
    needs_runs=True,
    deep=True,
)
