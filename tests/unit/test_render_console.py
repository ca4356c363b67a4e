"""The screen: colour policy, signs, neutral text, JSON that is safe on a terminal."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from hermes_ctl.render.console import (
    SIGNS,
    WORDS,
    ColorPolicy,
    Screen,
    cell,
    json_text,
    marks_for,
    use_color,
)
from hermes_ctl.secrets import Secret

HOSTILE = "\x1b[2J\x9b31m[bold]\u202eevil\x07\ud800"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("policy", "terminal", "environment", "expected"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("auto", False, {"FORCE_COLOR": "0"}, False),
        ("auto", False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", False, {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_the_option_wins_then_the_variables_then_the_terminal(
    policy: ColorPolicy, terminal: bool, environment: dict[str, str], expected: bool
) -> None:
    assert use_color(policy, is_terminal=terminal, environment=environment) is expected


@pytest.mark.parametrize("policy", ["always", "never"])
def test_rich_output_follows_the_policy(
    capsys: pytest.CaptureFixture[str], policy: ColorPolicy
) -> None:
    screen = Screen(environment={"NO_COLOR": "1", "FORCE_COLOR": "1"}, color=policy)
    screen.out.print(Text("READY", style="green"))
    assert capsys.readouterr().out == (
        "\x1b[32mREADY\x1b[0m\n" if policy == "always" else "READY\n"
    )


def test_markup_and_emoji_are_never_read(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(environment={}, color="always").out.print("[red]x[/red] :smile: 12")
    assert capsys.readouterr().out == "[red]x[/red] :smile: 12\n"


def test_what_goes_into_a_pipe_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(environment={"COLUMNS": "20"}).out.print(Text("word " * 40))
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("terminal", "environment", "quiet", "expected"),
    [
        (True, {}, False, True),
        (False, {}, False, False),
        (True, {"CI": "true"}, False, False),
        (True, {"TERM": "dumb"}, False, False),
        (True, {}, True, False),
    ],
)
def test_only_a_real_terminal_is_animated(
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    environment: dict[str, str],
    quiet: bool,
    expected: bool,
) -> None:
    monkeypatch.setattr("sys.stderr", Terminal() if terminal else io.StringIO())
    assert Screen(environment=environment, quiet=quiet).animates is expected


def test_signs_become_words_where_the_encoding_has_none() -> None:
    assert marks_for(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) == SIGNS
    assert marks_for(io.TextIOWrapper(io.BytesIO(), encoding="ascii")) == WORDS
    assert marks_for(io.TextIOWrapper(io.BytesIO(), encoding="latin-1")) == WORDS
    assert "".join(WORDS.__getattribute__(name) for name in WORDS.__slots__).isascii()


def test_no_character_stops_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(buffer, encoding="ascii"))
    screen = Screen(environment={})
    screen.line("añb ✓")
    screen.document({"name": "añb"})
    assert buffer.getvalue() == b'a\\xf1b \\u2713\n{\n  "name": "a\\u00f1b"\n}\n'


def test_lines_and_remarks_are_neutral_and_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    key = Secret("0123456789abcdef-key", "test")
    screen = Screen(environment={}, verbose=True)
    for say in (screen.line, screen.note, screen.detail, screen.warn):
        say(f"{HOSTILE} {key.reveal()}")
    stdout, stderr = capsys.readouterr()
    for text in (*stdout.splitlines(), *stderr.splitlines()):
        assert text.isprintable()
        assert key.reveal() not in text
        assert "[bold]" in text
    assert len(stdout.splitlines()) == 1
    assert len(stderr.splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "noted\nwarning: warned\n"),
        ({"quiet": True}, "warning: warned\n"),
        ({"verbose": True}, "noted\ndetail\nwarning: warned\n"),
    ],
)
def test_quiet_and_verbose(
    capsys: pytest.CaptureFixture[str], options: dict[str, bool], expected: str
) -> None:
    screen = Screen(environment={}, quiet="quiet" in options, verbose="verbose" in options)
    screen.note("noted")
    screen.detail("detail")
    screen.warn("warned")
    assert capsys.readouterr() == ("", expected)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    ),
    st.sampled_from([None, 2]),
)
def test_json_is_printable_and_means_the_same(value: object, indent: int | None) -> None:
    text = json_text(value, indent=indent)
    assert json.loads(text) == value
    assert text.replace("\n", "").isprintable()
    assert indent or "\n" not in text


def test_json_keeps_what_can_be_read_and_escapes_what_cannot() -> None:
    assert json_text({"a": "é ✓ \x9b\u202e\ud800"}) == '{"a": "é ✓ \\u009b\\u202e\\ud800"}'


def test_json_takes_times_and_paths() -> None:
    value = {"at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "file": Path("/tmp/x")}
    assert json.loads(json_text(value)) == {"at": "2026-01-02T03:04:05+00:00", "file": "/tmp/x"}
    with pytest.raises(TypeError, match="set has no form in JSON"):
        json_text({"a": {1}})


def test_a_cell_is_one_line() -> None:
    assert cell("a\n\tb\x1b") == "a b\\x1b"
    assert cell("abcdef", 4) == "abc…"
