"""The stand-in does what it says: its runs, and the faults that no other test looks at alone."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from hermes_ctl.api.client import Client
from hermes_ctl.api.events import Event
from hermes_ctl.api.models import Run, RunRequest
from hermes_ctl.errors import ConnectionReset, Refused, RunNotFound
from tests.cassettes.scenarios import until
from tests.faults.faults import HOSTILE
from tests.faults.server import HermesServer

pytestmark = pytest.mark.anyio

TINY = RunRequest(input="Reply with exactly this and nothing else: TOKEN-9")
CANARY = RunRequest(
    input="Use your terminal tool once to run exactly this command: `seq 1 20000`. When it has "
    "finished, reply with exactly this and nothing else: TOKEN-9"
)
LONG = RunRequest(input="Count slowly from 1 to 600, one number per line, without using any tool.")


async def ended(client: Client, request: RunRequest) -> Run:
    accepted = await client.submit_run(request)
    return await until(client, accepted.run_id, lambda run: run.is_terminal, 0.01)


async def read(client: Client, request: RunRequest) -> list[Event]:
    accepted = await client.submit_run(request)
    async with client.events(accepted.run_id) as stream:
        return [item async for item in stream if isinstance(item, Event)]


def names(events: list[Event]) -> list[str]:
    return [name for name, _ in itertools.groupby(event.name for event in events)]


async def test_prompts_are_those_of_the_lab(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        assert (await ended(client, TINY)).output == "TOKEN-9"
        assert (await ended(client, CANARY)).output == "TOKEN-9"
        failed = await ended(client, RunRequest(input="[[status 500]]"))
        assert failed.error == "HTTP 500: scripted 500"
        odd = await ended(client, RunRequest(input="[[no-such-directive]]"))
        assert odd.status == "failed"


async def test_models(server: HermesServer) -> None:
    other = TINY.model_copy(update={"model": "lab-other"})
    unknown = TINY.model_copy(update={"model": "no-such-model"})
    async with Client(server.node()) as client:
        run = await ended(client, other)
        assert (await client.session(run.run_id)).model == "lab-other"
        assert "no-such-model" in (await ended(client, unknown)).error
        server.faults.accept_unknown_model = True
        assert (await ended(client, unknown)).status == "completed"
        server.faults.ignore_model = True
        run = await ended(client, other)
        assert run.model == "lab-other", "echoed"
        assert (await client.session(run.run_id)).model == "lab-model", "and not used"


async def test_no_tool_call(server: HermesServer) -> None:
    server.faults.no_tool_call = True
    async with Client(server.node()) as client:
        events = await read(client, CANARY)
    assert names(events) == ["message.delta", "reasoning.available", "run.completed"]


async def test_an_approval(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        accepted = await client.submit_run(RunRequest(input="[[approve-me x]] [[say done]]"))
        async with client.events(accepted.run_id) as stream:
            events = []
            async for item in stream:
                if isinstance(item, Event):
                    events.append(item)
                    if item.name == "approval.request":
                        run = await client.run(accepted.run_id)
                        assert run.status == "waiting_for_approval"
                        answer = await client.answer_approval(accepted.run_id, "deny")
                        assert answer.resolved == 1
    told = names(events)
    assert told[:4] == ["tool.started", "approval.request", "approval.responded", "tool.completed"]
    assert events[told.index("tool.completed")].data["error"] is True
    assert told[-1] == "run.completed"


async def test_a_subagent(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        events = await read(client, RunRequest(input="[[delegate say hello]]"))
    assert names(events)[1:3] == ["subagent.start", "subagent.complete"]


async def test_one_reader_for_each_stream(server: HermesServer) -> None:
    """Two readers steal from each other: together they see everything once (wire.md, 0.2)."""
    server.faults.keepalive = 0.1

    async with Client(server.node()) as client:
        accepted = await client.submit_run(RunRequest(input="[[count 20 every 20ms]]"))
        seen: list[str] = []

        async def take() -> None:
            async with client.events(accepted.run_id) as stream:
                async for item in stream:
                    if isinstance(item, Event):
                        seen.append(item.data.get("delta", item.name))

        readers = [asyncio.create_task(take()) for _ in range(2)]
        done, stuck = await asyncio.wait(readers, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
    assert len(done) == 1, "the other hangs"
    assert sorted(seen) == sorted({*seen})
    assert len(seen) == 22


@pytest.mark.parametrize(
    ("fault", "status"), [("late_stop", "completed"), ("", "cancelled"), ("never_stop", "stopping")]
)
async def test_stops(server: HermesServer, fault: str, status: str) -> None:
    if fault:
        setattr(server.faults, fault, True)
    async with Client(server.node()) as client:
        accepted = await client.submit_run(LONG)
        assert (await client.stop_run(accepted.run_id)).status == "stopping"
        assert (await client.run(accepted.run_id)).status == "stopping"
        if fault == "never_stop":
            told = server.runs[accepted.run_id].frames
            assert told is not None
            until_now = told.qsize()
            server.wait_until(lambda: told.qsize() > until_now)
            assert (await client.detailed_health()).active_api_runs == 1
        else:
            run = await until(client, accepted.run_id, lambda run: run.is_terminal, 0.01)
            assert run.status == status


async def test_over_before_the_stop(server: HermesServer) -> None:
    server.faults.finish_before_stop = True
    async with Client(server.node()) as client:
        accepted = await client.submit_run(LONG)
        with pytest.raises(RunNotFound):
            await client.stop_run(accepted.run_id)
        assert (await client.run(accepted.run_id)).status == "completed"
        async with client.events(accepted.run_id) as stream:
            events = [item async for item in stream if isinstance(item, Event)]
    assert names(events)[-1] == "run.completed"


async def test_forgotten(server: HermesServer) -> None:
    server.faults.forget_runs_after = 2
    async with Client(server.node()) as client:
        accepted = await client.submit_run(LONG)
        for _ in range(2):
            assert (await client.run(accepted.run_id)).status == "running"
        with pytest.raises(RunNotFound):
            await client.run(accepted.run_id)


async def test_hostile_text_everywhere(server: HermesServer) -> None:
    server.faults.hostile = True
    async with Client(server.node()) as client:
        events = await read(client, CANARY)
        run = await client.run(events[-1].run_id or "")
        failed = await ended(client, RunRequest(input="[[status 400]]"))
        session = await client.session(run.run_id)
    assert HOSTILE in events[0].data["preview"]
    assert HOSTILE in (run.output or "")
    assert HOSTILE in (session.title or "")
    assert HOSTILE in failed.error


async def test_a_lost_answer_and_an_idempotency_key(server: HermesServer) -> None:
    server.faults.idempotent = True
    server.faults.reset("POST /v1/runs", work_done=True, times=1)
    async with Client(server.node()) as client:
        assert (await client.capabilities()).supports("runs_idempotency")
        with pytest.raises(ConnectionReset):
            await client.submit_run(LONG, idempotency_key="key-1")
        again = await client.submit_run(LONG, idempotency_key="key-1")
        assert again.replayed
        assert list(server.runs) == [again.run_id]
        with pytest.raises(Refused):
            await client.submit_run(TINY, idempotency_key="key-1")
        assert not (await client.submit_run(TINY, idempotency_key="key-2")).replayed
    assert len(server.runs) == 2


async def test_faults_that_pass(server: HermesServer) -> None:
    server.faults.status("GET /health", 503, times=1, skip=1)
    async with Client(server.node()) as client:
        statuses = [(await client.request("GET", "/health")).status for _ in range(4)]
        assert statuses == [200, 503, 200, 200]
        server.faults.status("*", 500)
        assert (await client.request("GET", "/health")).status == 500
        server.faults.clear()
        assert (await client.request("GET", "/health")).status == 200
