"""Many nodes, checked side by side: a line for each, which fills in as its steps settle; in the end
the worst first, what is not well told once for all nodes that have it, and one verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from hermes_ctl.checks.model import FleetReport, Report, Status, Step, Verdict
from hermes_ctl.checks.runner import (
    INTERRUPTED,
    CheckEvent,
    CheckFinished,
    CheckStarted,
    NodeReached,
    StepSettled,
    StepStarted,
    Waiting,
)
from hermes_ctl.durations import format_duration
from hermes_ctl.render.console import WORDS, Screen, cell
from hermes_ctl.render.steps import NOT_WELL, STYLE, VERDICT, mark_of, write_trouble
from hermes_ctl.render.tables import Column, Table, show
from hermes_ctl.text import how_many

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_LETTER = {
    Status.PASS: ".",
    Status.WARN: "W",
    Status.FAIL: "F",
    Status.SKIP: "-",
    Status.UNKNOWN: "?",
}
_NOT_YET = " "
_LONGEST_NAME = 40
_LONGEST_VERSION = 16
_NAMES_SHOWN = 8
_TROUBLES_SHOWN = 12
_AROUND = 4
"""Lines of the terminal that the lines of nodes leave free."""

_PER_SECOND = 5


@dataclass(slots=True)
class _Row:
    """How far the check of one node is. `steps` maps each step's id to how it came out so far."""

    name: str
    began: float = 0.0
    version: str = ""
    steps: dict[str, Status | None] = field(default_factory=dict)
    running: tuple[str, ...] = ()
    waiting: str = ""
    report: Report | None = None

    def take(self, event: CheckEvent) -> None:
        if isinstance(event, CheckStarted):
            self.began = time.monotonic()
            self.steps = {step_id: None for _, step_id, _ in event.steps}
        elif isinstance(event, NodeReached):
            self.version, self.waiting = event.version or "", ""
        elif isinstance(event, Waiting):
            self.waiting = event.reason
        elif isinstance(event, StepStarted):
            self.running += (event.id,)
        elif isinstance(event, StepSettled):
            self.steps[event.step.id] = event.step.status
            self.running = tuple(each for each in self.running if each != event.step.id)
        elif isinstance(event, CheckFinished):
            self.report = event.report


class FleetProgress:
    """Shows the checks of the nodes `names`. Give `observer(index)` every event of that node's, and
    `finish` the report. What does not fit on the terminal is counted."""

    def __init__(self, screen: Screen, names: Sequence[str]) -> None:
        self.screen = screen
        self._rows = [_Row(name) for name in names]
        self._live: Live | None = None
        self._wants_live = screen.is_terminal and screen.animates

    @property
    def shows_steps(self) -> bool:
        """Whether anything but the end of a check is shown."""
        return self._wants_live

    def observer(self, index: int) -> Callable[[CheckEvent], None]:
        row = self._rows[index]

        def observe(event: CheckEvent) -> None:
            row.take(event)
            if row.report is not None and not self._wants_live:
                word = VERDICT[row.report.verdict][0]
                self.screen.detail(f"{row.name}: {word} ({self._done} of {len(self._rows)})")
            self._begin()

        return observe

    def close(self) -> None:
        """Give the terminal back, whatever happened."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def finish(self, fleet: FleetReport) -> None:
        """All nodes, what is not well, the verdict."""
        self.close()
        write_fleet(self.screen, fleet)

    @property
    def _done(self) -> int:
        return sum(row.report is not None for row in self._rows)

    def _begin(self) -> None:
        if self._live is not None or not self._wants_live:
            return
        from rich.live import Live

        self._live = Live(
            console=self.screen.out,
            get_renderable=self._picture,
            refresh_per_second=_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def _picture(self) -> Text:
        from rich.text import Text

        room = max(self.screen.out.size.height - _AROUND, 1)
        rows = self._rows
        if len(rows) > room:
            rows = sorted(rows, key=_interest)[: room - 1]
        columns = _Columns(self._rows)
        lines = [_row_line(self.screen, row, columns) for row in rows]
        if len(rows) < len(self._rows):
            lines.append(Text(f"     and {len(self._rows) - len(rows)} more", style="dim"))
        done = f"{self._done} of {len(self._rows)} nodes checked"
        return Text("\n").join([*lines, Text(f"     {done}", style="dim")])


def _interest(row: _Row) -> int:
    """What is worth a line where there are too few: those under way, then those that are not well."""
    if row.report is None:
        return 0 if row.began else 3
    return 1 if row.report.verdict is not Verdict.READY else 2


class _Columns:
    """How wide the columns are."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self.name = max(min(len(cell(row.name)), _LONGEST_NAME) for row in rows)
        self.version = max(min(len(cell(row.version)), _LONGEST_VERSION) for row in rows)
        self.steps = max(len(row.steps) for row in rows)


