"""The report as it is: one JSON document."""

from __future__ import annotations

import json

from hermes_ctl.checks.model import FleetReport, Report


def text(report: Report | FleetReport) -> str:
    """The document `hermesctl.check/1`, or `hermesctl.fleet/1` for several nodes."""
    return json.dumps(report.document(), indent=2, ensure_ascii=False) + "\n"
