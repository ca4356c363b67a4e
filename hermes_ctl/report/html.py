"""One self-contained page: the verdict, what differs side by side, latencies, steps, timelines.

It works without scripts, asks nobody for anything, and has a light, a dark and a printed face.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.drift.timings import TITLES, timings
from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import FleetReport, Report, Severity, Status, Step, Verdict
from hermes_ctl.durations import format_duration
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.report.tracks import RunTrack, tracks
from hermes_ctl.report.words import (
    LEVEL,
    STATUS,
    NamedReport,
    checks_of,
    clean,
    counts_of,
    facts_of,
    title_of,
    verdict_of,
    waiver_line,
    waivers_of,
)

_TONE = {
    "READY": "good",
    "SAFE": "good",
    "NOT READY": "bad",
    "UNSAFE": "bad",
    "UNDETERMINED": "open",
}
_STATUS_TONE = {
    Status.PASS: ("good", "✓"),
    Status.WARN: ("warn", "!"),
    Status.FAIL: ("bad", "✗"),
    Status.SKIP: ("soft", "–"),
    Status.UNKNOWN: ("open", "?"),
}
_LEVEL_TONE = {Level.BREAKING: "bad", Level.RISKY: "warn", Level.COMPATIBLE: "good"}
_FOLDED_FROM = 12
_MOST_COMPARED = 12


@dataclass(frozen=True, slots=True)
class DriftRow:
    id: str
    summary: str
    old: str
    new: str
    old_tone: str
    new_tone: str
    consumers: str
    waived: str


@dataclass(frozen=True, slots=True)
class DriftGroup:
    title: str
    tone: str
    rows: Sequence[DriftRow]
    folded: bool


@dataclass(frozen=True, slots=True)
class BarLine:
    tone: str
    label: str
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    title: str
    lines: Sequence[BarLine]


@dataclass(frozen=True, slots=True)
class StepRow:
    number: int
    id: str
    status: str
    mark: str
    tone: str
    advisory: bool
    summary: str
    rows: Sequence[tuple[str, str]]
    open: bool
    took: str


@dataclass(frozen=True, slots=True)
class CheckPart:
    """One check. `heading` is that of its steps, which are folded where it is one of many that are
    well."""

    title: str
    heading: str
    folds: bool
    open: bool
    verdict: str
    tone: str
    facts: Sequence[tuple[str, str]]
    steps: Sequence[StepRow]
    runs: Sequence[RunTrack]
    half: str
    whole: str


@dataclass(frozen=True, slots=True)
class Page:
    verdict: str
    tone: str
    title: str
    counts: str
    took: str
    when: str
    tool: str
    reasons: Sequence[str]
    checks: Sequence[CheckPart]
    compares: bool
    drift: Sequence[DriftGroup]
    waivers: Sequence[str]
    bars: Sequence[Bar]


def text(report: AnyReport) -> str:
    return _template().render(page=_page(report)) + "\n"


@cache
def _template() -> Template:
    source = files("hermes_ctl.report").joinpath("templates/page.html").read_text("utf-8")
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.from_string(source)


def _page(report: AnyReport) -> Page:
    checks = checks_of(report)
    verdict = verdict_of(report)
    first = checks[0].report
    took = report.duration_s if isinstance(report, GateReport | Report) else 0.0
    took = took or max(one.report.duration_s for one in checks)
    return Page(
        verdict=verdict,
        tone=_TONE[verdict],
        title=title_of(report),
        counts=counts_of(report),
        took=format_duration(took),
        when=first.started_at.strftime("%Y-%m-%d %H:%M UTC"),
        tool=first.tool.version,
        reasons=[clean(one) for one in report.reasons] if isinstance(report, GateReport) else [],
        checks=[_check(one, report) for one in checks],
        compares=isinstance(report, GateReport),
        drift=list(_drift(report)) if isinstance(report, GateReport) else [],
        waivers=[waiver_line(one) for one in waivers_of(report)],
        bars=list(_bars(checks)),
    )


def _check(one: NamedReport, whole: AnyReport) -> CheckPart:
    title, heading = clean(one.report.node.name), "steps"
    if isinstance(whole, GateReport):
        title = f"{one.side}: {clean((whole.old if one.side == 'old' else whole.new).asked)}"
        heading = f"{one.side}: steps"
    elif isinstance(whole, FleetReport):
        heading = title
    span = max(one.report.duration_s, 0.001)
    verdict = verdict_of(one.report)
    return CheckPart(
        title=title,
        heading=heading,
        folds=isinstance(whole, FleetReport),
        open=one.report.verdict is not Verdict.READY,
        verdict=verdict,
        tone=_TONE[verdict],
        facts=[*facts_of(one.report), ("steps", counts_of(one.report))],
        steps=[_step(step) for step in one.report.steps],
        runs=tracks(one.report.runs, span),
        half=format_duration(span / 2),
        whole=format_duration(span),
    )


def _step(step: Step) -> StepRow:
    tone, mark = _STATUS_TONE[step.status]
    rows = [("expected", step.expected), ("found", step.observed)]
    told = [(name, clean(value)) for name, value in rows if value]
    told += [(clean(item.source), clean(item.value, 2000)) for item in step.evidence]
    told += [("fix", clean(line)) for line in step.fix]
    return StepRow(
        number=step.number,
        id=step.id,
        status=STATUS[step.status],
        mark=mark,
        tone=tone,
        advisory=step.severity is Severity.ADVISORY,
        summary=clean(step.summary),
        rows=told,
        open=step.status in (Status.FAIL, Status.UNKNOWN),
        took=format_duration(step.duration_s) if step.duration_s >= 0.05 else "",
    )


def _drift(report: GateReport) -> Iterator[DriftGroup]:
    for level in Level:
        found = report.at(level)
        if found:
            rows = [_drift_row(one) for one in found]
            folded = level is Level.COMPATIBLE and len(rows) > _FOLDED_FROM
            title = LEVEL[level].capitalize()
            yield DriftGroup(title, _LEVEL_TONE[level], rows, folded)
    if report.waived:
        yield DriftGroup("Waived", "soft", [_drift_row(one) for one in report.waived], False)


def _drift_row(one: Difference) -> DriftRow:
    changed = "changed" if one.old is not None and one.new is not None else ""
    lost = one.level is Level.BREAKING and one.waived is None
    return DriftRow(
        id=clean(one.id),
        summary=clean(one.summary),
        old=clean(one.old, 400) or "–",
        new=clean(one.new, 400) or "–",
        old_tone=changed or ("gone" if one.old is not None else ""),
        new_tone="gone" if lost else changed or ("came" if one.new is not None else ""),
        consumers=", ".join(one.consumers) or "–",
        waived=clean(one.waived),
    )


def _bars(checks: Sequence[NamedReport]) -> Iterator[Bar]:
    """The measured times, each kind on a scale of its own: old against new is what matters, or one
    node against the others, where those are few. The times of one check share one scale."""
    if len(checks) > _MOST_COMPARED:
        return
    measured = [(one, timings(one.report)) for one in checks]
    alone = max(measured[0][1].values(), default=0.0) if len(checks) == 1 else 0.0
    for name, title in TITLES.items():
        found = [(one, values[name]) for one, values in measured if name in values]
        longest = max((value for _, value in found), default=0.0)
        if longest > 0:
            longest = alone or longest
            lines = [
                BarLine(
                    one.side or "new",
                    f"{value:.2f} s"
                    + (f"  {one.name}" if len(checks) > 1 and not one.side else ""),
                    round(max(value / longest * 70, 0.5), 1),
                )
                for one, value in found
            ]
            yield Bar(title, lines)