def _row_line(screen: Screen, row: _Row, columns: _Columns) -> Text:
    """`✗  node1  ✗✓✓✓––––––––  0.19.0  NOT READY     2.9 s  release`."""
    from rich.text import Text

    report = row.report
    line = Text("  ")
    word, style = VERDICT[report.verdict] if report else ("", "dim")
    if report is None:
        line.append(screen.marks.running if row.began else _NOT_YET, style="dim")
    else:
        line.append(mark_of(screen, _AS_STATUS[report.verdict]), style=style)
    line.append(f"  {cell(row.name, _LONGEST_NAME).ljust(columns.name)}  ")
    for status in row.steps.values():
        line.append(_sign(screen, status), style=STYLE[status] if status else "")
    line.append(" " * (columns.steps - len(row.steps) + 2))
    line.append(cell(row.version, _LONGEST_VERSION).ljust(columns.version) + "  ")
    line.append(word.ljust(12), style=style)
    line.append(f"  {_took(row):>8}  ", style="dim")
    room = max(screen.out.width - line.cell_len, 0)
    line.append(cell(_words(row), room) if room else "", style="" if report else "dim")
    return line


_AS_STATUS = {
    Verdict.READY: Status.PASS,
    Verdict.NOT_READY: Status.FAIL,
    Verdict.UNDETERMINED: Status.UNKNOWN,
}


def _sign(screen: Screen, status: Status | None) -> str:
    if status is None:
        return "·" if screen.marks is not WORDS else "_"
    return _LETTER[status] if screen.marks is WORDS else mark_of(screen, status)


def _took(row: _Row) -> str:
    if row.report is not None:
        return format_duration(row.report.duration_s)
    return format_duration(float(int(time.monotonic() - row.began))) if row.began else ""


def _words(row: _Row) -> str:
    if row.report is not None:
        return ("interrupted; " if row.report.interrupted else "") + _not_well(row.report)
    return f"waiting: {row.waiting}" if row.waiting else ", ".join(row.running)


def _not_well(report: Report) -> str:
    """The steps that decided a verdict other than ready, by their ids."""
    if report.verdict is Verdict.READY:
        return ""
    wanted = (Status.FAIL,) if report.verdict is Verdict.NOT_READY else (Status.UNKNOWN,)
    return ", ".join(step.id for step in report.steps if step.status in wanted)


def _letters(report: Report) -> str:
    return "".join(_LETTER[step.status] for step in report.steps)


TABLE: Table[Report] = Table(
    columns=(
        Column("Node", lambda report: report.node.name),
        Column("Verdict", lambda report: report.verdict.value),
        Column("Hermes", lambda report: report.node.hermes_version),
        Column("Steps", _letters),
        Column("Not well", _not_well),
        Column("Took", lambda report: timedelta(seconds=report.duration_s)),
        Column("URL", lambda report: report.node.url),
    ),
    name=lambda report: report.node.name,
    raw=lambda report: report.document(),
)
"""A node a line, for pipes."""


