"""A check as it looks: a line for each step while it runs, then the verdict, what failed and how
to mend it, and what it cost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hermes_ctl.checks.model import Report, Severity, Status, Step, Verdict
from hermes_ctl.checks.runner import (
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

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_STYLE = {
    Status.PASS: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.SKIP: "dim",
    Status.UNKNOWN: "magenta",
}
_VERDICT = {
    Verdict.READY: ("READY", "bold green"),
    Verdict.NOT_READY: ("NOT READY", "bold red"),
    Verdict.UNDETERMINED: ("UNDETERMINED", "bold magenta"),
}
_COUNTED = (
    ("passed", "passed"),
    ("warn", "with a warning"),
    ("fail", "failed"),
    ("unknown", "unknown"),
    ("skip", "not applicable"),
)
_LABEL = 10
_SHORT_SUMMARY = 400


class CheckProgress:
    """Shows one check. Give it every event of the runner.

    On a terminal the lines fill in as steps settle. In a pipe each is written once, in order, as
    soon as all before it are settled.
    """

    def __init__(self, screen: Screen, *, live: bool = True) -> None:
        self.screen = screen
        self._started: CheckStarted | None = None
        self._version: str | None = None
        self._running: set[str] = set()
        self._settled: dict[str, Step] = {}
        self._written = 0
        self._headed = False
        self._waiting: str | None = None
        self._live: Live | None = None
        self._wants_live = live and screen.is_terminal and screen.animates

    def observe(self, event: CheckEvent) -> None:
        """Show what the event changes. The screen is as it was before once the check has ended."""
        if isinstance(event, CheckStarted):
            self._started = event
            self._begin()
        elif isinstance(event, NodeReached):
            self._version, self._waiting = event.version, None
        elif isinstance(event, Waiting):
            self._wait(event)
        elif isinstance(event, StepStarted):
            self._running.add(event.id)
        elif isinstance(event, StepSettled):
            self._settled[event.step.id] = event.step
        elif isinstance(event, CheckFinished):
            self._finish(event.report)
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
        left = format_duration(event.seconds_left)
        said = f"waiting up to {left}: {cell(event.reason, 160)}"
        if self._live is None and said != self._waiting:
            self.screen.note(said)
        self._waiting = said

    def _update(self) -> None:
        if self._live is not None:
            self._live.update(_joined(self._lines()), refresh=True)
        elif not self._wants_live and not self.screen.quiet:
            self._write_settled()

    def _write_settled(self) -> None:
        """Write the lines that are final: those of settled steps without an open one before them."""
        if self._started is None or not self._settled:
            return
        steps = self._started.steps
        while self._written < len(steps) and steps[self._written][1] in self._settled:
            if not self._headed:
                self.screen.out.print(self._header())
                self.screen.out.print()
                self._headed = True
            self.screen.out.print(self._line(*steps[self._written]))
            self._written += 1

    def _lines(self) -> list[Text]:
        from rich.text import Text

        if self._started is None:
            return []
        lines = [self._header(), Text("")]
        if self._waiting:
            return [*lines, Text(f"  {self._waiting}", style="dim")]
        return [*lines, *(self._line(*step) for step in self._started.steps)]

    def _header(self) -> Text:
        from rich.text import Text

        started = self._started
        if started is None:
            return Text("")
        node = started.node
        hermes = f"Hermes {cell(self._version, 40)}" if self._version else "Hermes not reached"
        parts = [
            cell(node.url),
            hermes,
            f"checklist {cell(started.checklist.name)} (release {cell(started.release)})",
        ]
        return Text(cell(node.name), style="bold") + Text("  " + "  ".join(parts), style="not bold")

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

    def _finish(self, report: Report) -> None:
        lines = self._lines()
        self.close()
        out = self.screen.out
        if self._wants_live and not self.screen.quiet:
            for line in lines:
                out.print(line)
        elif not self.screen.quiet:
            self._write_settled()
        write_verdict(self.screen, report, named=self.screen.quiet)


def _joined(lines: Iterable[Text]) -> Text:
    from rich.text import Text

    return Text("\n").join(lines)


def step_line(screen: Screen, step: Step, width: int) -> Text:
    """One settled step as one line: mark, number, id, summary, and its time where it took some."""
    from rich.text import Text

    marks = screen.marks
    mark = {
        Status.PASS: marks.passed,
        Status.WARN: marks.warned,
        Status.FAIL: marks.failed,
        Status.SKIP: marks.skipped,
        Status.UNKNOWN: marks.unknown,
    }[step.status]
    style = _STYLE[step.status]
    summary = cell(step.summary, _SHORT_SUMMARY)
    if step.blocked_by:
        summary += f" (see {step.blocked_by})"
    if step.severity is Severity.ADVISORY and step.status not in (Status.PASS, Status.SKIP):
        summary += " (advisory)"
    line = Text("  ") + Text(mark, style=style)
    line.append(f" {step.number:>2} {step.id:<{width}}  ", style="dim" if style == "dim" else "")
    line.append(summary, style="" if step.status is Status.PASS else style)
    if step.duration_s >= 0.05 and step.status is not Status.SKIP:
        taken = f"{step.duration_s:.1f} s"
        room = min(screen.out.width, 100) - line.cell_len - len(taken)
        if room >= 2:
            line.append(" " * room + taken, style="dim")
    return line


def write_verdict(screen: Screen, report: Report, *, named: bool = False) -> None:
    """The verdict and its cost, then for each step that is not well: expected, found, fix."""
    from rich.text import Text

    out = screen.out
    word, style = _VERDICT[report.verdict]
    if report.interrupted:
        word += " (interrupted)"
    parts = [", ".join(_counts(report))]
    if report.cost.runs:
        tokens = report.cost.input_tokens + report.cost.output_tokens
        parts.append(f"{report.cost.runs} runs, {tokens:,} tokens")
    parts.append(format_duration(report.duration_s))
    line = Text(f"{cell(report.node.name)}  " if named else "")
    line.append(word, style=style)
    line.append("  " + " · ".join(parts))
    if not named:
        out.print()
    out.print(line)
    if named and report.verdict is Verdict.READY:
        return
    for step in report.steps:
        if step.status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
            out.print()
            _write_trouble(screen, step)


def _counts(report: Report) -> list[str]:
    named = ((getattr(report.counts, field), word) for field, word in _COUNTED)
    return [f"{number} {word}" for number, word in named if number]


def _write_trouble(screen: Screen, step: Step) -> None:
    from rich.text import Text

    rows: list[tuple[str, str]] = []
    if step.expected:
        rows.append(("expected", step.expected))
    rows.append(("found", step.observed or step.summary))
    rows += [("fix", line) for line in step.fix]
    rows.append(("more", f"hermesctl explain {step.id}"))
    indent = max(_LABEL, len(step.id) + 1)
    for index, (label, text) in enumerate(rows):
        shown = cell(text)
        room = max(screen.out.width - indent - 9, 20)
        for number, piece in enumerate(textwrap.wrap(shown, room) or [""]):
            line = Text()
            line.append(
                (step.id if index == number == 0 else "").ljust(indent), style=_STYLE[step.status]
            )
            line.append(("" if number else label).ljust(9), style="dim")
            line.append(piece)
            screen.out.print(line)
