"""The event decoder against httpx-sse, whatever the bytes are and however they arrive."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from httpx_sse._decoders import SSEDecoder
from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl.api import events
from hermes_ctl.api.events import BrokenFrame, Comment, Event, EventDecoder, StreamItem
from hermes_ctl.errors import FrameTooLarge

HERMES = b'data: {"event": "message.delta", "run_id": "run_1", "timestamp": 1.5, "delta": "hi"}\n\n'


def decode(pieces: Iterable[bytes]) -> tuple[list[StreamItem], EventDecoder]:
    """The items of a whole stream, each arrived at the number of its piece."""
    decoder = EventDecoder()
    items: list[StreamItem] = []
    for number, piece in enumerate(pieces):
        items.extend(decoder.feed(piece, number))
    items.extend(decoder.end(-1))
    return items, decoder


def one(stream: bytes) -> StreamItem:
    items, _ = decode([stream])
    assert len(items) == 1, items
    return items[0]


@dataclass
class Expected:
    """What the standard says of a stream: (name, data, id) of each event, and the comments."""

    events: list[tuple[str, str, str]]
    comments: list[str]


def by_httpx_sse(stream: bytes) -> Expected:
    """httpx-sse on the whole text, line by line, without the events that it makes of no data."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    decoder = SSEDecoder()
    expected = Expected([], [])
    has_data = False
    for line in lines[:-1]:
        has_data = has_data or line.partition(":")[0] == "data"
        event = decoder.decode(line)
        if line.startswith(":"):
            expected.comments.append(line[1:].strip())
        if not line:
            if event and has_data:
                expected.events.append((event.event, event.data, event.id))
            has_data = False
    if lines[-1].startswith(":"):
        expected.comments.append(lines[-1][1:].strip())
    return expected


def as_told(items: list[StreamItem]) -> list[tuple[str | None, str, str | None]]:
    """The events of `items` as httpx-sse tells them; a broken frame keeps only its data."""
    told: list[tuple[str | None, str, str | None]] = []
    for item in items:
        if isinstance(item, BrokenFrame):
            told.append((None, item.raw, None))
        elif isinstance(item, Event):
            told.append((item.name, json.dumps(item.data), item.event_id))
    return told


def wanted(expected: Expected) -> list[tuple[str | None, str, str | None]]:
    told: list[tuple[str | None, str, str | None]] = []
    for name, data, event_id in expected.events:
        try:
            document = json.loads(data)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            told.append((None, data, None))
            continue
        own = str(document.get("event") or name or "message")
        told.append((own, json.dumps(document), event_id))
    return told


# Streams: lines that mean something, lines that mean nothing, and plain rubbish

