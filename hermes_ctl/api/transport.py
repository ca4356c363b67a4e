"""HTTP to one origin: the bearer, the limits, the proxy.

Nothing is retried here and no redirect is followed. The key is sent to the node's origin alone,
because no other origin can be asked. What can go wrong on the way is told apart in `failures`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from hermes_ctl import __version__
from hermes_ctl.api.answers import Answer
from hermes_ctl.api.events import EventStream
from hermes_ctl.api.failures import Attempt
from hermes_ctl.config import Node
from hermes_ctl.errors import ConfigurationError, MalformedAnswer, UsageError
from hermes_ctl.secrets import Secret
from hermes_ctl.text import one_line

BODY_LIMIT: Final = 256 * 1024 * 1024
"""No answer is read beyond this many bytes: a node that floods does not fill our memory."""

STREAM_SILENCE: Final = 90.0
"""Seconds without one byte after which a stream is dead: three keepalives of 30 s (field-notes 11)."""


_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "keep-alive",
    "User-Agent": f"hermesctl/{__version__}",
}

_CONTROL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f]"
)  # Hermes answers 400 and repeats the value (wire.md, 1)


class OwnKey:
    """Marks "the node's own key", so that None can mean "no key at all"."""


OWN_KEY: Final = OwnKey()


class Transport:
    """A pool of connections to one node. Use it as an async context manager.

    Raises `ConfigurationError` for a CA file or a proxy that cannot be used.
    """

    def __init__(self, node: Node, *, connections: int = 20) -> None:
        self.node = node
        proxy = _proxy_for(node)
        self.shown_proxy = _without_login(proxy) if proxy else None
        # httpcore's own queue looks at every connection for every request that waits in it.
        self._free = asyncio.Semaphore(connections)
        try:
            # httpx's client would add cookies, redirects and the environment, none of which is wanted.
            self._http = httpx.AsyncHTTPTransport(
                verify=_verification(node),
                proxy=httpx.Proxy(proxy) if proxy else None,
                trust_env=False,
                limits=httpx.Limits(
                    max_connections=connections, max_keepalive_connections=connections
                ),
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise ConfigurationError(
                f"the proxy that the environment names cannot be used: {_without_login(str(error))}",
                hint="HTTP_PROXY and HTTPS_PROXY take http://HOST:PORT; NO_PROXY=HOST goes without",
                url=node.url,
            ) from None

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
        """The address of a route template, each value percent-encoded as one path segment.

        Raises `UsageError` for a value that would lead to another route (`..`) or to none.
        """
        quoted = {name: _segment(value) for name, value in values.items()}
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
        Raises `UsageError` or the `Unreachable` family where nothing was sent, `NoAnswer`,
        `ConnectionLost`, `NotHermes` or `MalformedAnswer` where something was.
        """
        attempt = self._attempt(route, values, timeout or self.node.timeout)
        began = time.monotonic()
        with attempt.translated():
            request = self._build(attempt, method, headers, key, query, json, content)
            async with asyncio.timeout(attempt.limit), self._free:
                response = await self._send(request)
                try:
                    return await self._answer(method, route, response, began, whole=True)
                finally:
                    await response.aclose()

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        route: str,
        *,
        values: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        key: Secret | OwnKey | None = OWN_KEY,
        timeout: float | None = None,
        silence: float = STREAM_SILENCE,
    ) -> AsyncIterator[tuple[EventStream | None, Answer]]:
        """Open an event stream; it is always closed.

        Yields the stream with the head of its answer, or None with the whole answer where something
        else came. The head has to come within `timeout` seconds (default: the node's); then there
        is no limit on the whole duration, and `silence` seconds without a byte end it with
        `NoAnswer`.
        """
        attempt = self._attempt(route, values, timeout or self.node.timeout)
        given = {
            "Accept": "text/event-stream",
            "Cache-Control": "no-store",
            "Accept-Encoding": "identity",
            **(headers or {}),
        }
        began = time.monotonic()
        async with contextlib.AsyncExitStack() as held:
            with attempt.translated():
                request = self._build(attempt, method, given, key, None, json, content, silence)
                async with asyncio.timeout(attempt.limit):
                    await held.enter_async_context(self._free)
                    response = await self._send(request)
                    held.push_async_callback(response.aclose)
                    whole = not _is_stream(response)
                    answer = await self._answer(method, route, response, began, whole=whole)
            if whole:
                yield None, answer
                return
            attempt.streaming, attempt.limit = True, silence
            yield EventStream(response, attempt.translated), answer

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """The head of the answer; its body is read from it, and it has to be closed."""
        response = await self._http.handle_async_request(request)
        response.request = request
        return response

    def _attempt(self, route: str, values: Mapping[str, str] | None, limit: float) -> Attempt:
        url = self.url_of(route, values or {})
        return Attempt(url, limit, self.shown_proxy)

    def _build(
        self,
        attempt: Attempt,
        method: str,
        headers: Mapping[str, str] | None,
        key: Secret | OwnKey | None,
        query: Mapping[str, str | int] | None,
        json: Any,
        content: bytes | None,
        silence: float | None = None,
    ) -> httpx.Request:
        """The request, traced. Header values are sent as UTF-8, which Hermes takes (wire.md, 1)."""
        secret = self.node.key if isinstance(key, OwnKey) else key
        given = {**(headers or {})}
        named = {name.lower() for name in given}
        given.update({name: value for name, value in _HEADERS.items() if name.lower() not in named})
        if secret:
            given["Authorization"] = f"Bearer {secret.reveal()}"
        for name, value in given.items():
            if _CONTROL.search(value):
                raise UsageError(
                    f"the header {name} cannot be sent: it would hold a control character",
                    hint="look at the key, the session key and the ids; nothing was sent",
                    url=attempt.url,
                )
        try:
            request = httpx.Request(
                method,
                attempt.url,
                params=query,
                json=json,
                content=content,
                headers={name.encode(): value.encode() for name, value in given.items()},
                extensions={
                    "trace": attempt.trace,
                    "timeout": httpx.Timeout(None, read=silence).as_dict(),
                },
            )
        except ValueError as error:
            raise UsageError(
                f"the request cannot be written: {one_line(_why(error), 120)}",
                hint="is what was typed valid UTF-8, and are its numbers finite? Nothing was sent",
                url=attempt.url,
            ) from None
        attempt.url = str(request.url)
        return request

    async def _answer(
        self, method: str, route: str, response: httpx.Response, began: float, *, whole: bool
    ) -> Answer:
        """The answer, with its body where it is wanted `whole`."""
        network = response.extensions.get("network_stream")
        peer = network.get_extra_info("server_addr") if network else None
        body = await self._read(response) if whole else b""
        return Answer(
            method=method,
            route=route,
            url=str(response.request.url),
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=body,
            elapsed=time.monotonic() - began,
            proxied=self.shown_proxy is not None,
            peer=str(peer[0]) if isinstance(peer, tuple) else None,
        )

    async def _read(self, response: httpx.Response) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > BODY_LIMIT:
                raise MalformedAnswer(
                    f"the answer is larger than {BODY_LIMIT / 1024 / 1024:g} MiB and was cut off",
                    hint="no answer of Hermes is that long: is the address right?",
                    url=str(response.request.url),
                )
            pieces.append(piece)
        return b"".join(pieces)


