"""Server-Sent Events as a typed stream that also tells how they arrived.

httpx-sse decodes each frame. What it does not tell is kept here: comments (Hermes' keepalives and
its closing comment), the size of each frame and when it came. A frame without data is no event.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, cast

import httpx
from httpx_sse import EventSource

from hermes_ctl.errors import FrameTooLarge
from hermes_ctl.text import one_line

FRAME_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of one frame, beyond which a stream is given up."""

CLOSING_COMMENT: Final = "stream closed"
"""What Hermes writes last when it closed a stream on purpose (contract, Event stream)."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_END: Final = b"\n\n"
_HAS_DATA = re.compile(r"^data(?::|$)", re.MULTILINE)
# The two forms in which every release of Hermes sends every event of a run.
_USUAL = re.compile(rb"(?:id: ([^\n\0]*)\n)?data: ([^\n]*)")


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
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return float(value)


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
class FrameReader:
    """Cuts a stream's bytes into frames, however they arrive. No frame holds its blank line.

    All three line ends of the standard become `\\n`; a line end counts as one byte.
    """

    buffer: bytearray = field(default_factory=bytearray)
    after_return: bool = False
    begun: bool = False
    searched: int = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The frames that `piece` completes."""
        if piece and (self.after_return or b"\r" in piece):
            piece = self._with_newlines(piece)
        if not self.buffer and piece.endswith(_END) and self.begun:
            return piece[:-2].split(_END)
        self.buffer += piece
        end = self.buffer.rfind(_END, max(0, self.searched - 1))
        if end < 0:
            self.searched = len(self.buffer)
            return []
        block = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        self.searched = len(self.buffer)
        if not self.begun:
            self.begun = True
            block = block.removeprefix(_BYTE_ORDER_MARK)
        return block.split(_END)

    def rest(self) -> bytes:
        """What is left of a frame that has not ended."""
        left = bytes(self.buffer)
        return (left if self.begun else left.removeprefix(_BYTE_ORDER_MARK)).strip()

    def _with_newlines(self, piece: bytes) -> bytes:
        """A return at the end of a piece ends its line at once: a newline behind it is the same end."""
        if self.after_return:
            piece = piece.removeprefix(b"\n")
        self.after_return = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@dataclass(slots=True)
class EventDecoder:
    """Makes items of bytes. `closed` says whether the closing comment was seen."""

    frames: FrameReader = field(default_factory=FrameReader)
    closed: bool = False
    last_id: str = ""

    def feed(self, piece: bytes, arrived: float) -> Iterator[StreamItem]:
        """The items that `piece` completes. Raises `FrameTooLarge`."""
        for frame in self.frames.feed(piece):
            if len(frame) > FRAME_LIMIT:
                raise _too_large()
            usual = _USUAL.fullmatch(frame)
            if usual is None:
                yield from self._unusual(frame, arrived)
                continue
            if usual[1] is not None:
                self.last_id = usual[1].decode("utf-8", "replace")
            text = usual[2].decode("utf-8", "replace")
            yield _read(text, "", len(frame) + 2, arrived, self.last_id)
        if len(self.frames.buffer) > FRAME_LIMIT:
            raise _too_large()

    def end(self, arrived: float) -> Iterator[Comment]:
        """The comments behind the last blank line, when the stream has ended."""
        yield from self._comments(self.frames.rest().decode("utf-8", "replace"), arrived)

    @property
    def remainder(self) -> int:
        """Bytes of a frame that never ended; comments are none."""
        lines = self.frames.rest().split(b"\n")
        return len(b"\n".join(line for line in lines if not line.startswith(b":")))

    def _unusual(self, frame: bytes, arrived: float) -> Iterator[StreamItem]:
        """Comments, several lines of data, `event:` lines: decoded by httpx-sse.

        The last id is told to it first, because it lives longer than the frame.
        """
        frame = frame.strip(b"\n")  # further blank lines, which are nobody's
        text = frame.decode("utf-8", "replace")
        if text.startswith(":") or "\n:" in text:
            yield from self._comments(text, arrived)
        if "data" not in text and "id" not in text:
            return
        whole = f"id: {self.last_id}\n{text}\n\n" if self.last_id else f"{text}\n\n"
        for event in EventSource(cast(httpx.Response, _OneFrame(whole))).iter_sse():
            self.last_id = event.id
            if _HAS_DATA.search(text):
                yield _read(event.data, event.event, len(frame) + 2, arrived, event.id)

    def _comments(self, text: str, arrived: float) -> Iterator[Comment]:
        for line in text.split("\n"):
            if line.startswith(":"):
                comment = line[1:].strip()
                self.closed = self.closed or comment == CLOSING_COMMENT
                yield Comment(comment, arrived)


class EventStream:
    """An open event stream: iterate over it once. Whoever opened it closes it.

    Raises `FrameTooLarge` when a frame passes `FRAME_LIMIT`. A cut or silent connection raises
    `StreamCut` or `NoAnswer`. A clean end just ends; whether it was meant is told by `closed` (the
    closing comment was seen) and `remainder` (bytes of a frame that never ended).
    """

    def __init__(
        self, response: httpx.Response, translated: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.response = response
        self.opened = time.monotonic()
        self._translated = translated
        self._decoder = EventDecoder()

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.response.headers.items()}

    @property
    def closed(self) -> bool:
        return self._decoder.closed

    @property
    def remainder(self) -> int:
        return self._decoder.remainder

    async def __aiter__(self) -> AsyncIterator[StreamItem]:
        feed = self._decoder.feed
        encoded = "content-encoding" in self.response.headers
        pieces = self.response.aiter_bytes() if encoded else self.response.aiter_raw()
        with self._translated():
            try:
                async for piece in pieces:
                    for item in feed(piece, time.monotonic()):
                        yield item
            except FrameTooLarge as error:
                error.url = str(self.response.url)
                raise
            for comment in self._decoder.end(time.monotonic()):
                yield comment


@dataclass(frozen=True, slots=True)
class _OneFrame:
    """What httpx-sse reads in place of a response."""

    text: str
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"content-type": "text/event-stream"}
    )

    def iter_text(self) -> Iterator[str]:
        yield self.text


def _too_large() -> FrameTooLarge:
    return FrameTooLarge(
        f"one event is larger than {FRAME_LIMIT / 1024 / 1024:g} MiB; the stream was given up",
        hint="the run goes on: hermesctl status",
    )


def _read(text: str, name: str, size: int, arrived: float, event_id: str) -> Event | BrokenFrame:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return BrokenFrame(text, f"not JSON: {one_line(str(error), 120)}", size, arrived)
    if not isinstance(data, dict):
        return BrokenFrame(text, f"{type(data).__name__}, not an object", size, arrived)
    return Event(str(data.get("event") or name or "message"), data, size, arrived, event_id)
