"""The long run of the check: started, seen to stream, stopped, and followed to its end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from hermes_ctl.api.models import TERMINAL_STATES, RunRequest
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import Transcript
from hermes_ctl.errors import HermesctlError, NotFound

_POLL = 0.05
"""Seconds between polls after the stop: at 0.2 s `stopping` is missed (wire.md, 3)."""

_PATIENCE = 1.0
"""Seconds without an event after which the status is asked whether there should have been one."""

_HELD_BACK_AFTER = 3.0
"""Seconds that an event may take from the status route's knowing of it to us."""


@dataclass(slots=True)
class StopTrial:
    """One long run that was stopped. Times are seconds after the stop was sent.

    `early` is how it ended before it could be stopped. `live`: its first event came while it ran;
    False where the status route knew of one and the stream held it back.
    """

    run_id: str
    early: str | None = None
    live: bool | None = None
    answered: str | None = None
    stopping: float | None = None
    final: str | None = None
    ended: float | None = None
    slot_free: bool | None = None
    active: int | None = None
    states: list[str] = field(default_factory=list)
    error: HermesctlError | None = None


async def first_trial(subject: Subject) -> StopTrial:
    """The long run, made once for all steps that look at it."""
    return await subject.once("long run", lambda: stop_trial(subject, 1))


async def stop_trial(subject: Subject, attempt: int) -> StopTrial:
    """A long run of its own, stopped as soon as it streams. Raises what its submission raises."""
    baseline = await subject.ready_for_runs()
    settings = subject.checklist.long_run
    request = RunRequest(input=settings.prompt, session_id=subject.session(f"long-{attempt}"))
    transcript = await subject.watcher.submit(request)
    trial = StopTrial(transcript.run_id)
    streaming = asyncio.Event()
    reading = asyncio.create_task(
        subject.watcher.read_stream(transcript, lambda _: streaming.set())
    )
    try:
        trial.live = await _until_streaming(subject, trial, reading, streaming)
        await _stop(subject, transcript, trial)
        if trial.early is None and trial.error is None:
            await _follow_to_end(subject, transcript, trial)
        if trial.final == "cancelled":
            await _slot(subject, trial, baseline)
        if trial.final is not None:
            await asyncio.wait([reading], timeout=2)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return trial


async def _until_streaming(
    subject: Subject, trial: StopTrial, reading: asyncio.Task[None], streaming: asyncio.Event
) -> bool | None:
    """Wait for the first event. True when it came, False when the status route has known of one for
    a while, None when there was none until the deadline or the run has ended."""
    limit = time.monotonic() + subject.checklist.long_run.deadline
    first = asyncio.create_task(streaming.wait())
    known_since: float | None = None
    try:
        while time.monotonic() < limit:
            await asyncio.wait(
                [reading, first], timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED
            )
            if streaming.is_set():
                return True
            run = await subject.client.run(trial.run_id)
            if run.is_terminal or reading.done():
                return None
            if run.last_event is not None:
                known_since = known_since or time.monotonic()
                if time.monotonic() - known_since > _HELD_BACK_AFTER:
                    return False
    finally:
        first.cancel()
    return None


async def _stop(subject: Subject, transcript: Transcript, trial: StopTrial) -> None:
    ended = transcript.terminal_event
    if ended is not None:
        trial.early = str(ended.name.removeprefix("run."))
        await _book(subject, transcript)
        return
    sent = time.monotonic()
    try:
        answer = await subject.client.stop_run(transcript.run_id)
    except NotFound:
        trial.early = "gone"  # up to 0.20.4 a stop after the end is 404 (wire.md, 3)
        await _book(subject, transcript)
        return
    except HermesctlError as error:
        trial.error = error
        return
    trial.answered = answer.status
    if answer.status in TERMINAL_STATES:
        trial.early = answer.status
        await _book(subject, transcript)
    elif answer.status == "stopping":
        trial.stopping = time.monotonic() - sent
    trial.states.append(answer.status)


async def _book(subject: Subject, transcript: Transcript) -> None:
    await subject.watcher.poll_to_end(transcript, time.monotonic() + 1)


async def _follow_to_end(subject: Subject, transcript: Transcript, trial: StopTrial) -> None:
    sent = time.monotonic() - (trial.stopping or 0.0)
    limit = sent + subject.checklist.long_run.stop_deadline
    while time.monotonic() < limit:
        try:
            run = await subject.client.run(transcript.run_id)
        except HermesctlError as error:
            trial.states.append(error.kind)
            if isinstance(error, NotFound):
                subject.ledger.gone(transcript.run_id)
                return
            await asyncio.sleep(_POLL)
            continue
        subject.ledger.settled(run)
        if trial.states[-1] != run.status:
            trial.states.append(run.status)
        if run.status == "stopping" and trial.stopping is None:
            trial.stopping = time.monotonic() - sent
        if run.is_terminal:
            trial.final, trial.ended = run.status, time.monotonic() - sent
            return
        await asyncio.sleep(_POLL)


async def _slot(subject: Subject, trial: StopTrial, baseline: int) -> None:
    """Free when no more runs are active than there were, beside our own that go on."""
    limit = time.monotonic() + subject.checklist.long_run.slot_deadline
    while True:
        detailed = await subject.detailed_health_now()
        trial.active = detailed.active_api_runs
        if trial.active is None:
            return
        trial.slot_free = trial.active <= baseline + subject.ledger.active
        if trial.slot_free or time.monotonic() > limit:
            return
        await asyncio.sleep(_POLL)