text = st.text(st.sampled_from('ab:{}" \u00e9\u2028\ufeff\x00\x85\U0001f600'), max_size=6)
documents = st.builds(
    lambda fields: json.dumps(fields, ensure_ascii=False),
    st.dictionaries(
        st.sampled_from(["event", "run_id", "a"]), st.one_of(text, st.integers()), max_size=3
    ),
)
fields = st.builds(
    "{}{}{}".format,
    st.sampled_from(["data", "event", "id", "retry", "", " data", "dat", "datab", "x"]),
    st.sampled_from([":", ": ", ":  ", ""]),
    st.one_of(text, documents),
)
lines = st.one_of(
    fields, st.just(""), st.just(": keepalive"), st.builds("data: {}".format, documents)
)
ends = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])
streams = st.one_of(
    st.builds(
        lambda mark, rows, last: (mark + "".join(line + end for line, end in rows) + last).encode(),
        st.sampled_from(["", "", "\ufeff"]),
        st.lists(st.tuples(lines, ends), max_size=14),
        st.sampled_from(["", ":", ": stream closed", "data: {}", "\r"]),
    ),
    st.lists(
        st.sampled_from(
            [b"data:", b"id: 1", b"\n", b"\r", b":", b"{}", b"\xc3", b"\xa9", b"\xef\xbb\xbf"]
        )
    ).map(b"".join),
    st.binary(max_size=40),
)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A stream, and the same in pieces."""
    stream = draw(streams)
    cuts = draw(st.lists(st.integers(0, len(stream)), max_size=10))
    edges = sorted({0, len(stream), *cuts})
    return stream, [stream[start:end] for start, end in pairwise(edges)]


@given(cut_streams())
def test_what_httpx_sse_says(cut: tuple[bytes, list[bytes]]) -> None:
    stream, pieces = cut
    items, _ = decode(pieces)
    expected = by_httpx_sse(stream)
    assert as_told(items) == wanted(expected)
    comments = [item.text for item in items if isinstance(item, Comment)]
    assert sorted(comments) == sorted(expected.comments)


@given(cut_streams())
def test_pieces_do_not_matter(cut: tuple[bytes, list[bytes]]) -> None:
    stream, pieces = cut
    whole, decoder = decode([stream])
    items, other = decode(pieces)

    def timeless(found: list[StreamItem]) -> list[dict[str, Any]]:
        names = ("name", "data", "size", "event_id", "text", "raw", "problem")
        return [{n: getattr(item, n, None) for n in names} for item in found]

    assert timeless(items) == timeless(whole)
    assert (decoder.closed, decoder.remainder) == (other.closed, other.remainder)


@given(streams)
def test_every_byte_alone(stream: bytes) -> None:
    whole, _ = decode([stream])
    items, _ = decode([bytes([byte]) for byte in stream])
    assert as_told(items) == as_told(whole)


# The cases by name


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(end: bytes) -> None:
    items, decoder = decode([HERMES.replace(b"\n", end) * 2 + b": stream closed" + end + end])
    assert [type(item) for item in items] == [Event, Event, Comment]
    assert decoder.closed
    assert decoder.remainder == 0


def test_a_return_at_the_end_of_a_piece_does_not_wait() -> None:
    """The frame is over with the second return, whether or not a newline follows it."""
    decoder = EventDecoder()
    assert len(list(decoder.feed(b"data: {}\r\r", 0.0))) == 1
    assert list(decoder.feed(b"\n", 1.0)) == []
    assert len(list(decoder.feed(b"data: {}\r", 2.0))) == 0
    assert len(list(decoder.feed(b"\n\r", 3.0))) == 1
    assert len(list(decoder.feed(b"\ndata: {}\n\n", 4.0))) == 1


def test_ids_make_no_events() -> None:
    """openai-python's fault: an `id:` alone, or a blank line after one, is no event."""
    items, _ = decode([b"id: 7\n\n", b"\n\n\n", b"id: 8\nevent: x\n\n", HERMES, b"\n", HERMES])
    assert [(type(item), getattr(item, "event_id", "")) for item in items] == [
        (Event, "8"),
        (Event, "8"),
    ]


def test_ids_of_hermes() -> None:
    items, _ = decode([b"id: 0\n" + HERMES + b"id: 1\n" + HERMES])
    assert [item.event_id for item in items if isinstance(item, Event)] == ["0", "1"]


def test_names() -> None:
    both = one(b'event: outer\ndata: {"event": "inner"}\n\n')
    line = one(b'event: outer\ndata: {"a": 1}\n\n')
    none = one(b'data: {"a": 1}\n\n')
    odd = one(b'data: {"event": {"a": 1}}\n\n')
    names = [item.name for item in (both, line, none, odd) if isinstance(item, Event)]
    assert names == ["inner", "outer", "message", "{'a': 1}"]


def test_data_of_several_lines() -> None:
    item = one(b'data: {"a":\ndata: 1,\ndata:"b": 2}\n\n')
    assert isinstance(item, Event)
    assert item.data == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"event": "message.del', "not JSON"),
        (b"", "not JSON"),
        (b"[DONE]", "not JSON"),
        (b"[1]", "list, not an object"),
        (b"null", "NoneType, not an object"),
        (b'{"a": "\x00"}', "not JSON"),
        (b'{"a": ' + b"[" * 100_000, "not JSON"),
    ],
)
def test_broken_frames(data: bytes, problem: str) -> None:
    item = one(b"data: " + data + b"\n\n")
    assert isinstance(item, BrokenFrame)
    assert item.problem.startswith(problem)
    assert item.raw == data.decode()
    assert item.size == len(data) + 8


def test_sizes_and_arrivals() -> None:
    decoder = EventDecoder()
    assert list(decoder.feed(HERMES[:10], 1.0)) == []
    items = list(decoder.feed(HERMES[10:] + b"id: 3\n" + HERMES + HERMES[:5], 2.0))
    assert [(item.size, item.arrived) for item in items if isinstance(item, Event)] == [
        (len(HERMES), 2.0),
        (len(HERMES) + 6, 2.0),
    ]
    assert decoder.remainder == 5


