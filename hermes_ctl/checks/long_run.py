"""The long run of the check: started, seen to stream, stopped, and followed to its end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import RUN
from hermes_ctl.api.models import TERMINAL_STATES, Run, RunRequest
from hermes_ctl.checks.probe import Blocked
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import TERMINAL_EVENTS, Transcript
from hermes_ctl.errors import HermesctlError, RunNotFound

STOP = f"{RUN}/stop"

_POLL = 0.05
"""Seconds between polls after the stop: at 0.2 s `stopping` is missed (wire.md, 3)."""

PATIENCE = 1.0
"""Seconds without an event after which the status is asked whether the node is there."""

PROMPT = 0.5
"""Seconds within which a node answers that nothing keeps from sending events either."""

SILENT_FOR = 4.0
"""Seconds without an event, and with prompt answers, after which the run is stopped all the same:
its events are held back, or its model is slow."""

HELD_BACK = 1.0
"""Seconds that an event has to be late, by the node's own clock, to have been held back."""


@dataclass(slots=True)
class StopTrial:
    """One long run that was stopped. Times are seconds after the stop was sent.

    `early` is how it ended before it could be stopped. `live`: its first event came while it ran;
    False where it came with the end, though it had happened long before. `answered` is the state in
    the stop's answer. `slot_free` None: the node does not tell how many runs are active.
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
    poll_error: HermesctlError | None = None


async def first_trial(subject: Subject) -> StopTrial:
    """The long run, made once for all steps that look at it."""
    return await subject.once("long run", lambda: stop_trial(subject, 1))


async def stop_trial(subject: Subject, attempt: int) -> StopTrial:
    """A long run of its own, stopped as soon as it streams. Raises what its submission raises."""
    baseline = await subject.ready_for_runs()
    await subject.warm_up.wait()
    settings = subject.checklist.long_run
    request = RunRequest(input=settings.prompt, session_id=subject.session(f"long-{attempt}"))
    transcript = await subject.watcher.submit(request)
    trial = StopTrial(transcript.run_id)
    streaming = asyncio.Event()
    reading = asyncio.create_task(
        subject.watcher.read_stream(transcript, lambda _: streaming.set())
    )
    try:
        await _until_streaming(subject, trial, reading, streaming)
        under_way = any(event.name not in TERMINAL_EVENTS for event in transcript.events)
        trial.live = True if under_way else None
        await _stop(subject, transcript, trial)
        if trial.early is None and trial.error is None:
            await _follow_to_end(subject, transcript, trial)
        if trial.final == "cancelled" and baseline is not None:
            await _slot(subject, trial, baseline)
        if trial.final is not None:
            await asyncio.wait([reading], timeout=2)
        if trial.live is None and trial.stopping is not None and trial.stopping < PROMPT:
            trial.live = _was_live(transcript)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return trial


async def _until_streaming(
    subject: Subject, trial: StopTrial, reading: asyncio.Task[None], streaming: asyncio.Event
) -> None:
    """Wait for the first event, as long as it may still come.

    The status does not tell whether there should have been one: it takes no notice of text.
    """
    limit = time.monotonic() + subject.checklist.long_run.deadline
    first = asyncio.create_task(streaming.wait())
    silent = 0.0
    try:
        while time.monotonic() < limit and silent < SILENT_FOR:
            await asyncio.wait(
                [reading, first], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
            )
            if streaming.is_set() or reading.done():
                return
            asked = time.monotonic()
            run = await _state_of(subject, trial.run_id)
            if run is not None and run.is_terminal:
                return
            if run is not None and time.monotonic() - asked < PROMPT:
                silent += PATIENCE
    finally:
        first.cancel()


def _was_live(transcript: Transcript) -> bool | None:
    """None came before the stop. False where one had happened long before the run's end, by the
    node's own clock: the node answered promptly, so it is not what kept it."""
    times = [event.timestamp for event in transcript.events if event.timestamp is not None]
    late = max(times) - min(times) if times else 0.0
    return False if transcript.terminal_event and late >= HELD_BACK else None


