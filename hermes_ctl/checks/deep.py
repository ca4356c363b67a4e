"""What the deep probes share: how they settle, how they ask, how they follow a run by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.events import BrokenFrame, Comment, Event, EventStream
from hermes_ctl.api.models import Run, RunRequest, Usage, parse
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Finding, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import TERMINAL_EVENTS
from hermes_ctl.errors import HermesctlError
from hermes_ctl.text import one_line

TURN_LIMIT = 120.0
"""Seconds that one turn of the model may take before its route answers."""

_BUSY_TRIES = 20
_BUSY_PAUSE = 0.5

Work = Callable[[Subject, Trail], Awaitable[str]]


class Settled(Exception):
    """Raised where a deep probe knows enough: its status, the sentence that says why, and what mends
    just that, where it is another thing than what mends the step in general."""

    def __init__(self, status: Status, summary: str, fix: tuple[str, ...] = ()) -> None:
        super().__init__(summary)
        self.status = status
        self.summary = summary
        self.fix = fix


def wrong(summary: str, *fix: str) -> Settled:
    return Settled(Status.FAIL, summary, fix)


def not_offered(summary: str) -> Settled:
    return Settled(Status.SKIP, summary)


def unsettled(summary: str) -> Settled:
    return Settled(Status.UNKNOWN, summary)


def odd(summary: str, *fix: str) -> Settled:
    return Settled(Status.WARN, summary, fix)


def deep(expected: str, work: Work, *fix: str) -> Callable[[Subject], Awaitable[Finding]]:
    """The coroutine of a deep probe. `work` gives its summary, or raises `Settled`."""

    async def settle(subject: Subject) -> Finding:
        trail, mends = Trail(), fix
        try:
            status, summary = Status.PASS, await work(subject, trail)
        except Settled as settled:
            status, summary, mends = settled.status, settled.summary, settled.fix or fix
        well = status in (Status.PASS, Status.SKIP)
        return Finding(
            status,
            summary,
            expected=expected,
            observed=summary,
            evidence=trail(),
            fix=() if well else mends,
        )

    return settle


async def offered(subject: Subject, *features: str) -> None:
    """Raises `Settled` (skip) for the first feature that the node does not advertise."""
    capabilities = await subject.capabilities()
    for feature in features:
        if not capabilities.supports(feature):
            raise not_offered(f"{feature} is not advertised")


async def ask(
    subject: Subject,
    trail: Trail,
    method: str,
    route: str,
    *statuses: int,
    values: dict[str, str] | None = None,
    json: Any = None,
    headers: dict[str, str] | None = None,
    timeout: float | None = None,
) -> Answer:
    """One request whose status is to be among `statuses`. Raises `Settled` (fail) for another.

    A 429 is waited out for a while: the deep probes share the node's limit.
    """
    for _ in range(_BUSY_TRIES):
        answer = await subject.client.request(
            method, route, values=values, json=json, headers=headers, timeout=timeout
        )
        if answer.status != 429 or 429 in statuses:
            break
        await asyncio.sleep(_BUSY_PAUSE)
    trail.add(f"{method} {route}", f"{answer.status} {answer.content_type}")
    if answer.status in statuses:
        return answer
    if answer.status == 404 and answer.content_type == "text/plain":
        raise wrong(f"{method} {route} is not served")
    said = answer.error()[0] if answer.status >= 400 else ""
    raise wrong(
        f"{method} {route} answers {answer.status}, not {' or '.join(map(str, statuses))}"
        + (f": {one_line(said, 120)}" if said else "")
    )


def field_of(answer: Answer, *path: str) -> Any:
    """A value inside a JSON answer, None where there is none. Raises `Settled` (fail) for no JSON."""
    try:
        value: Any = answer.json()
    except HermesctlError as error:
        raise wrong(error.message) from error
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_field(answer: Answer, *path: str) -> str:
    """The same where a text has to be there."""
    value = field_of(answer, *path)
    if not isinstance(value, str) or not value:
        raise wrong(f"{answer.method} {answer.route} answers without {'.'.join(path)}")
    return value


def book_turn(subject: Subject, answer: Answer) -> None:
    """Enter what a turn cost that was no run, and its session, so that it is deleted."""
    usage = field_of(answer, "usage")
    subject.ledger.turn(parse(Usage, usage, answer) if isinstance(usage, dict) else None)
    session = answer.headers.get("x-hermes-session-id")
    if session:
        subject.ledger.session(session)


@dataclass(slots=True)
class Tail:
    """A run's stream, read beside what a probe does. `ended` once nothing more will come."""

    events: list[Event] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    ended: bool = False
    error: HermesctlError | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def seen(self, *names: str) -> Event | None:
        """The first event of one of these names."""
        return next((event for event in self.events if event.name in names), None)

    @property
    def terminal(self) -> Event | None:
        return self.seen(*TERMINAL_EVENTS)

    async def until(self, *names: str, limit: float, after: int = 0) -> Event | None:
        """The first event of one of these names behind the first `after` events. None where the
        stream ended without one, or `limit` seconds went by."""

        def found() -> Event | None:
            return next((one for one in self.events[after:] if one.name in names), None)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit), self.changed:
                await self.changed.wait_for(lambda: found() is not None or self.ended)
        return found()

    async def until_end(self, limit: float) -> bool:
        """Whether the stream ended within `limit` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit), self.changed:
                await self.changed.wait_for(lambda: self.ended)
        return self.ended

    async def read(self, subject: Subject, stream: EventStream) -> None:
        async for item in stream:
            async with self.changed:
                if isinstance(item, Event):
                    self.events.append(item)
                    subject.recorder.event(item)
                elif isinstance(item, Comment):
                    self.comments.append(item)
                    subject.recorder.comment(item)
                self.changed.notify_all()


@contextlib.asynccontextmanager
async def tail_of(subject: Subject, run_id: str) -> AsyncIterator[Tail]:
    """A reader of the run's stream for as long as the block lasts; failures are told by `error`."""
    tail = Tail()

    async def read() -> None:
        try:
            async with subject.client.events(run_id) as stream:
                await tail.read(subject, stream)
                subject.recorder.stream_ended(run_id)
        except HermesctlError as error:
            tail.error = error
        finally:
            async with tail.changed:
                tail.ended = True
                tail.changed.notify_all()

    reading = asyncio.create_task(read())
    try:
        yield tail
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def submit(subject: Subject, purpose: str, prompt: str, **fields: Any) -> str:
    """A run of our own on a session of its own. Returns its id; the ledger sees to its end."""
    await subject.ready_for_runs()
    session_id = fields.pop("session_id", None) or subject.session(purpose)
    request = RunRequest(input=prompt, session_id=session_id, **fields)
    return (await subject.watcher.submit(request)).run_id


