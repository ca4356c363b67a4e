"""A gate as it looks: how far both sides are, then what changed, the gravest last."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.gate import GateReport, GateVerdict, Side, WaiverState
from hermes_ctl.checks.model import Report, Status
from hermes_ctl.checks.runner import (
    CheckEvent,
    CheckFinished,
    CheckStarted,
    NodeReached,
    StepSettled,
    StepStarted,
)
from hermes_ctl.durations import format_duration
from hermes_ctl.render.console import Screen, cell

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_VERDICT = {
    GateVerdict.SAFE: ("SAFE", "bold green"),
    GateVerdict.UNSAFE: ("UNSAFE", "bold red"),
    GateVerdict.UNDETERMINED: ("UNDETERMINED", "bold magenta"),
}
_FOLDED = ("field:", "event-field:")
_FEW = 3


class _Progress:
    """How far one side is."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.steps = 0
        self.settled = 0
        self.running: list[str] = []
        self.failed: list[str] = []

    def see(self, event: CheckEvent) -> None:
        if isinstance(event, CheckStarted):
            self.steps = len(event.steps)
        elif isinstance(event, NodeReached):
            self.version = event.version
        elif isinstance(event, StepStarted):
            self.running.append(event.id)
        elif isinstance(event, StepSettled):
            self.settled += 1
            if event.step.id in self.running:
                self.running.remove(event.step.id)
            if event.step.status in (Status.FAIL, Status.UNKNOWN):
                self.failed.append(event.step.id)

    def line(self) -> str:
        if not self.steps:
            return "starting"
        parts = [
            f"Hermes {cell(self.version or 'not reached', 30)}",
            f"{self.settled} of {self.steps}",
        ]
        if self.failed:
            parts.append(f"not well: {', '.join(self.failed)}")
        if self.running:
            parts.append("now: " + ", ".join(self.running[:4]))
        return "  ".join(parts)


