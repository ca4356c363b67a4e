"""Stops, steers and answers one run, and says what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Run
from hermes_ctl.cli.chosen import Chosen, located
from hermes_ctl.cli.following import Following
from hermes_ctl.errors import ExitCode, Pending
from hermes_ctl.render.console import cell
from hermes_ctl.render.run_tables import result_fields
from hermes_ctl.render.tables import Value
from hermes_ctl.render.views import DocumentView, StreamView
from hermes_ctl.runs import control
from hermes_ctl.runs.chronicle import Chronicle
from hermes_ctl.runs.follow import Follower, FollowSettings
from hermes_ctl.runs.happenings import DeadlinePassed, Ended, Notice
from hermes_ctl.runs.journal import Journal
from hermes_ctl.runs.recovery import recover
from hermes_ctl.runs.result import Result

STOP_DEADLINE = 30.0
"""Seconds that a run is given to stop: 0.22 needs two inside a tool (wire.md, 3)."""


async def stop_run(
    journal: Journal, chosen: Chosen, view: DocumentView, *, wait: bool, deadline: float | None
) -> int:
    """Raises `Refused`, `Negative` and `RunNotFound` as `control.stop` does, `Pending` for a run
    that still goes on at the deadline."""
    async with Client(chosen.node) as client:
        found = await located(client, journal, chosen)
        state = await control.stop(client, found.run_id)
        if not wait:
            view.show({"run_id": found.run_id, "state": state}, {found.run_id: state})
            return ExitCode.YES
        seconds = STOP_DEADLINE if deadline is None else deadline
        result = control.stopped(await _ended(client, journal, found, view, state, seconds))
    view.show(result.document(), result_fields(result, chosen.node.name))
    return ExitCode.YES


async def _ended(
    client: Client, journal: Journal, found: Chosen, view: DocumentView, state: str, seconds: float
) -> Result:
    entry = found.entry
    chronicle = Chronicle(journal, entry.number if entry else None)

    async def elsewhere(last: Run | None) -> Result | None:
        return await recover(client, found.run_id, last=last, journal=journal, entry=entry)

    settings = FollowSettings(stream=False, accepted=True, deadline=seconds)
    async with Follower(client, found.run_id, settings, elsewhere) as follower:
        async for happening in follower:
            chronicle.observe(happening)
            if isinstance(happening, Ended):
                return happening.result
            if isinstance(happening, Notice):
                view.screen.note(happening.text)
            if isinstance(happening, DeadlinePassed):
                state = follower.last.status if follower.last else state
                raise Pending(
                    f"{found.run_id} was asked to stop and is still {cell(state, 60)}",
                    hint=f"hermesctl wait {found.run_id}",
                )
    raise AssertionError("a follower ends with a result")


async def steer_run(
    journal: Journal,
    chosen: Chosen,
    view: StreamView,
    text: str,
    following: Following | None,
    deadline: float | None,
) -> int:
    """Hand the text over, and with `following` see whether it was delivered."""
    async with Client(chosen.node) as client:
        found = await located(client, journal, chosen)
        await control.steer(client, found.run_id, text)
        if following is not None:
            following.say(f"{found.run_id}: accepted, not yet delivered")
            number = found.entry.number if found.entry else None
            return await following.follow(
                client, journal, found.run_id, number=number, accepted=True, deadline=deadline
            )
    if view.format == "text":
        view.screen.line(f"{found.run_id}: accepted, not yet delivered")
    else:
        document = {"run_id": found.run_id, "accepted": True, "delivered": None}
        show = view.screen.document if view.format == "json" else view.screen.json_line
        show(document)
    return ExitCode.YES


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that was typed."""

    choice: str
    request_id: str | None
    everything: bool


async def answer_approval(
    journal: Journal, chosen: Chosen, view: DocumentView, answer: Answer
) -> int:
    """Raises as `control.respond` does."""
    async with Client(chosen.node) as client:
        found = await located(client, journal, chosen)
        answered = await control.respond(
            client,
            journal,
            found.entry,
            found.run_id,
            answer.choice,
            request_id=answer.request_id,
            everything=answer.everything,
        )
    for warning in answered.warnings:
        view.screen.warn(warning)
    approval = answered.approval
    fields: dict[str, Value] = {
        "run": found.run_id,
        "answer": answered.choice,
        "resolved": answered.resolved,
        "command": approval.command if approval else None,
        "reason": approval.description if approval else None,
    }
    document = {"run_id": found.run_id, **answered.document()}
    view.show(document, {name: value for name, value in fields.items() if value is not None})
    return ExitCode.YES
