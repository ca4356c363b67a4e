"""A report as Prometheus metrics: text for the textfile collector, or a registry for the exporter."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from hermes_ctl.checks.drift.difference import Level
from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import Status, Verdict
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.report.words import NamedReport, checks_of, clean

_NODE = ("node", "side", "checklist")


def text(report: AnyReport) -> str:
    """The metrics of `report` in Prometheus' text format."""
    return generate_latest(registry(report)).decode("utf-8")


def registry(report: AnyReport) -> CollectorRegistry:
    """Gauges: the exit code and time of each check, one series for each step, and what it cost."""
    made = CollectorRegistry()
    checks = checks_of(report)
    _whole(made, report)
    _steps(made, checks)
    _measured(made, checks)
    if isinstance(report, GateReport):
        _differences(made, report)
    return made


def _labels(one: NamedReport) -> tuple[str, str, str]:
    return clean(one.report.node.name), one.side, clean(one.report.checklist.name)


def _whole(registry: CollectorRegistry, report: AnyReport) -> None:
    word = "gate" if isinstance(report, GateReport) else "check"
    code = Gauge(
        "hermesctl_exit_code",
        "Exit code: 0 ready or safe, 1 not, 3 undetermined",
        ("command",),
        registry=registry,
    )
    code.labels(word).set(report.exit_code)


def _steps(registry: CollectorRegistry, checks: list[NamedReport]) -> None:
    ready = Gauge("hermesctl_node_ready", "1 when the node is ready", _NODE, registry=registry)
    verdict = Gauge(
        "hermesctl_node_verdict",
        "1 for the verdict that the node has, 0 for the others",
        (*_NODE, "verdict"),
        registry=registry,
    )
    info = Gauge(
        "hermesctl_node_info", "The node's Hermes", (*_NODE, "version", "url"), registry=registry
    )
    status = Gauge(
        "hermesctl_step_status",
        "1 for the status that the step has, 0 for the others",
        (*_NODE, "step", "severity", "status"),
        registry=registry,
    )
    seconds = Gauge(
        "hermesctl_step_duration_seconds",
        "How long the step took",
        (*_NODE, "step"),
        registry=registry,
    )
    for one in checks:
        labels = _labels(one)
        ready.labels(*labels).set(int(one.report.exit_code == 0))
        for word in Verdict:
            verdict.labels(*labels, word.value).set(int(one.report.verdict is word))
        version = clean(one.report.node.hermes_version) or "unknown"
        info.labels(*labels, version, clean(one.report.node.url)).set(1)
        for step in one.report.steps:
            seconds.labels(*labels, step.id).set(step.duration_s)
            for each in Status:
                value = int(step.status is each)
                status.labels(*labels, step.id, step.severity.value, each.value).set(value)


def _measured(registry: CollectorRegistry, checks: list[NamedReport]) -> None:
    started = Gauge(
        "hermesctl_check_timestamp_seconds", "When the check began", _NODE, registry=registry
    )
    duration = Gauge(
        "hermesctl_check_duration_seconds", "How long the check took", _NODE, registry=registry
    )
    runs = Gauge("hermesctl_check_runs", "Runs that the check made", _NODE, registry=registry)
    tokens = Gauge(
        "hermesctl_check_tokens",
        "Tokens that the check spent",
        (*_NODE, "direction"),
        registry=registry,
    )
    timing = Gauge(
        "hermesctl_timing_seconds",
        "What the check measured: first_event, run, stop_to_stopping, stop_to_cancelled, poll",
        (*_NODE, "name"),
        registry=registry,
    )
    for one in checks:
        labels, report = _labels(one), one.report
        started.labels(*labels).set(report.started_at.timestamp())
        duration.labels(*labels).set(report.duration_s)
        runs.labels(*labels).set(report.cost.runs)
        tokens.labels(*labels, "input").set(report.cost.input_tokens)
        tokens.labels(*labels, "output").set(report.cost.output_tokens)
        for name, value in report.timings.model_dump().items():
            if value is not None:
                timing.labels(*labels, name.removesuffix("_s")).set(value)


def _differences(registry: CollectorRegistry, report: GateReport) -> None:
    found = Gauge(
        "hermesctl_gate_differences",
        "Differences by level, those that were waived counted apart",
        ("level",),
        registry=registry,
    )
    for level in Level:
        found.labels(level.value).set(len(report.at(level)))
    found.labels("waived").set(len(report.waived))
