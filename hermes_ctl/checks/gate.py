"""The version-bump gate as a document: two checks, what differs, what was waived, and the verdict.

This is the published document `hermesctl.gate/1` (`hermesctl.diff/1` where two finished reports were
compared). Its JSON Schema is `gate_schema()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from hermes_ctl.checks.drift.comparison import compare
from hermes_ctl.checks.drift.difference import Difference, Level, ordered
from hermes_ctl.checks.model import (
    ChecklistDescription,
    Report,
    ReportModel,
    Severity,
    Status,
    Step,
    Tool,
    Verdict,
    decide,
)
from hermes_ctl.errors import ExitCode, UsageError


class GateVerdict(StrEnum):
    """`safe`: NEW is ready and nothing that OLD had is lost. `unsafe`: a regression, or NEW is not
    ready. `undetermined`: it could not be told."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNDETERMINED = "undetermined"


EXIT_CODE_OF = {
    GateVerdict.SAFE: ExitCode.YES,
    GateVerdict.UNSAFE: ExitCode.NO,
    GateVerdict.UNDETERMINED: ExitCode.UNDETERMINED,
}


@dataclass(frozen=True, slots=True)
class Waiver:
    """A finding that is accepted: the id of a difference or of a step, and why. `expires`: the last
    day on which it counts."""

    finding: str
    reason: str
    expires: date | None = None

    def covers(self, finding: str) -> bool:
        """A step may be named with or without `step:`; a `*` at the end covers whatever follows."""
        if self.finding.endswith("*"):
            return finding.startswith(self.finding[:-1])
        return self.finding in (finding, finding.removeprefix("step:"))


class WaiverState(StrEnum):
    APPLIED = "applied"
    EXPIRED = "expired"
    UNUSED = "unused"


class WaiverResult(ReportModel):
    finding: str
    reason: str
    expires: date | None = None
    state: WaiverState


class Side(ReportModel):
    """One side: what was asked for (a requirement, a path, a node), and its check."""

    asked: str
    report: Report


class LevelCounts(ReportModel):
    """Differences by level, those that were waived counted apart."""

    breaking: int = 0
    risky: int = 0
    compatible: int = 0
    waived: int = 0


class GateReport(ReportModel):
    """Two checks compared. `reasons` says in words why the verdict is what it is."""

    schema_: Literal["hermesctl.gate/1", "hermesctl.diff/1"] = Field(
        default="hermesctl.gate/1", alias="schema"
    )
    tool: Tool
    checklist: ChecklistDescription
    started_at: datetime
    duration_s: float
    verdict: GateVerdict
    exit_code: int
    reasons: list[str]
    counts: LevelCounts
    old: Side
    new: Side
    differences: list[Difference]
    waivers: list[WaiverResult] = Field(default=[])

    @property
    def is_gate(self) -> bool:
        """False for the comparison of two finished reports."""
        return self.schema_ == "hermesctl.gate/1"

    def at(self, level: Level) -> list[Difference]:
        """The differences of one level that were not waived."""
        return [one for one in self.differences if one.level is level and one.waived is None]

    @property
    def waived(self) -> list[Difference]:
        return [one for one in self.differences if one.waived is not None]

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


def gate_schema() -> dict[str, Any]:
    """The JSON Schema of the gate's document."""
    document = GateReport.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}


def judge_gate(old: Side, new: Side, waivers: Sequence[Waiver], *, now: datetime) -> GateReport:
    """Compare both sides and decide. `now` is the time by which waivers expire.

    Unsafe when a breaking difference is not waived or a required step of NEW failed; undetermined
    when NEW is, or when one side was never reached.
    """
    differences, results = _waived(compare(old.report, new.report), new.report, waivers, now.date())
    reasons, verdict = _decide(old.report, new.report, differences, results)
    started = min(old.report.started_at, new.report.started_at)
    return GateReport(
        tool=new.report.tool,
        checklist=new.report.checklist,
        started_at=started,
        duration_s=round((now - started).total_seconds(), 3),
        verdict=verdict,
        exit_code=int(EXIT_CODE_OF[verdict]),
        reasons=reasons,
        counts=_count(differences),
        old=old,
        new=new,
        differences=differences,
        waivers=results,
    )


