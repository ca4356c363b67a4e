"""What httpx's exceptions mean to an operator: the one place that knows.

An `Attempt` goes along with a request and notes how far it came, so that "nothing was sent" and
"sent, and then lost" are told apart by what happened and not by the name of an exception.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from hermes_ctl.errors import (
    AuthenticationFailed,
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
    UsageError,
)
from hermes_ctl.text import one_line

_SPEAKS_PLAIN_HTTP: Final = ("WRONG_VERSION", "RECORD_LAYER", "PACKET_LENGTH", "HTTP_REQUEST")
_WRONG_NAME: Final = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_PHASES: Final = frozenset(
    {
        "connect_tcp",
        "start_tls",
        "send_request_headers",
        "send_request_body",
        "receive_response_headers",
        "receive_response_body",
    }
)
_WAIT: Final = "to wait until it is back: hermesctl check --wait 60s"


@dataclass(slots=True)
class Attempt:
    """One request under way. `limit` is its time in seconds, `proxy` the proxy's address or None,
    `phase` the last thing that httpcore began (empty while it waits for a free connection)."""

    url: str
    limit: float
    proxy: str | None = None
    streaming: bool = False
    phase: str = ""

    async def trace(self, name: str, _info: Any) -> None:
        """httpcore's `trace` extension: `http11.send_request_headers.started` and the like."""
        *_, step, state = name.split(".")
        if state == "started" and step in _PHASES:
            self.phase = step

    @property
    def host(self) -> str:
        """The node's host and port, without user information."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def peer(self) -> str:
        """Whom the connection is made to: the node, or the proxy before it."""
        return f"the proxy {self.proxy}" if self.proxy else self.host

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Raises what went wrong inside as an error of `hermes_ctl.errors`."""
        try:
            yield
        except TimeoutError:
            raise _out_of_time(self) from None
        except UnicodeError:  # a label of the name is too long for the resolver
            raise _name_not_found(self) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise _translate(self, error) from None


def _out_of_time(attempt: Attempt) -> HermesctlError:
    """The whole request took longer than its limit; the phase tells what it was waiting for."""
    within = f"within {attempt.limit:g} s"
    longer = f"--timeout {max(30.0, 3 * attempt.limit):.0f}s waits longer"
    if attempt.phase == "":
        return ConnectTimeout(
            f"every connection to {attempt.host} was in use, and none came free {within}",
            hint=f"the node answers slowly: {longer}",
            url=attempt.url,
        )
    if attempt.phase == "connect_tcp":
        return ConnectTimeout(
            f"no connection to {attempt.peer} {within}",
            hint="the host is down, a firewall drops the packets, or its name is looked up in "
            f"vain; {longer}",
            url=attempt.url,
        )
    if attempt.phase == "start_tls":
        return ConnectTimeout(
            f"{attempt.host} took the connection, but did not answer the TLS handshake {within}",
            hint="does the port speak TLS? If not: http:// instead of https://",
            url=attempt.url,
        )
    begun = attempt.phase == "receive_response_body"
    via = f" through {attempt.peer}" if attempt.proxy else ""
    return NoAnswer(
        f"{attempt.host} began to answer{via}, but was not done {within}"
        if begun
        else f"{attempt.host} took the request{via}, but did not answer {within}",
        hint=f"the node is busy or hangs; {longer}",
        url=attempt.url,
    )


def _translate(attempt: Attempt, error: Exception) -> HermesctlError:
    reason = one_line(str(error), 200)
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return ConfigurationError(
            f"the address cannot be used: {reason}",
            hint="--url takes http://HOST:PORT or https://HOST:PORT",
            url=attempt.url,
        )
    if isinstance(error, httpx.LocalProtocolError):
        # httpx's own words would show the header's value, which may be the key.
        return UsageError(
            "a header of this request cannot be sent: it holds a control character, or ends "
            "with a blank",
            hint="look at the key, the session key and the ids; nothing was sent",
            url=attempt.url,
        )
    if isinstance(error, httpx.ProxyError):
        return _proxy_refused(attempt, reason)
    if isinstance(error, (httpx.ConnectTimeout, httpx.PoolTimeout)):
        return _out_of_time(attempt)
    if isinstance(error, httpx.TimeoutException):
        return _silent(attempt)
    if isinstance(error, httpx.NetworkError):
        return _network_failure(attempt, error, reason)
    if isinstance(error, httpx.RemoteProtocolError):
        return _protocol_failure(attempt, reason)
    return MalformedAnswer(
        f"the answer of {attempt.host} cannot be decoded: {reason}",
        hint="does a proxy between here and the node compress or change answers?",
        url=attempt.url,
    )


def _silent(attempt: Attempt) -> NoAnswer:
    return NoAnswer(
        f"the event stream of {attempt.host} was silent for {attempt.limit:g} s, without a keepalive",
        hint="the link is dead; the run may go on: hermesctl status",
        url=attempt.url,
    )


