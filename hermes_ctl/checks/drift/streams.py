"""How the event streams of two checks differ: events, their fields, run states, comments."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_ctl.checks.drift import consumers
from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.drift.fields import Paths, field_changes
from hermes_ctl.checks.model import Contract, Report

KNOWN_STATES = frozenset(
    {
        "queued",
        "running",
        "waiting_for_approval",
        "stopping",
        "completed",
        "failed",
        "cancelled",
        "interrupted",
    }
)


def event_changes(old: Report, new: Report) -> Iterator[Difference]:
    """Events that one side did not send, and the fields of those that both sent."""
    before, after = old.contract.events, new.contract.events
    for name in sorted({*before, *after}):
        if name in before and name in after:
            yield from _fields(name, before[name], after[name])
        elif name in before and _would_have_come(name, old, new):
            yield _event(name, Level.BREAKING, "was not sent any more", old="sent")
        elif name in after and _would_have_come(name, new, old):
            yield _event(name, Level.COMPATIBLE, "is sent now", new="sent")


def _would_have_come(name: str, here: Report, there: Report) -> bool:
    """Whether the other side read a stream to its end in which the event would have stood: that of
    a run for the same purpose, or another stream of the same kind."""
    kind, _, _ = name.rpartition(" ")
    if kind:
        return any(other.rpartition(" ")[0] == kind for other in there.contract.events)
    purposes = {run.purpose for run in here.runs if any(mark.name == name for mark in run.marks)}
    return any(run.read_to_end and run.purpose in purposes for run in there.runs)


def _event(
    name: str, level: Level, words: str, old: str | None = None, new: str | None = None
) -> Difference:
    return Difference(
        id=f"event:{name}",
        level=level,
        where=f"event {name}",
        summary=f"event {name} {words}",
        old=old,
        new=new,
        consumers=consumers.of_event(name),
    )


def _fields(name: str, old: Paths, new: Paths) -> Iterator[Difference]:
    for change in field_changes(old, new, steady=False):
        yield Difference(
            id=f"event-field:{name} {change.path}",
            level=change.level,
            where=f"event {name}",
            summary=f"{change.path} {change.what} in event {name}",
            old=change.old,
            new=change.new,
            consumers=consumers.of_event(name),
        )


def stream_changes(old: Contract, new: Contract) -> Iterator[Difference]:
    """States that nobody knows yet, and the comments of a run's stream."""
    for state in sorted({*new.states} - {*old.states} - KNOWN_STATES):
        yield Difference(
            id=f"state:{state}",
            level=Level.RISKY,
            where="GET /v1/runs/{run_id}",
            summary=f"a run can be {state} now, a state that no client knows",
            new=state,
            consumers=consumers.of_route("GET /v1/runs/{run_id}"),
        )
    if not old.comments or not new.comments:
        return
    for comment in sorted({*old.comments} ^ {*new.comments}):
        vanished = comment in old.comments
        yield Difference(
            id=f"comment:{comment}",
            level=Level.RISKY if vanished else Level.COMPATIBLE,
            where="GET /v1/runs/{run_id}/events",
            summary=f"the comment {comment!r} {'is no longer' if vanished else 'is'} sent"
            + ("" if vanished else " now"),
            old=comment if vanished else None,
            new=None if vanished else comment,
            consumers=consumers.of_route("GET /v1/runs/{run_id}/events"),
        )
