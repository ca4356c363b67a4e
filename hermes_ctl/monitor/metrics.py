"""A board as Prometheus metrics: what the reports say, as in the textfile form, and what lives.

Every label has few values: names of nodes, steps, and words of ours. What a node sends is a label
only as its version, and only the one that it has now.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hermes_ctl import __version__
from hermes_ctl.api.models import ACTIVE_STATES
from hermes_ctl.checks.model import FleetReport
from hermes_ctl.monitor.board import Board, NodeState
from hermes_ctl.report import prometheus
from hermes_ctl.report.words import clean
from hermes_ctl.runs.survey import Live

RUN_STATES = (*sorted(ACTIVE_STATES), "other")
_NODE = ("node",)


def registry(board: Board, interval: float) -> CollectorRegistry:
    """The registry whose collecting reads `board`, and asks no node anything.

    `interval` is the time from one check to the next, in seconds: alerts on stale values need it.
    """
    made = CollectorRegistry(auto_describe=False)
    made.register(_BoardCollector(board, interval))
    ProcessCollector(registry=made)
    return made


class _BoardCollector(Collector):
    def __init__(self, board: Board, interval: float) -> None:
        self._board = board
        self._interval = interval

    def collect(self) -> Iterable[Metric]:
        states = self._board.states()
        yield _build()
        yield GaugeMetricFamily(
            "hermesctl_check_interval_seconds",
            "Seconds from one check of a node to the next",
            value=self._interval,
        )
        yield from _lives(states)
        yield from _history(states)
        yield from _runs(states, self._board.runs)
        reports = [state.report for state in states if state.report is not None]
        if reports:
            yield from prometheus.registry(FleetReport.of(reports)).collect()


def _build() -> Metric:
    build = InfoMetricFamily("hermesctl_build", "The hermesctl that tells this")
    build.add_metric((), {"version": __version__, "python": platform.python_version()})
    return build


def _lives(states: list[NodeState]) -> Iterable[Metric]:
    """What the last look at each node saw; nothing where the node did not tell."""
    up = GaugeMetricFamily(
        "hermesctl_node_up", "1 when a Hermes answered the last look, else 0", labels=_NODE
    )
    latency = GaugeMetricFamily(
        "hermesctl_node_latency_seconds", "Time that GET /health took", labels=_NODE
    )
    active = GaugeMetricFamily(
        "hermesctl_node_active_runs", "Runs active on the node, whoever started them", labels=_NODE
    )
    for state in states:
        pulse, label = state.pulse, (clean(state.node.name),)
        if pulse is None:
            continue
        up.add_metric(label, int(pulse.is_up))
        if pulse.latency_s is not None:
            latency.add_metric(label, pulse.latency_s)
        if pulse.active_runs is not None:
            active.add_metric(label, pulse.active_runs)
    yield from (up, latency, active)


def _history(states: list[NodeState]) -> Iterable[Metric]:
    checks = CounterMetricFamily(
        "hermesctl_checks", "Checks since the exporter began", labels=(*_NODE, "verdict")
    )
    ready = GaugeMetricFamily(
        "hermesctl_last_ready_timestamp_seconds",
        "When a check last began that found the node ready; absent until one did",
        labels=_NODE,
    )
    for state in states:
        name = clean(state.node.name)
        for verdict, number in state.checks.items():
            checks.add_metric((name, verdict.value), number)
        if state.last_ready is not None:
            ready.add_metric((name,), state.last_ready.timestamp())
    yield from (checks, ready)


def _runs(states: list[NodeState], runs: tuple[Live, ...] | None) -> Iterable[Metric]:
    """The journal's runs on each node. A node's own count knows of all, but neither their states
    nor their approvals: there is no list of runs (field-notes 23)."""
    if runs is None:
        return
    count = GaugeMetricFamily(
        "hermesctl_journal_runs",
        "Runs of this machine's journal that have not ended, by state",
        labels=(*_NODE, "state"),
    )
    waiting = GaugeMetricFamily(
        "hermesctl_waiting_approvals",
        "Approvals that runs of this machine's journal wait for",
        labels=_NODE,
    )
    for state in states:
        name = clean(state.node.name)
        own = [one for one in runs if one.entry.url == state.node.url and one.is_active]
        found = Counter(one.state if one.state in ACTIVE_STATES else "other" for one in own)
        for word in RUN_STATES:
            count.add_metric((name, word), found[word])
        waiting.add_metric((name,), sum(len(one.waiting) for one in own))
    yield from (count, waiting)
