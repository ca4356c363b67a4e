"""Proxies that the environment names: where they are used, and that they are named when they answer."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from hermes_ctl.api.client import Client
from hermes_ctl.config import Node
from hermes_ctl.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionRefused,
    NameNotFound,
    NoAnswer,
    ServerFailure,
    Unreachable,
)
from tests.faults.explained import failure
from tests.faults.loopback import free_port
from tests.faults.proxy import HttpProxy
from tests.faults.server import HermesServer

pytestmark = pytest.mark.anyio

FAR = "http://node.invalid:8642"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def proxy(server: HermesServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpProxy]:
    """A proxy that leads everything to `server`, and that the environment names."""
    with HttpProxy(server.port) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        yield proxy


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_loopback_is_asked_directly(
    server: HermesServer, proxy: HttpProxy, host: str
) -> None:
    async with Client(server.node(url=f"http://{host}:{server.port}")) as client:
        answer = await client.request("GET", "/health")
    assert answer.status == 200
    assert not answer.proxied
    assert proxy.connections == 0


@pytest.mark.parametrize(
    "host",
    [
        "10.1.2.3",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.1.1",
        "100.64.0.1",
        "[fd00::1]",
        "[fe80::1]",
    ],
)
def test_private_addresses_have_no_proxy(proxy: HttpProxy, host: str) -> None:
    node = Node("n", url=f"http://{host}:8642")
    assert Client(node).proxy is None


@pytest.mark.parametrize("host", ["node.invalid", "8.8.8.8", "[2001:4860:4860::8888]"])
def test_others_have_one(proxy: HttpProxy, host: str) -> None:
    assert Client(Node("n", url=f"http://{host}:8642")).proxy == proxy.url


async def test_a_far_node_is_asked_through_it(server: HermesServer, proxy: HttpProxy) -> None:
    node = server.node(url=FAR)
    async with Client(node) as client:
        answer = await client.request("GET", "/health/detailed")
    assert answer.status == 200
    assert answer.proxied
    assert proxy.requests[0].target == f"{FAR}/health/detailed"
    assert len(server.received("GET /health/detailed")) == 1


async def test_asked_for_by_the_node(server: HermesServer, proxy: HttpProxy) -> None:
    async with Client(server.node(use_proxy=True)) as client:
        assert (await client.request("GET", "/health")).proxied
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("value", ["node.invalid", ".invalid", "*", "other, node.invalid:8642"])
async def test_no_proxy(proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("NO_PROXY", value)
    node = Node("n", url=FAR)
    async with Client(node) as client:
        await failure(NameNotFound, node, client.health())
    assert proxy.connections == 0


async def test_a_proxy_without_scheme(
    server: HermesServer, proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
    async with Client(server.node(url=FAR)) as client:
        assert (await client.health()).status == "ok"


async def test_the_proxy_itself_answers(server: HermesServer, proxy: HttpProxy) -> None:
    proxy.refuse_with = 403
    node = server.node(url=FAR)
    async with Client(node) as client:
        error = await failure(AuthenticationFailed, node, client.health())
    assert "Blocked by policy" in error.message
    assert "squid/6.6" in error.message
    assert "proxy that the environment names" in (error.hint or "")


async def test_a_proxy_that_cannot_reach_the_node(proxy: HttpProxy) -> None:
    proxy.upstream = None
    node = Node("n", url=FAR)
    async with Client(node) as client:
        error = await failure(ServerFailure, node, client.health())
    assert "NO_PROXY" in (error.hint or "")


async def test_a_dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://user:pass-word-1234@127.0.0.1:{free_port()}")
    node = Node("n", url=FAR)
    async with Client(node) as client:
        error = await failure(ConnectionRefused, node, client.health())
    assert "proxy http://127.0.0.1" in error.message
    assert "NO_PROXY=node.invalid" in (error.hint or "")
    assert "pass-word-1234" not in f"{error.message}{error.hint}{error.url}"


async def test_a_proxy_of_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://no-such-proxy.invalid:3128")
    node = Node("n", url=FAR)
    async with Client(node) as client:
        error = await failure(NameNotFound, node, client.health())
    assert "no-such-proxy.invalid of the proxy" in error.message


async def test_silence_behind_a_proxy(server: HermesServer, proxy: HttpProxy) -> None:
    server.faults.hang()
    node = server.node(url=FAR, timeout=0.4)
    async with Client(node) as client:
        error = await failure(NoAnswer, node, client.health())
    assert f"through the proxy {proxy.url}" in error.message


@pytest.mark.parametrize("value", ["socks5://127.0.0.1:1080", "ftp://127.0.0.1:21", "http://[::1"])
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ALL_PROXY", value)
    with pytest.raises(ConfigurationError) as caught:
        Client(Node("n", url=FAR))
    assert "NO_PROXY" in (caught.value.hint or "")


async def test_tls_through_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("node.invalid").configure_cert(context)
    with HermesServer(tls=context) as server, HttpProxy(server.port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        node = server.node(url="https://node.invalid:8642", ca_file=tmp_path / "ca.pem")
        async with Client(node) as client:
            answer = await client.request("GET", "/health/detailed")
        assert answer.status == 200
        assert answer.proxied
        assert [request.method for request in proxy.requests] == ["CONNECT"]
        assert "authorization" not in proxy.requests[0].headers, "the key is the node's alone"


@pytest.mark.parametrize("code", [403, 407])
async def test_a_tunnel_refused(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with HttpProxy() as proxy:
        proxy.refuse_with = code
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        node = Node("n", url="https://node.invalid:8642")
        async with Client(node) as client:
            error = await failure(
                AuthenticationFailed if code == 407 else Unreachable, node, client.health()
            )
    assert f"the proxy {proxy.url}" in error.message
    assert str(code) in error.message
