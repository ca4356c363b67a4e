"""The forms that a report can be given in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import FleetReport, Report
from hermes_ctl.errors import UsageError

AnyReport = Report | FleetReport | GateReport
Writer = Callable[[AnyReport], str]

FORMS: Mapping[str, str] = {
    name: f"hermes_ctl.report.{name}:text"
    for name in (
        "json",
        "junit",
        "markdown",
        "html",
        "github",
        "nagios",
        "prometheus",
        "sarif",
        "tap",
    )
}
"""Each form and the function that makes it: `module:function`, loaded when it is asked for."""


def writer(form: str) -> Writer:
    """The function that makes `form`. Raises `UsageError` for an unknown one."""
    target = FORMS.get(form)
    if target is None:
        raise UsageError(
            f"there is no report form {form!r}", hint=f"forms: {', '.join(FORMS)}, as FORM=FILE"
        )
    module, _, function = target.partition(":")
    made: Writer = getattr(import_module(module), function)
    return made
