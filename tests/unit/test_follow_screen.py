"""What a followed run looks like, piece by piece."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl.api.events import Event
from hermes_ctl.api.models import Run, Usage
from hermes_ctl.render.answer import SafeText, Segment
from hermes_ctl.render.console import Screen
from hermes_ctl.render.event_json import JsonLinesRunView
from hermes_ctl.render.events import TextRunView
from hermes_ctl.runs.happenings import Ended, Happening, StateChanged, translate
from hermes_ctl.runs.result import Result, Verdict
from hermes_ctl.secrets import Secret

RUN_ID = "run_" + "c" * 32


class Stream(io.StringIO):
    """An output that is a terminal, or none."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


def screen(*, terminal: bool, quiet: bool = False) -> Screen:
    made = Screen(environment={"TERM": "xterm", "NO_COLOR": "1", "CI": "1"}, quiet=quiet)
    made.stdout = Stream(terminal=terminal)
    made.stderr = Stream(terminal=False)
    return made


def event(name: str, **fields: Any) -> Happening:
    data = {"event": name, "run_id": RUN_ID, **fields}
    return translate(Event(name, data, 1, time.monotonic()))


def ended(output: str, **fields: Any) -> Ended:
    usage = Usage(input_tokens=1204, output_tokens=96, total_tokens=1300)
    known: dict[str, Any] = {"usage": usage, "created_at": 1.0, "updated_at": 10.8}
    return Ended(Result(RUN_ID, "completed", Verdict.SUCCESS, output=output, **{**known, **fields}))


def shown(*happenings: Happening, terminal: bool, **settings: Any) -> tuple[str, str]:
    """Standard output and standard error."""
    made = screen(terminal=terminal, quiet=settings.pop("quiet", False))
    view = TextRunView(made, **settings)
    view.begin(RUN_ID, "model default", started=True)
    for happening in happenings:
        view.show(happening)
    view.close()
    assert isinstance(made.stdout, io.StringIO)
    assert isinstance(made.stderr, io.StringIO)
    return made.stdout.getvalue(), made.stderr.getvalue()


ANSWER = [event("message.delta", delta="\n\nDone: "), event("message.delta", delta="214 files.")]
TOOL = [
    event("tool.started", tool="terminal", preview="ls build"),
    event("tool.completed", tool="terminal", duration=0.4, error=False),
]


def test_in_a_pipe_the_answer_is_whole_and_alone() -> None:
    aside = event("message.delta", delta="Let me look.")
    out, err = shown(aside, *TOOL, *ANSWER, ended("Done: 214 files."), terminal=False)
    assert out == "Done: 214 files.\n"
    assert err.splitlines() == [
        f"{RUN_ID}  model default",
        "  ● terminal   ls build",
        "  ● terminal   ls build  0.4 s",
        f"completed in 9.8 s · 1,204 tokens in, 96 out · hermesctl status {RUN_ID}",
    ]


def test_a_question_that_nobody_answers_leaves_its_line() -> None:
    made = screen(terminal=True)
    view = TextRunView(made)
    view.hold("once or deny?")
    view.withdraw()
    view.say(" ", "approval", "no answer is needed any more")
    view.say(" ", "stop", "more")
    view.close()
    assert isinstance(made.stderr, io.StringIO)
    assert made.stderr.getvalue().splitlines() == [
        "               once or deny? ",
        "    approval   no answer is needed any more",
        "    stop       more",
    ]


def test_a_question_that_is_given_up_late_leaves_the_terminal_as_it_was() -> None:
    """Its task ends after the view was closed, as at a deadline or after Ctrl-C."""
    made = Screen(environment={"TERM": "xterm"})
    made.stdout, made.stderr = Stream(terminal=True), Stream(terminal=True)
    view = TextRunView(made)
    view.begin(RUN_ID, "model default", started=False)
    view.hold("once or deny?")
    view.close()
    view.release()
    assert isinstance(made.stderr, io.StringIO)
    written = made.stderr.getvalue()
    assert written.endswith("once or deny? \n")
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1, "the cursor is back"


def test_on_a_terminal_the_answer_is_streamed_once() -> None:
    reasoning = event("reasoning.available", text="Done: 214 files.")
    out, _ = shown(*TOOL, *ANSWER, reasoning, ended("Done: 214 files."), terminal=True)
    assert out == "Done: 214 files.\n"


def test_on_a_terminal_a_streamed_answer_with_holes_is_given_whole() -> None:
    out, err = shown(*TOOL, ANSWER[0], ended("Done: 214 files."), terminal=True)
    assert out == "Done: \nDone: 214 files.\n"
    assert "not all of it was streamed" in err


def test_quiet_leaves_the_answer() -> None:
    out, err = shown(*TOOL, *ANSWER, ended("Done: 214 files."), terminal=False, quiet=True)
    assert (out, err) == ("Done: 214 files.\n", "")


def test_quiet_does_not_hide_a_failure() -> None:
    failed = Ended(Result(RUN_ID, "failed", Verdict.FAILED, "the run failed: HTTP 500: boom"))
    _, err = shown(failed, terminal=False, quiet=True)
    assert "HTTP 500: boom" in err


