"""The convention of Nagios, Icinga and Checkmk plugins: one line, performance data, its own codes."""

from __future__ import annotations

from enum import IntEnum

from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import Status
from hermes_ctl.errors import ExitCode
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.report.words import checks_of, clean, counts_of, verdict_of


class PluginCode(IntEnum):
    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


def plugin_code(report: AnyReport) -> PluginCode:
    """Not ready is CRITICAL, undetermined UNKNOWN, ready with a warning WARNING."""
    if report.exit_code == ExitCode.NO:
        return PluginCode.CRITICAL
    if report.exit_code != ExitCode.YES:
        return PluginCode.UNKNOWN
    warned = any(
        step.status is Status.WARN for one in checks_of(report) for step in one.report.steps
    )
    if isinstance(report, GateReport):
        warned = report.counts.risky > 0
    return PluginCode.WARNING if warned else PluginCode.OK


def text(report: AnyReport) -> str:
    """The status line with its performance data, then a line for each step that is not well."""
    code = plugin_code(report)
    first = f"HERMES {code.name} - {verdict_of(report)}: {counts_of(report)}"
    lines = []
    for one in checks_of(report):
        for step in one.report.steps:
            if step.status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
                lines.append(f"{one.name} {step.id} {step.status}: {_plain(step.summary)}")
        if one.report.untold_reason:
            lines.append(f"{one.name}: {_plain(one.report.untold_reason)}")
    if isinstance(report, GateReport):
        lines += [_plain(reason) for reason in report.reasons]
    data = " ".join(_performance(report))
    return "\n".join([f"{_plain(first)} | {data}" if data else _plain(first), *lines]) + "\n"


def _performance(report: AnyReport) -> list[str]:
    checks = checks_of(report)
    data = [f"duration={sum(one.report.duration_s for one in checks):.3f}s"]
    if len(checks) == 1:
        timings = checks[0].report.timings.model_dump()
        data += [
            f"{name.removesuffix('_s')}={value:.3f}s"
            for name, value in timings.items()
            if value is not None
        ]
    for status in Status:
        number = sum(step.status is status for one in checks for step in one.report.steps)
        data.append(f"{status.value}={number}")
    return data


def _plain(text: str) -> str:
    """A `|` would begin the performance data."""
    return clean(text).replace("|", "/")
