"""`top` as an application on the terminal, from its first sign to the terminal as it was found."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from hermes_ctl.monitor.board import Board
from hermes_ctl.monitor.watch import Watch
from hermes_ctl.top.control import RunControl
from hermes_ctl.top.overview import Overview
from hermes_ctl.top.style import STYLE


class TopApp(App[None]):
    """The application. A bug ends it without a word: `failure` is then for the caller to raise."""

    CSS = STYLE
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", show=False, priority=True)]

    def __init__(self, overview: Overview) -> None:
        super().__init__()
        self.theme = "ansi-dark"
        self._overview = overview

    def get_default_screen(self) -> Screen[None]:
        return self._overview

    @property
    def failure(self) -> Exception | None:
        return self._exception

    def _fatal_error(self) -> None:
        """In place of textual's: that prints every variable, and a key may be among them."""
        self._close_messages_no_wait()


async def run_top(board: Board, control: RunControl, watch: Watch, *, color: bool) -> None:
    """Show `board`, kept by `watch`, until somebody leaves.

    Raises what a task of the watch or the screen itself failed with; the terminal is as it was then.
    """
    app = TopApp(Overview(board, control, watch, color=color))
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch.run())
        try:
            await app.run_async(mouse=False)
        finally:
            watching.cancel()
    if app.failure is not None:
        raise app.failure