async def state_of(subject: Subject, run_id: str) -> Run:
    """The run's polled state, which the ledger takes note of."""
    run = await subject.client.run(run_id)
    subject.ledger.settled(run_id, run)
    return run


async def until_terminal(subject: Subject, run_id: str, limit: float) -> Run:
    """The run's terminal state. Raises `Settled` (fail) when it has none in time."""
    end = time.monotonic() + limit
    while True:
        run = await state_of(subject, run_id)
        if run.is_terminal:
            return run
        if time.monotonic() > end:
            raise wrong(f"the run was still {one_line(run.status, 40)} after {limit:g} s")
        await asyncio.sleep(0.1)


async def stopped(subject: Subject, run_id: str) -> None:
    """Stop a run that has served its purpose, and see it end."""
    await subject.ledger.give_up(subject.client, run_id)


@dataclass(frozen=True, slots=True)
class StreamRead:
    """All of a stream of another kind than a run's. `rest` is what was no JSON, such as `[DONE]`."""

    events: list[Event]
    rest: list[str]
    headers: dict[str, str]


async def read_stream(
    subject: Subject, trail: Trail, kind: str, route: str, **arguments: Any
) -> StreamRead:
    """Post to `route` and read its stream to the end. Raises `Settled` (fail) where it is none."""
    events: list[Event] = []
    rest: list[str] = []
    try:
        async with (
            asyncio.timeout(TURN_LIMIT),
            subject.client.stream("POST", route, **arguments) as stream,
        ):
            headers = dict(stream.headers)
            async for item in stream:
                if isinstance(item, Event):
                    events.append(item)
                    subject.recorder.event(item, kind)
                elif isinstance(item, BrokenFrame):
                    rest.append(item.raw)
    except TimeoutError:
        raise wrong(f"the stream of POST {route} did not end in {TURN_LIMIT:g} s") from None
    trail.add(f"POST {route}", f"{len(events)} events: {', '.join(_names(events))}")
    return StreamRead(events, rest, headers)


def _names(events: Collection[Event]) -> list[str]:
    return list(dict.fromkeys(one_line(event.name, 40) for event in events))
