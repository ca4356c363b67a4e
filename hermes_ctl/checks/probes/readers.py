"""Two readers of one run."""

from __future__ import annotations

from hermes_ctl.api.events import Event
from hermes_ctl.checks.deep import (
    Tail,
    deep,
    odd,
    submit,
    tail_of,
    unsettled,
    until_terminal,
    wrong,
)
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.text import one_line

BEHAVIOUR = "second reader"
_ONE = "read each stream once, and poll beside it"
_PROMPT = "Count slowly from 1 to 12, one number per line, without using any tool."


async def work(subject: Subject, trail: Trail) -> str:
    """Both read the same run. Up to 0.20.4 they share its events between them (wire.md, 0.2)."""
    async with subject.lanes:
        run_id = await submit(subject, "readers", _PROMPT)
        async with tail_of(subject, run_id) as one, tail_of(subject, run_id) as two:
            run = await until_terminal(subject, run_id, subject.checklist.long_run.deadline)
            for tail in (one, two):
                await tail.until_end(2.0)
    if run.status != "completed":
        raise wrong(f"the run that two read ended {one_line(run.status, 40)}")
    trail.add("first reader", _told(one))
    trail.add("second reader", _told(two))
    both = [*one.events, *two.events]
    if not both:
        raise unsettled("neither reader saw an event")
    foreign = next((event.run_id for event in both if event.run_id != run_id), None)
    if foreign is not None:
        raise wrong(f"a reader was told of another run: {one_line(str(foreign), 60)}")
    if not any(event.name == "run.completed" for event in both):
        raise wrong("neither reader was told that the run had completed")
    if _same(one.events, two.events):
        subject.recorder.behaviour(BEHAVIOUR, "a full copy for each")
        return f"both saw all {len(one.events)} events"
    subject.recorder.behaviour(BEHAVIOUR, "the events are shared out")
    raise odd(
        f"two readers share one stream's events: {len(one.events)} and {len(two.events)} of them"
    )


def _same(one: list[Event], two: list[Event]) -> bool:
    return [event.data for event in one] == [event.data for event in two]


def _told(tail: Tail) -> str:
    ended = "ended" if tail.ended else "still open after the run's end"
    return f"{len(tail.events)} events, {ended}"


PROBE = Probe(
    name="readers",
    title="Second reader",
    proves=(
        "Two readers of one run each get all of its events. Up to 0.20.4 they share them, and one "
        "of them hangs: a warning, since one reader is all that those releases have."
    ),
    causes=(
        Cause("the events are shared out", _ONE),
        Cause("a reader is told of another run", "a proxy mixes answers up: ask the node directly"),
    ),
    settle=deep("a full copy for each reader", work, _ONE),
    needs_runs=True,
    deep=True,
)