def test_subagents_are_a_tree() -> None:
    happenings = [
        event("subagent.start", subagent_id="a", goal="Say hello", depth=0, task_count=2),
        event("subagent.start", subagent_id="b", goal="Look it up", depth=1, task_count=1),
        event(
            "subagent.complete",
            subagent_id="b",
            goal="Look it up",
            depth=1,
            status="failed",
            duration_seconds=2.0,
            input_tokens=50,
            output_tokens=7,
        ),
    ]
    _, err = shown(*happenings, terminal=False)
    assert err.splitlines()[1:] == [
        "    ● subagent   Say hello 1 of 2",
        "      ● subagent   Look it up",
        "      ✗ subagent   Look it up failed, 57 tokens  2.0 s",
    ]


def test_what_was_left_over_is_said() -> None:
    _, err = shown(ended("x", pending_steer="be quick"), terminal=False)
    assert "left over, never delivered: the steer 'be quick'" in err


def test_an_unknown_event_is_shown() -> None:
    _, err = shown(event("clarify.request", question="Which one?"), terminal=False)
    assert "clarify.request" in err
    assert "Which one?" in err


def test_reasoning_that_repeats_the_answer_is_not_shown() -> None:
    again = event("reasoning.available", text="Done: 214 files.")
    new = event("reasoning.available", text="First I thought of this.")
    _, err = shown(*ANSWER, again, new, terminal=False, show_reasoning=True)
    assert "First I thought of this." in err
    assert "214" not in err
    _, err = shown(*ANSWER, new, terminal=False)
    assert "First" not in err


# Hostile text

ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\u202e\x9b31m\x00"


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_is_obeyed_wherever_it_stands(terminal: bool) -> None:
    happenings = [
        *(event("message.delta", delta=character) for character in ESCAPES),
        event("tool.started", tool=ESCAPES, preview=ESCAPES),
        event("tool.completed", tool=ESCAPES, duration=1.0),
        event("approval.request", command=ESCAPES, description=ESCAPES),
        event("approval.responded", choice=ESCAPES),
        event("subagent.start", goal=ESCAPES),
        event("subagent.complete", goal=ESCAPES, status=ESCAPES),
        event(ESCAPES, **{ESCAPES: ESCAPES}),
        StateChanged(Run(run_id=RUN_ID, status=ESCAPES), None),
        ended(ESCAPES, pending_steer=ESCAPES, model=ESCAPES),
        Ended(Result(ESCAPES, ESCAPES, Verdict.FAILED, ESCAPES, error=ESCAPES)),
    ]
    for text in shown(*happenings, terminal=terminal):
        assert text.replace("\n", "").isprintable()


def test_markup_is_never_read() -> None:
    _, err = shown(event("tool.started", tool="[bold]x[/]", preview="[link=evil]"), terminal=False)
    assert "[bold]x[/]" in err
    assert "[link=evil]" in err


def test_a_key_is_masked_though_it_comes_in_pieces() -> None:
    Secret("qwertyuiop-0123456789", "the test")
    pieces = ["The key is qwerty", "uiop-01234", "56789 and", " qwertyu is none"]
    safe = SafeText()
    text = "".join(safe.feed(piece) for piece in pieces) + safe.rest()
    assert text == "The key is *** and qwertyu is none"


@given(st.lists(st.text(max_size=8), max_size=8))
def test_pieces_are_as_safe_as_the_whole(pieces: list[str]) -> None:
    safe = SafeText()
    text = "".join(safe.feed(piece) for piece in pieces) + safe.rest()
    assert text.replace("\n", "").replace("\t", "").isprintable() or not any(
        ord(character) < 0xA0 and character not in "\n\t" and not character.isprintable()
        for character in text
    )
    assert "\r" not in text
    assert "\x1b" not in text


@given(st.lists(st.text(alphabet="ab \n\t", max_size=6), max_size=10))
def test_a_segment_knows_its_output_however_it_came(pieces: list[str]) -> None:
    segment = Segment()
    for piece in pieces:
        segment.add(piece)
    whole = "".join(pieces)
    assert segment.is_output(whole.strip())
    assert not segment.is_output(whole.strip() + "x")


# JSON lines


def test_json_lines_are_json_whatever_is_in_them() -> None:
    Secret("asdfghjkl-0123456789", "the test")
    made = screen(terminal=False)
    view = JsonLinesRunView(made)
    odd = event("tool.started", preview='api_key="asdfghjkl-0123456789" \x7f\u2028\ud800')
    for happening in (odd, event("message.delta", delta="fine")):
        view.show(happening)
    view.close()
    assert isinstance(made.stdout, io.StringIO)
    text = made.stdout.getvalue()
    assert text.isascii()
    assert "\x7f" not in text
    assert "asdfghjkl" not in text
    assert [json.loads(line)["event"] for line in text.splitlines()] == [
        "tool.started",
        "message.delta",
    ]
