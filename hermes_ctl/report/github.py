"""Annotations of a GitHub workflow: what shows on the run's page and beside a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_ctl.checks.drift.difference import Level
from hermes_ctl.checks.gate import GateReport, WaiverState
from hermes_ctl.checks.model import Severity, Status
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.report.words import checks_of, clean, counts_of, title_of, verdict_of, waiver_line

MOST = 10
"""GitHub shows ten annotations of each kind of one step and drops the others."""

_LEVEL = {Level.BREAKING: "error", Level.RISKY: "warning"}


def text(report: AnyReport) -> str:
    return "".join(f"{line}\n" for line in workflow_commands(report))


def workflow_commands(report: AnyReport) -> list[str]:
    """Workflow commands, errors first, a notice with the verdict last."""
    found = list(_gate(report) if isinstance(report, GateReport) else _checks(report))
    lines: list[str] = []
    for kind in ("error", "warning"):
        lines += [line for line in found if line.startswith(f"::{kind} ")][:MOST]
    summary = f"{verdict_of(report)}: {counts_of(report)}"
    return [*lines, _command("notice", title_of(report), summary)]


def _checks(report: AnyReport) -> Iterator[str]:
    for one in checks_of(report):
        for step in one.report.steps:
            if step.status not in (Status.FAIL, Status.UNKNOWN, Status.WARN):
                continue
            grave = step.status is not Status.WARN and step.severity is Severity.REQUIRED
            fix = f" Fix: {clean(step.fix[0])}" if step.fix else ""
            yield _command(
                "error" if grave else "warning",
                f"hermesctl {step.id} on {one.name}",
                f"{clean(step.summary)}.{fix}",
            )


def _gate(report: GateReport) -> Iterator[str]:
    told = {one.summary for one in report.differences}
    for reason in report.reasons:
        if report.exit_code and reason not in told:
            yield _command("error", "hermesctl gate", reason)
    for one in report.differences:
        kind = _LEVEL.get(one.level)
        if kind and one.waived is None:
            by = f" Consumed by {', '.join(one.consumers)}." if one.consumers else ""
            yield _command(kind, f"hermesctl {one.id}", f"{clean(one.summary)}.{by}")
    for waiver in report.waivers:
        if waiver.state is not WaiverState.APPLIED:
            yield _command("warning", "hermesctl waiver", waiver_line(waiver))


def _command(kind: str, title: str, message: str) -> str:
    """`::error title=...::message`, escaped as GitHub's toolkit does."""
    data = clean(message).replace("%", "%25")
    name = clean(title).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={name}::{data}"
