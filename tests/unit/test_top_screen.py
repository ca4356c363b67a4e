"""The screen of `top` under its pilot: keys, questions, sizes, and what happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from hermes_ctl.config import Node
from hermes_ctl.errors import Refused
from hermes_ctl.monitor.board import Board
from hermes_ctl.monitor.pulse import Pulse
from hermes_ctl.runs.happenings import CHOICES, Approval
from hermes_ctl.runs.survey import Live, Waiting
from hermes_ctl.top.app import TopApp, run_top
from hermes_ctl.top.dialogs import ApprovalDialog, Dialog
from hermes_ctl.top.overview import Overview
from hermes_ctl.top.tables import Listing

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NODES = [Node("one", "http://one:8642"), Node("two", "http://two:8642")]


class Control:
    """Notes what it is told to do, in place of a node."""

    def __init__(self) -> None:
        self.done: list[tuple[str, ...]] = []
        self.failure: Exception | None = None

    async def answer(self, entry: Any, approval: Approval, choice: str) -> str:
        return self._note("answer", entry.run_id, str(approval.command), choice)

    async def stop(self, entry: Any) -> str:
        return self._note("stop", entry.run_id)

    async def steer(self, entry: Any, text: str) -> str:
        return self._note("steer", entry.run_id, text)

    def _note(self, *act: str) -> str:
        if self.failure is not None:
            raise self.failure
        self.done.append(act)
        return f"{act[0]} done [b]"


class Watch:
    """A watch that looks at nothing, and notes what is wanted of it."""

    def __init__(self) -> None:
        self.checked: list[str] = []
        self.surveys = 0
        self.failure: Exception | None = None

    def check_now(self, name: str) -> None:
        self.checked.append(name)

    def survey_now(self) -> None:
        self.surveys += 1

    async def run(self) -> None:
        if self.failure is not None:
            raise self.failure
        await asyncio.Event().wait()


class Screen:
    """The screen, its pilot, and everything behind it."""

    def __init__(self, board: Board, pilot: Pilot[None], control: Control, watch: Watch) -> None:
        self.board = board
        self.pilot = pilot
        self.control = control
        self.watch = watch

    async def presses(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    @property
    def dialog(self) -> Dialog | None:
        screen = self.pilot.app.screen
        return screen if isinstance(screen, Dialog) else None

    @property
    def choices(self) -> list[str]:
        return [act[-1] for act in self.control.done]

    @property
    def said(self) -> list[str]:
        return [one.message for one in self.pilot.app._notifications]

    def shown(self) -> str:
        """Everything that the terminal shows, line by line."""
        lines = self.pilot.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in lines)

    def listing(self, name: str) -> Listing:
        return self.pilot.app.screen_stack[0].query_one(f"#{name}", Listing)


@asynccontextmanager
async def screen(*runs: Live, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Screen]:
    board, control, watch = Board(NODES), Control(), Watch()
    board.looked("one", Pulse(NOW, 0.012, "0.20.4.post1", "ok", "running", 2))
    board.surveyed(runs)
    overview = Overview(board, control, watch, color=True)  # type: ignore[arg-type]
    app = TopApp(overview)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Screen(board, pilot, control, watch)


def run(number: int, state: str = "running", *waiting: Waiting, **fields: Any) -> Live:
    entry: Any = {
        **dict.fromkeys(("reason", "session_id", "ended_at", "verdict")),
        "number": number,
        "run_id": f"run_{number}",
        "node": "one",
        "url": NODES[0].url,
        "prompt": f"task {number}",
        "submitted_at": NOW,
        "seen_at": NOW,
        **fields,
    }
    return Live(SimpleNamespace(**entry), state, waiting=waiting)  # type: ignore[arg-type]


def asks(command: str | None = "rm -rf x", choices: tuple[str, ...] = CHOICES) -> Waiting:
    return Waiting(Approval("id-1", command, "recursive delete", choices), NOW)


async def test_one_screen_of_80_by_24_holds_all() -> None:
    async with screen(run(2, "waiting_for_approval", asks()), run(1)) as top:
        lines = top.shown().split("\n")
        assert len(lines) == 24
        assert all(len(line) <= 80 for line in lines)
        shown = "\n".join(lines)
        assert "2 nodes: 2 checking · 2 runs active · 1 approval waits" in lines[0]
        for text in ("0.20.4.post1", "12 ms", "▲ approval", "● running", "rm -rf x  (recur"):
            assert text in shown
        for key in ("a answer", "x stop", "s steer", "c check", "? help", "q quit"):
            assert key in lines[-1]


async def test_without_approvals_their_list_takes_no_room() -> None:
    async with screen(run(1)) as top:
        assert "approvals" not in top.shown()
        await top.presses("a")
        assert top.dialog is None
        assert top.said == ["no approval waits"]


async def test_an_approval_is_answered_by_one_key_after_it_was_shown() -> None:
    async with screen(run(1), run(2, "waiting_for_approval", asks())) as top:
        await top.presses("a")
        shown = top.shown()
        assert "run_2 on one asks" in shown
        assert "why  recursive delete" in shown
        assert "rm -rf x" in shown
        assert top.control.done == []
        await top.presses("o")
        assert top.control.done == [("answer", "run_2", "rm -rf x", "once")]
        assert top.said == ["answer done [b]"], "what is said is no markup"
        assert top.watch.surveys == 1


async def test_each_choice_has_its_key_and_always_is_asked_twice() -> None:
    async with screen(run(2, "waiting_for_approval", asks())) as top:
        await top.presses("a", "s", "a", "d", "a", "a")
        assert "from now on" in top.shown()
        await top.presses("o")
        assert top.choices == ["session", "deny"], "the question is about always"
        await top.presses("escape")
        assert "leave it waiting" in top.shown()
        await top.presses("a", "y")
        assert top.choices == ["session", "deny", "always"]


async def test_neither_the_unseen_nor_the_unoffered_is_allowed_by_one_key() -> None:
    async with screen(run(2, "waiting_for_approval", Waiting(Approval(), NOW))) as top:
        await top.presses("a")
        assert "not known here" in top.shown()
        await top.presses("o")
        assert top.choices == []
        await top.presses("y")
        assert top.choices == ["once"]
        top.board.surveyed([run(2, "waiting_for_approval", asks(choices=("once", "deny")))])
        await top.presses("a")
        assert "always" not in top.shown()
        await top.presses("a", "s", "y")
        assert top.choices == ["once"]
        assert top.dialog is not None


async def test_the_approval_of_the_run_under_the_cursor_comes_first() -> None:
    first, second = asks("first"), asks("second")
    async with screen(
        run(3, "waiting_for_approval", second), run(2, "waiting_for_approval", first)
    ) as top:
        await top.presses("down", "a", "o")
        assert top.control.done == [("answer", "run_2", "first", "once")]


async def test_a_question_that_somebody_else_answered_is_taken_back() -> None:
    async with screen(run(2, "waiting_for_approval", asks())) as top:
        await top.presses("a")
        assert isinstance(top.dialog, ApprovalDialog)
        top.board.surveyed([run(2, "waiting_for_approval", asks())])
        await top.pilot.pause()
        assert top.dialog is not None, "it still waits"
        top.board.surveyed([run(2)])
        await top.pilot.pause()
        assert top.dialog is None
        assert top.control.done == []
        assert top.said == ["no answer is needed any more"]


async def test_a_long_command_can_be_read_to_its_end() -> None:
    command = "\n".join(f"line {number}" for number in range(200))
    async with screen(run(2, "waiting_for_approval", asks(command))) as top:
        await top.presses("a")
        assert "line 0" in top.shown()
        assert "d  deny" in top.shown()
        await top.presses("end")
        await top.pilot.wait_for_animation()
        assert "line 199" in top.shown()


async def test_a_run_is_stopped_after_a_question() -> None:
    async with screen(run(2), run(1)) as top:
        await top.presses("down", "x")
        assert "Stop run_1?" in top.shown()
        assert "task 1" in top.shown()
        await top.presses("escape")
        await top.presses("x", "n")
        assert top.control.done == []
        await top.presses("x", "y")
        assert top.control.done == [("stop", "run_1")]


async def test_a_run_is_steered_with_a_line_that_is_no_command() -> None:
    async with screen(run(1)) as top:
        await top.presses("s")
        await top.presses(*"quit xq", "enter")
        assert top.control.done == [("steer", "run_1", "quit xq")]
        await top.presses("s", "enter")
        assert len(top.control.done) == 1, "an empty line is nothing to say"


async def test_a_run_that_has_ended_is_left_alone() -> None:
    async with screen(run(1, "completed", verdict="success")) as top:
        await top.presses("x", "s")
        assert top.dialog is None
        ended = "this run has ended, completed: there is nothing to"
        assert top.said == [f"{ended} stop", f"{ended} steer"]


async def test_a_failure_is_said_with_its_hint_and_ends_nothing() -> None:
    async with screen(run(1)) as top:
        top.control.failure = Refused("it is [red]over\x1b[2J", status=409, hint="hermesctl runs")
        await top.presses("x", "y")
        assert top.said == ["it is [red]over\\x1b[2J\nhermesctl runs"]
        assert "run_1" in top.shown()


async def test_the_cursor_stays_on_its_run() -> None:
    async with screen(run(2), run(1)) as top:
        await top.presses("down")
        assert top.listing("runs").chosen == "1"
        top.board.surveyed([run(3), run(2, "completed", verdict="success"), run(1)])
        await top.pilot.pause()
        assert top.listing("runs").chosen == "1"
        top.board.surveyed([run(3)])
        await top.pilot.pause()
        assert top.listing("runs").chosen == "3"


async def test_a_node_is_checked_and_looked_at() -> None:
    async with screen() as top:
        await top.presses("shift+tab", "down", "c")
        assert top.watch.checked == ["two"]
        await top.presses("enter")
        assert "http://two:8642" in top.shown()
        await top.presses("escape")
        assert top.dialog is None


async def test_any_size_will_do() -> None:
    async with screen(run(2, "waiting_for_approval", asks()), run(1)) as top:
        for size in ((40, 8), (132, 50), (10, 3), (80, 24)):
            await top.pilot.resize_terminal(*size)
            await top.pilot.pause()
            await top.presses("a", "escape")
        await top.presses("a")
        assert "rm -rf x" in top.shown()


async def test_help_and_warnings_are_told_on_the_screen() -> None:
    async with screen() as top:
        await top.presses("question_mark")
        assert "answer an approval" in top.shown()
        top.board.warn("the journal cannot be used")
        await top.pilot.pause()
        assert top.said == ["the journal cannot be used"]


@pytest.mark.parametrize("keys", ["q", "ctrl+c", "s ctrl+c"])
async def test_it_is_left_by_one_key_from_a_question_too(keys: str) -> None:
    async with screen(run(1)) as top:
        await top.pilot.press(*keys.split())
        assert top.pilot.app._exit


async def test_a_bug_on_the_screen_leaves_it_without_its_variables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def meet_a_bug() -> None:
        async with screen(run(1)) as top:
            top.board.runs = (SimpleNamespace(waiting=()),)  # type: ignore[assignment]
            await top.pilot.press("x")

    with pytest.raises(AttributeError):
        await meet_a_bug()
    told = capsys.readouterr()
    assert told.out + told.err == ""


async def test_a_watch_that_fails_ends_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    watch.failure = ValueError("the watch is broken")
    run_app = TopApp.run_async
    monkeypatch.setattr(
        TopApp, "run_async", lambda self, **_: run_app(self, headless=True, size=(80, 24))
    )
    with pytest.raises(ExceptionGroup) as caught:
        await run_top(Board(NODES), Control(), watch, color=True)  # type: ignore[arg-type]
    assert caught.group_contains(ValueError, match="the watch is broken")
