"""Durations as people type and read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl.durations import format_duration, parse_duration
from hermes_ctl.errors import ExitCode, UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("90s", 90),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("2d", 172800),
        ("10", 10),
        ("0.25", 0.25),
        ("1.5s", 1.5),
        (" 5M ", 300),
        ("0", 0),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", " ", "forever", "5 m", "m", "5x", "-1", "-5s", "1h-5m", "inf", "nan", "1e999", "9" * 400],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--wait") as caught:
        parse_duration(text, "--wait")
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint is not None
    assert "5m" in caught.value.hint


@given(st.text(max_size=20))
def test_any_text_is_a_finite_duration_or_refused(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except UsageError:
        return
    assert math.isfinite(seconds)
    assert seconds >= 0


@given(st.integers(0, 10**6))
def test_whole_seconds_are_read_in_every_unit(seconds: int) -> None:
    hours, rest = divmod(seconds, 3600)
    assert parse_duration(f"{hours}h{rest // 60}m{rest % 60}s") == seconds
    assert parse_duration(f"{seconds * 1000}ms") == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (0.41, "0.4 s"),
        (9.99, "10.0 s"),
        (12.3, "12 s"),
        (119.4, "119 s"),
        (120, "2 min 0 s"),
        (185, "3 min 5 s"),
        (7440, "2 h 4 min"),
    ],
)
def test_a_duration_is_shown(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown
