"""How the event streams of two checks differ: events, their fields, run states, comments."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_ctl.checks.drift import consumers
from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.drift.fields import field_changes
from hermes_ctl.checks.model import Contract

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


def event_changes(old: Contract, new: Contract) -> Iterator[Difference]:
    """Events that one side did not send, and the fields of those that both sent."""
    for name in sorted({*old.events, *new.events}):
        before, after = old.events.get(name), new.events.get(name)
        where = f"event {name}"
        if before is None or after is None:
            if not (old.events and new.events):
                return
            vanished = after is None
            yield Difference(
                id=f"event:{name}",
                level=Level.BREAKING if vanished else Level.COMPATIBLE,
                where=where,
                summary=f"{where} {'was not sent any more' if vanished else 'is sent now'}",
                old="sent" if vanished else None,
                new=None if vanished else "sent",
                consumers=consumers.of_event(name),
            )
            continue
        for change in field_changes(before, after, steady=False):
            yield Difference(
                id=f"event-field:{name} {change.path}",
                level=change.level,
                where=where,
                summary=f"{change.path} {change.what} in {where}",
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
