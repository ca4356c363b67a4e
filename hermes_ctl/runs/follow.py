"""Follows one run to its end: the event stream for showing, the status route for deciding.

Both are read side by side. The end of a stream is not the end of a run, and a lost connection is
not a lost run: the follower says so once and goes on by polling (design.md, section 5; contract,
Reconciliation).
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from hermes_ctl.api.client import Client
from hermes_ctl.api.events import BrokenFrame, Event
from hermes_ctl.api.models import Run
from hermes_ctl.durations import format_duration
from hermes_ctl.errors import (
    AuthenticationFailed,
    HermesctlError,
    Interrupted,
    NotFound,
    Pending,
    Refused,
    RequestRejected,
    RouteNotFound,
    RunNotFound,
    Undetermined,
    UsageError,
)
from hermes_ctl.runs.approvals import OpenApprovals
from hermes_ctl.runs.control import insist_on_stop
from hermes_ctl.runs.delegations import work_left
from hermes_ctl.runs.happenings import (
    ApprovalRequested,
    ApprovalResponded,
    BrokenEvent,
    Closing,
    DeadlinePassed,
    Delta,
    Ended,
    Happening,
    Notice,
    Progress,
    StateChanged,
    SubagentCompleted,
    SubagentStarted,
    ToolCompleted,
    translate,
)
from hermes_ctl.runs.poller import Polled, Poller, PollFailed
from hermes_ctl.runs.reader import SILENCE, Reader, StreamOver, StreamResumed
from hermes_ctl.runs.result import STATE_OF_EVENT, Result, judge, judge_event
from hermes_ctl.runs.vigil import Vigil
from hermes_ctl.text import one_line

_QUEUE: Final = 32
_TELLING: Final = 10.0
_KEPT_SUBAGENTS: Final = 1000

Recover = Callable[[Run | None], Awaitable[Result | None]]
"""Asks elsewhere for a run that the node has no record of, given its last known status; None where
nobody ever knew it."""


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """How to follow. All times are in seconds.

    `stream` reads the events, `silence` is when their link counts as dead. `accepted` says that the
    node just took this run, so that it exists. `deadline` is told once when it passes; `patience`
    is for a node that does not answer, `settle` for a run that was asked to stop, `grace` for
    events that come after the end was polled, `quiet` for a run that gives no sign of life.
    """

    stream: bool = True
    accepted: bool = False
    silence: float = SILENCE
    deadline: float | None = None
    patience: float = 300.0
    settle: float = 30.0
    grace: float = 2.0
    quiet: float = 60.0


@dataclass(frozen=True, slots=True)
class _Detach:
    """The one who waits wants to go."""


_Item = Event | BrokenFrame | StreamOver | StreamResumed | Polled | PollFailed | Notice | _Detach


class Follower:
    """One run, followed. Use it as an async context manager and iterate over it once.

    It yields what happens, at last `Ended`. It raises `RunNotFound` for a run that nobody knows,
    what the first poll raised where the node was never reached, `AuthenticationFailed`,
    `Undetermined` where the node stays silent beyond `patience`, `Pending` for a run that was asked
    to stop and does not, `Interrupted` after `detach`. The run itself is left as it is.
    """

    def __init__(
        self, client: Client, run_id: str, settings: FollowSettings, recover: Recover
    ) -> None:
        self.run_id = run_id
        self.last: Run | None = None
        self.approvals = OpenApprovals()
        self.open_subagents: dict[str, str] = {}
        self._client = client
        self._settings = settings
        self._recover = recover
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(_QUEUE)
        self._poller = Poller(client, run_id, self._queue.put)
        self._tasks: set[asyncio.Task[None]] = set()
        self._streaming = settings.stream
        self._answered = settings.accepted
        self._closing: Event | None = None
        self._closing_at = 0.0
        self._final: Run | None = None
        self._final_at = 0.0
        self._result: Result | None = None
        self._said: set[str] = set()
        now = time.monotonic()
        self._vigil = Vigil(now, settings.quiet)
        self._deadline_at = None if settings.deadline is None else now + settings.deadline
        self._grace_at: float | None = None
        self._settle_at: float | None = None

    @property
    def has_more(self) -> bool:
        """Whether something more is at hand already: a reason not to flush what was written."""
        return not self._queue.empty()

    async def __aenter__(self) -> Self:
        if self._streaming:
            self._poller.streaming = True
            reader = Reader(self._client, self.run_id, self._queue.put, self._settings.silence)
            self._start(reader.read())
        self._start(self._poller.poll())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    # What the one who follows may ask for

    def request_stop(self, why: str) -> None:
        """Ask the node to stop the run, once, and go on following until it has settled."""
        if self._settle_at is None:
            self._settle_at = time.monotonic() + self._settings.settle
            self._start(self._stop(why))

    def detach(self) -> None:
        """Leave the run as it is and end the following with `Interrupted`."""
        self._start(self._queue.put(_Detach()))

    async def _stop(self, why: str) -> None:
        await self._queue.put(Notice("stop", f"{why}: asking the node to stop the run"))
        async for trouble in insist_on_stop(self._client, self.run_id):
            await self._queue.put(Notice("stop", trouble))
        self._poller.hurry()

    # The state machine

    async def __aiter__(self) -> AsyncIterator[Happening]:
        while self._result is None:
            item = await self._next()
            if type(item) is Event:
                happening = translate(item)
                self._vigil.active_at = item.arrived
                after = () if type(happening) is Delta else tuple(self._on_happening(happening))
                yield happening
                for more in after:
                    yield more
                continue
            if type(item) is PollFailed and isinstance(item.error, NotFound):
                for more in await self._on_not_found(item.error):
                    yield more
                continue
            for more in self._on_item(item):
                yield more
        whole = self._closing is not None and "stream" not in self._said
        left = await work_left(self._client, self.open_subagents, all_seen=whole)
        if left is not None:
            yield Notice("delegation", left)
        yield Ended(self._result)

    async def _next(self) -> _Item | None:
        """The next item; None when a time has passed that was waited for."""
        try:
            return self._queue.get_nowait()
        except asyncio.QueueEmpty:
            pass
        times = (self._deadline_at, self._grace_at, self._settle_at)
        first = min((at for at in times if at is not None), default=None)
        try:
            async with asyncio.timeout(None if first is None else first - time.monotonic()):
                return await self._queue.get()
        except TimeoutError:
            return None

    def _on_item(self, item: _Item | None) -> Iterator[Happening]:
        if isinstance(item, BrokenFrame):
            yield BrokenEvent(item)
            yield from self._once("broken", f"a broken event was passed over: {item.problem}")
        elif isinstance(item, Notice):
            yield item
        elif isinstance(item, _Detach):
            raise self._detached()
        elif isinstance(item, StreamResumed):
            yield from self._once(
                "stream",
                f"the event stream was lost ({item.problem}) and resumed: nothing is missing",
            )
        elif isinstance(item, StreamOver):
            yield from self._on_stream_over(item)
        elif isinstance(item, Polled):
            yield from self._on_status(item.run)
        elif isinstance(item, PollFailed):
            yield from self._on_poll_failed(item.error)
        if not isinstance(item, (BrokenFrame, Notice)):
            yield from self._on_time()

    def _on_time(self) -> Iterator[Happening]:
        """What is due. Asked at every poll too, as a flood of events leaves no pause."""
        now = time.monotonic()
        if self._deadline_at is not None and now >= self._deadline_at:
            self._deadline_at = None
            yield DeadlinePassed()
        if self._final is not None:
            yield from self._settle(self._final, now)
        elif self._settle_at is not None and now >= self._settle_at:
            raise Pending(
                f"{self.run_id} was asked to stop and is still {self._state()} after "
                f"{format_duration(self._settings.settle)}",
                hint=f"hermesctl wait {self.run_id}",
            )

    def _settle(self, run: Run, now: float) -> Iterator[Happening]:
        """Accept the polled end, once the stream has told what it still had to tell."""
        settled_at = max(self._vigil.active_at, self._final_at) + self._settings.grace
        if self._streaming and self._closing is None:
            if now < settled_at:
                self._grace_at = settled_at
                return
            yield from self._once(
                "stream", "the stream did not tell the run's end; its last events may be missing"
            )
        self._result = judge(run)

    # Events

    def _on_happening(self, happening: Happening) -> Iterator[Happening]:
        if isinstance(happening, Closing):
            yield from self._on_closing(happening.event)
        elif isinstance(happening, ApprovalRequested):
            self.approvals.requested(happening.approval)
            self._poller.hurry()
        elif isinstance(happening, ApprovalResponded):
            self.approvals.responded(happening)
        elif isinstance(happening, ToolCompleted):
            if not self.open_subagents:
                self.approvals.tool_ended()
        elif isinstance(happening, SubagentStarted):
            if len(self.open_subagents) < _KEPT_SUBAGENTS:
                self.open_subagents[happening.subagent_id] = happening.goal
        elif isinstance(happening, SubagentCompleted):
            self.open_subagents.pop(happening.subagent_id, None)

    def _on_closing(self, event: Event) -> Iterator[Happening]:
        if event.run_id not in (None, self.run_id):
            yield from self._once(
                "contradiction", f"the stream told the end of another run: {event.run_id}"
            )
            return
        self._closing = event
        self._closing_at = time.monotonic()
        self._poller.hurry()
        if self._final is not None:
            yield from self._compare(self._final)
            yield from self._settle(self._final, self._closing_at)

    def _on_stream_over(self, over: StreamOver) -> Iterator[Happening]:
        self._streaming = self._poller.streaming = False
        self._poller.hurry()
        if over.problem is not None:
            on = "following by polling" if self._final is None else "its last events are missing"
            yield from self._once("stream", f"the event stream is lost ({over.problem}); {on}")

    # Status

    def _on_status(self, run: Run) -> Iterator[Happening]:
        previous, self.last = self.last, run
        self._answered = True
        now = time.monotonic()
        yield from _given(self._vigil.answered(now))
        if previous is None or previous.status != run.status:
            yield StateChanged(run, previous.status if previous else None)
        elif previous.last_event != run.last_event:
            yield Progress(run)
        if not self._streaming and (previous is None or previous.updated_at != run.updated_at):
            self._vigil.active_at = now
        if run.is_terminal:
            self._final, self._final_at = run, now
            yield from self._compare(run)
            return
        yield from _given(self.approvals.from_status(run, now, streaming=self._streaming))
        yield from _given(self._vigil.quiet(run.status, now))
        if self._closing is not None and now - self._closing_at > _TELLING:
            yield from self._once(
                "contradiction",
                f"the stream told {self._closing.name}, but the status is still {run.status}",
            )

    def _compare(self, run: Run) -> Iterator[Happening]:
        if self._closing is not None and STATE_OF_EVENT[self._closing.name] != run.status:
            yield from self._once(
                "contradiction",
                f"the stream told {self._closing.name}, but the status is {run.status}: that counts",
            )

    def _on_poll_failed(self, error: HermesctlError) -> Iterator[Happening]:
        now = time.monotonic()
        if self._is_final(error):
            raise error
        yield from _given(self._vigil.failed(error, now))
        silent = self._vigil.silent(now)
        if self._closing is not None and silent > _TELLING:
            self._result = judge_event(self._closing, self.run_id, self.last)
        elif silent > self._settings.patience:
            raise Undetermined(
                f"the node has not answered for {format_duration(silent)}: {error.message}; "
                f"the run was {self._state()} when it was last seen, and may go on",
                hint=f"hermesctl tail {self.run_id}",
                url=error.url,
            )

    def _is_final(self, error: HermesctlError) -> bool:
        """Whether asking again is no use. Before the first answer every failure is: nothing is
        known yet that could get lost."""
        lasting = (AuthenticationFailed, RequestRejected, Refused, UsageError)
        return isinstance(error, lasting) or not self._answered

    async def _on_not_found(self, error: NotFound) -> list[Happening]:
        """The node has no record of the run: a restart, or an hour since its end."""
        if isinstance(error, RouteNotFound) and self._answered:
            return list(self._on_poll_failed(error))
        if isinstance(error, RouteNotFound):
            raise error
        if self._closing is not None:
            self._result = judge_event(self._closing, self.run_id, self.last)
            return []
        self._result = await self._recover(self.last)
        if self._result is not None:
            said = f"the node has no record of {self.run_id} (a restart, or an hour since its end)"
            return [Notice("recovered", said)]
        if isinstance(error, RunNotFound) and not self._answered:
            raise error
        raise RunNotFound(
            f"{self.run_id} is known neither to the node nor to the journal",
            status=404,
            code=error.code,
            url=error.url,
            hint="hermesctl runs",
        )

    # Words

    def _once(self, kind: Any, text: str) -> Iterator[Happening]:
        if kind not in self._said:
            self._said.add(kind)
            yield Notice(kind, text)

    def _state(self) -> str:
        return one_line(self.last.status, 60) if self.last else "not seen"

    def _detached(self) -> Interrupted:
        said = f"detached from {self.run_id}, which goes on"
        return Interrupted(signal.SIGINT, said, hint=f"hermesctl tail {self.run_id}")


def _given(happening: Happening | None) -> Iterator[Happening]:
    if happening is not None:
        yield happening
