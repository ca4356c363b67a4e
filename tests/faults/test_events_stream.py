"""Event streams that are cut, stalled, held back, malformed, or no streams at all."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time

import psutil
import pytest

from hermes_ctl.api import events
from hermes_ctl.api.client import Client
from hermes_ctl.api.events import BrokenFrame, Comment, Event, EventStream, StreamItem
from hermes_ctl.api.models import RunRequest
from hermes_ctl.errors import (
    FrameTooLarge,
    HermesctlError,
    MalformedAnswer,
    NoAnswer,
    NotHermes,
    RouteNotFound,
    RunNotFound,
    StreamCut,
)
from tests.faults.explained import assert_explained, failure
from tests.faults.proxy import Link
from tests.faults.server import HermesServer
from tests.faults.wire import Reply

pytestmark = pytest.mark.anyio

CANARY = (
    "Use your terminal tool once to run exactly this command: `seq 1 20000`. When it has finished, "
    "reply with exactly this and nothing else: TOKEN-1"
)
TOLD = ["tool.started", "tool.completed", "message.delta", "reasoning.available", "run.completed"]
EVENTS = "GET /v1/runs/{run_id}/events"


class Reading:
    """One reading of a run's stream to its end, whatever that is."""

    def __init__(self) -> None:
        self.items: list[StreamItem] = []
        self.closed = False
        self.remainder = 0
        self.error: HermesctlError | None = None

    @property
    def names(self) -> list[str]:
        """The events in their order, a row of deltas as one."""
        told = (item.name for item in self.items if isinstance(item, Event))
        return [name for name, _ in itertools.groupby(told)]

    @property
    def comments(self) -> list[str]:
        return [item.text for item in self.items if isinstance(item, Comment)]


async def read(client: Client, *, silence: float = 30.0, prompt: str = CANARY) -> Reading:
    run = await client.submit_run(RunRequest(input=prompt))
    reading = Reading()
    try:
        async with client.events(run.run_id, silence=silence) as stream:
            try:
                async for item in stream:
                    reading.items.append(item)
            finally:
                reading.closed, reading.remainder = stream.closed, stream.remainder
    except HermesctlError as error:
        assert_explained(error, client.node)
        reading.error = error
    return reading


