"""TLS as it goes right and wrong, with certificates made for the test."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from hermes_ctl.api.client import Client
from hermes_ctl.config import Node
from hermes_ctl.errors import (
    ConfigurationError,
    ConnectionLost,
    ConnectTimeout,
    EmptyReply,
    NotHermes,
    TlsFailure,
)
from tests.faults.explained import assert_explained, failure
from tests.faults.proxy import Link
from tests.faults.server import HermesServer

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file


def tls_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@pytest.fixture
def tls_server(authority: trustme.CA) -> Iterator[HermesServer]:
    with HermesServer(tls=tls_context(authority.issue_cert("127.0.0.1"))) as server:
        yield server


async def test_own_authority(tls_server: HermesServer, ca_file: Path) -> None:
    async with Client(tls_server.node(ca_file=ca_file)) as client:
        assert (await client.health()).status == "ok"
        assert len(await client.skills()) == 2


async def test_unknown_authority(tls_server: HermesServer) -> None:
    node = tls_server.node()
    async with Client(node) as client:
        error = await failure(TlsFailure, node, client.detailed_health())
    assert "--ca-file" in (error.hint or "")
    assert tls_server.requests == [], "the key is not sent to whoever answers"


async def test_insecure(tls_server: HermesServer) -> None:
    async with Client(tls_server.node(insecure=True)) as client:
        assert (await client.health()).status == "ok"


async def test_certificate_for_another_name(authority: trustme.CA, ca_file: Path) -> None:
    with HermesServer(tls=tls_context(authority.issue_cert("node.example"))) as server:
        node = server.node(ca_file=ca_file)
        async with Client(node) as client:
            error = await failure(TlsFailure, node, client.health())
    assert "another name" in (error.hint or "")


async def test_expired_certificate(authority: trustme.CA, ca_file: Path) -> None:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    certificate = authority.issue_cert("127.0.0.1", not_after=yesterday)
    with HermesServer(tls=tls_context(certificate)) as server:
        node = server.node(ca_file=ca_file)
        async with Client(node) as client:
            error = await failure(TlsFailure, node, client.health())
    assert "expired" in error.message


async def test_https_asked_of_a_plain_port(server: HermesServer) -> None:
    with Link(server.port) as link:
        link.greeting = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        node = server.node(url=link.url.replace("http:", "https:"))
        async with Client(node) as client:
            error = await failure(TlsFailure, node, client.health())
    assert "http:// instead of https://" in (error.hint or "")


async def test_http_asked_of_a_tls_port(tls_server: HermesServer) -> None:
    node = tls_server.node(url=tls_server.url.replace("https:", "http:"))
    async with Client(node) as client:
        with pytest.raises((NotHermes, ConnectionLost)) as caught:
            await client.health()
    assert_explained(caught.value, node)
    assert "https" in (caught.value.hint or "") or "http or https" in (caught.value.hint or "")


async def test_handshake_that_nobody_answers(server: HermesServer) -> None:
    with Link(server.port) as link:
        link.stall()
        node = server.node(url=link.url.replace("http:", "https:"), timeout=0.4)
        async with Client(node) as client:
            error = await failure(ConnectTimeout, node, client.health())
    assert "handshake" in error.message


async def test_client_certificate_wanted(authority: trustme.CA, ca_file: Path) -> None:
    context = tls_context(authority.issue_cert("127.0.0.1"))
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    with HermesServer(tls=context) as server:
        node = server.node(ca_file=ca_file)
        async with Client(node) as client:
            with pytest.raises((TlsFailure, EmptyReply)) as caught:  # by the version of TLS
                await client.health()
    assert_explained(caught.value, node)
    assert "client certificate" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "content", [None, "", "no certificate", "-----BEGIN CERTIFICATE-----\nxx\n"]
)
def test_ca_file_that_cannot_be_used(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        Client(Node("n", url="https://127.0.0.1:1", ca_file=file))
    assert str(file) in caught.value.message
    assert caught.value.hint
