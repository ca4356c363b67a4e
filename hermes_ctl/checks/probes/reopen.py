"""A stream that was dropped, and opened again."""

from __future__ import annotations

import asyncio

from hermes_ctl.checks.deep import (
    deep,
    state_of,
    stopped,
    submit,
    tail_of,
    unsettled,
    wrong,
)
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import NotFound
from hermes_ctl.text import one_line

BEHAVIOUR = "reopened stream"
_PAUSE = 1.2
"""Seconds before it is opened again: sooner, releases up to 0.20.4 leave it hanging for ever
(wire.md, 0.1)."""
_HEARING = 5.0
_POLL = "poll the run's status: it goes on, whatever its stream does"


async def work(subject: Subject, trail: Trail) -> str:
    """The run has to go on. What the second opening gives differs from release to release: 404,
    or the stream again from its start."""
    async with subject.lanes:
        run_id = await submit(subject, "reopen", subject.checklist.long_run.prompt)
        try:
            return await _reopened(subject, trail, run_id)
        finally:
            await stopped(subject, run_id)


async def _reopened(subject: Subject, trail: Trail, run_id: str) -> str:
    async with tail_of(subject, run_id) as first:
        await first.until("message.delta", limit=subject.checklist.long_run.deadline)
    if not first.events:
        raise unsettled("the run's stream gave no event, so there was nothing to drop")
    await asyncio.sleep(_PAUSE)
    run = await state_of(subject, run_id)
    trail.add("GET /v1/runs/{run_id}", f"{one_line(run.status, 40)} after the stream was dropped")
    if run.is_terminal:
        raise wrong(f"dropping the stream ended the run: it is {one_line(run.status, 40)}")
    async with tail_of(subject, run_id) as second:
        await second.until("message.delta", limit=_HEARING)
    if isinstance(second.error, NotFound):
        return _noted(subject, trail, "404 while the run goes on")
    if second.error is not None:
        raise wrong(f"the stream could not be opened again: {second.error.message}")
    if not second.events:
        raise wrong(f"opened again with 200, and silent for {_HEARING:g} s while the run goes on")
    foreign = next((one.run_id for one in second.events if one.run_id != run_id), None)
    if foreign is not None:
        raise wrong(f"opened again, it tells of another run: {one_line(str(foreign), 60)}")
    whole = second.events[0].data == first.events[0].data
    return _noted(subject, trail, "replayed from the start" if whole else "goes on where it is")


def _noted(subject: Subject, trail: Trail, value: str) -> str:
    subject.recorder.behaviour(BEHAVIOUR, value)
    trail.add("GET /v1/runs/{run_id}/events, again", value)
    return f"the run goes on without its reader; the stream, opened again: {value}"


PROBE = Probe(
    name="reopen",
    title="Reopening a stream",
    proves=(
        "A run goes on when its stream's reader leaves. Opened again, the stream is either gone "
        "(404, up to 0.20.4) or told again; it is not silent, and not another run's."
    ),
    causes=(
        Cause("404 after a disconnect", _POLL),
        Cause("200, and silent for ever", _POLL + "; wait a second before opening it again"),
    ),
    settle=deep("the run goes on; its stream is gone or told again", work, _POLL),
    needs_runs=True,
    deep=True,
)
