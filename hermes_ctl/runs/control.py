"""Acts on a run: stop, steer, and answers to its approvals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import TERMINAL_STATES
from hermes_ctl.api.offers import not_offered
from hermes_ctl.api.routes import RUN_STEER
from hermes_ctl.errors import (
    HermesctlError,
    Negative,
    NotFound,
    NotOffered,
    Refused,
    RouteNotFound,
    RunNotFound,
    UsageError,
)
from hermes_ctl.runs.happenings import Approval, approval_of
from hermes_ctl.runs.journal import Entry, Journal
from hermes_ctl.runs.result import Result, Verdict
from hermes_ctl.text import one_line

STOPPED = frozenset({"cancelled", "interrupted"})


async def stop(client: Client, run_id: str) -> str:
    """Ask the node to stop a run; the state that it answered with.

    Raises `Refused` for a run that had ended, in whatever way this server says that: a 404 up to
    0.20.4, 200 with the whole status on 0.22 (wire.md, 0.16); `RunNotFound` for one it never knew.
    """
    try:
        answer = await client.stop_run(run_id)
    except RunNotFound as error:
        run = await client.run(run_id)
        if not run.is_terminal:
            raise Negative(
                f"the node does not stop {run_id}, though it is {one_line(run.status, 60)}",
                hint=f"hermesctl tail {run_id}",
                url=error.url,
            ) from error
        raise _over(run_id, run.status, error.url) from error
    if answer.status in TERMINAL_STATES:
        raise _over(run_id, answer.status, client.node.url)
    return answer.status


async def insist_on_stop(client: Client, run_id: str) -> AsyncIterator[str]:
    """Ask the node to stop a run, three times where the request cannot be delivered; yields what
    went wrong, each thing once. A run that has ended already is none of it."""
    told = None
    for pause in (0.5, 2.0, 0.0):
        try:
            await client.stop_run(run_id)
            return
        except NotFound:
            return  # it has ended: up to 0.20.4 that is a 404 (wire.md, 3)
        except HermesctlError as error:
            if error.message != told:
                told = error.message
                yield f"the stop could not be delivered: {told}"
            await asyncio.sleep(pause)


def _over(run_id: str, state: str, url: str | None) -> Refused:
    return Refused(
        f"{run_id} had ended already, {state}: there is nothing to stop",
        status=409,
        hint=f"hermesctl status {run_id}",
        url=url,
    )


def stopped(result: Result) -> Result:
    """`result` of a run that was asked to stop, if it did stop. Raises `Negative` where it ended
    otherwise: a stop can come too late (wire.md, 3)."""
    if result.state in STOPPED or result.verdict is Verdict.GONE:
        return result
    raise Negative(
        f"{result.run_id} was not stopped: it ended before that, {one_line(result.state, 60)}",
        hint=f"hermesctl status {result.run_id}",
    )


async def steer(client: Client, run_id: str, text: str) -> None:
    """Hand `text` to a run while it works. Accepted is not delivered: it reaches the model with its
    next call, if there is one (field-notes 18).

    Raises `NotOffered` on 0.19, which has no such route; `Refused` for a run that takes none now.
    """
    if not text.strip():
        raise UsageError("there is nothing to say to the run", hint="hermesctl steer RUN TEXT")
    try:
        answer = await client.steer_run(run_id, text)
    except RouteNotFound as error:
        raise await not_offered(client, RUN_STEER.title, RUN_STEER.since) from error
    if not answer.accepted:
        raise Negative(f"{run_id} did not accept the text", url=client.node.url)


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer came to: how many requests it resolved, which one it was meant for, and what
    to warn of."""

    choice: str
    resolved: int
    approval: Approval | None
    warnings: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        approval = self.approval
        return {
            "choice": self.choice,
            "resolved": self.resolved,
            "request_id": approval.request_id if approval else None,
            "command": approval.command if approval else None,
            "description": approval.description if approval else None,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class Waiting:
    """The approvals that a run waits for, the oldest first, as far as is known here; `obeyed` says
    that the server goes by the request id, `unseen` that it waits for one that nobody here saw."""

    approvals: tuple[Approval, ...]
    obeyed: bool
    unseen: bool


async def waiting(client: Client, journal: Journal, entry: Entry | None, run_id: str) -> Waiting:
    """Look at what a run waits for. Raises `Refused` for a run that waits for nobody."""
    run = await client.run(run_id)
    asked = [one.approval for one in journal.pending(entry.number)] if entry else []
    if run.approval is not None:
        current = approval_of(run.approval)
        others = [one for one in asked if one.request_id != current.request_id]
        return Waiting((*others, current), obeyed=True, unseen=False)
    if run.status != "waiting_for_approval" and (run.is_terminal or not asked):
        raise Refused(
            f"{run_id} is {one_line(run.status, 60)}: it waits for no approval",
            status=409,
            hint=f"hermesctl status {run_id}",
            url=client.node.url,
        )
    newest = max((one.requested_at or 0.0 for one in asked), default=0.0)
    asked_since = run.last_event == "approval.request" and (run.updated_at or 0.0) > newest + 1.0
    return Waiting(tuple(asked), obeyed=False, unseen=not asked or asked_since)


def choose(known: Waiting, request_id: str | None, *, run_id: str) -> Approval | None:
    """The approval that an answer is meant for; None for the one that nobody here saw.

    Raises `UsageError` where it would be a guess, and `NotOffered` where the server would take
    another one: up to 0.20.4 it ignores the id and takes the oldest (wire.md, 0.17).
    """
    if request_id is None:
        if len(known.approvals) > 1:
            raise UsageError(
                f"{run_id} waits for {len(known.approvals)} approvals: {_listed(known.approvals)}",
                hint="name one with --request-id, or answer all of them with --all",
            )
        return known.approvals[0] if known.approvals else None
    found = next((one for one in known.approvals if one.request_id == request_id), None)
    if known.obeyed:
        return found or Approval(request_id=request_id)
    if found is None:
        raise UsageError(
            f"{run_id} is not known to wait for an approval with this request id",
            hint="hermesctl approvals shows those that are known here; without --request-id the "
            "oldest one is answered",
        )
    if found is not known.approvals[0]:
        raise NotOffered(
            "this node's Hermes ignores request ids (before 0.22) and would take the oldest request: "
            + _listed(known.approvals[:1]),
            hint="answer that one first",
        )
    return found


def _listed(approvals: Sequence[Approval]) -> str:
    return "; ".join(
        f"{one.request_id or 'no id'} ({one_line(one.command or 'command unknown', 80)})"
        for one in approvals
    )


async def send_answer(
    client: Client, run_id: str, choice: str, approval: Approval | None, *, everything: bool = False
) -> Answered:
    """Send the answer to one approval, or to all that are pending. Raises `Refused` where none is."""
    request_id = approval.request_id if approval and not everything else None
    answer = await client.answer_approval(
        run_id, choice, request_id=request_id, everything=everything
    )
    return Answered(choice, answer.resolved, None if everything else approval)


async def respond(
    client: Client,
    journal: Journal,
    entry: Entry | None,
    run_id: str,
    choice: str,
    *,
    request_id: str | None = None,
    everything: bool = False,
) -> Answered:
    """Answer an approval of a run from outside, and write that down.

    Raises what `waiting` and `choose` raise, and `UsageError` for a choice that is not offered.
    """
    known = await waiting(client, journal, entry, run_id)
    approval = None if everything else choose(known, request_id, run_id=run_id)
    if approval is not None and choice not in approval.choices:
        raise UsageError(
            f"this approval cannot be answered with {choice}",
            hint=f"it offers {', '.join(approval.choices)}",
        )
    answered = await send_answer(client, run_id, choice, approval, everything=everything)
    if entry is not None:
        journal.answered(entry.number, approval.key if approval else None)
    if not known.unseen or everything:
        return answered
    warning = "the command that this answered was not seen from here"
    return Answered(choice, answered.resolved, answered.approval, (warning,))
