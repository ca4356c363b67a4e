"""The client on real Hermes releases: what cassettes cannot tell, streams above all."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from hermes_ctl.api.client import Client
from hermes_ctl.api.events import Comment, Event, StreamItem
from hermes_ctl.api.models import Run, RunRequest
from hermes_ctl.config import Node
from hermes_ctl.errors import (
    ObjectNotFound,
    RequestRejected,
    RunNotFound,
    StreamCut,
    TlsFailure,
    UsageError,
)
from hermes_ctl.lab.gateway import Lab
from hermes_ctl.secrets import Secret
from tests.cassettes.scenarios import until
from tests.faults.explained import failure
from tests.faults.proxy import Link

pytestmark = pytest.mark.anyio

CANARY = (
    "Use your terminal tool once to run exactly this command: `seq 1 20000`. When it has finished, "
    "reply with exactly this and nothing else: TOKEN-live-7"
)
LONG = "Count slowly from 1 to 600, one number per line, without using any tool."


def patient(lab: Lab) -> Node:
    """The lab's node, with time for a first run on a busy machine."""
    return replace(lab.node, timeout=60)


def through(link: Link, lab: Lab) -> Node:
    return replace(patient(lab), url=link.url)


def port_of(lab: Lab) -> int:
    return int(lab.node.url.rpartition(":")[2])


def names(items: list[StreamItem]) -> list[str]:
    """The events in their order, a row of deltas as one."""
    told = (item.name for item in items if isinstance(item, Event))
    return [name for name, _ in itertools.groupby(told)]


async def ended(client: Client, run_id: str) -> Run:
    return await until(client, run_id, lambda run: run.is_terminal, 0.2)


async def read_into(seen: list[Event], client: Client, run_id: str) -> None:
    async with client.events(run_id) as stream:
        async for item in stream:
            if isinstance(item, Event):
                seen.append(item)


async def test_a_run_with_a_tool(any_lab: Lab) -> None:
    async with Client(patient(any_lab)) as client:
        accepted = await client.submit_run(RunRequest(input=CANARY))
        async with client.events(accepted.run_id) as stream:
            items = [item async for item in stream]
        run = await ended(client, accepted.run_id)
        session = await client.session(run.session_id or run.run_id)
    events = [item for item in items if isinstance(item, Event)]
    assert {event.run_id for event in events} == {accepted.run_id}
    assert names(items)[:3] == ["tool.started", "tool.completed", "message.delta"]
    assert events[-1].name == "run.completed"
    assert events[-1].data["output"] == run.output == "TOKEN-live-7"
    assert run.tokens > 0
    assert (stream.closed, stream.remainder) == (True, 0)
    assert stream.headers["content-type"] == "text/event-stream"
    assert isinstance(items[-1], Comment)
    assert session.model == any_lab.default_model


@pytest.fixture
def quiet_lab(any_lab: Lab, start_lab: Callable[..., Lab]) -> Lab:
    """The same release, used by nobody else: what is counted there is this test's own."""
    return start_lab(any_lab.state.plan.spec)


async def test_stopping(quiet_lab: Lab) -> None:
    async with Client(patient(quiet_lab)) as client:
        before = (await client.detailed_health()).active_api_runs
        accepted = await client.submit_run(RunRequest(input=LONG))
        async with client.events(accepted.run_id) as stream:
            items: list[StreamItem] = []
            async for item in stream:
                if not items:
                    assert (await client.stop_run(accepted.run_id)).status == "stopping"
                items.append(item)
        run = await ended(client, accepted.run_id)
        assert run.status == "cancelled"
        assert names(items)[-1] == "run.cancelled"
        assert stream.closed
        assert (await client.detailed_health()).active_api_runs == before


async def test_a_cut_link(any_lab: Lab) -> None:
    """The run goes on. Up to 0.20.4 its stream is gone; 0.22 resumes behind the last id."""
    with Link(port_of(any_lab)) as link:
        async with Client(through(link, any_lab)) as client:
            accepted = await client.submit_run(RunRequest(input="[[count 30 every 100ms]]"))
            link.cut_when(b'"5\\n"')
            seen: list[Event] = []
            with pytest.raises(StreamCut):
                await read_into(seen, client, accepted.run_id)
            assert not (await client.run(accepted.run_id)).is_terminal
            last = seen[-1].event_id
            if last:
                async with client.events(accepted.run_id, last_event_id=last) as stream:
                    rest = [item async for item in stream if isinstance(item, Event)]
                assert int(rest[0].event_id) == int(last) + 1
                assert rest[-1].name == "run.completed"
            run = await ended(client, accepted.run_id)
            assert run.status == "completed"
            if not last:
                await failure(RunNotFound, client.node, client.events(accepted.run_id).__aenter__())


async def test_held_back(any_lab: Lab) -> None:
    with Link(port_of(any_lab)) as link:
        link.hold_back = True
        async with Client(through(link, any_lab)) as client:
            accepted = await client.submit_run(RunRequest(input="[[count 10 every 100ms]]"))
            async with client.events(accepted.run_id) as stream:
                events = [item async for item in stream if isinstance(item, Event)]
    assert events[-1].arrived - events[0].arrived < 0.2
    assert (events[-1].timestamp or 0) - (events[0].timestamp or 0) > 0.6


async def test_byte_by_byte(any_lab: Lab) -> None:
    with Link(port_of(any_lab)) as link:
        link.drip = 1
        async with Client(through(link, any_lab)) as client:
            accepted = await client.submit_run(RunRequest(input=CANARY))
            async with client.events(accepted.run_id) as stream:
                items = [item async for item in stream]
            assert names(items)[-1] == "run.completed"
            assert stream.closed
            assert (await client.health()).version == any_lab.version


async def test_sessions(any_lab: Lab) -> None:
    async with Client(patient(any_lab)) as client:
        request = RunRequest(input="hello", session_id="live-session-1")
        accepted = await client.submit_run(request)
        await ended(client, accepted.run_id)
        assert "live-session-1" in [session.id for session in await client.sessions(limit=200)]
        messages = await client.session_messages("live-session-1")
        assert [message.role for message in messages] == ["user", "assistant"]
        await client.delete_session("live-session-1")
        await failure(ObjectNotFound, client.node, client.session("live-session-1"))


async def test_https_asked_of_hermes(lab: Lab) -> None:
    node = replace(lab.node, url=lab.node.url.replace("http:", "https:"))
    async with Client(node) as client:
        error = await failure(TlsFailure, node, client.health())
    assert "http:// instead of https://" in (error.hint or "")


async def test_what_hermes_parser_refuses(lab: Lab) -> None:
    """A control character in a header never leaves: Hermes would repeat the header's value."""
    node = replace(lab.node, key=Secret("key-with-\x01-in-it-0123456789", "the test"))
    async with Client(node) as client:
        await failure(UsageError, node, client.capabilities())
    async with Client(lab.node) as client:
        long = {"X-Long": "x" * 9000}
        await failure(RequestRejected, lab.node, client.expect("GET", "/health", headers=long))