def _proxy_refused(attempt: Attempt, reason: str) -> HermesctlError:
    message = f"{attempt.peer} did not let the request through to {attempt.host}: {reason}"
    hint = f"set NO_PROXY={urlsplit(attempt.url).hostname}, or unset the proxy variables"
    if reason.startswith("407"):
        return AuthenticationFailed(message, status=407, hint=hint, url=attempt.url)
    return Unreachable(message, hint=hint, url=attempt.url)


def _network_failure(attempt: Attempt, error: Exception, reason: str) -> HermesctlError:
    """Refused, reset, unknown name, TLS: what the operating system or OpenSSL said."""
    causes = list(_chain(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return _tls_failure(attempt, cause)
    if not isinstance(error, httpx.ConnectError):
        lost = StreamCut if attempt.streaming else ConnectionReset
        return lost(
            f"the connection to {attempt.peer} was reset after the request was sent",
            hint=_after_loss(attempt),
            url=attempt.url,
        )
    numbers = {cause.errno for cause in causes if isinstance(cause, OSError)}
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return _name_not_found(attempt, f": {cause.strerror}")
    if errno.ECONNREFUSED in numbers:
        return _refused(attempt)
    if errno.ECONNRESET in numbers:
        return ConnectionReset(
            f"{attempt.peer} reset the connection while it was being made",
            hint=f"the gateway is starting or stopping, or a firewall is in the way; {_WAIT}",
            url=attempt.url,
        )
    if errno.ETIMEDOUT in numbers:
        return _out_of_time(attempt)
    return Unreachable(
        f"no connection to {attempt.peer}: {reason}",
        hint="is the network up, and is there a route to that host?",
        url=attempt.url,
    )


def _after_loss(attempt: Attempt) -> str:
    return "the run may go on: hermesctl status" if attempt.streaming else _WAIT


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


def _name_not_found(attempt: Attempt, reason: str = "") -> NameNotFound:
    name = urlsplit(attempt.proxy or attempt.url).hostname
    if attempt.proxy:
        return NameNotFound(
            f"the name {name} of the proxy is not known here{reason}",
            hint="look at HTTP_PROXY, HTTPS_PROXY and ALL_PROXY",
            url=attempt.url,
        )
    return NameNotFound(
        f"the name {name} is not known here{reason}",
        hint="check the spelling of --url or of the context: hermesctl config explain",
        url=attempt.url,
    )


def _refused(attempt: Attempt) -> ConnectionRefused:
    """Ranked by what the field reports (field-notes 25): a weak key closes the port silently."""
    if attempt.proxy:
        return ConnectionRefused(
            f"nothing listens at {attempt.peer}, which the environment names",
            hint=f"set NO_PROXY={urlsplit(attempt.url).hostname}, or unset the proxy variables",
            url=attempt.url,
        )
    return ConnectionRefused(
        f"nothing listens on {attempt.host}",
        hint=(
            "on the node: is the gateway running (hermes gateway run), is API_SERVER_ENABLED=true, "
            "has API_SERVER_KEY 16 characters or more (otherwise the port stays closed), "
            "and is it bound to an address that is reachable from here?"
        ),
        url=attempt.url,
    )


def _protocol_failure(attempt: Attempt, reason: str) -> HermesctlError:
    if "without sending a response" in reason:
        https = attempt.url.startswith("https:")
        other = "wants a client certificate" if https else "wants https:// instead of http://"
        return EmptyReply(
            f"{attempt.peer} closed the connection without an answer",
            hint=f"the gateway is starting or stopping, or the port {other}; {_WAIT}",
            url=attempt.url,
        )
    if "peer closed connection" in reason or "incomplete" in reason:
        lost = StreamCut if attempt.streaming else ConnectionReset
        return lost(
            f"{attempt.peer} closed the connection in the middle of its answer",
            hint=_after_loss(attempt),
            url=attempt.url,
        )
    return NotHermes(
        f"{attempt.peer} does not speak HTTP: {reason}",
        hint="check host, port and scheme (http or https)",
        url=attempt.url,
    )


def _tls_failure(attempt: Attempt, cause: ssl.SSLError) -> TlsFailure:
    text = str(getattr(cause, "verify_message", "") or cause.reason or cause)
    code = getattr(cause, "verify_code", None)
    if any(word in text for word in _SPEAKS_PLAIN_HTTP):
        hint = "the port speaks plain HTTP: http:// instead of https://"
    elif code in _WRONG_NAME:
        hint = "the certificate is for another name: use that name in --url"
    elif code == _EXPIRED:
        hint = "renew the node's certificate; is the clock right, here and there?"
    elif isinstance(cause, ssl.SSLCertVerificationError):
        hint = "--ca-file FILE trusts a private authority; --insecure turns the check off"
    else:
        hint = "check scheme and port; does the node want a client certificate?"
    return TlsFailure(
        f"TLS with {attempt.host} failed: {one_line(text, 120)}", hint=hint, url=attempt.url
    )
