"""One run of the check, watched from its submission to its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.api.events import BrokenFrame, Comment, Event, EventStream
from hermes_ctl.api.models import Run, RunAccepted, RunRequest, parse
from hermes_ctl.checks.contract import ContractRecorder
from hermes_ctl.checks.ledger import RunLedger
from hermes_ctl.errors import (
    AtCapacity,
    HermesctlError,
    MalformedAnswer,
    NoAnswer,
    RunNotFound,
    Undetermined,
)

TERMINAL_EVENTS = frozenset({"run.completed", "run.failed", "run.cancelled", "run.interrupted"})
EVENT_LIMIT = 20_000
"""Events kept of one run: more is a node that floods."""

_WATCH_INTERVAL = 5.0
_STREAM_GRACE = 10.0
_FAILED_POLLS = 4
"""Polls in a row that may fail before polling is given up: one 5xx is no verdict."""


@dataclass(slots=True)
class Transcript:
    """All that was seen of one run.

    Times are monotonic seconds. `head` are the stream's headers, `stream_error` is why reading it
    ended early, `closed` whether the closing comment came, `final` the first terminal state polled.
    `gave_up`: the run had no end within its deadline and was stopped.
    """

    answer: Answer
    accepted: RunAccepted
    submitted: float
    head: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    broken: list[BrokenFrame] = field(default_factory=list)
    stream_error: HermesctlError | None = None
    closed: bool = False
    remainder: int = 0
    last: Run | None = None
    final: Run | None = None
    poll_error: HermesctlError | None = None
    poll_s: float | None = None
    ended: float | None = None
    denied: int = 0
    gave_up: bool = False

    @property
    def run_id(self) -> str:
        return self.accepted.run_id

    @property
    def terminal_event(self) -> Event | None:
        """The first event that ends the run, None where the stream had none."""
        return next((event for event in self.events if event.name in TERMINAL_EVENTS), None)


class RunWatcher:
    """Starts runs and watches them. One reader for each stream; polling decides.

    A 429 while runs of our own are active is waited out: the check never takes more than the node
    gives. An approval that a run asks for is denied at once, so that none is left waiting.
    """

    def __init__(self, client: Client, ledger: RunLedger, recorder: ContractRecorder) -> None:
        self.client = client
        self.ledger = ledger
        self.recorder = recorder

    async def submit(
        self,
        request: RunRequest,
        *,
        idempotency_key: str | None = None,
        wait_for_slot: bool = True,
    ) -> Transcript:
        """Raises the submission's failure; with `wait_for_slot`, `AtCapacity` only when no run of our
        own is active."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
        submit = partial(self._submit, request, headers)
        while True:
            try:
                return await self.ledger.submission(submit(), submit if headers else None)
            except AtCapacity:
                if not (wait_for_slot and self.ledger.active):
                    raise
                await self.ledger.one_ended()

    async def _submit(self, request: RunRequest, headers: dict[str, str] | None) -> Transcript:
        submitted = time.monotonic()
        answer = await self.client.expect("POST", "/v1/runs", json=request.body(), headers=headers)
        accepted = parse(RunAccepted, answer.json(), answer)
        self.ledger.started(accepted.run_id, request.session_id)
        return Transcript(answer, accepted, submitted)

    async def watch(
        self,
        transcript: Transcript,
        *,
        deadline: float,
        on_event: Callable[[Event], None] | None = None,
    ) -> Transcript:
        """Read the stream to its end, then poll until the run has ended, `deadline` seconds in all.
        A run that has not ended by then is stopped, so that it holds nobody up."""
        limit = time.monotonic() + deadline
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline):
                await self._stream_until_end(transcript, on_event)
        await self.poll_to_end(transcript, limit)
        if transcript.final is None:
            transcript.gave_up = transcript.poll_error is None
            if transcript.run_id in self.ledger.active:
                await self.ledger.give_up(self.client, transcript.run_id)
        return transcript

    async def poll_to_end(self, transcript: Transcript, limit: float) -> None:
        """Poll until a terminal state, a failure that does not pass, or the monotonic `limit`."""
        delay, failed = 0.05, 0
        while True:
            began = time.monotonic()
            try:
                run = await self.client.run(transcript.run_id)
            except HermesctlError as error:
                failed += 1
                if not isinstance(error, Undetermined) or failed >= _FAILED_POLLS:
                    transcript.poll_error = error
                if isinstance(error, RunNotFound):
                    self.ledger.gone(transcript.run_id)
            else:
                failed = 0
                self._see(transcript, run, time.monotonic() - began)
            over = transcript.final is not None or transcript.poll_error is not None
            if over or time.monotonic() + delay > limit:
                return
            await asyncio.sleep(delay)
            delay = min(delay * 1.6, 1.0)

    def _see(self, transcript: Transcript, run: Run, seconds: float) -> None:
        if transcript.poll_s is None:
            transcript.poll_s = seconds
        transcript.last = run
        self.ledger.settled(transcript.run_id, run)
        if run.is_terminal:
            transcript.final = run
            transcript.ended = time.monotonic()

    async def _stream_until_end(
        self, transcript: Transcript, on_event: Callable[[Event], None] | None
    ) -> None:
        """A run can end while its stream hangs (wire.md, 0.2): a slow poll beside it notices."""
        reading = asyncio.create_task(self.read_stream(transcript, on_event))
        try:
            while not reading.done():
                await asyncio.wait([reading], timeout=_WATCH_INTERVAL)
                if reading.done():
                    break
                run = await self._glance(transcript.run_id)
                if run is not None and run.is_terminal:
                    await asyncio.wait([reading], timeout=_STREAM_GRACE)
                    if not reading.done():
                        transcript.stream_error = NoAnswer(
                            f"the run is {run.status}, but its event stream neither said so nor ended"
                        )
                    break
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _glance(self, run_id: str) -> Run | None:
        try:
            return await self.client.run(run_id)
        except HermesctlError:
            return None

    async def read_stream(
        self, transcript: Transcript, on_event: Callable[[Event], None] | None = None
    ) -> None:
        """Read events into the transcript; every failure is recorded there, none is raised."""
        try:
            async with self.client.events(transcript.run_id) as stream:
                transcript.head = dict(stream.headers)
                try:
                    await self._read(stream, transcript, on_event)
                    self.recorder.stream_ended(transcript.run_id)
                finally:
                    transcript.closed = stream.closed
                    transcript.remainder = stream.remainder
        except HermesctlError as error:
            transcript.stream_error = error

    async def _read(
        self,
        stream: EventStream,
        transcript: Transcript,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        async for item in stream:
            if isinstance(item, Comment):
                transcript.comments.append(item)
                self.recorder.comment(item)
            elif isinstance(item, BrokenFrame):
                transcript.broken.append(item)
            else:
                transcript.events.append(item)
                self.recorder.event(item)
                if on_event:
                    on_event(item)
                if item.name == "approval.request":
                    await self._deny(transcript, item)
            if len(transcript.events) + len(transcript.broken) > EVENT_LIMIT:
                raise MalformedAnswer(f"one short run sent more than {EVENT_LIMIT:,} events")

    async def _deny(self, transcript: Transcript, event: Event) -> None:
        request_id = event.data.get("request_id")
        try:
            await self.client.answer_approval(
                transcript.run_id,
                "deny",
                request_id=request_id if isinstance(request_id, str) else None,
            )
        except HermesctlError:
            return  # the run's own deadline ends it
        transcript.denied += 1
