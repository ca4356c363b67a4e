"""Every route that the API server has, called on three real releases."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from hermes_ctl.api import inventory, jobs, sessions
from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.api.events import Event
from hermes_ctl.api.models import RunRequest
from hermes_ctl.api.offers import Offers
from hermes_ctl.api.routes import ROUTES, Route, route_of
from hermes_ctl.config import Node
from hermes_ctl.errors import HermesctlError, Refused
from hermes_ctl.lab.gateway import Lab

pytestmark = pytest.mark.anyio

TINY = "Reply with exactly this and nothing else: TOKEN-routes"
LONG = "Count slowly from 1 to 600, one number per line, without using any tool."
OLDEST, NEWEST = "0.19", "0.22"


class Calls:
    """Which routes were called, and how they answered."""

    def __init__(self) -> None:
        self.statuses: dict[Route, set[int]] = {}

    def observe(self, answer: Answer) -> None:
        route = route_of(answer.method, answer.route.partition("?")[0])
        assert route is not None, f"{answer.method} {answer.route} is not in the table of routes"
        self.statuses.setdefault(route, set()).add(answer.status)


def patient(lab: Lab) -> Node:
    """The lab's node, on a machine that may be busy."""
    return replace(lab.node, timeout=90.0)


@contextlib.asynccontextmanager
async def temporary_session(client: Client, session_id: str) -> AsyncIterator[str]:
    """A session that is gone afterwards, whatever happened."""
    await sessions.create(client, {"id": session_id, "title": f"Title of {session_id}"})
    try:
        yield session_id
    finally:
        with contextlib.suppress(HermesctlError):
            await client.delete_session(session_id)


async def read_routes(client: Client) -> None:
    """What a node tells of itself."""
    await client.health()
    await client.expect("GET", "/v1/health", key=None)
    await inventory.detailed_health(client)
    await client.capabilities()
    await inventory.models(client)
    await client.request("GET", "/v1/skills")
    await inventory.toolsets(client)
    await client.request("GET", "/api/model/options")


async def openai_routes(client: Client) -> None:
    message = {"role": "user", "content": TINY}
    chat = await client.expect("POST", "/v1/chat/completions", json={"messages": [message]})
    assert chat.json()["choices"][0]["message"]["content"] == "TOKEN-routes"
    response = await client.expect("POST", "/v1/responses", json={"input": TINY})
    values = {"response_id": response.json()["id"]}
    await client.expect("GET", "/v1/responses/{response_id}", values=values)
    await client.expect("DELETE", "/v1/responses/{response_id}", values=values)


async def run_routes(client: Client) -> None:
    """A long run, watched, steered, and stopped."""
    run = await client.submit_run(RunRequest(input=LONG))
    try:
        async with client.events(run.run_id) as events:
            async for item in events:
                if isinstance(item, Event):
                    break
        assert (await client.run(run.run_id)).status == "running"
        await client.request(
            "POST", "/v1/runs/{run_id}/steer", values={"run_id": run.run_id}, json={"input": "on"}
        )
        with pytest.raises(Refused):
            await client.answer_approval(run.run_id, "once")
    finally:
        await client.stop_run(run.run_id)
    for _ in range(600):
        if (await client.run(run.run_id)).is_terminal:
            break
        await asyncio.sleep(0.1)
    with contextlib.suppress(HermesctlError):
        await client.delete_session(run.run_id)


async def session_routes(client: Client) -> None:
    async with temporary_session(client, f"routes-{id(client)}") as name:
        assert (await sessions.session(client, name)).id == name
        await sessions.update(client, name, {"title": f"Other title of {name}"})
        offered = await Offers.of(client)
        answer = await sessions.chat(offered, name, {"message": TINY}, {}, 90)
        assert answer.json()["message"]["content"] == "TOKEN-routes"
        async with client.stream(
            "POST",
            "/api/sessions/{session_id}/chat/stream",
            values={"session_id": name},
            json={"message": TINY},
        ) as stream:
            told = [item.name async for item in stream if isinstance(item, Event)]
        assert (told[0], told[-1]) == ("run.started", "done")
        roles = [message.role async for message in sessions.messages(client, name)]
        assert roles == ["user", "assistant", "user", "assistant"]
        fork = await sessions.fork(client, name, {"title": f"Fork of {name}"})
        assert fork.parent_session_id == name
        await sessions.delete(client, fork.id)
        await client.request(
            "POST", "/api/sessions/{session_id}/model", values={"session_id": name},
            json={"model": "lab-other"},
        )  # fmt: skip
        listed = [session.id async for session in sessions.sessions(client)]
        assert name in listed
        assert fork.id not in listed


async def job_routes(client: Client) -> None:
    job = await jobs.create(
        client, {"name": "routes", "schedule": "0 9 1 1 *", "prompt": "Say nothing"}
    )
    try:
        assert (await jobs.act(client, job.id, "pause")).enabled is False
        assert job.id in [one.id for one in await jobs.jobs(client)]
        assert (await jobs.act(client, job.id, "resume")).enabled is True
        assert (await jobs.update(client, job.id, {"name": "routes 2"})).name == "routes 2"
        assert (await jobs.job(client, job.id)).when == "0 9 1 1 *"
        await jobs.act(client, job.id, "run")
    finally:
        await jobs.delete(client, job.id)


async def test_every_route_is_called(any_lab: Lab) -> None:
    """Each answers as its release does: what came later is a 404 before, and on 0.22.2 the list of
    skills is a 500."""
    calls = Calls()
    async with Client(patient(any_lab), observe=calls.observe) as client:
        for part in (read_routes, openai_routes, run_routes, session_routes, job_routes):
            await part(client)
    assert set(calls.statuses) == set(ROUTES)
    refused = {str(route): codes for route, codes in calls.statuses.items() if min(codes) >= 400}
    expected = {"POST /v1/runs/{run_id}/approval": {409}}
    if any_lab.version.startswith(OLDEST):
        later = [route for route in ROUTES if route.since != OLDEST]
        expected |= {str(route): {404} for route in later}
    if any_lab.version.startswith(NEWEST):
        expected |= {"GET /v1/skills": {500}}
    assert refused == expected


async def test_what_is_advertised_is_in_the_table(any_lab: Lab) -> None:
    """The table is held against what each release says of itself."""
    async with Client(patient(any_lab)) as client:
        offered = await Offers.of(client)
    assert offered.capabilities is not None
    ours = {str(route) for route in ROUTES if route.advertised}
    theirs = {f"{e.method} {e.path}" for e in offered.capabilities.endpoints.values()}
    beyond = {
        route for route in theirs if "browser-control" not in route and "artifact" not in route
    }
    assert beyond <= ours
    for route in ROUTES:
        if route.advertised:
            has = not (any_lab.version.startswith(OLDEST) and route.since != OLDEST)
            assert offered.advertises(route) is has, route
            if route.feature is not None:
                assert bool(offered.capabilities.features.get(route.feature)) is has, route
