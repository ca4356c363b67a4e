"""The screen of `top`: nodes, approvals that wait, runs; and the keys that act on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from hermes_ctl import clock
from hermes_ctl.errors import HermesctlError
from hermes_ctl.monitor.board import Board
from hermes_ctl.monitor.watch import Watch
from hermes_ctl.runs.survey import Live
from hermes_ctl.top import rows
from hermes_ctl.top.control import RunControl
from hermes_ctl.top.dialogs import ApprovalDialog, ConfirmDialog, LineDialog, TextDialog
from hermes_ctl.top.tables import APPROVALS, NODES, RUNS, Listing, Row, uncolored

TICK_S = 1.0
NOTE_S = 5.0
HELP = """\
Tab, arrows   move
Enter         look at the node, the approval or the run
a             answer an approval: the one that is chosen, or the oldest
x             stop the run that is chosen
s             steer the run that is chosen: a line of text for its agent
c             check the node that is chosen; that makes no run and costs nothing
q, Ctrl-C     leave; runs and nodes go on

Nodes are looked at every few seconds, and checked every minute, or when they go or come. The runs
are those of this machine's journal: a node keeps no list of its own."""


class Overview(Screen[None]):
    """`watch` keeps `board` true while this shows it. Every act on a run goes through `control`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "answer", "answer"),
        Binding("x", "stop", "stop"),
        Binding("s", "steer", "steer"),
        Binding("c", "check", "check"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, board: Board, control: RunControl, watch: Watch, *, color: bool) -> None:
        super().__init__()
        self._board = board
        self._control = control
        self._watch = watch
        self._color = color
        self._head_line = Static(id="head", markup=False)
        self._node_list = Listing(NODES, id="nodes")
        self._approval_title = Static("approvals: a answers", id="approvals-title", markup=False)
        self._approval_list = Listing(APPROVALS, id="approvals")
        self._run_title = Static(id="runs-title", markup=False)
        self._run_list = Listing(RUNS, id="runs")

    def compose(self) -> ComposeResult:
        yield self._head_line
        yield self._node_list
        yield self._approval_title
        yield self._approval_list
        yield self._run_title
        yield self._run_list
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._board.on_change = self.tell
        self.set_interval(TICK_S, self.tell)
        self._run_list.focus()
        self.tell()

    def on_resize(self, event: Resize) -> None:
        for listing in (self._node_list, self._approval_list, self._run_list):
            listing.fit(event.size.width)
        self.tell()

    # What is told

    def tell(self) -> None:
        """Show the board as it is now."""
        if not self.is_attached:
            return
        now, states, runs = clock.now(), self._board.states(), self._board.runs
        asked, ordered = rows.asked(runs or ()), rows.ordered(runs or ())
        bars = self._node_list.width_of("LATENCY") - rows.FIGURE
        self._list(self._node_list, [(one.node.name, rows.node_cells(one, bars)) for one in states])
        self._list(self._approval_list, [(one.key, rows.approval_cells(one, now)) for one in asked])
        self._list(
            self._run_list, [(rows.key_of(one), rows.run_cells(one, now)) for one in ordered]
        )
        self._approval_list.display = self._approval_title.display = bool(asked)
        if self._approval_list.has_focus and not asked:
            self._run_list.focus()
        self._head_line.update(rows.headline(states, runs))
        self._run_title.update(rows.runs_title(runs))
        self._take_back({one.key for one in asked})
        for warning in self._board.take_warnings():
            self._say(warning, wrong=True)

    def _list(self, listing: Listing, told: list[Row]) -> None:
        if not self._color:
            told = [(key, tuple(map(uncolored, cells))) for key, cells in told]
        listing.tell(told)

    def _take_back(self, waiting: set[str]) -> None:
        """Take a question back that somebody else answered, or that timed out on the node."""
        dialog = self.app.screen
        if isinstance(dialog, ApprovalDialog) and dialog.asking.key not in waiting:
            dialog.dismiss(None)
            self._say("no answer is needed any more")

    # What is chosen

    def _run(self) -> Live | None:
        """The run under the cursor of the runs, or that of the approval where those are looked at."""
        if self._approval_list.has_focus:
            asking = self._asking()
            return asking.live if asking else None
        key = self._run_list.chosen
        return next((one for one in self._board.runs or () if rows.key_of(one) == key), None)

    def _asking(self) -> rows.Asking | None:
        """The approval under the cursor, or of the run under it; without one, the oldest."""
        asked = rows.asked(self._board.runs or ())
        if self._approval_list.has_focus:
            return next((one for one in asked if one.key == self._approval_list.chosen), None)
        own = [one for one in asked if rows.key_of(one.live) == self._run_list.chosen]
        return next(iter(own or asked), None)

    # Keys

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        name, live = self._node_list.chosen, self._run()
        if event.data_table is self._approval_list:
            self.action_answer()
        elif event.data_table is self._run_list and live is not None:
            self._show(f"run {rows.neutral(live.entry.run_id)}", rows.run_details(live))
        elif event.data_table is self._node_list and name is not None:
            self._show(rows.neutral(name), rows.node_details(self._board.state(name)))

    def action_help(self) -> None:
        self._show("hermesctl top", Text(HELP))

    def action_check(self) -> None:
        name = self._node_list.chosen
        if name is not None:
            self._watch.check_now(name)
            self._say(f"checking {rows.neutral(name)}")

    def action_answer(self) -> None:
        asking = self._asking()
        if asking is None:
            self._say("no approval waits")
            return

        def answered(choice: str | None) -> None:
            if choice is not None:
                entry, approval = asking.live.entry, asking.waiting.approval
                self._act(lambda: self._control.answer(entry, approval, choice))

        self.app.push_screen(ApprovalDialog(asking), answered)

    def action_stop(self) -> None:
        live = self._run_that_goes_on("stop")
        if live is None:
            return

        def confirmed(answer: str | None) -> None:
            if answer is not None:
                self._act(lambda: self._control.stop(live.entry))

        title = f"Stop {rows.neutral(live.entry.run_id)}?"
        self.app.push_screen(ConfirmDialog(title, rows.run_details(live)), confirmed)

    def action_steer(self) -> None:
        live = self._run_that_goes_on("steer")
        if live is None:
            return

        def typed(text: str | None) -> None:
            if text is not None:
                self._act(lambda: self._control.steer(live.entry, text))

        title = f"Steer {rows.neutral(live.entry.run_id)}"
        self.app.push_screen(LineDialog(title, rows.run_details(live)), typed)

    def _run_that_goes_on(self, act: str) -> Live | None:
        live = self._run()
        if live is None:
            self._say(f"there is no run to {act}")
        elif not live.is_active:
            self._say(f"this run has ended, {rows.neutral(live.state)}: there is nothing to {act}")
            return None
        return live

    def _show(self, title: str, text: Text) -> None:
        self.app.push_screen(TextDialog(title, text if self._color else uncolored(text)))

    def _act(self, act: Callable[[], Awaitable[str]]) -> None:
        """Do something to a run, beside everything else, and say what came of it."""

        async def do() -> None:
            try:
                self._say(await act())
            except HermesctlError as error:
                told = f"{error.message}\n{error.hint}" if error.hint else error.message
                self._say(told, wrong=True)
            self._watch.survey_now()

        self.run_worker(do(), exit_on_error=True)

    def _say(self, text: str, *, wrong: bool = False) -> None:
        told = rows.paragraph(text).plain
        self.app.notify(
            told,
            severity="error" if wrong else "information",
            timeout=NOTE_S,
            markup=False,
        )
