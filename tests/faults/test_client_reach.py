"""Every way in which a node is not reached, or lost, told apart on real sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from hermes_ctl.api import transport
from hermes_ctl.api.client import Client
from hermes_ctl.api.models import RunRequest
from hermes_ctl.config import Node
from hermes_ctl.errors import (
    ConnectionLost,
    ConnectionRefused,
    ConnectionReset,
    ConnectTimeout,
    EmptyReply,
    MalformedAnswer,
    NameNotFound,
    NoAnswer,
    NotHermes,
    Redirected,
    Undetermined,
    Unreachable,
    UsageError,
)
from hermes_ctl.secrets import Secret
from tests.faults.explained import assert_explained, failure
from tests.faults.loopback import free_port
from tests.faults.proxy import Link
from tests.faults.server import HermesServer

pytestmark = pytest.mark.anyio

QUICK = 0.4
"""Seconds of a timeout that is meant to run out."""


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: further ones are neither taken nor refused."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(4):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
            waiting.append(caller)
        yield listener.getsockname()[1]
        for caller in waiting:
            caller.close()


async def test_name_not_found() -> None:
    node = Node("n", url="http://no-such-node.invalid:8642", timeout=30)
    async with Client(node) as client:
        error = await failure(NameNotFound, node, client.health())
    assert "no-such-node.invalid" in error.message


async def test_name_that_no_resolver_takes() -> None:
    node = Node("n", url=f"http://{'a' * 64}.invalid:8642")
    async with Client(node) as client:
        await failure(NameNotFound, node, client.health())


async def test_refused() -> None:
    node = Node("n", url=f"http://127.0.0.1:{free_port()}")
    async with Client(node) as client:
        error = await failure(ConnectionRefused, node, client.health())
    assert "API_SERVER_KEY 16 characters" in (error.hint or "")


async def test_reset_while_connecting(server: HermesServer, link: Link) -> None:
    link.refuse = True
    node = server.node(url=link.url)
    async with Client(node) as client:
        await failure(ConnectionReset, node, client.health())
    assert server.requests == []


async def test_reset_after_the_request(server: HermesServer) -> None:
    server.faults.reset("GET /health")
    async with Client(server.node()) as client:
        error = await failure(ConnectionReset, server.node(), client.health())
    assert "after the request was sent" in error.message


async def test_nobody_takes_the_connection(full_port: int) -> None:
    node = Node("n", url=f"http://127.0.0.1:{full_port}", timeout=QUICK)
    async with Client(node) as client:
        error = await failure(ConnectTimeout, node, client.health())
    assert f"within {QUICK:g} s" in error.message


async def test_accepted_and_never_answered(server: HermesServer) -> None:
    server.faults.hang()
    node = server.node(timeout=QUICK)
    async with Client(node) as client:
        error = await failure(NoAnswer, node, client.health())
        assert "did not answer" in error.message
    server.wait_until(lambda: server.open_connections == 0)


async def test_timeout_of_one_call(server: HermesServer) -> None:
    server.faults.hang()
    async with Client(server.node(timeout=60)) as client:
        began = time.monotonic()
        await failure(NoAnswer, server.node(), client.request("GET", "/health", timeout=QUICK))
    assert time.monotonic() - began < 5


async def test_the_bound_is_on_the_whole_answer(server: HermesServer) -> None:
    server.faults.drip(QUICK / 8)
    node = server.node(timeout=QUICK)
    async with Client(node) as client:
        began = time.monotonic()
        error = await failure(NoAnswer, node, client.health())
    assert time.monotonic() - began < 5
    assert "began to answer" in error.message


async def test_a_slow_answer_is_an_answer(server: HermesServer) -> None:
    server.faults.slow(0.3)
    async with Client(server.node(timeout=30)) as client:
        answer = await client.request("GET", "/health")
    assert answer.status == 200
    assert answer.elapsed >= 0.3


async def test_every_connection_in_use(server: HermesServer) -> None:
    """Waiting for a free connection of our own is not the node's silence: nothing was sent."""
    server.pace = 100
    node = server.node(timeout=QUICK)
    async with Client(node, connections=1) as client:
        run = await client.submit_run(RunRequest(input="[[silent 30s]]"))
        async with client.events(run.run_id):
            error = await failure(ConnectTimeout, node, client.health())
    assert "in use" in error.message
    assert server.received("GET /health") == []


async def test_empty_reply(server: HermesServer) -> None:
    server.faults.empty_reply("GET /health")
    async with Client(server.node()) as client:
        await failure(EmptyReply, server.node(), client.health())


async def test_cut_in_the_middle(server: HermesServer) -> None:
    server.faults.cut_body("GET /health")
    async with Client(server.node()) as client:
        error = await failure(ConnectionReset, server.node(), client.health())
    assert "in the middle" in error.message


async def test_cut_link(server: HermesServer, link: Link) -> None:
    link.cut_when(b"HTTP/1.1 202", lost=True)
    node = server.node(url=link.url)
    async with Client(node) as client:
        with pytest.raises(ConnectionLost) as caught:
            await client.submit_run(RunRequest(input="hello"))
        assert_explained(caught.value, node)
    assert len(server.received("POST /v1/runs")) == 1, "a lost answer is never asked for again"


async def test_something_that_speaks_no_http(server: HermesServer) -> None:
    server.faults.raw(b"220 mail ESMTP ready\r\n\r\n")
    async with Client(server.node()) as client:
        error = await failure(NotHermes, server.node(), client.health())
    assert "does not speak HTTP" in error.message


