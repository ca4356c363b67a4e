"""Reports of several checks, made one by one, as the report of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hermes_ctl.checks.model import FleetReport, Report
from hermes_ctl.errors import UsageError
from hermes_ctl.report.reading import read_report


def merged(paths: Sequence[Path]) -> FleetReport:
    """All nodes of the reports, in their order.

    Each node that checks itself calls itself `local`: names that are not the only ones of their
    kind become those of the files, which whoever fetched them named after the hosts. Raises
    `UsageError` for what is no report of a check.
    """
    found = [(path, report) for path in paths for report in _checks(path)]
    names = Counter(report.node.name for _, report in found)
    stems = Counter(path.stem for path in paths)
    files = Counter(path for path, _ in found)
    for path, report in found:
        if names[report.node.name] == 1:
            continue
        file = path.stem if stems[path.stem] == 1 else str(path.with_suffix(""))
        report.node.name = file if files[path] == 1 else f"{file}/{report.node.name}"
    return FleetReport.of([report for _, report in found])


def _checks(path: Path) -> list[Report]:
    report = read_report(path)
    if isinstance(report, Report):
        return [report]
    if isinstance(report, FleetReport):
        return report.nodes
    raise UsageError(
        f"{path} is no report of a check", hint="write one with: hermesctl check --report json=FILE"
    )
