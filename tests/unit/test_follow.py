"""The state machine that follows a run, fed by hand: stream and status in every order."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import psutil
import pytest

from hermes_ctl.api.events import BrokenFrame, Comment, Event, StreamItem
from hermes_ctl.api.models import DetailedHealth, Run, StopAnswer
from hermes_ctl.config import Node
from hermes_ctl.errors import (
    AuthenticationFailed,
    ConnectionRefused,
    FrameTooLarge,
    HermesctlError,
    Interrupted,
    MalformedAnswer,
    NoAnswer,
    Pending,
    RouteNotFound,
    RunNotFound,
    StreamCut,
    Undetermined,
)
from hermes_ctl.runs.follow import Follower, FollowSettings
from hermes_ctl.runs.happenings import (
    ApprovalRequested,
    BrokenEvent,
    Closing,
    DeadlinePassed,
    Delta,
    Ended,
    Happening,
    Notice,
    StateChanged,
    ToolCompleted,
    UnknownEvent,
)
from hermes_ctl.runs.result import Result, Verdict, no_record

pytestmark = pytest.mark.anyio

RUN_ID = "run_" + "a" * 32
GONE = RunNotFound("no such run", status=404, code="run_not_found")
USAGE = {"input_tokens": 100, "output_tokens": 14, "total_tokens": 114}
QUICK = FollowSettings(accepted=True, grace=0.05, silence=1.0)


def status(state: str, **fields: Any) -> Run:
    known: dict[str, Any] = {"run_id": RUN_ID, "created_at": 1.0, "updated_at": 2.0}
    return Run.model_validate({**known, "status": state, **fields})


def done(output: str = "Done.") -> Run:
    return status("completed", output=output, usage=USAGE, last_event="run.completed")


def event(name: str, event_id: str = "", **fields: Any) -> Event:
    data = {"event": name, "run_id": RUN_ID, "timestamp": 1.5, **fields}
    return Event(name, data, 100, time.monotonic(), event_id)


COMPLETED = event("run.completed", output="Done.", usage=USAGE)


class ScriptedStream:
    def __init__(self, items: Iterable[Any], client: ScriptedClient) -> None:
        self._items = items
        self._client = client
        self.closed = False
        self.remainder = 0

    async def __aiter__(self) -> AsyncIterator[StreamItem]:
        for item in self._items:
            if isinstance(item, HermesctlError):
                raise item
            if isinstance(item, (int, float)):
                await asyncio.sleep(item)
            elif isinstance(item, str):
                await self._client.reached(item)
            else:
                self.closed = self.closed or (isinstance(item, Comment) and item.text != "open")
                yield item


class ScriptedClient:
    """Answers polls from a list, the last one for ever, and opens streams from a list of lists.

    A text in a stream waits until the polls have reached that state.
    """

    def __init__(self, polls: list[Any], *streams: Iterable[Any]) -> None:
        self.node = Node("scripted")
        self.polls = list(polls)
        self.streams = list(streams)
        self.opened: list[str | None] = []
        self.stops = 0
        self.polled = 0
        self.active_delegations = 0
        self.on_stop: Callable[[], None] = lambda: None
        self._seen: set[str] = set()
        self._changed = asyncio.Condition()

    async def reached(self, state: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: state in self._seen)

    async def run(self, run_id: str, *, timeout: float | None = None) -> Run:
        assert run_id == RUN_ID
        self.polled += 1
        answer = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        await asyncio.sleep(0)
        if isinstance(answer, HermesctlError):
            raise answer
        assert isinstance(answer, Run)
        async with self._changed:
            self._seen.add(answer.status)
            self._changed.notify_all()
        return answer

    @contextlib.asynccontextmanager
    async def events(
        self, run_id: str, *, last_event_id: str | None = None, **_: Any
    ) -> AsyncIterator[ScriptedStream]:
        self.opened.append(last_event_id)
        items = self.streams.pop(0) if self.streams else [GONE]
        first = next(iter(items), None) if isinstance(items, list) else None
        if isinstance(first, HermesctlError):
            raise first
        yield ScriptedStream(items, self)

    async def stop_run(self, run_id: str, *, timeout: float | None = None) -> StopAnswer:
        self.stops += 1
        self.on_stop()
        return StopAnswer(run_id=run_id, status="stopping")

    async def detailed_health(self) -> DetailedHealth:
        queues = {"status": "ok", "active_delegations": self.active_delegations}
        return DetailedHealth.model_validate(
            {
                "status": "ok",
                "readiness": {"status": "ok", "checks": {"background_queues": queues}},
            }
        )


async def nothing(_: Run | None) -> Result | None:
    return None


async def followed(
    client: ScriptedClient,
    settings: FollowSettings = QUICK,
    recover: Callable[[Run | None], Any] = nothing,
    act: Callable[[Follower, Happening], None] = lambda follower, happening: None,
) -> list[Happening]:
    seen: list[Happening] = []
    async with asyncio.timeout(10), Follower(client, RUN_ID, settings, recover) as follower:  # type: ignore[arg-type]
        async for happening in follower:
            seen.append(happening)
            act(follower, happening)
    return seen


def result(seen: list[Happening]) -> Result:
    assert isinstance(seen[-1], Ended)
    assert sum(isinstance(one, Ended) for one in seen) == 1
    return seen[-1].result


def notices(seen: list[Happening]) -> list[str]:
    return [one.kind for one in seen if isinstance(one, Notice)]


# The good way


async def test_a_run_with_its_stream() -> None:
    client = ScriptedClient(
        [status("running"), done()],
        [event("message.delta", delta="Do"), event("message.delta", delta="ne."), COMPLETED],
    )
    seen = await followed(client)
    assert [one.text for one in seen if isinstance(one, Delta)] == ["Do", "ne."]
    assert [one.run.status for one in seen if isinstance(one, StateChanged)][-1] == "completed"
    assert (result(seen).verdict, result(seen).output, result(seen).source) == (
        Verdict.SUCCESS,
        "Done.",
        "status",
    )
    assert notices(seen) == []
    assert client.opened == [None]


async def test_the_status_is_asked_once_the_stream_tells_the_end() -> None:
    """At ease it would be asked every two seconds: the terminal event makes it hurry."""
    client = ScriptedClient([status("running"), status("running"), done()], [0.3, COMPLETED])
    began = time.monotonic()
    await followed(client)
    assert time.monotonic() - began < 1.5


async def test_an_unknown_state_is_shown_and_waited_on() -> None:
    client = ScriptedClient([status("pondering"), status("pondering"), done()], ["pondering"])
    seen = await followed(client)
    states = [one.run.status for one in seen if isinstance(one, StateChanged)]
    assert states == ["pondering", "completed"]
    assert result(seen).verdict is Verdict.SUCCESS


async def test_an_unknown_event_is_passed_on_whole() -> None:
    asked = event("clarify.request", question="Which one?")
    seen = await followed(ScriptedClient([done()], [asked, COMPLETED]))
    assert [one.event.data for one in seen if isinstance(one, UnknownEvent)] == [asked.data]


@pytest.mark.parametrize(
    "fields",
    [
        {"delta": 7},
        {"delta": None},
        {},
    ],
)
async def test_a_delta_of_a_wrong_type_is_an_unknown_event(fields: dict[str, Any]) -> None:
    seen = await followed(ScriptedClient([done()], [event("message.delta", **fields), COMPLETED]))
    assert any(isinstance(one, UnknownEvent) for one in seen)


async def test_hostile_event_fields_break_nothing() -> None:
    odd: list[Any] = [None, [], {}, 7, "x", True, -1e308, 10**400]
    names = ("tool.started", "tool.completed", "subagent.start", "subagent.complete", "run.steered")
    fields = ("tool", "preview", "duration", "depth", "goal", "task_count", "input_tokens", "error")
    items = [event(name, **dict.fromkeys(fields, value)) for name in names for value in odd]
    requests = [event("approval.request", choices=value, command=value) for value in odd]
    seen = await followed(ScriptedClient([done()], [*items, *requests, COMPLETED]))
    assert result(seen).verdict is Verdict.SUCCESS


# The stream is lost, the run is not


@pytest.mark.parametrize(
    "problem",
    [
        StreamCut("cut"),
        NoAnswer("silent"),
        MalformedAnswer("no stream"),
        FrameTooLarge("one event is larger than 8 MiB"),
        GONE,
        ConnectionRefused("nothing listens"),
    ],
    ids=lambda problem: type(problem).__name__,
)
@pytest.mark.parametrize("late", [False, True])
async def test_a_lost_stream_is_said_once_and_polling_goes_on(
    problem: HermesctlError, late: bool
) -> None:
    items = [event("message.delta", delta="Do"), problem] if late else [problem]
    client = ScriptedClient(
        [status("running"), status("running"), status("running"), done()], items
    )
    seen = await followed(client)
    assert notices(seen) == ["stream"]
    assert result(seen).output == "Done."
    assert client.opened == [None], "a stream without ids is never opened twice"


async def test_a_clean_end_without_the_last_event_is_not_the_end_of_the_run() -> None:
    closed = Comment("stream closed", 0.0)
    client = ScriptedClient([status("running")] * 3 + [done()], [closed])
    seen = await followed(client)
    assert notices(seen) == ["stream"]
    assert result(seen).verdict is Verdict.SUCCESS


async def test_a_stream_that_hangs_for_ever_does_not_hold_up_the_end() -> None:
    client = ScriptedClient(
        [status("running"), done()], [event("message.delta", delta="x"), 3600.0]
    )
    began = time.monotonic()
    seen = await followed(client)
    assert result(seen).verdict is Verdict.SUCCESS
    assert notices(seen) == ["stream"], "its last events may be missing"
    assert time.monotonic() - began < 3


async def test_keepalives_do_not_hold_up_the_end() -> None:
    beats = (item for _ in range(10_000) for item in (Comment("keepalive", 0.0), 0.01))
    client = ScriptedClient([status("running"), done()], beats)
    began = time.monotonic()
    assert result(await followed(client)).verdict is Verdict.SUCCESS
    assert time.monotonic() - began < 3


async def test_events_that_come_behind_the_polled_end_are_still_shown() -> None:
    late = [event("message.delta", delta=str(number)) for number in range(200)]
    client = ScriptedClient([done()], ["completed", *late, COMPLETED])
    seen = await followed(client)
    assert sum(isinstance(one, Delta) for one in seen) == 200


async def test_a_broken_event_is_said_once() -> None:
    broken = BrokenFrame("{", "not JSON", 3, 0.0)
    seen = await followed(ScriptedClient([done()], [broken, broken, COMPLETED]))
    assert sum(isinstance(one, BrokenEvent) for one in seen) == 2
    assert notices(seen) == ["broken"]


# A stream that replays


def numbered(first: int, last: int) -> list[Event]:
    return [event("message.delta", str(n), delta=str(n), seq=n) for n in range(first, last + 1)]


async def test_a_numbered_stream_is_opened_again_behind_the_last_event() -> None:
    client = ScriptedClient(
        [status("running")] * 50,
        [Comment("open", 0.0), *numbered(0, 4), StreamCut("cut")],
        [Comment("open", 0.0), *numbered(3, 9), event("run.completed", "10", output="Done.")],
    )

    def ended(_: Follower, happening: Happening) -> None:
        if isinstance(happening, Closing):
            client.polls = [done()]

    seen = await followed(client, act=ended)
    assert client.opened == [None, "4"]
    assert [one.text for one in seen if isinstance(one, Delta)] == [str(n) for n in range(10)]
    assert notices(seen) == ["stream"], "lost and resumed: said, and nothing is missing"


async def test_a_numbered_stream_that_stays_lost_is_given_up() -> None:
    client = ScriptedClient(
        [status("running"), status("running"), status("running"), done()],
        [*numbered(0, 2), StreamCut("cut")],
        [RunNotFound("gone", status=404)],
    )
    seen = await followed(client)
    assert client.opened == [None, "2"]
    assert notices(seen) == ["stream"]
    assert result(seen).verdict is Verdict.SUCCESS


# The node does not answer


async def test_a_node_that_is_away_for_a_while() -> None:
    away = ConnectionRefused("nothing listens there")
    client = ScriptedClient(
        [status("running"), away, away, status("running"), done()], [StreamCut("cut")]
    )
    seen = await followed(client)
    assert notices(seen) == ["stream", "unreachable", "reachable"]
    assert result(seen).verdict is Verdict.SUCCESS


async def test_a_node_that_stays_away_is_no_failed_run() -> None:
    client = ScriptedClient(
        [status("running"), ConnectionRefused("nothing listens")], [StreamCut("cut")]
    )
    settings = FollowSettings(accepted=True, patience=0.2)
    with pytest.raises(Undetermined, match="the run was running when it was last seen") as caught:
        await followed(client, settings)
    assert caught.value.hint == f"hermesctl tail {RUN_ID}"


async def test_the_terminal_event_counts_where_the_status_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermes_ctl.runs.follow._TELLING", 0.1)
    client = ScriptedClient([status("running"), NoAnswer("silent")], ["running", COMPLETED])
    ended = result(await followed(client))
    assert (ended.verdict, ended.output, ended.source) == (Verdict.SUCCESS, "Done.", "event")


async def test_before_the_first_answer_a_failure_is_one() -> None:
    client = ScriptedClient([ConnectionRefused("nothing listens")], [ConnectionRefused("nothing")])
    with pytest.raises(ConnectionRefused):
        await followed(client, FollowSettings())


async def test_a_refused_key_is_not_waited_out() -> None:
    client = ScriptedClient([status("running"), AuthenticationFailed("wrong key", status=401)])
    with pytest.raises(AuthenticationFailed):
        await followed(client)


async def test_a_route_that_vanishes_behind_a_proxy_is_waited_for() -> None:
    no_route = RouteNotFound("404: Not Found", status=404)
    client = ScriptedClient([status("running"), no_route, done()])
    assert result(await followed(client)).verdict is Verdict.SUCCESS


async def test_a_server_without_the_route_is_an_error() -> None:
    client = ScriptedClient([RouteNotFound("404: Not Found", status=404)])
    with pytest.raises(RouteNotFound):
        await followed(client, FollowSettings())


# The record is gone


async def test_a_forgotten_run_is_recovered() -> None:
    kept = Result(RUN_ID, "completed", Verdict.SUCCESS, output="kept", source="journal")
    asked: list[Run | None] = []

    async def recover(last: Run | None) -> Result:
        asked.append(last)
        return kept

    client = ScriptedClient([status("running"), GONE], [StreamCut("cut")])
    seen = await followed(client, recover=recover)
    assert result(seen) is kept
    assert "recovered" in notices(seen)
    assert asked[0] is not None
    assert asked[0].status == "running"


async def test_a_run_without_any_record_has_failed() -> None:
    async def recover(_: Run | None) -> Result:
        return no_record(RUN_ID, "lost by a restart")

    seen = await followed(ScriptedClient([status("running"), GONE]), recover=recover)
    assert (result(seen).verdict, result(seen).exit_code) == (Verdict.GONE, 1)


async def test_a_run_that_nobody_knows_is_not_found() -> None:
    with pytest.raises(RunNotFound):
        await followed(ScriptedClient([GONE]), FollowSettings())


async def test_a_run_that_is_gone_once_its_end_was_told() -> None:
    client = ScriptedClient([status("running"), GONE], ["running", COMPLETED])
    assert result(await followed(client)).output == "Done."


# Stream and status disagree


async def test_the_status_counts_where_the_stream_says_otherwise() -> None:
    cancelled = status("cancelled")
    seen = await followed(ScriptedClient([status("running"), cancelled], [COMPLETED]))
    assert result(seen).verdict is Verdict.CANCELLED
    assert "contradiction" in notices(seen)


async def test_the_end_of_another_run_is_not_this_one_s() -> None:
    other = Event("run.failed", {"event": "run.failed", "run_id": "run_other"}, 1, 0.0)
    client = ScriptedClient([status("running"), status("running"), done()], [other, COMPLETED])
    seen = await followed(client)
    assert notices(seen) == ["contradiction"]
    assert result(seen).verdict is Verdict.SUCCESS


# Verdicts


@pytest.mark.parametrize(
    ("run", "verdict", "code"),
    [
        (done(), Verdict.SUCCESS, 0),
        (status("completed", output="", usage=USAGE), Verdict.SUSPECT, 1),
        (status("completed", output=" \n", usage=USAGE), Verdict.SUSPECT, 1),
        (status("completed", output="w0 w1", usage={"total_tokens": 0}), Verdict.SUSPECT, 1),
        (status("completed", output="w0 w1"), Verdict.SUSPECT, 1),
        (status("completed", output="No reply", usage={"input_tokens": 9}), Verdict.SUSPECT, 1),
        (status("failed", error="HTTP 500: boom"), Verdict.FAILED, 1),
        (status("failed", output="stopped", turn_exit_reason="repetition"), Verdict.FAILED, 1),
        (status("failed"), Verdict.FAILED, 1),
        (status("cancelled"), Verdict.CANCELLED, 1),
        (status("interrupted", error="shutdown"), Verdict.INTERRUPTED, 1),
    ],
)
async def test_what_a_run_came_to(run: Run, verdict: Verdict, code: int) -> None:
    ended = result(await followed(ScriptedClient([run])))
    assert (ended.verdict, ended.exit_code) == (verdict, code)
    assert (ended.reason is None) == (verdict is Verdict.SUCCESS)


@pytest.mark.parametrize(
    ("error", "whose"),
    [("HTTP 401: bad key", "not your key to the node"), ("HTTP 429: slow down", "not the node's")],
)
async def test_the_provider_s_failures_are_told_from_the_node_s(error: str, whose: str) -> None:
    ended = result(await followed(ScriptedClient([status("failed", error=error)])))
    assert whose in (ended.reason or "")


async def test_a_steer_that_was_left_over_is_in_the_result() -> None:
    run = status("completed", output="x", usage=USAGE, pending_steer="be quick")
    assert result(await followed(ScriptedClient([run]))).pending_steer == "be quick"


# Approvals

REQUEST: dict[str, Any] = {
    "event": "approval.request",
    "command": "rm -rf /srv/x",
    "description": "delete in root path",
    "request_id": "r1",
    "choices": ["once", "deny"],
}


async def test_an_approval_that_the_stream_told() -> None:
    client = ScriptedClient(
        [status("waiting_for_approval"), done()],
        [
            event("approval.request", **{k: v for k, v in REQUEST.items() if k != "event"}),
            COMPLETED,
        ],
    )
    seen = await followed(client)
    approvals = [one.approval for one in seen if isinstance(one, ApprovalRequested)]
    assert [(one.request_id, one.choices) for one in approvals] == [("r1", ("once", "deny"))]


async def test_an_approval_that_only_the_status_tells() -> None:
    waiting = status("waiting_for_approval", approval=REQUEST)
    client = ScriptedClient([waiting, waiting, done()])
    seen = await followed(client, FollowSettings(stream=False, accepted=True))
    requests = [one for one in seen if isinstance(one, ApprovalRequested)]
    assert [(one.approval.command, one.honoured) for one in requests] == [("rm -rf /srv/x", True)]


async def test_an_approval_that_another_reader_took() -> None:
    waiting = status("waiting_for_approval")
    client = ScriptedClient([waiting, waiting, done()])
    seen = await followed(client, FollowSettings(stream=False, accepted=True))
    requests = [one for one in seen if isinstance(one, ApprovalRequested)]
    assert [one.approval.command for one in requests] == [None]


async def test_an_approval_ends_with_its_tool() -> None:
    open_then: list[int] = []

    def look(follower: Follower, happening: Happening) -> None:
        if isinstance(happening, (ApprovalRequested, ToolCompleted)):
            open_then.append(len(follower.approvals))

    items = [
        event("approval.request", request_id="r1", command="x", choices=["once"]),
        event("tool.completed", tool="terminal", error=True),
        COMPLETED,
    ]
    await followed(ScriptedClient([done()], items), act=look)
    assert open_then == [1, 0]


# Time


async def test_the_deadline_is_told_once_and_the_run_goes_on() -> None:
    client = ScriptedClient([status("running")])

    def end(_: Follower, happening: Happening) -> None:
        if isinstance(happening, DeadlinePassed):
            client.polls = [done()]

    seen = await followed(
        client, FollowSettings(stream=False, accepted=True, deadline=0.1), act=end
    )
    assert sum(isinstance(one, DeadlinePassed) for one in seen) == 1
    assert client.stops == 0


async def test_the_deadline_passes_in_a_flood_too() -> None:
    flood = (event("message.delta", delta="x") for _ in range(10_000_000))
    client = ScriptedClient([status("running")], flood)

    class Passed(Exception):
        pass

    def end(_: Follower, happening: Happening) -> None:
        if isinstance(happening, DeadlinePassed):
            raise Passed

    with pytest.raises(Passed):
        await followed(client, FollowSettings(accepted=True, deadline=0.3), act=end)


async def test_a_requested_stop_is_seen_to_its_end() -> None:
    client = ScriptedClient([status("running")])

    def stopping() -> None:
        client.polls = [status("stopping"), status("cancelled")]

    client.on_stop = stopping

    def ask(follower: Follower, happening: Happening) -> None:
        if isinstance(happening, StateChanged):
            follower.request_stop("Ctrl-C")
            follower.request_stop("Ctrl-C")

    seen = await followed(client, FollowSettings(stream=False, accepted=True), act=ask)
    assert client.stops == 1
    assert result(seen).verdict is Verdict.CANCELLED


async def test_a_run_that_does_not_stop_is_pending() -> None:
    client = ScriptedClient([status("stopping")])
    settings = FollowSettings(stream=False, accepted=True, settle=0.2)
    with pytest.raises(Pending, match="still stopping"):
        await followed(client, settings, act=lambda follower, _: follower.request_stop("Ctrl-C"))


async def test_detaching_leaves_the_run_alone() -> None:
    client = ScriptedClient([status("running")])
    with pytest.raises(Interrupted) as caught:
        await followed(
            client,
            FollowSettings(stream=False, accepted=True),
            act=lambda follower, _: follower.detach(),
        )
    assert (caught.value.exit_code, caught.value.hint) == (130, f"hermesctl tail {RUN_ID}")
    assert client.stops == 0


async def test_a_long_silence_is_named() -> None:
    client = ScriptedClient([status("running")] * 6 + [done()])
    seen = await followed(client, FollowSettings(stream=False, accepted=True, quiet=0.2))
    assert "quiet" in notices(seen)


# Subagents


async def test_work_that_goes_on_behind_the_end_is_said() -> None:
    started = event("subagent.start", subagent_id="sa-0", goal="Count the stars", depth=0)
    client = ScriptedClient([done()], [started, COMPLETED])
    client.active_delegations = 1
    seen = await followed(client)
    said = next(one.text for one in seen if isinstance(one, Notice) and one.kind == "delegation")
    assert "Count the stars" in said
    assert "1 active delegations" in said


async def test_subagents_that_ended_are_not_worth_a_word() -> None:
    items = [
        event("subagent.start", subagent_id="sa-0", goal="x"),
        event("subagent.complete", subagent_id="sa-0", goal="x", status="completed"),
        COMPLETED,
    ]
    seen = await followed(ScriptedClient([done()], items))
    assert notices(seen) == []


# A million events


async def test_memory_stays_flat_however_many_events_come() -> None:
    """100,000 events with 100 bytes of text each: kept, they would be 100 MB."""
    process = psutil.Process()

    def deltas() -> Iterator[Event]:
        for number in range(100_000):
            yield event("message.delta", delta=f"{number:0100d}")
        yield COMPLETED

    client = ScriptedClient([status("running")], deltas())
    sizes: list[int] = []
    settings = FollowSettings(accepted=True)
    async with Follower(client, RUN_ID, settings, nothing) as follower:  # type: ignore[arg-type]
        count = 0
        async for happening in follower:
            count += 1
            if count % 25_000 == 0:
                sizes.append(process.memory_info().rss)
            if isinstance(happening, Closing):
                client.polls = [done()]
            if isinstance(happening, Ended):
                assert happening.result.verdict is Verdict.SUCCESS
    assert count > 100_000
    assert max(sizes) - sizes[0] < 8_000_000