def judge_diff(old: Side, new: Side, *, now: datetime) -> GateReport:
    """Two finished reports compared: unsafe when something that OLD had is lost, whatever the
    readiness of NEW."""
    differences = ordered(compare(old.report, new.report))
    lost = [one for one in differences if one.is_regression]
    empty = [side.asked for side in (old, new) if not side.report.contract.shapes]
    if lost:
        verdict, reasons = GateVerdict.UNSAFE, [one.summary for one in lost]
    elif empty:
        verdict = GateVerdict.UNDETERMINED
        reasons = [f"{name} holds no answer of its node" for name in empty]
    else:
        verdict, reasons = GateVerdict.SAFE, ["nothing that was there is lost"]
    return GateReport(
        schema_="hermesctl.diff/1",
        tool=new.report.tool,
        checklist=new.report.checklist,
        started_at=now,
        duration_s=0.0,
        verdict=verdict,
        exit_code=int(EXIT_CODE_OF[verdict]),
        reasons=reasons,
        counts=_count(differences),
        old=old,
        new=new,
        differences=differences,
    )


def parse_waiver(text: str) -> Waiver:
    """`FINDING=REASON` as it is typed. Raises `UsageError` without a reason."""
    finding, separator, reason = text.partition("=")
    if not separator or not finding.strip() or not reason.strip():
        raise UsageError(
            f"--waive {text!r} is not FINDING=REASON",
            hint="for example --waive 'route:GET /v1/skills=known, mended in 0.22.3'",
        )
    return Waiver(finding.strip(), reason.strip())


def _waived(
    differences: list[Difference], new: Report, waivers: Sequence[Waiver], today: date
) -> tuple[list[Difference], list[WaiverResult]]:
    results = [
        WaiverResult(
            finding=waiver.finding,
            reason=waiver.reason,
            expires=waiver.expires,
            state=_state(waiver, differences, new, today),
        )
        for waiver in waivers
    ]
    applied = [
        waiver
        for waiver, result in zip(waivers, results, strict=True)
        if result.state is WaiverState.APPLIED
    ]
    marked = [
        one
        if one.level is Level.COMPATIBLE
        else one.model_copy(update={"waived": _reason(one.id, applied)})
        for one in differences
    ]
    return marked, results


def _state(waiver: Waiver, differences: list[Difference], new: Report, today: date) -> WaiverState:
    found = any(waiver.covers(one.id) for one in differences if one.level is not Level.COMPATIBLE)
    found = found or any(waiver.covers(f"step:{step.id}") for step in _not_well(new))
    if not found:
        return WaiverState.UNUSED
    expired = waiver.expires is not None and waiver.expires < today
    return WaiverState.EXPIRED if expired else WaiverState.APPLIED


def _reason(finding: str, applied: Sequence[Waiver]) -> str | None:
    return next((waiver.reason for waiver in applied if waiver.covers(finding)), None)


def _not_well(report: Report) -> list[Step]:
    return [
        step
        for step in report.steps
        if step.status in (Status.FAIL, Status.UNKNOWN) or step.blocked_by is not None
    ]


def _decide(
    old: Report, new: Report, differences: list[Difference], results: list[WaiverResult]
) -> tuple[list[str], GateVerdict]:
    accepted = [
        Waiver(one.finding, one.reason) for one in results if one.state is WaiverState.APPLIED
    ]
    left = [step for step in new.steps if _reason(f"step:{step.id}", accepted) is None]
    readiness = decide(left)
    reasons = [one.summary for one in differences if one.is_regression]
    told = {one.id for one in differences if one.is_regression}
    reasons += [
        f"{step.id} fails: {step.summary}"
        for step in left
        if step.severity is Severity.REQUIRED
        and step.status is Status.FAIL
        and f"step:{step.id}" not in told
    ]
    if reasons:
        return reasons, GateVerdict.UNSAFE
    if readiness is Verdict.UNDETERMINED:
        reasons = [
            f"{step.id} could not be told: {step.summary}"
            for step in _not_well(new)
            if step in left and step.severity is Severity.REQUIRED
        ]
        if left and all(step.status is Status.SKIP for step in left):
            reasons = ["no step of NEW was settled"]
    if not old.contract.shapes:
        reasons.append("OLD gave no answer to compare with")
    if reasons:
        return reasons, GateVerdict.UNDETERMINED
    return ["NEW is ready, and nothing that OLD had is lost"], GateVerdict.SAFE


def _count(differences: list[Difference]) -> LevelCounts:
    counts = LevelCounts()
    for one in differences:
        name = "waived" if one.waived is not None else one.level.value
        setattr(counts, name, getattr(counts, name) + 1)
    return counts
