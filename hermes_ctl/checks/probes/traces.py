"""Step 10: tool traces stay within the adapter's size limit."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from hermes_ctl.checks.agent import SMALLEST_EVENT_BYTES, AgentSettings, does_not_start
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Blocked, Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import Transcript

ENVELOPE = {
    "trace_id": "0" * 36,
    "task_id": "0" * 36,
    "turn_id": "0" * 36,
    "seq": 100_000,
    "ts": "2026-01-01T00:00:00.000000+00:00",
    "type": "tool_result",
    "role": "planner",
    "node": "agent-node1",
    "tokens": 0,
    "cost_usd": 0.0,
}
"""What the adapter puts around an event's data: identifiers of their usual length."""


async def probe(subject: Subject) -> Finding:
    """Every event of a run with a real tool call of large output, measured by the adapter's own byte
    rule. Without a tool call nothing is proved."""
    canary = await subject.canary()
    agent = await subject.agent()
    if agent is not None and agent.problem:
        return does_not_start(agent.problem)
    limit, source = _limit(subject, agent)
    sizes = {id(event): counted_bytes(event.data) for event in canary.events}
    tools = [event for event in canary.events if event.name.startswith("tool.")]
    largest = max(tools, key=lambda event: sizes[id(event)], default=None)
    trail = Trail()
    trail.add(source, f"{limit:,} B for one trace event")
    trail.add("GET /v1/runs/{run_id}/events", f"{len(tools)} tool events of {len(canary.events)}")
    expected = f"each tool event at most {limit:,} B as a trace"
    if largest is None:
        _tell_why(canary)
        why = f", an approval was asked for and denied ({canary.denied})" if canary.denied else ""
        return Finding(
            Status.UNKNOWN,
            f"the model made no tool call{why}: nothing to measure",
            expected=expected,
            observed="no tool event",
            evidence=trail(),
            fix=(
                "give the node a terminal toolset and a model that calls tools: hermesctl toolsets list",
            ),
        )
    size = sizes[id(largest)]
    trail.add(f"event {largest.name}", f"{size:,} B")
    finding = partial(
        Finding,
        expected=expected,
        observed=f"largest {size:,} B ({largest.name})",
        evidence=trail(),
    )
    if size > limit:
        return finding(
            Status.FAIL,
            f"{largest.name} is {size:,} B as a trace, the limit is {limit:,} B: it would be cut",
            fix=(f"raise TRACE_EVENT_MAX_BYTES above {size:,} in the adapter's environment",),
        )
    _tell_why(canary)
    over = [event for event in canary.events if sizes[id(event)] > limit]
    if over:
        return finding(
            Status.WARN,
            f"tool events fit, but {len(over)} other events are over {limit:,} B and would be cut",
            fix=("raise TRACE_EVENT_MAX_BYTES in the adapter's environment",),
        )
    if agent is not None and not agent.sends_traces:
        return finding(
            Status.WARN,
            f"largest tool event {size:,} B of {limit:,}, but the adapter sends no traces at all",
            fix=("set DAEMON_INGEST_URL and BMAS_NODE_KEY in the adapter's environment",),
        )
    return finding(Status.PASS, f"largest tool event {size:,} B of {limit:,}")


def counted_bytes(data: dict[str, Any]) -> int:
    """The size of a trace of this event by the adapter's rule (bmas.md, 5): compact JSON with every
    non-ASCII character escaped, the identifiers around it included."""
    trace = {**ENVELOPE, "run_id": data.get("run_id"), "data": data}
    return len(json.dumps(trace, separators=(",", ":"), default=str))


def _tell_why(canary: Transcript) -> None:
    """Raises `Blocked` where another step's trouble is why not all of the run's events were seen."""
    if canary.final is not None and canary.final.status != "completed":
        raise Blocked("polling", "the run failed before it called a tool")
    if canary.terminal_event is None:
        raise Blocked("events", "the event stream broke off, so not every event was measured")


def _limit(subject: Subject, agent: AgentSettings | None) -> tuple[int, str]:
    if agent is not None and agent.states_event_bytes:
        return agent.trace_event_bytes, agent.source
    checklist = subject.checklist
    return max(SMALLEST_EVENT_BYTES, checklist.traces.event_bytes), f"checklist {checklist.name}"


PROBE = Probe(
    name="traces",
    title="Trace sizes",
    proves=(
        "A run with a real tool call and large output makes tool events that fit into the adapter's "
        "TRACE_EVENT_MAX_BYTES, counted as the adapter counts."
    ),
    causes=(
        Cause(
            "no tool call was made",
            "give the node a terminal toolset and a model that calls tools: hermesctl toolsets list",
        ),
        Cause(
            "an event is over the limit", "raise TRACE_EVENT_MAX_BYTES in the adapter's environment"
        ),
        Cause(
            "the adapter sends no traces at all",
            "set DAEMON_INGEST_URL and BMAS_NODE_KEY in its environment",
        ),
    ),
    settle=probe,
    needs_runs=True,
)
