"""Server-Sent Events as a typed stream that also tells how they arrived.

httpx-sse decodes each frame. What it does not tell is kept here: comments (Hermes' keepalives and
its closing comment), the size of each frame and when it came. A frame without data is no event.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import httpx
from httpx_sse import EventSource, ServerSentEvent

from hermes_ctl.errors import FrameTooLarge
from hermes_ctl.text import one_line

FRAME_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of one frame, beyond which a stream is given up."""

CLOSING_COMMENT: Final = "stream closed"
"""What Hermes writes last when it closed a stream on purpose (contract, Event stream)."""

_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?:\r\n|\n|\r)")


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `name` stands in the JSON `event` field or in an `event:` line, `data` is the whole
    JSON object, `size` the frame's bytes with its blank line, `arrived` a monotonic time in seconds."""

    name: str
    data: dict[str, Any]
    size: int
    arrived: float
    event_id: str = ""

    @property
    def run_id(self) -> str | None:
        value = self.data.get("run_id")
        return value if isinstance(value, str) else None

    @property
    def timestamp(self) -> float | None:
        """The server's own time of the event, seconds since 1970, where it gave one."""
        value = self.data.get("timestamp", self.data.get("ts"))
        return float(value) if isinstance(value, (int, float)) else None


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment line: a keepalive, or the closing one. It proves that the link is alive."""

    text: str
    arrived: float


@dataclass(frozen=True, slots=True)
class BrokenFrame:
    """A frame whose data is not a JSON object. `problem` says why, `raw` is its text."""

    raw: str
    problem: str
    size: int
    arrived: float


StreamItem = Event | Comment | BrokenFrame


@dataclass(slots=True)
class _Feed:
    """What httpx-sse reads instead of a response: one complete frame at a time."""

    headers: Mapping[str, str]
    frame: str = ""

    def iter_text(self) -> Iterator[str]:
        while True:
            yield self.frame


@dataclass(slots=True)
class EventStream:
    """An open event stream: iterate over it once. Whoever opened it closes it.

    Raises `FrameTooLarge` when a frame passes `FRAME_LIMIT`. A cut or silent connection raises from
    the transport (`StreamCut`, `NoAnswer`). A clean end just ends; whether it was meant is told by
    `closed` (the closing comment was seen) and `remainder` (bytes of a frame that never ended).
    """

    response: httpx.Response
    opened: float = field(default_factory=time.monotonic)
    closed: bool = False
    remainder: int = 0

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.response.headers.items()}

    async def __aiter__(self) -> AsyncIterator[StreamItem]:
        feed = _Feed(self.response.headers)
        decoded = EventSource(cast(httpx.Response, feed)).iter_sse()
        async for frame, arrived in self._frames():
            if frame.startswith(b":") or b"\n:" in frame or b"\r:" in frame:
                for comment in _comments(frame):
                    self.closed = self.closed or comment == CLOSING_COMMENT
                    yield Comment(comment, arrived)
            if b"data" not in frame:
                continue
            text = frame.decode("utf-8", "replace")
            feed.frame = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
            if not _HAS_DATA.search(feed.frame):
                continue
            yield _read(next(decoded), len(frame), arrived)

    async def _frames(self) -> AsyncIterator[tuple[bytes, float]]:
        """Each frame with its blank line, as soon as its last byte is here."""
        buffer = bytearray()
        searched = 0
        async for piece in self.response.aiter_bytes():
            arrived = time.monotonic()
            buffer += piece
            start = 0
            for match in _BLANK_LINE.finditer(buffer, max(0, searched - 3)):
                yield bytes(buffer[start : match.end()]), arrived
                start = match.end()
            if start:
                del buffer[:start]
            searched = len(buffer)
            if searched > FRAME_LIMIT:
                raise FrameTooLarge(
                    f"one event is larger than {FRAME_LIMIT // 1024 // 1024} MiB; the stream was given up",
                    hint="the run goes on: its state is read by polling",
                    url=str(self.response.url),
                )
        self.remainder = len(bytes(buffer).strip())


_HAS_DATA = re.compile(r"(?m)^data(?::|$)")


def _comments(frame: bytes) -> list[str]:
    lines = frame.decode("utf-8", "replace").splitlines()
    return [line[1:].strip() for line in lines if line.startswith(":")]


def _read(frame: ServerSentEvent, size: int, arrived: float) -> Event | BrokenFrame:
    try:
        data = json.loads(frame.data)
    except (ValueError, RecursionError) as error:
        problem = f"not JSON: {one_line(str(error), 120)}"
        return BrokenFrame(frame.data, problem, size, arrived)
    if not isinstance(data, dict):
        return BrokenFrame(frame.data, f"{type(data).__name__}, not an object", size, arrived)
    name = data.get("event") or frame.event or "message"
    return Event(str(name), data, size, arrived, frame.id)
