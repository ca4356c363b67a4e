"""Rows in every form: for eyes, for pipes, for programs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

import pytest

from hermes_ctl.errors import UsageError
from hermes_ctl.render import tables
from hermes_ctl.render.console import Screen
from hermes_ctl.render.tables import Column, Format, Sheet, Table, ago, plain, readable, show
from hermes_ctl.render.views import DocumentView, ListView

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Run:
    id: str
    state: str
    started: datetime | None = None
    prompt: str = ""
    tokens: int = 0


TABLE = Table[Run](
    columns=(
        Column("run", lambda run: run.id),
        Column("state", lambda run: run.state, styles={"failed": "red"}),
        Column("started", lambda run: run.started),
        Column("tokens", lambda run: run.tokens, right=True),
        Column("first prompt", lambda run: run.prompt, wide=True, free=True),
    ),
    name=lambda run: run.id,
    raw=asdict,
    empty="no runs",
)
RUNS = (
    Run("run_1", "completed", NOW - timedelta(minutes=3), "tidy\tup\nnow\\", 1200),
    Run("run_22", "failed\x1b[31m", None, "[bold]x", 7),
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "now", lambda: NOW)


def wired(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """From here on standard output is a terminal (a fixture would come before the capturing)."""
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    return stream


def wide_screen() -> Screen:
    return Screen(environment={"COLUMNS": "100", "NO_COLOR": "1"})


def rows_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = wired(monkeypatch)
    show(wide_screen(), TABLE, RUNS)
    assert rows_of(terminal.getvalue()) == [
        "RUN     STATE           STARTED    TOKENS",
        "run_1   completed       3 min ago    1200",
        "run_22  failed\\x1b[31m  -               7",
    ]


def test_wide_has_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = wired(monkeypatch)
    show(wide_screen(), TABLE, RUNS, "wide")
    assert rows_of(terminal.getvalue()) == [
        "RUN     STATE           STARTED    TOKENS  FIRST PROMPT",
        "run_1   completed       3 min ago    1200  tidy up now\\",
        "run_22  failed\\x1b[31m  -               7  [bold]x",
    ]


def test_a_narrow_terminal_cuts_prose_not_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = wired(monkeypatch)
    screen = Screen(environment={"COLUMNS": "60", "NO_COLOR": "1"})
    show(screen, TABLE, [Run("run_1", "completed", None, "word " * 100)], "wide")
    lines = rows_of(terminal.getvalue())
    assert len(lines) == 2
    assert max(map(len, lines)) == 60
    assert lines[1].endswith("…")


def test_what_is_no_prose_stays_whole_on_the_narrowest_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = wired(monkeypatch)
    screen = Screen(environment={"COLUMNS": "20", "NO_COLOR": "1"})
    show(screen, TABLE, [Run("run_" + "4" * 32, "completed", None, "word " * 100)], "wide")
    lines = rows_of(terminal.getvalue())
    assert len(lines) == 2
    assert lines[1].startswith(f"run_{'4' * 32}  completed")
    assert lines[1].endswith("word word w…")


def test_a_style_colours_its_value_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = wired(monkeypatch)
    screen = Screen(environment={"COLUMNS": "80", "TERM": "xterm-256color"})
    show(screen, TABLE, [Run("a", "failed"), Run("b", "completed")], columns=("state",))
    assert "\x1b[31mfailed" in terminal.getvalue()
    assert "\x1b[31mcompleted" not in terminal.getvalue()


def test_no_rows_are_said_to_people_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = wired(monkeypatch)
    show(wide_screen(), TABLE, [])
    assert terminal.getvalue() == ""
    assert capsys.readouterr().err == "no runs\n"


def test_a_pipe_gets_whole_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show(wide_screen(), TABLE, RUNS, "wide")
    assert capsys.readouterr().out.splitlines() == [
        "run_1\tcompleted\t2026-03-01T11:57:00Z\t1200\ttidy\\tup\\nnow\\\\",
        "run_22\tfailed\\x1b[31m\t\t7\t[bold]x",
    ]


def test_no_rows_in_a_pipe_are_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show(wide_screen(), TABLE, [])
    assert capsys.readouterr() == ("", "")


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    screen = wide_screen()
    show(screen, TABLE, RUNS, "json")
    assert [run["id"] for run in json.loads(capsys.readouterr().out)] == ["run_1", "run_22"]
    assert screen.document_written
    show(screen, TABLE, [], "json")
    assert json.loads(capsys.readouterr().out) == []


def test_json_lines_are_the_raw_objects(capsys: pytest.CaptureFixture[str]) -> None:
    show(wide_screen(), TABLE, RUNS, "jsonl")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == [run.prompt for run in RUNS]


def test_names_alone(capsys: pytest.CaptureFixture[str]) -> None:
    show(wide_screen(), TABLE, RUNS, "name")
    assert capsys.readouterr().out == "run_1\nrun_22\n"


@pytest.mark.parametrize("format", ["table", "jsonl", "name"])
def test_a_pipe_gets_each_row_when_it_comes(
    capsys: pytest.CaptureFixture[str], format: Format
) -> None:
    def pages() -> Iterator[Run]:
        yield RUNS[0]
        assert "run_1" in capsys.readouterr().out
        yield RUNS[1]

    show(wide_screen(), TABLE, pages(), format)
    assert "run_22" in capsys.readouterr().out


def test_columns_choose_and_order(capsys: pytest.CaptureFixture[str]) -> None:
    view = ListView(wide_screen(), "table", ("First-Prompt", "run"))
    view.rows(TABLE, RUNS[1:])
    assert capsys.readouterr().out == "[bold]x\trun_22\n"


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no column 'nope'") as caught:
        Sheet(wide_screen(), TABLE, "table", ("nope",))
    assert caught.value.hint == "the columns are run, state, started, tokens, first-prompt"


def test_columns_belong_to_tables() -> None:
    with pytest.raises(UsageError, match="does not go with -o json"):
        Sheet(wide_screen(), TABLE, "json", ("run",))


@pytest.mark.parametrize(
    ("value", "for_pipes", "for_people"),
    [
        (None, "", "-"),
        ("", "", "-"),
        (True, "true", "yes"),
        (False, "false", "no"),
        (0, "0", "0"),
        (0.5, "0.5", "0.5"),
        (timedelta(seconds=90), "90", "90 s"),
        (NOW, "2026-03-01T12:00:00Z", "just now"),
        ("a\r\nb\tc\\", "a\\r\\nb\\tc\\\\", "a b c\\"),
    ],
)
def test_values(value: tables.Value, for_pipes: str, for_people: str) -> None:
    assert plain(value) == for_pipes
    assert readable(value) == for_people


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (-9, "just now"),
        (10, "10 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7199, "119 min ago"),
        (7200, "2 h ago"),
        (172800, "2 d ago"),
        (-240, "in 4 min"),
    ],
)
def test_how_long_ago(seconds: int, words: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds)) == words


def test_one_thing_as_lines_or_as_a_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = wired(monkeypatch)
    fields: dict[str, tables.Value] = {"state": "ok", "active runs": 2, "seen": NOW}
    DocumentView(wide_screen(), "text").show({"raw": 1}, fields)
    assert terminal.getvalue() == "state        ok\nactive runs  2\nseen         just now\n"


def test_one_thing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    DocumentView(wide_screen(), "text").show({"raw": 1}, {"state": "a\tb", "seen": NOW})
    assert capsys.readouterr().out == "state\ta\\tb\nseen\t2026-03-01T12:00:00Z\n"
    DocumentView(wide_screen(), "json").show({"raw": 1}, {"state": "ok"})
    assert json.loads(capsys.readouterr().out) == {"raw": 1}