async def test_a_healthy_stream(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        reading = await read(client)
    assert reading.error is None
    assert reading.names == TOLD
    assert reading.comments == ["stream closed"]
    assert (reading.closed, reading.remainder) == (True, 0)
    sent = server.received(EVENTS)[0].headers
    assert sent["accept"] == "text/event-stream"
    assert sent["accept-encoding"] == "identity"
    assert "last-event-id" not in sent


async def test_arrivals_follow_the_timestamps(server: HermesServer) -> None:
    server.tool_seconds = 0.4
    async with Client(server.node()) as client:
        reading = await read(client)
    started, completed = (item for item in reading.items[:2] if isinstance(item, Event))
    assert completed.arrived - started.arrived == pytest.approx(0.4, abs=0.2)


async def test_held_back_by_a_proxy(server: HermesServer, link: Link) -> None:
    """All arrives at once, and the timestamps tell that it was not made at once."""
    server.tool_seconds = 0.4
    link.hold_back = True
    async with Client(server.node(url=link.url)) as client:
        reading = await read(client)
    found = [item for item in reading.items if isinstance(item, Event)]
    stamps = [item.timestamp or 0.0 for item in found]
    assert reading.names == TOLD
    assert found[-1].arrived - found[0].arrived < 0.1
    assert stamps[-1] - stamps[0] > 0.3


async def test_held_back_by_the_server(server: HermesServer) -> None:
    server.faults.buffer_stream = True
    async with Client(server.node()) as client:
        reading = await read(client)
    assert reading.names == TOLD
    assert reading.closed
    assert len({item.arrived for item in reading.items}) == 1


@pytest.mark.parametrize("size", [1, 7])
async def test_in_small_pieces(server: HermesServer, size: int) -> None:
    server.faults.stream_pieces = size
    async with Client(server.node()) as client:
        reading = await read(client)
    assert reading.names == TOLD
    assert reading.closed


async def test_compressed_on_the_way(server: HermesServer) -> None:
    server.faults.gzip_stream = True
    async with Client(server.node()) as client:
        reading = await read(client)
    assert reading.names == TOLD
    assert reading.closed


@pytest.mark.parametrize("fault", ["cut_stream_after", "reset_stream_after"])
async def test_cut(server: HermesServer, fault: str) -> None:
    setattr(server.faults, fault, 2)
    async with Client(server.node()) as client:
        reading = await read(client)
    assert type(reading.error) is StreamCut
    assert reading.names == TOLD[:2]
    assert not reading.closed
    assert "hermesctl status" in (reading.error.hint or "")


async def test_cut_in_the_middle_of_a_frame(server: HermesServer, link: Link) -> None:
    server.faults.raw_stream = [b'data: {"event": "a"}\n\n', b'data: {"event": "hal', b"f a frame"]
    link.cut_when(b"hal")
    async with Client(server.node(url=link.url)) as client:
        reading = await read(client)
    assert type(reading.error) is StreamCut
    assert reading.names == ["a"]
    assert reading.remainder > 0


async def test_a_clean_end_too_early(server: HermesServer) -> None:
    server.faults.end_stream_after = 3
    async with Client(server.node()) as client:
        reading = await read(client)
    assert reading.error is None
    assert reading.names == TOLD[:3]
    assert (reading.closed, reading.remainder) == (False, 0)


async def test_no_closing_comment(server: HermesServer) -> None:
    server.faults.no_closing_comment = True
    async with Client(server.node()) as client:
        reading = await read(client)
    assert reading.names == TOLD
    assert not reading.closed


async def test_no_terminal_event(server: HermesServer) -> None:
    server.faults.no_terminal_event = True
    async with Client(server.node()) as client:
        reading = await read(client)
    assert reading.names == TOLD[:-1]
    assert reading.closed


async def test_silence(server: HermesServer) -> None:
    server.faults.stall_stream_after = 2
    async with Client(server.node()) as client:
        began = time.monotonic()
        reading = await read(client, silence=0.5)
    assert type(reading.error) is NoAnswer
    assert "silent for 0.5 s" in reading.error.message
    assert reading.names == TOLD[:2]
    assert time.monotonic() - began < 5
    server.wait_until(lambda: server.open_connections == 0)


async def test_keepalives_are_no_silence(server: HermesServer) -> None:
    server.faults.keepalive = 0.1
    server.tool_seconds = 1.2
    async with Client(server.node()) as client:
        reading = await read(client, silence=0.6)
    assert reading.error is None
    assert reading.names == TOLD
    assert reading.comments.count("keepalive") >= 5


async def test_a_head_that_never_comes(server: HermesServer) -> None:
    """The head is bound by the node's timeout, not by the longer silence."""
    server.faults.hang(EVENTS)
    node = server.node(timeout=0.4)
    async with Client(node) as client:
        await failure(NoAnswer, node, client.events("run_x", silence=60).__aenter__())


async def test_malformed_and_unknown_events(server: HermesServer) -> None:
    server.faults.malformed_frame_at = 1
    server.faults.foreign_frame_at = 2
    async with Client(server.node()) as client:
        reading = await read(client)
    broken = [item for item in reading.items if isinstance(item, BrokenFrame)]
    assert [item.raw for item in broken] == ['{"event": "message.del']
    assert reading.names == ["artifact.created", *TOLD[1:]]


async def test_events_of_another_run(server: HermesServer) -> None:
    server.faults.change_run_id = "events"
    async with Client(server.node()) as client:
        reading = await read(client)
    ids = {item.run_id for item in reading.items if isinstance(item, Event)}
    assert ids.isdisjoint(server.runs)


async def test_an_oversized_frame(server: HermesServer) -> None:
    server.faults.oversized_frame = events.FRAME_LIMIT
    async with Client(server.node()) as client:
        reading = await read(client)
    assert type(reading.error) is FrameTooLarge
    assert reading.names == []
    server.wait_until(lambda: server.open_connections == 0)


async def test_a_large_frame_that_is_allowed(server: HermesServer) -> None:
    server.faults.oversized_frame = events.FRAME_LIMIT - 1000
    async with Client(server.node()) as client:
        reading = await read(client)
    assert reading.names == TOLD
    first = reading.items[0]
    assert isinstance(first, Event)
    assert first.size > events.FRAME_LIMIT - 1000


async def test_event_lines_and_ids(server: HermesServer) -> None:
    """Session chat names its events outside the JSON; 0.22 numbers them."""
    server.faults.raw_stream = [
        b": open\n\n",
        'event: assistant.delta\ndata: {"delta": "日本", "seq": 0, "ts": 1.5}\n\n'.encode(),
        b'id: 1\ndata: {"event": "message.delta", "seq": 1}\n\n',
        b"event: done\ndata: {}\n\n",
    ]
    async with Client(server.node()) as client:
        reading = await read(client)
    found = [item for item in reading.items if isinstance(item, Event)]
    assert [(item.name, item.event_id) for item in found] == [
        ("assistant.delta", ""),
        ("message.delta", "1"),
        ("done", "1"),
    ]
    assert (found[0].data["delta"], found[0].timestamp) == ("日本", 1.5)


async def test_resuming(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        run = await client.submit_run(RunRequest(input=CANARY))
        async with client.events(run.run_id, last_event_id="41") as stream:
            assert [item async for item in stream]
    assert server.received(EVENTS)[0].headers["last-event-id"] == "41"


# No streams at all


@pytest.mark.parametrize("status", [200, 202])
async def test_json_in_place_of_a_stream(server: HermesServer, status: int) -> None:
    server.faults.status(EVENTS, status, {"status": "running"})
    async with Client(server.node()) as client:
        reading = await read(client)
    assert type(reading.error) is MalformedAnswer
    assert "application/json instead of text/event-stream" in reading.error.message


async def test_a_web_page_in_place_of_a_stream(server: HermesServer) -> None:
    server.faults.html(EVENTS)
    async with Client(server.node()) as client:
        assert type((await read(client)).error) is NotHermes


async def test_a_stream_without_its_content_type(server: HermesServer) -> None:
    server.faults.stream_content_type = "text/plain"
    async with Client(server.node()) as client:
        assert type((await read(client)).error) is MalformedAnswer


async def test_a_content_type_with_more_in_it(server: HermesServer) -> None:
    server.faults.stream_content_type = "Text/Event-Stream; charset=utf-8"
    async with Client(server.node()) as client:
        assert (await read(client)).names == TOLD


async def test_gone_after_a_disconnect(server: HermesServer) -> None:
    """Up to 0.20.4 the first reader takes the buffer along; the run goes on (wire.md, 0.1)."""
    async with Client(server.node()) as client:
        run = await client.submit_run(RunRequest(input="[[count 50 every 20ms]]"))
        async with client.events(run.run_id) as stream:
            async for _ in stream:
                break
        server.wait_until(lambda: server.runs[run.run_id].frames is None)
        await failure(RunNotFound, server.node(), client.events(run.run_id).__aenter__())
        assert (await client.run(run.run_id)).status == "running"


async def test_no_events_route(server: HermesServer) -> None:
    server.faults.drop_route(EVENTS)
    async with Client(server.node()) as client:
        assert type((await read(client)).error) is RouteNotFound


async def test_an_error_body_without_end(server: HermesServer) -> None:
    server.faults.say(EVENTS, Reply(500, b"", headers={"Content-Length": "100"}))
    node = server.node(timeout=0.4)
    async with Client(node) as client:
        await failure(NoAnswer, node, client.events("run_x").__aenter__())


# Leaving


async def leave_by_break(stream: EventStream) -> None:
    async for _ in stream:
        break


async def leave_by_error(stream: EventStream) -> None:
    async for _ in stream:
        raise KeyError("the reader's own")


async def leave_by_timeout(stream: EventStream) -> None:
    async with asyncio.timeout(0.2):
        async for _ in stream:
            pass


async def leave_by_cancellation(stream: EventStream) -> None:
    task = asyncio.current_task()
    assert task
    async for _ in stream:
        task.cancel()


@pytest.mark.parametrize(
    ("leave", "raised"),
    [
        (leave_by_break, None),
        (leave_by_error, KeyError),
        (leave_by_timeout, TimeoutError),
        (leave_by_cancellation, asyncio.CancelledError),
    ],
)
async def test_closed_on_every_way_out(
    server: HermesServer, leave: object, raised: type[BaseException] | None
) -> None:
    """The connection is closed, and what the reader raised stays what it was."""
    assert callable(leave)

    async def go(client: Client) -> None:
        run = await client.submit_run(RunRequest(input="[[count 500 every 20ms]]"))
        async with client.events(run.run_id) as stream:
            await leave(stream)

    async with Client(server.node()) as client:
        with pytest.raises(raised) if raised else contextlib.nullcontext():
            await asyncio.create_task(go(client))
        (run,) = server.runs.values()
        server.wait_until(lambda: run.frames is None)
        assert (await client.health()).status == "ok"


# Many


async def test_flat_memory_over_many_events(server: HermesServer) -> None:
    event = {"event": "message.delta", "run_id": "run_1", "timestamp": 1.5, "delta": "hello"}
    block = f"data: {json.dumps(event)}\n\n".encode() * 500
    process = psutil.Process()
    seen = 0
    settled = 0
    server.faults.raw_stream = itertools.chain(
        itertools.repeat(block, 440), [b": stream closed\n\n"]
    )
    async with Client(server.node()) as client:
        run = await client.submit_run(RunRequest(input="hello"))
        async with client.events(run.run_id) as stream:
            async for item in stream:
                seen += isinstance(item, Event)
                if seen == 20_000 and not settled:
                    settled = process.memory_info().rss
        assert stream.closed
    assert seen == 220_000
    assert process.memory_info().rss - settled < 8 * 1024 * 1024
