"""SARIF 2.1.0, for code scanning: each step and each kind of difference is a rule."""

from __future__ import annotations

import json
from typing import Any

from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import Severity, Status, Step
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.report.words import NamedReport, checks_of, clean

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVEL = {Level.BREAKING: "error", Level.RISKY: "warning", Level.COMPATIBLE: "note"}


def text(report: AnyReport) -> str:
    """Steps that are not well and differences; what was waived is a suppressed result."""
    results = [
        _of_step(step, one)
        for one in checks_of(report)
        for step in one.report.steps
        if step.status in (Status.FAIL, Status.UNKNOWN, Status.WARN)
    ]
    if isinstance(report, GateReport):
        results += [_of_difference(one) for one in report.differences]
    rules = sorted({str(result["ruleId"]) for result in results})
    for result in results:
        result["ruleIndex"] = rules.index(str(result["ruleId"]))
    driver = {
        "name": "hermesctl",
        "version": checks_of(report)[0].report.tool.version,
        "rules": [_rule(name) for name in rules],
    }
    run = {
        "tool": {"driver": driver},
        "results": results,
        "invocations": [{"executionSuccessful": True, "exitCode": report.exit_code}],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _rule(name: str) -> dict[str, Any]:
    kind, _, step = name.partition("/")
    if kind == "step":
        words = f"Step {step} of the checklist. More: hermesctl explain {step}"
    else:
        words = f"A difference between two Hermes releases: {step}"
    return {"id": name, "shortDescription": {"text": words}}


def _of_step(step: Step, one: NamedReport) -> dict[str, Any]:
    grave = step.status is Status.FAIL and step.severity is Severity.REQUIRED
    fix = "".join(f" Fix: {clean(line)}." for line in step.fix)
    return {
        "ruleId": f"step/{step.id}",
        "level": "error" if grave else "warning",
        "message": {"text": f"{clean(step.summary)}.{fix}"},
        "locations": [_location(one.name)],
        "partialFingerprints": {"finding/v1": f"{one.side}:{step.id}"},
    }


def _of_difference(one: Difference) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": f"difference/{one.id.partition(':')[0]}",
        "level": _LEVEL[one.level],
        "message": {
            "text": f"{clean(one.summary)} (old: {clean(one.old) or 'nothing'}; "
            f"new: {clean(one.new) or 'nothing'})"
        },
        "locations": [_location(clean(one.where))],
        "partialFingerprints": {"finding/v1": clean(one.id)},
    }
    if one.waived is not None:
        reason = clean(one.waived)
        result["suppressions"] = [{"kind": "external", "justification": reason}]
    return result


def _location(name: str) -> dict[str, Any]:
    """There is no file to point at: a route or a step is a logical place."""
    return {"logicalLocations": [{"fullyQualifiedName": name}]}