def test_further_blank_lines_count_for_nobody() -> None:
    frame = b"event: x\ndata: {}\n\n"
    for pieces in ([frame + b"\n\n\n" + frame], [frame + b"\n", b"\n\n", frame]):
        items, _ = decode(pieces)
        assert [item.size for item in items if isinstance(item, Event)] == [len(frame)] * 2


def test_text_cut_in_the_middle_of_a_character() -> None:
    stream = 'data: {"delta": "日本😀"}\n\n'.encode()
    for cut in range(len(stream)):
        items, _ = decode([stream[:cut], stream[cut:]])
        assert [item.data for item in items if isinstance(item, Event)] == [{"delta": "日本😀"}]


@pytest.mark.parametrize("cut", range(5))
def test_byte_order_mark(cut: int) -> None:
    stream = b"\xef\xbb\xbf" + HERMES
    items, _ = decode([stream[:cut], stream[cut:]])
    assert [type(item) for item in items] == [Event]


def test_comments() -> None:
    items, decoder = decode(
        [b": keepalive\n\n:\n\n", b":no space\n: two\n" + HERMES, b": stream closed\n\n"]
    )
    texts = [item.text for item in items if isinstance(item, Comment)]
    assert texts == ["keepalive", "", "no space", "two", "stream closed"]
    assert decoder.closed


@pytest.mark.parametrize("tail", [b": stream closed", b": stream closed\n", b": stream closed\r\n"])
def test_closing_comment_without_a_blank_line(tail: bytes) -> None:
    items, decoder = decode([HERMES + tail])
    assert decoder.closed
    assert decoder.remainder == 0
    assert isinstance(items[-1], Comment)


def test_a_closing_comment_is_not_what_a_model_says() -> None:
    _, decoder = decode(
        [b'data: {"delta": "\\n: stream closed"}\n\n', b"data: : stream closed\n\n"]
    )
    assert not decoder.closed


def test_remainder() -> None:
    _, decoder = decode([HERMES + b'data: {"event": "message.del'])
    assert decoder.remainder == 28
    assert decode([HERMES])[1].remainder == 0
    assert decode([HERMES + b"\n\r\n"])[1].remainder == 0


def test_timestamps() -> None:
    stamps = [b"1.5", b"2", b'"3"', b"true", b"null"]
    items, _ = decode([b'data: {"timestamp": %b}\n\n' % stamp for stamp in stamps])
    assert [item.timestamp for item in items if isinstance(item, Event)] == [
        1.5,
        2.0,
        None,
        None,
        None,
    ]
    other = one(b'data: {"ts": 4}\n\n')
    assert isinstance(other, Event)
    assert other.timestamp == 4.0


# Bounds


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"], ids=["endless", "line", "whole"])
def test_a_frame_over_the_limit(end: bytes) -> None:
    frame = b"data: " + b"x" * events.FRAME_LIMIT + end
    items: list[StreamItem] = []
    with pytest.raises(FrameTooLarge) as caught:
        items.extend(EventDecoder().feed(HERMES + frame, 0.0))
    assert "8 MiB" in caught.value.message
    assert [type(item) for item in items] == [Event], "what came before it still counts"


def test_many_lines_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FRAME_LIMIT", 10_000)
    with pytest.raises(FrameTooLarge):
        decode([b"data: x\n"] * 2_000)


def test_a_frame_within_the_limit() -> None:
    item = one(b'data: {"a": "' + b"x" * (events.FRAME_LIMIT - 100) + b'"}\n\n')
    assert isinstance(item, Event)


def seconds(pieces: list[bytes]) -> float:
    began = time.process_time()
    decode(pieces)
    return time.process_time() - began


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_one_large_frame_in_small_pieces_takes_no_longer_than_many_small_ones(end: bytes) -> None:
    """Searching or copying what was there before would make it hundreds of times slower."""
    size, count = 64, 20_000
    line = b"data: " + b"x" * (size - 6 - len(end)) + end
    small = [line[: -len(end)] + end + end] * count
    large = [*([line] * count), end]
    assert sum(map(len, large)) < events.FRAME_LIMIT
    assert seconds(large) < 5 * seconds(small) + 0.5


def test_many_frames_in_one_piece() -> None:
    whole, single = [HERMES * 20_000], [HERMES] * 20_000
    assert seconds(whole) < 3 * seconds(single) + 0.5
