"""HTTP/1.1 as Hermes' own server (aiohttp) writes it, byte for byte, and nothing more of it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
BODY_LIMIT = 10_000_000
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-XSS-Protection": "0",
    "Referrer-Policy": "no-referrer",
}


@dataclass(slots=True)
class Request:
    """A request as it came: `target` is the raw path with its query, `headers` are lower-case.

    `route` is the template that matched it (`GET /v1/runs/{run_id}`), or method and path where
    none did; `connection` numbers the TCP connection it came on, `at` is a monotonic time.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    connection: int = 0
    at: float = field(default_factory=time.monotonic)
    route: str = ""
    values: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def segments(self) -> list[str]:
        return [unquote(part) for part in self.path.split("/")]

    @property
    def bearer(self) -> str | None:
        scheme, _, key = self.headers.get("authorization", "").partition(" ")
        return key.strip() if scheme == "Bearer" else None

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Reply:
    """An answer with a body of known length. `hardened` adds the headers of Hermes' JSON handlers."""

    status: int
    body: bytes
    content_type: str | None = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    hardened: bool = True
    close: bool = False

    def head(self) -> bytes:
        lines = {
            **self.headers,
            **({"Content-Type": self.content_type} if self.content_type else {}),
            **(SECURITY_HEADERS if self.hardened else {}),
            "Content-Length": str(len(self.body)),
            **_stamp(),
            **({"Connection": "close"} if self.close else {}),
        }
        return _head(self.status, {**lines, **self.headers})


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, json.dumps(document).encode(), headers=headers or {})


def text_reply(status: int, text: str, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, text.encode(), TEXT, headers or {}, hardened=False)


def html_reply(status: int, page: str, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, page.encode(), HTML, headers or {}, hardened=False)


def error_reply(
    status: int,
    message: str,
    code: str | None = None,
    *,
    kind: str = "invalid_request_error",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Hermes' usual error body: the OpenAI object with all four keys."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json_reply({"error": error}, status, headers)


def not_found(what: str, name: str) -> Reply:
    """404 of an object: `not_found("run", "run_nope")`."""
    return error_reply(404, f"{what.capitalize()} not found: {name}", f"{what}_not_found")


def server_error() -> Reply:
    """What aiohttp says when a handler raised."""
    text = "500 Internal Server Error\n\nServer got itself in trouble"
    return Reply(500, text.encode(), TEXT, hardened=False, close=True)


def stream_head(content_type: str, encoding: str | None = None) -> bytes:
    lines = {
        **({"Content-Encoding": encoding} if encoding else {}),
        "Content-Type": content_type,
        "Cache-Control": "no-cache",
        "X-Accel-Buffering": "no",
        "Transfer-Encoding": "chunked",
        **_stamp(),
    }
    return _head(200, lines)


def _stamp() -> dict[str, str]:
    return {"Date": formatdate(usegmt=True), "Server": "Python/3.11 aiohttp/3.14.5"}


def _head(status: int, lines: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    if status == 413:
        phrase = "Request Entity Too Large"  # the name aiohttp knows it by
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} {phrase}\r\n{text}\r\n".encode("latin-1", "replace")


class Connection:
    """One TCP connection of a client."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number
        self.is_open = True

    async def receive(self) -> Request | None:
        """The next request, None when the client has gone or speaks something else."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ", 2)
            headers: dict[str, str] = {}
            for line in filter(None, lines):
                name, _, value = line.partition(":")
                headers.setdefault(name.strip().lower(), value.strip())
            body = await self._body(headers)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, OSError):
            return None
        return Request(method, target, headers, body, self.number)

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            pieces: list[bytes] = []
            while size := int(await self.reader.readline(), 16):
                pieces.append((await self.reader.readexactly(size + 2))[:-2])
            await self.reader.readline()
            return b"".join(pieces)
        return await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_chunks(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def client_left(self) -> None:
        """Returns when the client has closed its side."""
        while await self.reader.read(1024):
            pass

    def close(self) -> None:
        """Close in the ordinary way: what was written still arrives, then the end."""
        self.is_open = False
        self.writer.close()

    def reset(self) -> None:
        """Close with a TCP reset, as a crashed process or a strict firewall does."""
        self.is_open = False
        raw = self.writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
