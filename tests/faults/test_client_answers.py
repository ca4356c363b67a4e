"""What a node answers when it does not answer what was hoped for: each kind told apart, and explained."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from hermes_ctl import clock
from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.api.models import RunRequest
from hermes_ctl.errors import (
    AtCapacity,
    AuthenticationFailed,
    HermesctlError,
    MalformedAnswer,
    NotHermes,
    ObjectNotFound,
    Refused,
    RequestRejected,
    RouteNotFound,
    RunNotFound,
    ServerFailure,
)
from hermes_ctl.secrets import Secret, redact
from hermes_ctl.text import visible
from tests.faults.explained import assert_explained, failure
from tests.faults.faults import HOSTILE
from tests.faults.server import HermesServer
from tests.faults.wire import Reply, html_reply

pytestmark = pytest.mark.anyio

WRONG = Secret("wrong-key-0123456789abcdef", "the file wrong.key")


# Not Hermes, or not what Hermes says


async def test_a_web_page(server: HermesServer) -> None:
    server.faults.html()
    async with Client(server.node()) as client:
        error = await failure(NotHermes, server.node(), client.health())
    assert "check host and port" in (error.hint or "")


async def test_the_dashboard(server: HermesServer) -> None:
    server.faults.dashboard()
    async with Client(server.node()) as client:
        error = await failure(NotHermes, server.node(), client.capabilities())
        await failure(NotHermes, server.node(), client.events("run_x").__aenter__())
    assert "port 9119" in (error.hint or "")
    assert "Hermes Agent" in error.message


async def test_a_page_of_a_web_server_in_place_of_the_route(server: HermesServer) -> None:
    server.faults.say("*", html_reply(404, "<html><title>404 Not Found</title></html>"))
    async with Client(server.node()) as client:
        await failure(NotHermes, server.node(), client.run("run_x"))


@pytest.mark.parametrize(
    "body",
    [
        b'{"status": "o',
        b"",
        b"ok",
        b"\xff\xfe\x00",
        b'{"status": ' + b"[" * 100_000,
        b'{"status": ' + b"9" * 5000 + b"}",
    ],
    ids=["cut", "empty", "text", "binary", "deep", "number"],
)
async def test_malformed_json(server: HermesServer, body: bytes) -> None:
    server.faults.bad_json("GET /health", body)
    async with Client(server.node()) as client:
        error = await failure(MalformedAnswer, server.node(), client.health())
    assert "GET /health answered 200" in error.message


@pytest.mark.parametrize(
    "body", [b"[]", b"null", b'"ok"', b"3", b"{}", b'{"status": {"deep": 1}}', b'{"status": null}']
)
async def test_json_of_no_known_shape(server: HermesServer, body: bytes) -> None:
    server.faults.bad_json("GET /health", body)
    async with Client(server.node()) as client:
        error = await failure(MalformedAnswer, server.node(), client.health())
    assert "shape" in (error.hint or "")


@pytest.mark.parametrize(
    "body", [b"{}", b'{"data": {}}', b"3", b'{"data": null}', b'{"data": [{}]}']
)
async def test_lists_of_no_known_shape(server: HermesServer, body: bytes) -> None:
    server.faults.bad_json("GET /v1/skills", body)
    async with Client(server.node()) as client:
        await failure(MalformedAnswer, server.node(), client.skills())


@pytest.mark.parametrize("body", [b"[]", b'{"data": []}', b'{"items": []}', b'{"skills": []}'])
async def test_lists_of_every_known_shape(server: HermesServer, body: bytes) -> None:
    server.faults.bad_json("GET /v1/skills", body)
    async with Client(server.node()) as client:
        assert await client.skills() == []


async def test_half_a_surrogate_pair_is_no_obstacle(server: HermesServer) -> None:
    body = rb'{"run_id": "r", "status": "completed", "output": "a \ud83d b \ud83d\ude00"}'
    server.faults.bad_json("*", body)
    async with Client(server.node()) as client:
        run = await client.run("r")
    assert run.output == "a \ufffd b \U0001f600"


# Keys


async def test_no_key(server: HermesServer) -> None:
    node = server.node(key=None)
    async with Client(node) as client:
        error = await failure(AuthenticationFailed, node, client.capabilities())
        await failure(AuthenticationFailed, node, client.events("run_x").__aenter__())
    assert error.status == 401
    assert error.code == "gateway_auth_failed"
    assert "no key was sent" in (error.hint or "")


async def test_wrong_key(server: HermesServer) -> None:
    node = server.node(key=WRONG)
    async with Client(node) as client:
        error = await failure(AuthenticationFailed, node, client.capabilities())
    assert "the file wrong.key" in (error.hint or "")


async def test_a_server_that_repeats_the_key(server: HermesServer) -> None:
    """What the edge prints went through `redact`: the server cannot make us show the key."""
    server.faults.echo_key = True
    async with Client(server.node(key=WRONG)) as client:
        with pytest.raises(AuthenticationFailed) as caught:
            await client.capabilities()
    assert WRONG.reveal() in caught.value.message
    assert WRONG.reveal() not in redact(caught.value.message)


async def test_403_without_a_body(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        origin = {"Origin": "https://elsewhere.example"}
        error = await failure(
            AuthenticationFailed,
            server.node(),
            client.expect("GET", "/v1/models", headers=origin),
        )
    assert error.status == 403
    assert "Origin" in (error.hint or "")


async def test_a_login_before_the_node(server: HermesServer) -> None:
    page = "<html><head><title>401 Authorization Required</title></head></html>"
    server.faults.say("*", html_reply(401, page, {"Server": "nginx/1.24.0"}))
    async with Client(server.node()) as client:
        error = await failure(AuthenticationFailed, server.node(), client.capabilities())
    assert "nginx/1.24.0, not from Hermes" in error.message
    assert "before the node" in (error.hint or "")


# Not found


async def test_a_run_that_is_unknown(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        for call in (
            client.run("run_nope"),
            client.stop_run("run_nope"),
            client.steer_run("run_nope", "hello"),
            client.answer_approval("run_nope", "once"),
            client.events("run_nope").__aenter__(),
        ):
            error = await failure(RunNotFound, server.node(), call)
            assert error.code == "run_not_found"
            assert "hermesctl runs" in (error.hint or "")


async def test_a_route_that_is_missing(server: HermesServer) -> None:
    server.faults.drop_route("POST /v1/runs/{run_id}/steer")
    server.faults.drop_route("GET /v1/runs/{run_id}/events")
    async with Client(server.node()) as client:
        run = await client.submit_run(RunRequest(input="[[silent 30s]]"))
        error = await failure(RouteNotFound, server.node(), client.steer_run(run.run_id, "hello"))
        await failure(RouteNotFound, server.node(), client.events(run.run_id).__aenter__())
    assert "no such route" in error.message


async def test_a_session_that_is_unknown(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        for name in ("nope", "profile-of-ada"):
            error = await failure(ObjectNotFound, server.node(), client.session(name))
            assert error.code == "session_not_found"
        await failure(ObjectNotFound, server.node(), client.delete_session("nope"))


async def test_a_job_that_is_unknown(server: HermesServer) -> None:
    server.faults.status("*", 404, {"error": "Job not found"})
    async with Client(server.node()) as client:
        await failure(ObjectNotFound, server.node(), client.expect("GET", "/api/jobs/x"))


@pytest.mark.parametrize(
    "body",
    [{"detail": "Not Found"}, {"message": "no Route matched with those values"}, "Not found"],
)
async def test_404_of_something_else(server: HermesServer, body: Any) -> None:
    server.faults.status("*", 404, body)
    async with Client(server.node()) as client:
        await failure(RouteNotFound, server.node(), client.run("run_x"))


async def test_a_profile_that_is_unknown(server: HermesServer) -> None:
    server.answers.profiles["planner"] = "planner-key-0123456789"
    node = server.node(url=f"{server.url}/p/nope", profile="nope")
    async with Client(node) as client:
        error = await failure(RouteNotFound, node, client.models())
    assert "multiplex_profiles" in (error.hint or "")


async def test_each_profile_has_its_own_key(server: HermesServer) -> None:
    server.answers.profiles["planner"] = "planner-key-0123456789"
    node = server.node(url=f"{server.url}/p/planner")
    async with Client(node) as client:
        await failure(AuthenticationFailed, node, client.models())
    own = server.node(url=f"{server.url}/p/planner", key=Secret("planner-key-0123456789", "test"))
    async with Client(own) as client:
        assert [model.id for model in await client.models()] == ["planner"]


# Refused, rejected, full


async def test_refused_by_the_state_of_the_run(server: HermesServer) -> None:
    server.pace = 0
    async with Client(server.node()) as client:
        run = await client.submit_run(RunRequest(input="hello"))
        server.wait_until(lambda: not server.runs[run.run_id].is_active)
        error = await failure(Refused, server.node(), client.steer_run(run.run_id, "late"))
        assert error.code == "run_not_accepting_steer"
        error = await failure(Refused, server.node(), client.answer_approval(run.run_id, "once"))
        assert error.code == "approval_not_active"


async def test_422(server: HermesServer) -> None:
    server.faults.status("*", 422, {"detail": "unprocessable"})
    async with Client(server.node()) as client:
        error = await failure(Refused, server.node(), client.run("run_x"))
    assert "unprocessable" in error.message


async def test_405(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        error = await failure(RequestRejected, server.node(), client.expect("GET", "/v1/runs"))
    assert error.status == 405
    assert "takes POST" in (error.hint or "")


async def test_413(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        error = await failure(
            RequestRejected, server.node(), client.submit_run(RunRequest(input="x" * 10_000_001))
        )
    assert error.code == "body_too_large"
    assert "10 MB" in (error.hint or "")


async def test_413_before_the_body_was_read(server: HermesServer) -> None:
    """A proxy answers at once and hangs up on the rest: its answer is still heard."""
    server.before_body = Reply(413, b"too large", "text/plain", {"Connection": "close"})
    async with Client(server.node()) as client:
        with pytest.raises(HermesctlError) as caught:
            await client.submit_run(RunRequest(input="x" * 50_000_000))
    assert_explained(caught.value, server.node())
    assert isinstance(caught.value, RequestRejected)


async def test_400(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        error = await failure(
            RequestRejected, server.node(), client.submit_run(RunRequest(input=""))
        )
    assert "Missing 'input' field" in error.message


async def test_at_capacity(server: HermesServer) -> None:
    server.faults.limit = 2
    async with Client(server.node()) as client:
        for _ in range(2):
            await client.submit_run(RunRequest(input="[[silent 30s]]"))
        error = await failure(
            AtCapacity, server.node(), client.submit_run(RunRequest(input="one more"))
        )
    assert (error.limit, error.retry_after) == (2, 1.0)


NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(hours=1), usegmt=True), 0.0),
        ("Mon, 30 Nov 2026 12:00:30 -0000", 30.0),
        ("9" * 400, 86_400.0),
        (format_datetime(NOW + timedelta(days=900), usegmt=True), 86_400.0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("soon", None),
        ("Mon, 99 Nov 99999 99:99:99 GMT", None),
    ],
)
async def test_retry_after(
    server: HermesServer, monkeypatch: pytest.MonkeyPatch, value: str, seconds: float | None
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    server.faults.status("*", 429, headers={"Retry-After": value})
    async with Client(server.node()) as client:
        error = await failure(AtCapacity, server.node(), client.run("run_x"))
    assert error.retry_after == seconds


# The node, or what stands before it, in trouble


async def test_500_of_hermes(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        error = await failure(
            ServerFailure, server.node(), client.expect("POST", "/v1/runs", json=[1])
        )
    assert "Server got itself in trouble" in error.message
    assert "log" in (error.hint or "")


async def test_502_of_a_proxy(server: HermesServer) -> None:
    server.faults.bad_gateway()
    async with Client(server.node()) as client:
        error = await failure(ServerFailure, server.node(), client.health())
    assert "nginx/1.24.0, not from Hermes" in error.message
    assert "ask the node directly" in (error.hint or "")


async def test_503_while_draining(server: HermesServer) -> None:
    server.faults.draining = True
    async with Client(server.node()) as client:
        error = await failure(
            ServerFailure, server.node(), client.submit_run(RunRequest(input="x"))
        )
    assert error.code == "gateway_draining"
    assert "--wait" in (error.hint or "")


@pytest.mark.parametrize("code", [199, 299, 304, 418, 451, 499, 599, 999])
async def test_any_other_status(server: HermesServer, code: int) -> None:
    server.faults.status("*", code, "scripted")
    async with Client(server.node()) as client:
        with pytest.raises(HermesctlError) as caught:
            await client.health()
    assert_explained(caught.value, server.node())


@pytest.mark.parametrize("code", [302, 401, 404, 409, 413, 429, 500, 503])
async def test_hostile_words_are_made_visible(server: HermesServer, code: int) -> None:
    body = {"error": {"message": HOSTILE, "code": HOSTILE}}
    server.faults.status("*", code, body, headers={"Location": "/" + HOSTILE.replace("\r", "")})
    async with Client(server.node()) as client:
        with pytest.raises(HermesctlError) as caught:
            await client.health()
    message = caught.value.message
    assert message == visible(message)
    assert "\n" not in message


async def test_observed_before_it_is_judged(server: HermesServer) -> None:
    seen: list[Answer] = []
    async with Client(server.node(key=WRONG), observe=seen.append) as client:
        await failure(AuthenticationFailed, server.node(), client.skills())
        await failure(AuthenticationFailed, server.node(), client.events("r").__aenter__())
    assert [(answer.route, answer.status) for answer in seen] == [
        ("/v1/skills", 401),
        ("/v1/runs/{run_id}/events", 401),
    ]