async def _state_of(subject: Subject, run_id: str) -> Run | None:
    """None where it could not be read this time."""
    try:
        return await subject.client.run(run_id)
    except RunNotFound as error:
        raise Blocked("run-id", "the node does not know the run that it accepted") from error
    except HermesctlError:
        return None


async def _stop(subject: Subject, transcript: Transcript, trial: StopTrial) -> None:
    """Ask for the stop. A run that has ended is told from a stop that is refused by its status."""
    if transcript.terminal_event is not None:
        await _note_end(subject, transcript, trial)
        return
    sent = time.monotonic()
    try:
        answer = await subject.client.expect("POST", STOP, values={"run_id": transcript.run_id})
    except HermesctlError as error:
        await _note_end(subject, transcript, trial)
        subject.require_known(transcript)
        if trial.early is None:
            trial.error = error
            subject.ledger.given_up(transcript.run_id)
        return
    trial.answered = _state_in(answer)
    if trial.answered in TERMINAL_STATES:
        await _note_end(subject, transcript, trial)
    elif trial.answered == "stopping":
        trial.stopping = time.monotonic() - sent
    trial.states.append(trial.answered)


def _state_in(answer: Answer) -> str:
    try:
        document = answer.json()
    except HermesctlError:
        return "no state"
    state = document.get("status") if isinstance(document, dict) else None
    return state if isinstance(state, str) and state else "no state"


async def _note_end(subject: Subject, transcript: Transcript, trial: StopTrial) -> None:
    """How the run ended before it was stopped, where it did."""
    await subject.watcher.poll_to_end(transcript, time.monotonic() + 1)
    if transcript.final is not None:
        trial.early = transcript.final.status
    elif transcript.terminal_event is not None:
        trial.early = transcript.terminal_event.name.removeprefix("run.")


async def _follow_to_end(subject: Subject, transcript: Transcript, trial: StopTrial) -> None:
    sent = time.monotonic() - (trial.stopping or 0.0)
    limit = sent + subject.checklist.long_run.stop_deadline
    while time.monotonic() < limit:
        try:
            run = await subject.client.run(transcript.run_id)
        except HermesctlError as error:
            trial.poll_error = error
            if isinstance(error, RunNotFound):
                subject.ledger.gone(transcript.run_id)
                return
            await asyncio.sleep(_POLL)
            continue
        trial.poll_error = None
        subject.ledger.settled(transcript.run_id, run)
        if trial.states[-1] != run.status:
            trial.states.append(run.status)
        if run.status == "stopping" and trial.stopping is None:
            trial.stopping = time.monotonic() - sent
        if run.is_terminal:
            trial.final, trial.ended = run.status, time.monotonic() - sent
            return
        await asyncio.sleep(_POLL)
    subject.ledger.given_up(transcript.run_id)


async def _slot(subject: Subject, trial: StopTrial, baseline: int) -> None:
    """Free when no more runs are active than there were, beside our own that go on.

    Those are asked after the node's count: one that is active then was active before. So a slot
    that is still taken is never mistaken for the slot of another run.
    """
    limit = time.monotonic() + subject.checklist.long_run.slot_deadline
    while True:
        try:
            trial.active = (await subject.detailed_health_now()).active_api_runs
        except HermesctlError:
            trial.active = None
        if trial.active is None:
            return
        trial.slot_free = trial.active <= baseline or (
            trial.active <= baseline + await _still_active(subject)
        )
        if trial.slot_free or time.monotonic() > limit:
            return
        await asyncio.sleep(_POLL)


async def _still_active(subject: Subject) -> int:
    """How many of our other runs are active, by their own status."""
    asked = [subject.client.run(run_id) for run_id in subject.ledger.unended]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    return sum(isinstance(answer, Run) and not answer.is_terminal for answer in answers)