class GateProgress:
    """Two lines that move on a terminal, remarks on standard error elsewhere."""

    def __init__(self, screen: Screen, checklist: str) -> None:
        self.screen = screen
        self._sides: dict[str, _Progress] = {}
        self._checklist = checklist
        self._notes: dict[str, str] = {}
        self._lock = threading.Lock()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.screen.animates:
            from rich.live import Live

            self._live = Live(
                console=self.screen.err, auto_refresh=False, transient=True, redirect_stdout=False
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def note(self, text: str) -> None:
        """A remark on how a side comes up; may be called from any thread."""
        with self._lock:
            label = text.partition(":")[0]
            self._notes[label] = cell(text, 120)
            if self._live is None:
                self.screen.note(text)
        self._show()

    def observer(self, label: str) -> Callable[[CheckEvent], None]:
        """What takes the events of one side."""
        side = self._sides.setdefault(label, _Progress())

        def observe(event: CheckEvent) -> None:
            side.see(event)
            if self._live is not None:
                self._show()
            else:
                self._remark(label, side, event)

        return observe

    def _show(self) -> None:
        if self._live is None:
            return
        from rich.text import Text

        lines = [
            Text(f"{label}  {side.line()}", style="dim") for label, side in self._sides.items()
        ] or [Text(note, style="dim") for note in self._notes.values()]
        with self._lock:
            self._live.update(Text("\n").join(lines), refresh=True)

    def _remark(self, label: str, side: _Progress, event: CheckEvent) -> None:
        if isinstance(event, NodeReached):
            self.screen.note(
                f"{label}: Hermes {event.version or 'of an unknown version'} answers; "
                f"{side.steps} steps of {self._checklist}"
            )
        elif isinstance(event, StepSettled) and event.step.status is not Status.SKIP:
            step = event.step
            self.screen.note(f"{label}: {side.settled}/{side.steps} {step.id} {step.status}")
        elif isinstance(event, CheckFinished):
            took = format_duration(event.report.duration_s)
            self.screen.note(f"{label}: checked in {took}, {event.report.verdict.value}")


def write_gate(screen: Screen, report: GateReport) -> None:
    """Both sides, what was added, what to look at, what is lost, the waivers, the verdict."""
    out = screen.out
    if not screen.quiet:
        _hang(screen, _heading(report), 6)
        out.print()
        for label, side in (("old", report.old), ("new", report.new)):
            _hang(screen, _side_line(label, side), 7)
        _write_compatible(screen, report)
        _write_level(screen, report, Level.RISKY, "to look at", screen.marks.warned, "yellow")
        _write_not_ready(screen, report)
        _write_level(screen, report, Level.BREAKING, "lost", screen.marks.failed, "bold red")
        _write_waivers(screen, report)
        out.print()
    out.print(_verdict_line(report))
    if report.verdict is not GateVerdict.SAFE and screen.quiet:
        for reason in report.reasons:
            out.print(f"  {cell(reason)}")


def _heading(report: GateReport) -> Text:
    from rich.text import Text

    word = "gate" if report.is_gate else "diff"
    text = Text(f"{word}  ", style="bold")
    text.append(f"{cell(report.old.asked)} -> {cell(report.new.asked)}", style="not bold")
    text.append(f"  checklist {cell(report.checklist.name)}", style="not bold")
    return text


def _side_line(label: str, side: Side) -> Text:
    from rich.text import Text

    report = side.report
    verdict = report.verdict.value.replace("_", " ").upper()
    text = Text(f"  {label}  Hermes {cell(report.node.hermes_version or 'not reached', 30):<14} ")
    text.append(f"{verdict:<13} ", style="green" if report.exit_code == 0 else "red")
    text.append(
        f"{_counted(report)} · {report.cost.runs} runs · {format_duration(report.duration_s)}"
    )
    return text


def _counted(report: Report) -> str:
    counts = report.counts
    named = (
        (counts.passed, "passed"),
        (counts.warn, "warned"),
        (counts.fail, "failed"),
        (counts.unknown, "unknown"),
        (counts.skip, "skipped"),
    )
    return ", ".join(f"{number} {word}" for number, word in named if number)


def _write_compatible(screen: Screen, report: GateReport) -> None:
    """What was added, one line each; single fields are folded unless `-v` asks for them."""
    from rich.text import Text

    found = report.at(Level.COMPATIBLE)
    if not found:
        return
    folded = [] if screen.verbose else [one for one in found if one.id.startswith(_FOLDED)]
    _title(screen, "compatible", len(found))
    for one in found:
        if one not in folded:
            _write_line(screen, one, "+", "green")
    for line in _folded_lines(folded):
        _hang(screen, Text(f"  + {line}", style="green"), 4)
    if folded:
        screen.out.print("    (-v lists each of them)", style="dim")


def _folded_lines(folded: list[Difference]) -> list[str]:
    """Fields that were added, by where: `GET /health/detailed 200: 6 fields`."""
    places: dict[str, list[str]] = defaultdict(list)
    for one in folded:
        first, *more = one.where.split(", ")
        where = f"{first} and {len(more)} more" if more else first
        places[where].append(one.id.rpartition(" ")[2])
    return [
        f"{cell(where)}: added {', '.join(map(cell, paths[:_FEW]))}"
        + (f" and {len(paths) - _FEW} more" if len(paths) > _FEW else "")
        for where, paths in places.items()
    ]


def _write_level(
    screen: Screen, report: GateReport, level: Level, title: str, mark: str, style: str
) -> None:
    found = report.at(level)
    if not found:
        return
    _title(screen, title, len(found))
    for one in found:
        _write_line(screen, one, mark, style)
        _write_detail(screen, one, hint=level is Level.BREAKING and report.is_gate)


def _write_line(screen: Screen, one: Difference, mark: str, style: str) -> None:
    from rich.text import Text

    text = Text(f"  {mark} ", style=style)
    text.append(cell(one.summary, 300), style=style if style.startswith("bold") else "")
    if one.consumers:
        text.append(f"  [{', '.join(one.consumers)}]", style="dim")
    _hang(screen, text, 4)


def _write_detail(screen: Screen, one: Difference, *, hint: bool) -> None:
    from rich.text import Text

    rows = [("old", one.old or "nothing"), ("new", one.new or "nothing")]
    if hint:
        rows.append(("waive", f"--waive '{one.id}=REASON'"))
    for label, value in rows:
        text = Text(f"      {label:<7}", style="dim")
        text.append(cell(value, 300), style="not dim")
        _hang(screen, text, 13)


def _write_not_ready(screen: Screen, report: GateReport) -> None:
    """What else decided: steps of NEW that failed in OLD as well (no regression, and no reason to
    move), or what could not be told."""
    from rich.text import Text

    told = {one.summary for one in report.differences}
    if report.verdict is GateVerdict.SAFE:
        return
    own = [reason for reason in report.reasons if reason not in told]
    if not own:
        return
    unsafe = report.verdict is GateVerdict.UNSAFE
    _title(screen, "not ready" if unsafe else "not told", len(own))
    mark, style = (screen.marks.failed, "bold red") if unsafe else (screen.marks.unknown, "magenta")
    for reason in own:
        _hang(screen, Text(f"  {mark} {cell(reason, 300)}", style=style), 4)


def _write_waivers(screen: Screen, report: GateReport) -> None:
    from rich.text import Text

    if not report.waivers:
        return
    _title(screen, "waivers", len(report.waivers))
    for one in report.waivers:
        style = "dim" if one.state is WaiverState.APPLIED else "yellow"
        until = f", until {one.expires.isoformat()}" if one.expires else ""
        words = f"{one.state.value:<8} {cell(one.finding)}: {cell(one.reason)}{until}"
        _hang(screen, Text(f"  {screen.marks.skipped} {words}", style=style), 13)


def _hang(screen: Screen, text: Text, indent: int) -> None:
    """`text`; what one line does not hold goes on below its words, `indent` columns in."""
    from rich.text import Text

    lead, words = text.divide([indent])
    for piece in words.wrap(screen.out, max(screen.out.width - indent, 20)):
        piece.rstrip()
        screen.out.print(lead + piece)
        lead = Text(" " * indent)


def _title(screen: Screen, title: str, number: int) -> None:
    screen.out.print()
    screen.out.print(f"{title} ({number})", style="bold")


def _verdict_line(report: GateReport) -> Text:
    from rich.text import Text

    word, style = _VERDICT[report.verdict]
    counts = report.counts
    named = (
        (counts.breaking, "lost"),
        (counts.risky, "to look at"),
        (counts.compatible, "compatible"),
        (counts.waived, "waived"),
    )
    parts = [", ".join(f"{number} {words}" for number, words in named if number) or "no difference"]
    if report.is_gate:
        parts.append(format_duration(report.duration_s))
    text = Text(word, style=style)
    text.append("  " + " · ".join(parts), style="not bold")
    return text
