"""One HTTP answer, and the sentence that it deserves when it is not the one hoped for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from hermes_ctl import clock
from hermes_ctl.errors import (
    AtCapacity,
    AuthenticationFailed,
    HermesctlError,
    MalformedAnswer,
    NotHermes,
    ObjectNotFound,
    Redirected,
    Refused,
    RequestRejected,
    RouteNotFound,
    RunNotFound,
    ServerFailure,
)
from hermes_ctl.text import one_line

_LIMIT = re.compile(r"\(max (\d{1,9})\)")
_TITLE = re.compile(rb"<title[^>]*>(.{1,80}?)</title>", re.IGNORECASE | re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_DASHBOARD_PORT = ":9119"
_LONGEST_WAIT: Final = 86_400.0

_REFUSED_HINTS: Final = {
    "approval_not_pending": "nothing waits for an answer, or nothing with that --request-id: hermesctl status",
    "approval_not_active": "the run has ended; how: hermesctl status",
    "run_not_accepting_steer": "only a run that is at work can be steered; its state: hermesctl status",
    "session_exists": "take another id, or look at that one: hermesctl sessions show ID",
    "session_active_turn": "a run is using the session: hermesctl runs",
    "idempotency_key_conflict": "that key belongs to another request; a new submission needs a new one",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request.

    `route` is the path template that was asked for (`/v1/runs/{run_id}`), `url` the address
    without secrets, `headers` lower-case names, `elapsed` seconds from the first byte sent to the
    last byte read, `proxied` true where an environment proxy carried the request, `peer` the address
    that the connection was made to (which of its addresses `localhost` was, or the proxy's).
    """

    method: str
    route: str
    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed: float
    proxied: bool = False
    peer: str | None = None

    @property
    def content_type(self) -> str:
        """The media type alone: `application/json`."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        start = self.body[:256].lstrip().lower()
        return self.content_type == "text/html" or start.startswith((b"<!doctype", b"<html"))

    @property
    def title(self) -> str | None:
        """The title of a web page."""
        found = _TITLE.search(self.body[:4096])
        return one_line(found[1].decode("utf-8", "replace"), 80) if found else None

    def json(self) -> Any:
        """The body as JSON. Raises `NotHermes` for HTML, `MalformedAnswer` for anything broken."""
        if self.is_html:
            raise _not_hermes(self)
        try:
            return _parsed(self.body)
        except (ValueError, RecursionError):
            shown = one_line(self.body[:60].decode("utf-8", "replace")) or "nothing"
            raise MalformedAnswer(
                f"{self.method} {self.route} answered {self.status} with a body that is not JSON: {shown}",
                hint=_by_proxy(self)
                or "is this address a Hermes API server? See: hermesctl health",
                url=self.url,
            ) from None

    def error(self) -> tuple[str, str | None]:
        """(message, code) of an error body in any of the five shapes that Hermes uses (wire.md, 11)."""
        try:
            document = _parsed(self.body)
        except (ValueError, RecursionError):
            return one_line(self.body[:300].decode("utf-8", "replace")), None
        inner = document.get("error", document) if isinstance(document, dict) else document
        if isinstance(inner, dict):
            message = inner.get("message") or inner.get("detail") or inner
            code = inner.get("code")
            return one_line(str(message), 300), code if isinstance(code, str) else None
        return one_line(str(inner), 300), None

    @property
    def retry_after(self) -> float | None:
        """Seconds that `Retry-After` asks for, in either of its forms, at most a day; None without."""
        value = self.headers.get("retry-after", "").strip()
        if value.isascii() and value.isdigit():
            return min(float(value), _LONGEST_WAIT)
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        wanted = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return min(max(0.0, (wanted - clock.now()).total_seconds()), _LONGEST_WAIT)


def _parsed(body: bytes) -> Any:
    """JSON whose texts can all be written out again: half of a surrogate pair becomes `\\ufffd`."""
    document = json.loads(body)
    return _mended(document) if b"\\ud" in body or b"\\uD" in body else document


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(name): _mended(item) for name, item in value.items()}
    return value


def check_status(answer: Answer, *, key_source: str | None) -> Answer:
    """`answer` itself where its status is 2xx; otherwise the error that its status means.

    `key_source` says where the key that was sent came from, None where none was sent.
    """
    if 200 <= answer.status < 300:
        return answer
    raise _status_error(answer, key_source)


def not_a_stream(answer: Answer) -> HermesctlError:
    """A 2xx where an event stream was asked for, and something else came."""
    if answer.is_html:
        return _not_hermes(answer)
    kind = answer.content_type or "no content type"
    return MalformedAnswer(
        f"{answer.method} {answer.route} answered {answer.status} with {kind} instead of text/event-stream",
        hint=_by_proxy(answer) or "does a proxy before the node change answers? Ask it directly",
        url=answer.url,
    )


def _status_error(answer: Answer, key_source: str | None) -> HermesctlError:
    status, url = answer.status, answer.url
    message, code = (_page(answer), None) if answer.is_html else answer.error()
    said = f"{answer.method} {answer.route} answered {status}"
    if 300 <= status < 400:
        return _redirected(answer, said)
    if status in (401, 403, 407):
        return AuthenticationFailed(
            f"{said}: {message or 'refused'}",
            status=status,
            code=code,
            hint=_key_hint(answer, key_source),
            url=url,
        )
    if answer.is_html and status < 500:
        return _not_hermes(answer)
    if status == 404:
        return _not_found(answer, said, message, code)
    if status in (409, 422):
        hint = _REFUSED_HINTS.get(code or "", "the state of the run or session forbids it")
        return Refused(f"{said}: {message}", status=status, code=code, url=url, hint=hint)
    if status == 429:
        return _at_capacity(answer, said, message, code)
    if status >= 500:
        return _server_failure(answer, said, message, code)
    return RequestRejected(
        f"{said}: {message}", status=status, code=code, url=url, hint=_rejected_hint(answer)
    )


def _page(answer: Answer) -> str:
    """`a web page titled '502 Bad Gateway' from nginx/1.24.0, not from Hermes`."""
    titled = f" titled {answer.title!r}" if answer.title else ""
    server = one_line(answer.headers.get("server", ""), 60)
    return f"a web page{titled}{f' from {server}' if server else ''}, not from Hermes"


def _by_proxy(answer: Answer) -> str | None:
    """What to do where a proxy of the environment carried the request, and so may have answered."""
    if not answer.proxied:
        return None
    return (
        "the proxy that the environment names may have answered: set NO_PROXY, or unset HTTP_PROXY"
    )


def _redirected(answer: Answer, said: str) -> Redirected:
    target = one_line(answer.headers.get("location", "nowhere"), 200)
    return Redirected(
        f"{said}, a redirect to {target}, which is not followed",
        hint="if that is the node, put its address into --url; the key never goes to another origin",
        url=answer.url,
    )


def _key_hint(answer: Answer, key_source: str | None) -> str:
    if answer.is_html or answer.status == 407:
        return (
            _by_proxy(answer)
            or "something before the node wants a login of its own: ask the node directly"
        )
    if answer.status == 403:
        return "403 comes from a proxy, or from a request that carried an Origin header"
    if key_source is None:
        return "no key was sent; where one is looked for: hermesctl config explain"
    return f"the key came from {key_source}; it must be the node's API_SERVER_KEY: hermesctl config explain"


def _at_capacity(answer: Answer, said: str, message: str, code: str | None) -> AtCapacity:
    found = _LIMIT.search(message)
    return AtCapacity(
        f"{said}: {message or 'at capacity'}",
        status=answer.status,
        code=code,
        url=answer.url,
        retry_after=answer.retry_after,
        limit=int(found[1]) if found else None,
        hint="wait for a run to end, or raise gateway.api_server.max_concurrent_runs on the node",
    )


def _rejected_hint(answer: Answer) -> str:
    if answer.status == 413:
        return "the request is larger than the server takes (10 MB on Hermes)"
    if answer.status == 405:
        allowed = one_line(answer.headers.get("allow", "other methods"), 60)
        return f"this route takes {allowed}; what the node offers: hermesctl capabilities"
    return "the request is not what this Hermes takes; what it offers: hermesctl capabilities"


def _not_found(answer: Answer, said: str, message: str, code: str | None) -> HermesctlError:
    """A route that does not exist answers in plain text; an object that does not exist in JSON under
    `error`, mostly with a code (wire.md, 11)."""
    url = answer.url
    if code == "run_not_found":
        hint = (
            "Hermes forgets a run one hour after its end, and all runs at a restart: hermesctl runs"
        )
        return RunNotFound(f"{said}: {message}", status=404, code=code, url=url, hint=hint)
    if "unconfigured profile" in message:
        hint = "the node does not serve this profile: is gateway.multiplex_profiles on, and the name right?"
        return RouteNotFound(f"{said}: {message}", status=404, code=code, url=url, hint=hint)
    if b'"error"' in answer.body and answer.content_type == "application/json":
        hint = "ids are listed by: hermesctl sessions list, hermesctl jobs list, hermesctl runs"
        return ObjectNotFound(f"{said}: {message}", status=404, code=code, url=url, hint=hint)
    return RouteNotFound(
        f"{said}: this server has no such route",
        status=404,
        code=code,
        url=url,
        hint="an older Hermes, a wrong path in --url, or not Hermes at all: hermesctl capabilities",
    )


def _server_failure(answer: Answer, said: str, message: str, code: str | None) -> ServerFailure:
    hint = "the gateway's log on the node has the reason: the folder logs in its HERMES_HOME"
    if answer.is_html:
        hint = "a proxy stands before the node and cannot reach it: ask the node directly"
    if code == "gateway_draining":
        hint = "the gateway is shutting down; to wait until it is back: hermesctl check --wait 60s"
    return ServerFailure(
        f"{said}: {message or 'nothing'}",
        status=answer.status,
        code=code,
        url=answer.url,
        hint=_by_proxy(answer) if answer.is_html and answer.proxied else hint,
    )


def _not_hermes(answer: Answer) -> NotHermes:
    title = answer.title
    if _DASHBOARD_PORT in answer.url or (title and "hermes" in title.lower()):
        hint = (
            "this looks like the Hermes dashboard (port 9119); the API server is on 8642 by default"
        )
    else:
        hint = _by_proxy(answer) or (
            "something else listens there, or a proxy answered: check host and port"
        )
    titled = f" titled {title!r}" if title else ""
    return NotHermes(
        f"{answer.method} {answer.route} answered {answer.status} with a web page{titled}: "
        "not a Hermes API server",
        hint=hint,
        url=answer.url,
    )