def write_fleet(screen: Screen, fleet: FleetReport) -> None:
    """The nodes, worst first; what is not well; the verdict. In a pipe the nodes alone are the
    result, tab-separated, and the rest goes to standard error."""
    if not screen.is_terminal:
        show(screen, TABLE, fleet.worst_first())
        for line in _remarks(fleet):
            screen.note(line)
        return
    shown = [one for one in fleet.worst_first() if not screen.quiet or one.verdict != Verdict.READY]
    rows = [
        _Row(
            report.node.name,
            version=report.node.hermes_version or "not reached",
            steps={step.id: step.status for step in report.steps},
            report=report,
        )
        for report in shown
    ]
    if not screen.quiet:
        checklist = fleet.nodes[0].checklist
        said = f"checklist {cell(checklist.name)} (release {cell(checklist.release)})"
        screen.out.print(f"{len(fleet.nodes)} nodes  {said}")
        screen.out.print()
    for row in rows:
        screen.out.print(_row_line(screen, row, _Columns(rows)), no_wrap=True, overflow="crop")
    if not screen.quiet:
        _write_troubles(screen, fleet)
    for line in _same_servers(fleet):
        screen.out.print()
        screen.out.print(f"  {screen.marks.warned}  {line}", style="yellow")
    from rich.text import Text

    word, style = VERDICT[fleet.verdict]
    screen.out.print()
    screen.out.print(Text(word, style=style) + Text(f"  {_summary(fleet)}", style="not bold"))


def _remarks(fleet: FleetReport) -> Iterator[str]:
    for trouble in troubles_of(fleet):
        yield f"{trouble.step.id} {trouble.step.status} on {trouble.on}: {trouble.step.summary}"
        yield from (f"  fix  {line}" for line in trouble.step.fix)
    yield from _same_servers(fleet)
    yield f"{VERDICT[fleet.verdict][0]}  {_summary(fleet)}"


def _same_servers(fleet: FleetReport) -> Iterator[str]:
    for same in fleet.same_server:
        names = ", ".join(cell(name) for name in same.nodes)
        yield f"{names} are one and the same server: its process {same.process.pid} says so"


def _summary(fleet: FleetReport) -> str:
    counts = fleet.counts
    named = ((counts.ready, "ready"), (counts.not_ready, "not ready"))
    came_to = [f"{number} {word}" for number, word in named if number]
    if counts.undetermined:
        came_to.append(f"{counts.undetermined} undetermined")
    parts = [f"{how_many(len(fleet.nodes), 'node')}: {', '.join(came_to)}"]
    runs = sum(report.cost.runs for report in fleet.nodes)
    if runs:
        tokens = sum(one.cost.input_tokens + one.cost.output_tokens for one in fleet.nodes)
        parts.append(f"{runs} runs, {tokens:,} tokens")
    parts.append(format_duration(fleet.duration_s))
    if fleet.interrupted:
        parts.append("interrupted")
    return " · ".join(parts)


# What is not well


@dataclass(slots=True)
class Trouble:
    """One thing that befell a step, and the nodes that have it."""

    step: Step
    nodes: list[str]

    @property
    def on(self) -> str:
        shown = ", ".join(cell(name) for name in self.nodes[:_NAMES_SHOWN])
        more = len(self.nodes) - _NAMES_SHOWN
        return f"{shown} and {more} more" if more > 0 else shown


def troubles_of(fleet: FleetReport) -> list[Trouble]:
    """What is not well, told once for all nodes that have it: warnings first, failures last."""
    found: dict[tuple[object, ...], Trouble] = {}
    for report in fleet.nodes:
        place = report.node.url.partition("://")[2].partition("/")[0]
        for step in report.steps:
            if step.status not in NOT_WELL or step.summary == INTERRUPTED:
                continue
            said = step.summary.replace(place, "the node")
            key = (step.id, step.status, said, step.expected, tuple(step.fix))
            if key not in found:
                found[key] = Trouble(step, [report.node.name])
                continue
            trouble = found[key]
            trouble.nodes.append(report.node.name)
            trouble.step = step.model_copy(update={"summary": said, "observed": said})
    order = [Status.WARN, Status.UNKNOWN, Status.FAIL]
    return sorted(found.values(), key=lambda one: (order.index(one.step.status), one.step.number))


def _write_troubles(screen: Screen, fleet: FleetReport) -> None:
    troubles = troubles_of(fleet)
    kept = troubles[-_TROUBLES_SHOWN:]
    if len(kept) < len(troubles):
        screen.out.print()
        rest = len(troubles) - len(kept)
        screen.out.print(f"{rest} more kinds of trouble: -o json has them all", style="dim")
    for trouble in kept:
        screen.out.print()
        write_trouble(screen, trouble.step, on=trouble.on)
