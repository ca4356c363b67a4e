"""One HTTP answer, and the sentence that it deserves when it is not the one hoped for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

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

_LIMIT = re.compile(r"\(max (\d+)\)")
_DASHBOARD_PORT = ":9119"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request.

    `route` is the path template that was asked for (`/v1/runs/{run_id}`), `url` the address
    without secrets, `headers` lower-case names, `elapsed` seconds from the first byte sent to the
    last byte read, `proxied` true where an environment proxy carried the request.
    """

    method: str
    route: str
    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed: float
    proxied: bool = False

    @property
    def content_type(self) -> str:
        """The media type alone: `application/json`."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        start = self.body[:256].lstrip().lower()
        return self.content_type == "text/html" or start.startswith((b"<!doctype", b"<html"))

    def json(self) -> Any:
        """The body as JSON. Raises `NotHermes` for HTML, `MalformedAnswer` for anything broken."""
        if self.is_html:
            raise _not_hermes(self)
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            shown = one_line(self.body[:60].decode("utf-8", "replace")) or "nothing"
            raise MalformedAnswer(
                f"{self.method} {self.route} answered {self.status} with a body that is not JSON: {shown}",
                hint="is this address a Hermes API server? See: hermesctl health",
                url=self.url,
            ) from None

    def error(self) -> tuple[str, str | None]:
        """(message, code) of an error body in any of the five shapes that Hermes uses (wire.md, 11)."""
        try:
            document = json.loads(self.body)
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
        """Seconds that `Retry-After` asks for, in either of its forms; None without one."""
        value = self.headers.get("retry-after", "").strip()
        if not value:
            return None
        if value.isdigit():
            return float(value)
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        return max(0.0, (moment - clock.now()).total_seconds())


def check_status(answer: Answer, *, key_source: str | None) -> Answer:
    """`answer` itself where its status is 2xx; otherwise the error that its status means.

    `key_source` says where the key that was sent came from, None where none was sent.
    """
    if 200 <= answer.status < 300:
        return answer
    raise _status_error(answer, key_source)


def _status_error(answer: Answer, key_source: str | None) -> HermesctlError:
    status, url = answer.status, answer.url
    if 300 <= status < 400:
        target = one_line(answer.headers.get("location", "nowhere"), 200)
        return Redirected(
            f"{answer.method} {answer.route} was redirected ({status}) to {target}; redirects are not followed",
            hint="if that is the node, put its address into --url; the key never goes to another origin",
            url=url,
        )
    message, code = answer.error()
    said = f"{answer.method} {answer.route} answered {status}"
    if status in (401, 403):
        return AuthenticationFailed(
            f"{said}: {message or 'refused'}",
            status=status,
            code=code,
            hint=_key_hint(key_source, status),
            url=url,
        )
    if answer.is_html and status < 500:
        return _not_hermes(answer)
    if status == 404:
        return _not_found(answer, said, message, code)
    if status in (409, 422):
        return Refused(f"{said}: {message}", status=status, code=code, url=url)
    if status == 429:
        found = _LIMIT.search(message)
        return AtCapacity(
            f"{said}: {message or 'at capacity'}",
            status=status,
            code=code,
            url=url,
            retry_after=answer.retry_after,
            limit=int(found[1]) if found else None,
            hint="wait for a run to end, or raise gateway.api_server.max_concurrent_runs on the node",
        )
    if status >= 500:
        return _server_failure(answer, said, message, code)
    hint = "the request body is larger than the server takes" if status == 413 else None
    return RequestRejected(f"{said}: {message}", status=status, code=code, url=url, hint=hint)


def _key_hint(key_source: str | None, status: int) -> str:
    if status == 403:
        return "403 comes from a proxy, or from a request that carried an Origin header"
    if key_source is None:
        return "no key is configured for this node: see hermesctl config explain"
    return f"the key came from {key_source}; it must be the node's API_SERVER_KEY: hermesctl config explain"


def _not_found(answer: Answer, said: str, message: str, code: str | None) -> HermesctlError:
    """A route that does not exist answers in plain text; an object that does not exist in JSON with
    a code (wire.md, 11)."""
    if code == "run_not_found":
        return RunNotFound(
            f"{said}: {message}",
            status=404,
            code=code,
            url=answer.url,
            hint="Hermes forgets a run one hour after its end, and all runs at a restart: hermesctl runs",
        )
    if "profile" in message.lower():
        return RouteNotFound(
            f"{said}: {message}",
            status=404,
            code=code,
            url=answer.url,
            hint="the node does not serve this profile: is gateway.multiplex_profiles on, and the name right?",
        )
    if answer.content_type == "application/json" and message and code != "not_found":
        return ObjectNotFound(f"{said}: {message}", status=404, code=code, url=answer.url)
    return RouteNotFound(
        f"{said}: this server has no such route",
        status=404,
        code=code,
        url=answer.url,
        hint="an older Hermes, a wrong path in --url, or not Hermes at all: hermesctl capabilities",
    )


def _server_failure(answer: Answer, said: str, message: str, code: str | None) -> ServerFailure:
    if answer.is_html:
        via = one_line(answer.headers.get("server", "a proxy"), 60)
        return ServerFailure(
            f"{said} with a web page from {via}, not from Hermes",
            status=answer.status,
            url=answer.url,
            hint="a proxy stands before the node and cannot reach it: ask the node directly",
        )
    hint = None
    if code == "gateway_draining":
        hint = "the gateway is shutting down; try again when it is back (check --wait 60s)"
    return ServerFailure(
        f"{said}: {message or 'nothing'}",
        status=answer.status,
        code=code,
        url=answer.url,
        hint=hint,
    )


def _not_hermes(answer: Answer) -> NotHermes:
    title = re.search(rb"<title[^>]*>(.{1,80}?)</title>", answer.body[:4096], re.I | re.S)
    what = f" titled {one_line(title[1].decode('utf-8', 'replace'))!r}" if title else ""
    if _DASHBOARD_PORT in answer.url or (title and b"hermes" in title[1].lower()):
        hint = (
            "this looks like the Hermes dashboard (port 9119); the API server is on 8642 by default"
        )
    elif answer.proxied:
        hint = "a proxy from the environment answered: unset HTTP_PROXY, or set NO_PROXY"
    else:
        hint = "something else listens there, or a proxy answered: check host and port"
    return NotHermes(
        f"{answer.method} {answer.route} answered {answer.status} with a web page{what}: not a Hermes API server",
        hint=hint,
        url=answer.url,
    )
