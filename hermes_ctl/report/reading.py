"""Reports read back from their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import FleetReport, Report
from hermes_ctl.errors import UsageError
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.text import one_line

_MODELS: dict[str, type[Report] | type[FleetReport] | type[GateReport]] = {
    "hermesctl.check/1": Report,
    "hermesctl.fleet/1": FleetReport,
    "hermesctl.gate/1": GateReport,
    "hermesctl.diff/1": GateReport,
}


def read_report(path: Path) -> AnyReport:
    """Any report that hermesctl wrote as JSON. Raises `UsageError` for anything else."""
    document = _document(path)
    model = _MODELS.get(str(document.get("schema")))
    if model is None:
        said = one_line(str(document.get("schema")), 60)
        kind = "a report of another hermesctl" if said.startswith("hermesctl.") else "no report"
        raise UsageError(
            f"{path} is {kind}: its schema is {said}", hint=f"known here: {', '.join(_MODELS)}"
        )
    return _parsed(model, document, path)


def read_check(path: Path) -> Report:
    """The report of one check. Raises `UsageError` for anything else."""
    report = read_report(path)
    if not isinstance(report, Report):
        raise UsageError(
            f"{path} is no report of one check",
            hint="write one with: hermesctl check --report json=FILE",
        )
    return report


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"the report {path} cannot be read: {error.strerror}",
            hint="write one with: hermesctl check --report json=FILE",
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(
            f"{path} is not JSON", hint="write one with: hermesctl check --report json=FILE"
        ) from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} is no report of hermesctl: it is no JSON object")
    return document


def _parsed(
    model: type[Report] | type[FleetReport] | type[GateReport],
    document: dict[str, Any],
    path: Path,
) -> AnyReport:
    try:
        parsed: BaseModel = model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"{path} is no whole {document['schema']}: {where}: {first['msg']}",
            hint="it was changed, or another hermesctl wrote it: write it anew",
        ) from None
    assert isinstance(parsed, Report | FleetReport | GateReport)
    return parsed
