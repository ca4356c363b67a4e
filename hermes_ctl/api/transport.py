"""HTTP to one origin: the bearer, the limits, and what can go wrong on the way, told apart.

Nothing is retried here and no redirect is followed. The key is sent to the node's origin alone,
because no other origin can be asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx

from hermes_ctl import __version__
from hermes_ctl.api.answers import Answer
from hermes_ctl.config import Node
from hermes_ctl.errors import (
    ConfigurationError,
    ConnectionRefused,
    ConnectionReset,
    ConnectTimeout,
    EmptyReply,
    HermesctlError,
    MalformedAnswer,
    NameNotFound,
    NoAnswer,
    NotHermes,
    StreamCut,
    TlsFailure,
    Unreachable,
)
from hermes_ctl.secrets import Secret
from hermes_ctl.text import one_line

BODY_LIMIT: Final = 256 * 1024 * 1024
"""No answer is read beyond this many bytes: a node that floods does not fill our memory."""

STREAM_SILENCE: Final = 90.0
"""Seconds without one byte after which a stream is dead: three keepalives of 30 s (field-notes 11)."""


class OwnKey:
    """Marks "the node's own key", so that None can mean "no key at all"."""


OWN_KEY: Final = OwnKey()


class Transport:
    """A pool of connections to one node. Use it as an async context manager."""

    def __init__(self, node: Node, *, connections: int = 20) -> None:
        self.node = node
        self._proxied = node.use_proxy or not _is_private(node.url)
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(node.timeout),
            verify=_verification(node),
            follow_redirects=False,
            trust_env=self._proxied,
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            headers={"User-Agent": f"hermesctl/{__version__}", "Accept": "application/json"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    def url_of(self, route: str, values: Mapping[str, str]) -> str:
        """The address of a route template, each value percent-encoded as one path segment."""
        quoted = {name: quote(value, safe="") for name, value in values.items()}
        return self.node.url + (route.format_map(quoted) if quoted else route)

    async def send(
        self,
        method: str,
        route: str,
        *,
        values: Mapping[str, str] | None = None,
        query: Mapping[str, str | int] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        key: Secret | OwnKey | None = OWN_KEY,
        timeout: float | None = None,
    ) -> Answer:
        """One request and its whole answer, whatever its status.

        `timeout` (default: the node's) bounds the request as a whole, in seconds.
        Raises the `Unreachable` family where nothing was sent, `NoAnswer`, `ConnectionLost`,
        `NotHermes` or `MalformedAnswer` where something was.
        """
        url = self.url_of(route, values or {})
        limit = timeout or self.node.timeout
        began = time.monotonic()
        request = self._http.build_request(
            method,
            url,
            params=query,
            json=json,
            content=content,
            headers={**(headers or {}), **self._authorization(key)},
            timeout=httpx.Timeout(limit),
        )
        with self._translated(str(request.url), limit):
            async with asyncio.timeout(limit):
                response = await self._http.send(request, stream=True)
                try:
                    body = await self._read(response)
                finally:
                    await response.aclose()
        return Answer(
            method=method,
            route=route,
            url=str(request.url),
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=body,
            elapsed=time.monotonic() - began,
            proxied=self._proxied,
        )

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        route: str,
        *,
        values: Mapping[str, str] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        silence: float = STREAM_SILENCE,
    ) -> AsyncIterator[tuple[httpx.Response, Answer | None]]:
        """Open a response to be read piece by piece; it is always closed.

        Yields the response and None where it is an event stream, or the response and its whole
        `Answer` where it is anything else. There is no limit on its whole duration; `silence`
        seconds without a byte end it with `NoAnswer`.
        """
        url = self.url_of(route, values or {})
        request = self._http.build_request(
            method,
            url,
            json=json,
            headers={
                "Accept": "text/event-stream",
                "Cache-Control": "no-store",
                "Accept-Encoding": "identity",
                **(headers or {}),
                **self._authorization(OWN_KEY),
            },
            timeout=httpx.Timeout(self.node.timeout, read=silence),
        )
        began = time.monotonic()
        with self._translated(url, silence, streaming=True):
            response = await self._http.send(request, stream=True)
            try:
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                if response.status_code == 200 and kind == "text/event-stream":
                    yield response, None
                    return
                async with asyncio.timeout(self.node.timeout):
                    body = await self._read(response)
                answer = Answer(
                    method=method,
                    route=route,
                    url=url,
                    status=response.status_code,
                    headers={name.lower(): value for name, value in response.headers.items()},
                    body=body,
                    elapsed=time.monotonic() - began,
                    proxied=self._proxied,
                )
                yield response, answer
            finally:
                await response.aclose()

    async def _read(self, response: httpx.Response) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > BODY_LIMIT:
                raise MalformedAnswer(
                    f"the answer is larger than {BODY_LIMIT // 1024 // 1024} MiB and was cut off",
                    url=str(response.url),
                )
            pieces.append(piece)
        return b"".join(pieces)

    def _authorization(self, key: Secret | OwnKey | None) -> dict[str, str]:
        secret = self.node.key if isinstance(key, OwnKey) else key
        return {"Authorization": f"Bearer {secret.reveal()}"} if secret else {}

    @contextlib.contextmanager
    def _translated(self, url: str, limit: float, *, streaming: bool = False) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise _no_answer(url, limit) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _translate(error, url, limit, self._proxied, streaming) from None


def _is_private(url: str) -> bool:
    """True for loopback, link-local and private addresses, and for `localhost`: proxies have no
    business there (field-notes 27)."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def _verification(node: Node) -> ssl.SSLContext | bool:
    if node.insecure or not node.url.startswith("https:"):
        return False  # plain HTTP needs no certificates, and loading them costs time
    if node.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(node.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the CA file {node.ca_file} cannot be used: {error}",
            hint="--ca-file takes a PEM file with the certificates to trust",
        ) from None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes and the members of groups in it, outermost first."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        waiting.extend([current.__cause__, current.__context__])


def _no_answer(url: str, limit: float) -> NoAnswer:
    return NoAnswer(
        f"connected, but no complete answer within {limit:g} s",
        hint="the node is busy or hangs; --timeout gives it more time",
        url=url,
    )


def _translate(
    error: Exception, url: str, limit: float, proxied: bool, streaming: bool
) -> HermesctlError:
    """The one place that knows what httpx's exceptions mean to an operator."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    reason = one_line(str(error), 200)
    if isinstance(error, httpx.ConnectTimeout):
        return ConnectTimeout(
            f"no connection to {host} within {limit:g} s",
            hint="the host is down, or a firewall drops the packets",
            url=url,
        )
    if isinstance(error, httpx.ProxyError):
        return Unreachable(
            f"the proxy from the environment refused to reach {host}: {reason}",
            hint="unset HTTP_PROXY and HTTPS_PROXY, or add the host to NO_PROXY",
            url=url,
        )
    if isinstance(error, httpx.ConnectError):
        return _connect_error(error, url, host, reason, proxied)
    if isinstance(error, httpx.TimeoutException):
        return _no_answer(url, limit)
    if isinstance(error, httpx.RemoteProtocolError):
        return _protocol_error(reason, url, host, streaming)
    if isinstance(error, httpx.NetworkError):
        lost = StreamCut if streaming else ConnectionReset
        return lost(
            f"the connection to {host} was reset", url=url, hint="hermesctl check --wait 60s"
        )
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return ConfigurationError(f"the address cannot be used: {reason}", url=url)
    if isinstance(error, httpx.DecodingError):
        return MalformedAnswer(f"the answer's compression is broken: {reason}", url=url)
    return MalformedAnswer(f"the exchange failed: {type(error).__name__}: {reason}", url=url)


def _protocol_error(reason: str, url: str, host: str, streaming: bool) -> HermesctlError:
    if "without sending a response" in reason:
        return EmptyReply(
            f"{host} closed the connection without an answer",
            hint="the gateway is starting or stopping, or a TLS port was asked in plain HTTP",
            url=url,
        )
    if "peer closed connection" in reason or "incomplete" in reason:
        lost = StreamCut if streaming else ConnectionReset
        return lost(f"{host} closed the connection in the middle of its answer", url=url)
    return NotHermes(
        f"{host} does not speak HTTP: {reason}",
        hint="check host, port and scheme (http or https)",
        url=url,
    )


def _connect_error(
    error: Exception, url: str, host: str, reason: str, proxied: bool
) -> HermesctlError:
    for cause in _chain(error):
        if isinstance(cause, socket.gaierror):
            return NameNotFound(
                f"the name {urlsplit(url).hostname} is not known here",
                hint="check the spelling of --url or the context",
                url=url,
            )
        if isinstance(cause, ssl.SSLError):
            return _tls_failure(cause, url, host)
        if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
            return _refused(url, host)
        if isinstance(cause, OSError) and cause.errno == errno.ECONNRESET:
            return ConnectionReset(f"{host} reset the connection while it was being made", url=url)
    hint = "a proxy from the environment may be in the way" if proxied else "is the network up?"
    return Unreachable(f"no connection to {host}: {reason}", hint=hint, url=url)


def _refused(url: str, host: str) -> ConnectionRefused:
    """Ranked by what the field reports (field-notes 25): a weak key closes the port silently."""
    return ConnectionRefused(
        f"nothing listens on {host}",
        hint=(
            "on the node: is the gateway running (hermes gateway run), is API_SERVER_ENABLED=true, "
            "has API_SERVER_KEY 16 characters or more (otherwise the port stays closed), "
            "and is it bound to an address that is reachable from here?"
        ),
        url=url,
    )


def _tls_failure(cause: ssl.SSLError, url: str, host: str) -> TlsFailure:
    text = getattr(cause, "verify_message", None) or cause.reason or str(cause)
    if "WRONG_VERSION" in str(text) or "RECORD_LAYER" in str(text):
        hint = "the port speaks plain HTTP: try http:// instead of https://"
    elif isinstance(cause, ssl.SSLCertVerificationError):
        hint = "--ca-file FILE trusts a private authority; --insecure turns the check off"
    else:
        hint = "check scheme and port"
    return TlsFailure(f"TLS with {host} failed: {one_line(str(text), 120)}", hint=hint, url=url)
