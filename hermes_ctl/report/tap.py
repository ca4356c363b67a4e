"""TAP 14: one line for each step, and for each difference that matters."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_ctl.checks.drift.difference import Level
from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import Severity, Status, Step
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.report.words import checks_of, clean


def text(report: AnyReport) -> str:
    points = list(_points(report))
    lines = ["TAP version 14", f"1..{len(points)}"]
    for number, (passed, words, diagnostic) in enumerate(points, 1):
        lines.append(f"{'ok' if passed else 'not ok'} {number} - {words}")
        if diagnostic:
            lines += ["  ---", *(f"  {line}" for line in diagnostic), "  ..."]
    return "\n".join(lines) + "\n"


def _points(report: AnyReport) -> Iterator[tuple[bool, str, list[str]]]:
    for one in checks_of(report):
        for step in one.report.steps:
            yield _point(step, f"{one.side or one.name} ")
        if one.report.untold_reason:
            yield False, _escaped(f"{one.side or one.name} verdict: {one.report.untold_reason}"), []
    if not isinstance(report, GateReport):
        return
    for difference in report.differences:
        words = _escaped(f"{difference.id}: {difference.summary}")
        if difference.waived is not None:
            yield False, f"{words} # TODO waived: {_escaped(difference.waived)}", []
        elif difference.level is not Level.COMPATIBLE:
            yield difference.level is not Level.BREAKING, words, []


def _point(step: Step, before: str) -> tuple[bool, str, list[str]]:
    words = _escaped(f"{before}{step.id}: {step.summary}")
    if step.status is Status.SKIP:
        return True, f"{words} # SKIP", []
    if step.status in (Status.PASS, Status.WARN):
        return True, words, []
    if step.severity is Severity.ADVISORY:
        words += " # TODO advisory"
    rows = [("status", step.status.value), ("expected", step.expected), ("found", step.observed)]
    return False, words, [f"{name}: {_quoted(value)}" for name, value in rows if value]


def _escaped(text: str) -> str:
    """A `#` would begin a directive."""
    return clean(text).replace("\\", "\\\\").replace("#", "\\#")


def _quoted(value: str) -> str:
    """A YAML string."""
    return "'" + clean(value).replace("'", "''") + "'"