async def test_broken_compression(server: HermesServer) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
    server.faults.raw(head + b"\x1f\x8bno")
    async with Client(server.node()) as client:
        await failure(MalformedAnswer, server.node(), client.health())


async def test_an_answer_without_end(server: HermesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BODY_LIMIT", 1024 * 1024)
    server.faults.flood(50 * 1024 * 1024)
    async with Client(server.node()) as client:
        error = await failure(MalformedAnswer, server.node(), client.health())
    assert "1 MiB" in error.message
    server.wait_until(lambda: server.open_connections == 0)


async def test_a_large_answer_within_the_limit(server: HermesServer) -> None:
    server.faults.flood(3 * 1024 * 1024)
    async with Client(server.node()) as client:
        answer = await client.request("GET", "/health")
    assert len(answer.body) == 3 * 1024 * 1024


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_redirects_are_told_and_not_followed(server: HermesServer, code: int) -> None:
    with HermesServer() as elsewhere:
        server.faults.redirect(f"{elsewhere.url}/health", code=code)
        async with Client(server.node()) as client:
            error = await failure(Redirected, server.node(), client.detailed_health())
            await failure(Redirected, server.node(), client.submit_run(RunRequest(input="x")))
        assert elsewhere.requests == []
        assert elsewhere.connections == 0
        assert elsewhere.url in error.message


@pytest.mark.parametrize("name", ["key", "session key"])
async def test_control_characters_never_reach_the_wire(server: HermesServer, name: str) -> None:
    value = "control-\x1b-character-0123456789"
    key = value if name == "key" else server.key
    node = server.node(key=Secret(key, "the test"))
    async with Client(node) as client:
        error = await failure(
            UsageError,
            node,
            client.submit_run(
                RunRequest(input="x"), session_key=value if name == "session key" else None
            ),
        )
    assert value not in error.message
    assert repr(value)[1:-1] not in error.message, "not even written otherwise"
    assert server.requests == []


async def test_session_key_of_any_language(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        await client.submit_run(RunRequest(input="x"), session_key="bmas:Аня:日本")
    sent = server.received("POST /v1/runs")[0].headers["x-hermes-session-key"]
    assert sent.encode("latin-1").decode() == "bmas:Аня:日本"


@pytest.mark.parametrize("run_id", ["", ".", "..", "\udcff"])
async def test_ids_that_would_lead_elsewhere(server: HermesServer, run_id: str) -> None:
    async with Client(server.node()) as client:
        with pytest.raises(UsageError):
            await client.run(run_id)
        with pytest.raises(UsageError):
            await client.delete_session(run_id)
        with pytest.raises(UsageError):
            async with client.events(run_id):
                pass
    assert server.requests == []


@pytest.mark.parametrize(
    "run_id", ["a/b", "a b", "../../health", "%2e%2e", "a?b=c#d", "日本", "a\r\nb: c"]
)
async def test_ids_stay_one_segment(server: HermesServer, run_id: str) -> None:
    async with Client(server.node()) as client:
        answer = await client.request("GET", "/v1/runs/{run_id}", values={"run_id": run_id})
    assert answer.status == 404
    assert [request.route for request in server.requests] == ["GET /v1/runs/{run_id}"]
    assert server.requests[0].values == {"run_id": run_id}


@pytest.mark.parametrize("document", [{"input": "\udcff"}, {"input": float("nan")}])
async def test_what_cannot_be_written_is_not_sent(
    server: HermesServer, document: dict[str, object]
) -> None:
    node = server.node()
    async with Client(node) as client:
        await failure(UsageError, node, client.request("POST", "/v1/runs", json=document))
    assert server.requests == []


def test_unreachable_means_nothing_was_sent() -> None:
    """The callers' promise: after these, a submission may be repeated."""
    for nothing_sent in (NameNotFound, ConnectionRefused, ConnectTimeout):
        assert issubclass(nothing_sent, Unreachable)
    for maybe_sent in (NoAnswer, EmptyReply, ConnectionReset, MalformedAnswer):
        assert not issubclass(maybe_sent, Unreachable)
        assert issubclass(maybe_sent, Undetermined)


@pytest.mark.parametrize("listening", ["127.0.0.1", "::1"])
async def test_localhost_is_two_addresses(listening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server listens on one of them, the resolver gives both: it is found, and named."""
    resolve = socket.getaddrinfo

    def both(host: object, *arguments: object, **options: object) -> object:
        if host not in ("localhost", b"localhost"):
            return resolve(host, *arguments, **options)  # type: ignore[arg-type]
        found = (resolve(address, *arguments, **options) for address in ("::1", "127.0.0.1"))  # type: ignore[arg-type]
        return [entry for entries in found for entry in entries]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with HermesServer(listening) as server:
        async with Client(server.node(url=f"http://localhost:{server.port}")) as client:
            answer = await client.request("GET", "/health")
    assert answer.status == 200
    assert answer.peer == listening


async def test_nothing_on_either_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node("n", url=f"http://localhost:{free_port()}")
    async with Client(node) as client:
        await failure(ConnectionRefused, node, client.health())


async def test_connections_are_kept_and_given_back(server: HermesServer) -> None:
    async with Client(server.node()) as client:
        for _ in range(5):
            await client.health()
        assert server.connections == 1
    server.wait_until(lambda: server.open_connections == 0)
