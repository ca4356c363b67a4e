"""A check as it looks: a line for each step while it runs, then the verdict, what failed and how
to mend it, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_ctl.checks.model import Status, Step
from hermes_ctl.checks.runner import (
    NOT_CHOSEN,
    CheckEvent,
    CheckFinished,
    CheckStarted,
    NodeReached,
    StepSettled,
    StepStarted,
    Waiting,
)
from hermes_ctl.durations import format_duration
from hermes_ctl.render.console import Screen, cell
from hermes_ctl.render.steps import step_line, write_verdict

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_LONGEST_REASON = 160


class CheckProgress:
    """Shows one check. Give it every event of the runner.

    On a terminal the lines fill in as steps settle. In a pipe each is written once, in order, as
    soon as all before it are settled.
    """

    def __init__(self, screen: Screen, *, live: bool = True) -> None:
        self.screen = screen
        self._started: CheckStarted | None = None
        self._reached: NodeReached | None = None
        self._running: set[str] = set()
        self._settled: dict[str, Step] = {}
        self._written = 0
        self._headed = False
        self._waiting: Waiting | None = None
        self._live: Live | None = None
        self._wants_live = live and screen.is_terminal and screen.animates

    def observe(self, event: CheckEvent) -> None:
        """Show what the event changes. The screen is as it was before once the check has ended."""
        if isinstance(event, CheckStarted):
            self._started = event
            self._begin()
        elif isinstance(event, NodeReached):
            self._reached, self._waiting = event, None
        elif isinstance(event, Waiting):
            self._wait(event)
        elif isinstance(event, StepStarted):
            self._running.add(event.id)
            self._waiting = None
        elif isinstance(event, StepSettled):
            self._settled[event.step.id] = event.step
        elif isinstance(event, CheckFinished):
            self._finish(event)
            return
        self._update()

    def close(self) -> None:
        """Give the terminal back, whatever happened."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _begin(self) -> None:
        if not self._wants_live:
            return
        from rich.live import Live

        self._live = Live(
            console=self.screen.out, auto_refresh=False, transient=True, redirect_stdout=False
        )
        self._live.start()

    def _wait(self, event: Waiting) -> None:
        before, self._waiting = self._waiting, event
        if self._live is None and (before is None or before.reason != event.reason):
            self.screen.note(_waiting_line(event))

    def _update(self) -> None:
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text("\n").join(self._lines()), refresh=True)
        elif not self._wants_live and not self.screen.quiet:
            self._write_settled()

    def _write_settled(self) -> None:
        """Write the lines that are final: those of settled steps without an open one before them.
        None before it is known whether the node answers: the header says what it runs."""
        if self._started is None or self._waiting is not None or not self._is_under_way:
            return
        steps = self._started.steps
        while self._written < len(steps) and steps[self._written][1] in self._settled:
            if not self._headed:
                self.screen.out.print(self._header())
                self.screen.out.print()
                self._headed = True
            if self._is_shown(steps[self._written][1]):
                self.screen.out.print(self._line(*steps[self._written]))
            self._written += 1

    @property
    def _is_under_way(self) -> bool:
        settled = any(not _is_left_out(step) for step in self._settled.values())
        return self._reached is not None or bool(self._running) or settled

    def _is_shown(self, step_id: str) -> bool:
        """A step that nobody chose is not worth a line."""
        step = self._settled.get(step_id)
        return step is None or step.summary != NOT_CHOSEN

    def _lines(self) -> list[Text]:
        from rich.text import Text

        if self._started is None:
            return []
        lines = [self._header(), Text("")]
        if self._waiting is not None:
            return [*lines, Text(f"  {_waiting_line(self._waiting)}", style="dim")]
        shown = [step for step in self._started.steps if self._is_shown(step[1])]
        return [*lines, *(self._line(*step) for step in shown)]

    def _header(self) -> Text:
        """Node, address, release and checklist; on a narrow terminal in two lines."""
        from rich.text import Text

        started = self._started
        if started is None:
            return Text("")
        node = started.node
        checklist = f"checklist {cell(started.checklist.name)} (release {cell(started.release)})"
        name, url = cell(node.name), cell(node.url)
        first = [self._hermes] if self._hermes else []
        if url.endswith(f"//{name}"):
            name = url
        else:
            first = [url, *first]
        line = Text(name, style="bold")
        line.append("".join(f"  {part}" for part in first), style="not bold")
        fits = line.cell_len + 2 + len(checklist) <= self.screen.out.width
        line.append(("  " if fits else "\n  ") + checklist, style="not bold")
        return line

    @property
    def _hermes(self) -> str:
        """Empty as long as nobody has asked, and where nobody had to."""
        if self._reached is not None:
            version = self._reached.version
            return f"Hermes {cell(version, 40)}" if version else "Hermes of unknown release"
        failed = any(step.blocked_by for step in self._settled.values())
        return "Hermes not reached" if failed else ""

    def _line(self, number: int, step_id: str, title: str) -> Text:
        step = self._settled.get(step_id)
        if step is not None:
            return step_line(self.screen, step, self._name_width)
        from rich.text import Text

        running = step_id in self._running
        mark = self.screen.marks.running if running else " "
        name = f"{number:>2} {step_id:<{self._name_width}}"
        return Text(f"  {mark} {name}  {title.lower() if running else ''}", style="dim")

    @property
    def _name_width(self) -> int:
        steps = self._started.steps if self._started else ()
        return max((len(step_id) for _, step_id, _ in steps), default=0)

    def _finish(self, event: CheckFinished) -> None:
        self._waiting = None
        lines = self._lines()
        self.close()
        if self._wants_live and not self.screen.quiet:
            for line in lines:
                self.screen.out.print(line)
        elif not self.screen.quiet:
            self._write_settled()
        write_verdict(self.screen, event.report, named=self.screen.quiet)


def _is_left_out(step: Step) -> bool:
    return step.status is Status.SKIP and step.blocked_by is None


def _waiting_line(event: Waiting) -> str:
    left = format_duration(event.seconds_left)
    return f"waiting up to {left}: {cell(event.reason, _LONGEST_REASON)}"
