"""Text that a server or a model sent is shown, and never obeyed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl.secrets import Secret
from hermes_ctl.text import one_line, visible

HOSTILE = st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Lu", "Nd", "Zs"]))
BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\x0dwritten"),
        ("dos\r\nline", "dos\nline"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\ufeffbom", "\\ufeffbom"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("naïve 東京 🙂", "naïve 東京 🙂"),
    ],
)
def test_controls_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(HOSTILE)
def test_nothing_is_left_that_a_terminal_would_obey(text: str) -> None:
    shown = visible(text)
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(character) not in BIDIRECTIONAL
    assert visible(shown) == shown


@given(HOSTILE, st.integers(1, 40))
def test_one_line_is_one_line_of_that_length(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert "\t" not in line


def test_one_line_marks_the_cut() -> None:
    assert one_line("a  b\n\tc") == "a b c"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"


def test_half_a_key_is_not_left_at_the_cut() -> None:
    Secret("f00dfeed-in-a-cut-text", "a test")
    assert one_line("key f00dfeed-in-a-cut-text and more", 20) == "key *** and more"
    assert "f00d" not in one_line("key f00dfeed-in-a-cut-text and more of it", 18)
