"""Several checks side by side: each node's screen when it is done, then all verdicts in a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_ctl.checks.model import FleetReport, Verdict
from hermes_ctl.checks.runner import CheckEvent, CheckFinished, CheckStarted, StepSettled, Waiting
from hermes_ctl.render.console import Screen, cell
from hermes_ctl.render.progress import CheckProgress
from hermes_ctl.render.steps import VERDICT, verdict_line, write_verdict

if TYPE_CHECKING:
    from rich.live import Live


_MOST_LINES = 10
_PAUSE = 0.1
"""Seconds between two changes of the screen: a thousand nodes have a lot to tell."""


@dataclass(slots=True)
class _Node:
    """How far the check of one node is."""

    name: str
    events: list[CheckEvent] = field(default_factory=list)
    steps: int = 0
    settled: int = 0
    waiting: str = ""
    done: bool = False

    def take(self, event: CheckEvent) -> None:
        if isinstance(event, Waiting):
            self.waiting = event.reason
            return
        self.events.append(event)
        self.waiting = ""
        if isinstance(event, CheckStarted):
            self.steps = len(event.steps)
        self.settled += isinstance(event, StepSettled)
        self.done = isinstance(event, CheckFinished)

    @property
    def state(self) -> str:
        if self.waiting:
            return f"waiting: {cell(self.waiting, 80)}"
        return f"{self.settled} of {self.steps} steps"


class FleetProgress:
    """Shows the checks of the nodes `names`. Give `observer(index)` every event of that node's.

    On a terminal one line for each node that is not done tells how far it is.
    """

    def __init__(self, screen: Screen, names: Sequence[str]) -> None:
        self.screen = screen
        self._nodes = [_Node(name) for name in names]
        self._live: Live | None = None
        self._wants_live = screen.is_terminal and screen.animates
        self._shown_at = 0.0

    def observer(self, index: int) -> Callable[[CheckEvent], None]:
        node = self._nodes[index]

        def observe(event: CheckEvent) -> None:
            node.take(event)
            if node.done:
                self._show(node)
            self._update()

        return observe

    def close(self) -> None:
        """Give the terminal back, whatever happened."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def finish(self, fleet: FleetReport) -> None:
        """One line for each node, and how many came to what."""
        self.close()
        width = max(len(cell(report.node.name)) for report in fleet.nodes)
        for report in fleet.nodes:
            if self.screen.quiet:
                write_verdict(self.screen, report, named=True)
            else:
                self.screen.out.print(verdict_line(report, cell(report.node.name).ljust(width)))
        counted = [
            f"{number} {VERDICT[verdict][0].lower()}"
            for verdict in Verdict
            if (number := sum(report.verdict is verdict for report in fleet.nodes))
        ]
        self.screen.out.print(f"{len(fleet.nodes)} nodes: {', '.join(counted)}")

    def _show(self, node: _Node) -> None:
        """The node's whole screen, above the lines of those that are not done."""
        events, node.events = node.events, []
        if self.screen.quiet:
            return
        progress = CheckProgress(self.screen, live=False)
        for event in events:
            progress.observe(event)
        self.screen.out.print()

    def _update(self) -> None:
        now = time.monotonic()
        if not self._wants_live or now - self._shown_at < _PAUSE:
            return
        self._shown_at = now
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(
                console=self.screen.out, auto_refresh=False, transient=True, redirect_stdout=False
            )
            self._live.start()
        waiting = [node for node in self._nodes if not node.done]
        mark = self.screen.marks.running
        lines = [f"{mark} {cell(node.name)}  {node.state}" for node in waiting[:_MOST_LINES]]
        if len(waiting) > _MOST_LINES:
            lines.append(f"{mark} and {len(waiting) - _MOST_LINES} more")
        self._live.update(Text("\n".join(lines), style="dim"), refresh=True)
