"""Step 8: a long run goes through stopping to cancelled, and gives its slot back."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial

from hermes_ctl.api.models import TERMINAL_STATES, RunRequest
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import Transcript
from hermes_ctl.errors import HermesctlError, NotFound
from hermes_ctl.text import one_line

_ATTEMPTS = 2
_POLL = 0.05
"""Seconds between polls after the stop: at 0.2 s `stopping` is missed (wire.md, 3)."""


@dataclass(slots=True)
class StopTrial:
    """One long run that was stopped. Times are seconds after the stop was sent."""

    run_id: str
    early: str | None = None
    answered: str | None = None
    stopping: float | None = None
    final: str | None = None
    ended: float | None = None
    slot_free: bool | None = None
    active: int | None = None
    states: list[str] = field(default_factory=list)
    error: HermesctlError | None = None


async def probe(subject: Subject) -> Finding:
    """Stopped as soon as it streams. A run that ended before the stop proves nothing: once more,
    then `unknown`. `stopping` counts from the stop's own answer or from a poll at once."""
    trial = await _trial(subject, 1)
    attempts = 1
    while trial.early and attempts < _ATTEMPTS:
        attempts += 1
        trial = await _trial(subject, attempts)
    subject.timings.stop_to_stopping_s = _rounded(trial.stopping)
    subject.timings.stop_to_cancelled_s = (
        _rounded(trial.ended) if trial.final == "cancelled" else None
    )
    trail = Trail()
    trail.add("POST /v1/runs/{run_id}/stop", trial.answered or trial.error or "not sent")
    trail.add("GET /v1/runs/{run_id}", " → ".join(trial.states) or trial.early or "nothing")
    if trial.active is not None:
        trail.add("GET /health/detailed", f"active_api_runs {trial.active}")
    finding = partial(
        Finding,
        expected="stopping, then cancelled, then its slot free",
        observed=" → ".join(dict.fromkeys(trial.states)) or str(trial.early or trial.error),
        evidence=trail(),
        attempts=attempts,
    )
    return _judge(subject, trial, finding)


def _judge(subject: Subject, trial: StopTrial, finding: partial[Finding]) -> Finding:
    limit = subject.checklist.long_run.stop_deadline
    if trial.early:
        return finding(
            Status.UNKNOWN,
            f"the long run was {one_line(trial.early, 60)} before it could be stopped",
            fix=("give the checklist a longer long-run.prompt for this model",),
        )
    if trial.error is not None:
        return finding(Status.FAIL, f"the stop was refused: {trial.error.message}")
    if trial.final is None:
        last = trial.states[-1] if trial.states else "not answering"
        return finding(
            Status.FAIL,
            f"still {last} {limit:g} s after the stop: its work goes on",
            fix=(f"hermesctl stop {trial.run_id}", "hermes gateway restart"),
        )
    if trial.final != "cancelled":
        return finding(
            Status.FAIL,
            f"the stop was accepted, and the run ended as {one_line(trial.final, 40)}",
            fix=("do not rely on stop to undo work on this node",),
        )
    if trial.stopping is None:
        return finding(Status.FAIL, "cancelled, but never stopping, neither answered nor polled")
    seconds = f"cancelled after {trial.ended or 0:.2f} s"
    if trial.slot_free is False:
        return finding(
            Status.FAIL,
            f"{seconds}, but its slot is still taken (active_api_runs {trial.active})",
            fix=("its work goes on behind the state: look at the node, hermes gateway restart",),
        )
    slot = "slot free again" if trial.slot_free else "slot not reported"
    return finding(Status.PASS, f"stopping at once, {seconds}, {slot}")


async def _trial(subject: Subject, attempt: int) -> StopTrial:
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
        await _until_streaming(reading, streaming, settings.deadline)
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
    reading: asyncio.Task[None], streaming: asyncio.Event, limit: float
) -> None:
    first = asyncio.create_task(streaming.wait())
    await asyncio.wait([reading, first], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    first.cancel()


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


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


PROBE = Probe(
    name="stop",
    title="Stop",
    proves=(
        "A long run that is asked to stop is stopping, then cancelled, and its slot is free again: "
        "judged by what polling reaches, not by the 200 of the stop."
    ),
    causes=(
        Cause("the run finished first", "a longer prompt: long-run.prompt in the checklist"),
        Cause(
            "still stopping at the deadline", "a tool that cannot be interrupted; gateway restart"
        ),
        Cause("ended as completed", "newer servers, when the stop came late"),
        Cause("its slot stays taken", "work goes on behind the state: hermes gateway restart"),
    ),
    settle=probe,
    needs_runs=True,
)