def _is_stream(response: httpx.Response) -> bool:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status_code == 200 and kind == "text/event-stream"


def _why(error: ValueError) -> str:
    """The reason without the text at fault, which may be the key."""
    return error.reason if isinstance(error, UnicodeEncodeError) else str(error)


def _segment(value: str) -> str:
    if value in ("", ".", ".."):
        raise UsageError(f"{value!r} cannot be an id", hint="ids look like run_85eb76...")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise UsageError(
            "an id holds text that is not valid Unicode", hint="ids look like run_85eb76..."
        ) from None


def _proxy_for(node: Node) -> str | None:
    """The proxy that the environment names for this node. Loopback and private addresses have none
    unless the node asks for it: proxies have no business there (field-notes 27)."""
    proxies = getproxies()
    address = urlsplit(node.url)
    if not node.use_proxy and _is_private(address.hostname or ""):
        return None
    if not node.use_proxy and proxy_bypass(address.netloc):
        return None
    proxy = proxies.get(address.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _is_private(host: str) -> bool:
    """True for `localhost` and for addresses that are not of the public network."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False


def _without_login(url: str) -> str:
    """`url` without the user and password that a proxy's address often holds."""
    scheme, separator, rest = url.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]


def _verification(node: Node) -> ssl.SSLContext:
    """How the server's certificate is verified: one context for all nodes that want the same."""
    if node.insecure or not node.url.startswith("https:"):
        return _no_verification()  # plain HTTP needs no certificates, and loading them costs time
    if node.ca_file is None:
        return _authorities()
    try:
        return _authorities_of(node.ca_file, node.ca_file.stat().st_mtime_ns)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the CA file {node.ca_file} cannot be used: {error}",
            hint="--ca-file takes a PEM file with the certificates to trust",
        ) from None


@cache
def _no_verification() -> ssl.SSLContext:
    return httpx.create_ssl_context(verify=False, trust_env=False)


@cache
def _authorities() -> ssl.SSLContext:
    """Without `--ca-file`: the authorities of this machine and those that httpx brings along."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


@cache
def _authorities_of(file: Path, _changed: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(file))
