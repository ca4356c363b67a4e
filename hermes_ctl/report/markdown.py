"""Markdown, for a pull-request comment or a step summary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import FleetReport, Report, Status, Step
from hermes_ctl.durations import format_duration
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.report.words import (
    LEVEL,
    checks_of,
    clean,
    counts_of,
    facts_of,
    title_of,
    verdict_of,
    waiver_line,
    waivers_of,
)

_MARK = {
    Status.PASS: "✅",
    Status.WARN: "⚠️",
    Status.FAIL: "❌",
    Status.SKIP: "➖",
    Status.UNKNOWN: "❓",
}
_SIGN = {"READY": "✅", "SAFE": "✅", "NOT READY": "❌", "UNSAFE": "❌", "UNDETERMINED": "❓"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~@$&:])")


def text(report: AnyReport) -> str:
    """The verdict first, then what needs eyes, then the rest folded away."""
    verdict = verdict_of(report)
    lines = [
        f"## {_SIGN[verdict]} {verdict}: {_escaped(title_of(report))}",
        "",
        f"{_escaped(counts_of(report))}",
        "",
    ]
    if isinstance(report, GateReport):
        lines += _gate(report)
    elif isinstance(report, FleetReport):
        lines += _fleet(report)
    else:
        lines += _check(report)
    return "\n".join(lines).rstrip("\n") + "\n"


def _escaped(text: str | None, limit: int | None = None) -> str:
    """Hostile text as plain words: no link, no mention, no image, no table cell of its own."""
    return _SPECIAL.sub(r"\\\1", clean(text, limit))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _row(titles)
    yield _row(["---"] * len(titles))
    for row in rows:
        yield _row(row)
    yield ""


def _check(report: Report) -> Iterator[str]:
    yield ", ".join(f"{name} {_escaped(value)}" for name, value in facts_of(report))
    yield ""
    if report.untold_reason:
        yield f"**{_escaped(report.untold_reason)}**"
        yield ""
    yield from _steps(report)
    for step in report.steps:
        if step.status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
            yield from _trouble(step)


def _steps(report: Report) -> Iterator[str]:
    rows = [
        (_MARK[step.status], str(step.number), f"`{step.id}`", _escaped(step.summary, 300))
        for step in report.steps
    ]
    yield from _table(("", "", "step", "found"), rows)


def _trouble(step: Step) -> Iterator[str]:
    yield f"**{_MARK[step.status]} {step.id}** — {_escaped(step.summary)}"
    yield ""
    if step.expected:
        yield f"- expected: {_escaped(step.expected)}"
    if step.observed:
        yield f"- found: {_escaped(step.observed)}"
    for line in step.fix:
        yield f"- fix: {_escaped(line)}"
    yield f"- more: `hermesctl explain {step.id}`"
    yield ""


def _fleet(report: FleetReport) -> Iterator[str]:
    rows = []
    for one in report.nodes:
        named = [step.id for step in one.steps if step.status in (Status.FAIL, Status.UNKNOWN)]
        rows.append(
            (
                _escaped(one.node.name),
                _escaped(one.node.hermes_version) or "?",
                verdict_of(one),
                ", ".join(f"`{name}`" for name in named),
            )
        )
    yield from _table(("node", "Hermes", "verdict", "not well"), rows)
    for one in report.nodes:
        yield from _folded(f"{_escaped(one.node.name)}: {verdict_of(one)}", _check(one))


def _folded(title: str, inside: Iterator[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from inside
    yield "</details>"
    yield ""


def _gate(report: GateReport) -> Iterator[str]:
    rows = [
        (
            one.side,
            _escaped(one.report.node.hermes_version) or "not reached",
            verdict_of(one.report),
            _escaped(counts_of(one.report)),
            format_duration(one.report.duration_s),
        )
        for one in checks_of(report)
    ]
    yield from _table(("", "Hermes", "verdict", "steps", "took"), rows)
    told = {one.summary for one in report.differences}
    for reason in report.reasons:
        if reason not in told:
            yield f"- {_escaped(reason)}"
    yield ""
    for level in (Level.BREAKING, Level.RISKY):
        found = report.at(level)
        if found:
            yield f"### {LEVEL[level].capitalize()} ({len(found)})"
            yield ""
            yield from _drift(found)
    if waivers_of(report):
        yield "### Waivers"
        yield ""
        yield from (f"- {_escaped(waiver_line(one))}" for one in waivers_of(report))
        yield ""
    compatible = report.at(Level.COMPATIBLE)
    if compatible:
        yield from _folded(f"Compatible ({len(compatible)})", _drift(compatible))
    for one in checks_of(report):
        yield from _folded(f"{one.side}: {_escaped(counts_of(one.report))}", _check(one.report))


def _drift(found: Sequence[Difference]) -> Iterator[str]:
    rows = [
        (
            _escaped(one.summary, 300),
            _escaped(one.old, 120) or "–",
            _escaped(one.new, 120) or "–",
            ", ".join(one.consumers) or "–",
        )
        for one in found
    ]
    yield from _table(("what", "old", "new", "consumed by"), rows)
