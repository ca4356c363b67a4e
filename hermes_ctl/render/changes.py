"""What has changed on a node that is watched: one line, with what is not well any more, or again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_ctl.checks.model import Status
from hermes_ctl.render.console import Screen, cell
from hermes_ctl.render.steps import STYLE, VERDICT, mark_of
from hermes_ctl.render.tables import plain

if TYPE_CHECKING:
    from hermes_ctl.checks.changes import Change, StepChange

_LONGEST_SUMMARY = 200
_QUIET_AT_FIRST = (Status.PASS, Status.SKIP)


def write_change(screen: Screen, change: Change) -> None:
    """On a terminal a line for the verdict and one for each step below it. In a pipe one line of
    time, node, verdict, the verdict before, and the steps as `ID=STATUS`."""
    steps = _worth_telling(change)
    if not screen.is_terminal:
        report = change.report
        told = " ".join(f"{step.id}={step.status}" for step in steps)
        cells = (report.started_at, report.node.name, report.verdict.value, change.was, told)
        screen.line("\t".join(plain(value) for value in cells))
        return
    _write_lines(screen, change, steps)


def _write_lines(screen: Screen, change: Change, steps: list[StepChange]) -> None:
    from rich.text import Text

    report = change.report
    word, style = VERDICT[report.verdict]
    line = Text(f"{report.started_at.astimezone():%H:%M:%S}  ", style="dim")
    line.append(cell(report.node.name) + "  ", style="not dim bold")
    if change.was is not None and change.was is not report.verdict:
        line.append(f"{VERDICT[change.was][0]}, now ", style="not dim")
    line.append(word, style=f"not dim {style}")
    screen.out.print(line)
    for step in steps:
        text = Text("          ") + Text(mark_of(screen, step.status), style=STYLE[step.status])
        text.append(f" {step.id}  {cell(step.summary, _LONGEST_SUMMARY)}")
        screen.out.print(text)


def _worth_telling(change: Change) -> list[StepChange]:
    """Of the first check, what is not well; later, everything."""
    if change.was is not None:
        return list(change.steps)
    return [step for step in change.steps if step.status not in _QUIET_AT_FIRST]
