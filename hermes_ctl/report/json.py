"""The report as it is: one JSON document."""

from __future__ import annotations

from hermes_ctl.render.console import json_text
from hermes_ctl.report.forms import AnyReport


def text(report: AnyReport) -> str:
    """The document `hermesctl.check/1`, `hermesctl.fleet/1` for several nodes, `hermesctl.gate/1`."""
    return json_text(report.document(), indent=2) + "\n"
