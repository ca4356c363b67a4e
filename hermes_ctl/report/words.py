"""What every report form says in the same words, and hostile text made fit for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.gate import GateReport, GateVerdict, WaiverResult
from hermes_ctl.checks.model import FleetReport, Report, Status, Verdict
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.secrets import redact
from hermes_ctl.text import one_line, visible

VERDICT = {
    Verdict.READY: "READY",
    Verdict.NOT_READY: "NOT READY",
    Verdict.UNDETERMINED: "UNDETERMINED",
    GateVerdict.SAFE: "SAFE",
    GateVerdict.UNSAFE: "UNSAFE",
}
"""`GateVerdict.UNDETERMINED` equals `Verdict.UNDETERMINED`: both are that word."""

STATUS = {
    Status.PASS: "passed",
    Status.WARN: "warning",
    Status.FAIL: "failed",
    Status.SKIP: "skipped",
    Status.UNKNOWN: "unknown",
}

LEVEL = {
    Level.BREAKING: "lost",
    Level.RISKY: "to look at",
    Level.COMPATIBLE: "compatible",
}

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class NamedReport:
    """A check within a larger report. `side` is `old` or `new` of a gate, else empty."""

    report: Report
    side: str = ""

    @property
    def name(self) -> str:
        node = clean(self.report.node.name)
        return f"{self.side} {node}" if self.side else node


def checks_of(report: AnyReport) -> list[NamedReport]:
    """The checks that a report is made of, of several nodes the worst first."""
    if isinstance(report, GateReport):
        return [NamedReport(report.old.report, "old"), NamedReport(report.new.report, "new")]
    if isinstance(report, FleetReport):
        return [NamedReport(one) for one in report.worst_first()]
    return [NamedReport(report)]


def verdict_of(report: AnyReport) -> str:
    return VERDICT[report.verdict]


def title_of(report: AnyReport) -> str:
    """One line: what was looked at."""
    if isinstance(report, GateReport):
        word = "Gate" if report.is_gate else "Diff"
        return f"{word} {clean(report.old.asked)} -> {clean(report.new.asked)}"
    if isinstance(report, FleetReport):
        return f"Check of {len(report.nodes)} nodes"
    version = f", Hermes {clean(report.node.hermes_version)}" if report.node.hermes_version else ""
    return f"Check of {clean(report.node.name)}{version}"


def counts_of(report: AnyReport) -> str:
    """`11 passed, 1 failed`, of several nodes `2 ready, 1 not ready`, or `1 lost, 3 to look at`."""
    if isinstance(report, GateReport):
        counted = report.counts
        pairs = [
            (counted.breaking, "lost"),
            (counted.risky, "to look at"),
            (counted.compatible, "compatible"),
            (counted.waived, "waived"),
        ]
    elif isinstance(report, FleetReport):
        pairs = [
            (report.counts.ready, "ready"),
            (report.counts.not_ready, "not ready"),
            (report.counts.undetermined, "undetermined"),
        ]
    else:
        pairs = [
            (report.counts.passed, "passed"),
            (report.counts.warn, "with a warning"),
            (report.counts.fail, "failed"),
            (report.counts.unknown, "unknown"),
            (report.counts.skip, "skipped"),
        ]
    return ", ".join(f"{number} {word}" for number, word in pairs if number) or "no difference"


def differences_of(report: AnyReport) -> list[Difference]:
    return report.differences if isinstance(report, GateReport) else []


def waivers_of(report: AnyReport) -> list[WaiverResult]:
    return report.waivers if isinstance(report, GateReport) else []


def waiver_line(waiver: WaiverResult) -> str:
    """`applied  route:GET /v1/skills: known (until 2026-12-31)`."""
    until = f" (until {waiver.expires.isoformat()})" if waiver.expires else ""
    return f"{waiver.state.value}: {clean(waiver.finding)}: {clean(waiver.reason)}{until}"


def clean(text: str | None, limit: int | None = None) -> str:
    """`text` as one neutral, redacted line."""
    return one_line(redact(text or ""), limit)


def clean_lines(text: str) -> str:
    """The same, its lines kept, without what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", visible(redact(text)))


def facts_of(report: Report) -> Iterator[tuple[str, str]]:
    """(name, value) of what was checked, for the head of a report."""
    yield "node", clean(report.node.url)
    if report.node.profile:
        yield "profile", clean(report.node.profile)
    yield "Hermes", clean(report.node.hermes_version) or "not reached"
    yield "checklist", f"{clean(report.checklist.name)} (release {clean(report.checklist.release)})"
    yield "started", report.started_at.isoformat(timespec="seconds")
    tokens = report.cost.input_tokens + report.cost.output_tokens
    yield "cost", f"{report.cost.runs} runs, {tokens:,} tokens"
