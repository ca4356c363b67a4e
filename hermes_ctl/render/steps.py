"""The lines of a check: a step in one, the verdict, and for each step that is not well what was
expected, what was found, and what mends it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hermes_ctl.checks.model import Report, Severity, Status, Step, Verdict
from hermes_ctl.checks.runner import INTERRUPTED, NO_RUNS, NOT_CHOSEN
from hermes_ctl.durations import format_duration
from hermes_ctl.render.console import Screen, cell
from hermes_ctl.text import how_many

if TYPE_CHECKING:
    from rich.text import Text

STYLE = {
    Status.PASS: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.SKIP: "dim",
    Status.UNKNOWN: "magenta",
}
VERDICT = {
    Verdict.READY: ("READY", "bold green"),
    Verdict.NOT_READY: ("NOT READY", "bold red"),
    Verdict.UNDETERMINED: ("UNDETERMINED", "bold magenta"),
}
NOT_WELL = (Status.FAIL, Status.UNKNOWN, Status.WARN)
_LEFT_OUT = (NOT_CHOSEN, NO_RUNS)
_LABEL = 10
_WIDEST_LABEL = 40
_TIMES_AT = 100
"""Columns at which the times end, however wide the terminal is."""

_SHORT_SUMMARY = 400
_NARROWEST = 20


def step_line(screen: Screen, step: Step, width: int) -> Text:
    """One settled step: mark, number, id in `width` columns, summary, and its time where it took
    some. What does not fit on one line goes on below the summary."""
    from rich.text import Text

    style = STYLE[step.status]
    line = Text("  ") + Text(mark_of(screen, step.status), style=style)
    line.append(f" {step.number:>2} {step.id:<{width}}  ", style="dim" if style == "dim" else "")
    indent = line.cell_len
    pieces = _wrapped(_summary(step), screen.out.width - indent)
    line.append(f"\n{' ' * indent}".join(pieces), style="" if step.status is Status.PASS else style)
    if step.duration_s >= 0.05 and step.status is not Status.SKIP:
        taken = f"{step.duration_s:.1f} s"
        last = len(pieces[-1]) + indent
        room = min(screen.out.width, _TIMES_AT) - last - len(taken)
        if room >= 2:
            line.append(" " * room + taken, style="dim")
    return line


def _summary(step: Step) -> str:
    summary = cell(step.summary, _SHORT_SUMMARY)
    if step.blocked_by:
        summary += f" (see {step.blocked_by})"
    if step.severity is Severity.ADVISORY and step.status not in (Status.PASS, Status.SKIP):
        summary += " (advisory)"
    return summary


def mark_of(screen: Screen, status: Status) -> str:
    marks = screen.marks
    return {
        Status.PASS: marks.passed,
        Status.WARN: marks.warned,
        Status.FAIL: marks.failed,
        Status.SKIP: marks.skipped,
        Status.UNKNOWN: marks.unknown,
    }[status]


def write_verdict(screen: Screen, report: Report, *, named: bool = False) -> None:
    """The verdict and its cost, then what is not well; with `named`, the node's name before it.
    With `-v`, what each step saw comes first, unless that is to be quiet."""
    from rich.text import Text

    if screen.verbose and not screen.quiet:
        for step in report.steps:
            if step.evidence:
                screen.out.print()
                rows = [(f"{cell(one.source)} ", one.value) for one in step.evidence]
                _write_rows(screen, step, rows)
    if not named:
        screen.out.print()
    name = cell(report.node.name) if named else ""
    screen.out.print(verdict_line(report, screen.out.width, name))
    if report.untold_reason:
        for piece in _wrapped(cell(report.untold_reason), screen.out.width):
            screen.out.print(Text(piece))
    if named and report.verdict is Verdict.READY:
        return
    for step in report.steps:
        if step.status in NOT_WELL and step.summary != INTERRUPTED:
            screen.out.print()
            write_trouble(screen, step)


def verdict_line(report: Report, width: int, name: str = "") -> Text:
    """`NOT READY  9 passed, 2 failed · 4 runs, 412 tokens · 4.6 s`, after `name` where one is
    given; in several lines where `width` columns do not hold it."""
    from rich.text import Text

    word, style = VERDICT[report.verdict]
    if report.interrupted:
        word += " (interrupted)"
    parts = [", ".join(_counts(report))]
    if report.cost.runs:
        tokens = report.cost.input_tokens + report.cost.output_tokens
        parts.append(f"{how_many(report.cost.runs, 'run')}, {tokens:,} tokens")
    parts.append(format_duration(report.duration_s))
    line = Text(f"{name}  " if name else "")
    line.append(word, style=style)
    indent = line.cell_len + 2
    rows = _wrapped(parts[0], width - indent)
    for part in parts[1:]:
        longer = f"{rows[-1]} · {part}"
        rows = [*rows[:-1], longer] if indent + len(longer) <= width else [*rows, part]
    line.append("  " + f"\n{' ' * indent}".join(rows))
    return line


def _counts(report: Report) -> Iterator[str]:
    """What the steps came to, in words; three ways of being skipped are three things."""
    skipped = [step for step in report.steps if step.status is Status.SKIP]
    blocked = sum(step.blocked_by is not None for step in skipped)
    left_out = sum(step.blocked_by is None and step.summary in _LEFT_OUT for step in skipped)
    counts = report.counts
    ended = sum(step.summary == INTERRUPTED for step in report.steps)
    for number, words in (
        (counts.passed, "passed"),
        (counts.warn, "with a warning"),
        (counts.fail, "failed"),
        (counts.unknown - ended, "unknown"),
        (ended, INTERRUPTED),
        (blocked, "not settled"),
        (left_out, "left out"),
        (len(skipped) - blocked - left_out, "not applicable"),
    ):
        if number:
            yield f"{number} {words}"


def write_trouble(screen: Screen, step: Step, *, on: str = "") -> None:
    """What was expected and found, and what mends it; `on` names the nodes where there are several."""
    rows: list[tuple[str, str]] = [("on", on)] if on else []
    if step.expected:
        rows.append(("expected", step.expected))
    rows.append(("found", step.observed or step.summary))
    rows += [("fix", line) for line in step.fix]
    rows.append(("more", f"hermesctl explain {step.id}"))
    _write_rows(screen, step, rows)


def _write_rows(screen: Screen, step: Step, rows: Sequence[tuple[str, str]]) -> None:
    """(label, text) beside the step's name, the labels in a column where they are not too long."""
    from rich.text import Text

    indent = max(_LABEL, len(step.id) + 1)
    width = max((len(label) + 1 for label, _ in rows if len(label) < _WIDEST_LABEL), default=0)
    for index, (label, text) in enumerate(rows):
        shown, room = (label, width) if len(label) < width else ("", 0)
        told = cell(text) if shown else f"{label.rstrip()}: {cell(text)}"
        for number, piece in enumerate(_wrapped(told, screen.out.width - indent - room)):
            line = Text()
            line.append(
                (step.id if index == number == 0 else "").ljust(indent), style=STYLE[step.status]
            )
            line.append(("" if number else shown).ljust(room), style="dim")
            line.append(piece)
            screen.out.print(line)


def _wrapped(text: str, room: int) -> list[str]:
    """`text` in lines; names and commands with dashes stay whole, so that they can be copied."""
    return textwrap.wrap(text, max(room, _NARROWEST), break_on_hyphens=False) or [""]
