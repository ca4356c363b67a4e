"""What the scripted model says in one answer: text in pieces, then tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PAUSE = 0.015
"""Seconds between two chunks of ordinary text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk of a streamed answer, `pause` seconds after the one before."""

    text: str
    pause: float = PAUSE
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: Mapping[str, Any]


Part = Callable[[], Iterator[Piece]]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: text (made while it is sent, it may be large), then tool calls.

    `status` other than 200 is an error of the provider instead; `usage` False: none is stated.
    """

    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    status: int = 200
    usage: bool = True

    def pieces(self) -> Iterator[Piece]:
        for part in self.parts:
            yield from part()


def spoken(text: str, *, reasoning: bool = False) -> Iterator[Piece]:
    """`text` in chunks of a few characters, at most some twenty, so that a long one is not slow."""
    step = max(4, -(-len(text) // 20))
    for start in range(0, len(text), step):
        yield Piece(text[start : start + step], reasoning=reasoning)


def counted(first: int, last: int, every: float) -> Iterator[Piece]:
    for number in range(first, last + 1):
        yield Piece(f"{number}\n", pause=every)


def numbered_words(count: int) -> Iterator[Piece]:
    for start in range(1, count + 1, 100):
        words = (f"word{number}" for number in range(start, min(start + 100, count + 1)))
        yield Piece(" ".join(words) + " ", pause=0.0)


def bulk(size: int) -> Iterator[Piece]:
    """`size` bytes of ASCII text in numbered lines of 64 bytes, sent in pieces of 64 KiB."""
    sent = 0
    while sent < size:
        first = sent // 64
        lines = "".join(f"line {number:09d} {'.' * 48}\n" for number in range(first, first + 1024))
        yield Piece(lines[: size - sent], pause=0.0)
        sent += len(lines)


def silence(seconds: float) -> Iterator[Piece]:
    yield Piece("", pause=seconds)
