"""A request as it is typed for `hermesctl api`: method, path, fields, body, headers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from hermes_ctl.cli.reading import read_bytes, read_text
from hermes_ctl.config import Node
from hermes_ctl.errors import UsageError

_METHOD = re.compile(r"[A-Z]{1,20}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OURS: Final = frozenset({"authorization", "host", "content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `route` is the path alone as the node has it below its address, `query` its
    parameters; `origin` is what stood before the path where a whole URL was typed."""

    method: str
    route: str
    query: tuple[tuple[str, str], ...]
    body: bytes | None
    headers: Mapping[str, str]
    origin: str | None = None

    @property
    def path(self) -> str:
        """The route with its query."""
        return f"{self.route}?{urlencode(self.query)}" if self.query else self.route

    def within(self, node: Node) -> Request:
        """This request below the node's address. Raises `UsageError` for a URL that leads elsewhere:
        the key goes to the node alone."""
        if self.origin is None:
            return self
        ours = urlsplit(node.url)
        theirs = urlsplit(self.origin)
        if (theirs.scheme, theirs.netloc.lower()) != (ours.scheme, ours.netloc.lower()):
            raise UsageError(
                f"{self.origin} is not this node ({node.url}), and its key goes nowhere else",
                hint=f"another node: --url {self.origin}, with its own key",
            )
        if ours.path and not self.route.startswith(f"{ours.path}/"):
            raise UsageError(
                f"the path does not begin with {ours.path}, as all routes of this node do",
                hint="give the path alone, without the address",
            )
        return replace(self, route=self.route.removeprefix(ours.path), origin=None)


def request_of(
    method: str,
    path: str,
    fields: Sequence[str],
    raw_fields: Sequence[str],
    input: str | None,
    headers: Sequence[str],
) -> Request:
    """The request that was typed. Fields go into a JSON body, or into the query where the method has
    no body or `input` gives one. Raises `UsageError` for what is none, before anything is sent."""
    if not _METHOD.fullmatch(method.upper()):
        raise UsageError(f"{method!r} is no method", hint="hermesctl api GET /v1/models")
    origin, route, query = _address(path)
    given = _fields(fields, raw_fields)
    as_query = method.upper() in _BODILESS or input is not None
    sent = _headers(headers)
    body: bytes | None = None
    if input is not None:
        body = read_bytes(input, "--input")
    elif given and not as_query:
        body = json.dumps(given, ensure_ascii=False).encode("utf-8", "surrogateescape")
    if body is not None and "content-type" not in {name.lower() for name in sent}:
        sent["Content-Type"] = "application/json"
    if as_query:
        query += [(name, _as_text(value)) for name, value in given.items()]
    return Request(method.upper(), route, tuple(query), body, {"Accept": "*/*", **sent}, origin)


def _address(path: str) -> tuple[str | None, str, list[tuple[str, str]]]:
    """Origin (None without one), path and query of what was typed as the path."""
    if not path.isprintable():
        raise UsageError(f"the path {path!r} holds a control character", hint="such as /v1/models")
    parts = urlsplit(path)
    origin = None
    if parts.scheme or parts.netloc:
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise UsageError(f"{path!r} is neither a path nor a URL", hint="such as /v1/models")
        origin = f"{parts.scheme}://{parts.netloc}"
    if not parts.path.startswith("/"):
        raise UsageError(f"the path {path!r} has to begin with /", hint="such as /v1/models")
    if ".." in parts.path.split("/"):
        raise UsageError(f"the path {path!r} leads out of itself", hint="leave the .. out")
    return origin, parts.path, parse_qsl(parts.query, keep_blank_values=True)


def _fields(fields: Sequence[str], raw_fields: Sequence[str]) -> dict[str, Any]:
    """Names and values; a value that is JSON is that, unless it was typed as a raw field."""
    typed = {name: _value(text) for name, text in (_pair(field, "-f") for field in fields)}
    return typed | dict(_pair(field, "--raw-field") for field in raw_fields)


def _pair(field: str, option: str) -> tuple[str, str]:
    name, separator, value = field.partition("=")
    if not separator or not name:
        raise UsageError(f"{option} {field!r} is not KEY=VALUE", hint=f"{option} title=Notes")
    return name, value


def _value(text: str) -> Any:
    """What is JSON as that, anything else as text. NaN and the like are no JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _headers(given: Sequence[str]) -> dict[str, str]:
    """`Name: value`, or all that stand in a file for `@FILE`, one on a line."""
    lines: list[str] = []
    for one in given:
        text = read_text(one[1:], "--header") if one.startswith("@") else one
        lines += [line for line in text.splitlines() if line.strip()]
    headers: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if not separator or not _HEADER.fullmatch(name.strip()):
            raise UsageError("a header is not NAME: VALUE", hint="-H 'X-Hermes-Session-Key: me'")
        if name.strip().lower() in _OURS:
            raise UsageError(
                f"the header {name.strip()} is not to be set by hand",
                hint="the key comes from --key-file, the address from --url",
            )
        headers[name.strip()] = value.strip()
    return headers
