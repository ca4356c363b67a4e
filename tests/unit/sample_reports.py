"""Reports for the tests of what is made of them: one check, a fleet, a gate; with hostile text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hermes_ctl.checks.gate import GateReport, Side, Waiver, judge_gate
from hermes_ctl.checks.model import (
    EXIT_CODE_OF,
    ChecklistDescription,
    Contract,
    Cost,
    Evidence,
    FleetReport,
    Mark,
    NodeDescription,
    Report,
    RunTrace,
    Severity,
    Shape,
    Status,
    Step,
    Timings,
    Tool,
    count,
    decide,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOSTILE = (
    "\x1b[31mred\x00\x0b ]]> </failure><script>alert(1)</script> "
    "![x](http://evil.invalid/x.png) | `tick` @everyone #1 \u202ereversed %0A::error::no \ud83d\ude00"
)


def step(step_id: str, status: Status, summary: str = "as it should be", **fields: Any) -> Step:
    return Step(
        number=fields.pop("number", 1),
        id=step_id,
        title=step_id,
        status=status,
        summary=summary,
        **fields,
    )


STEPS = (
    step("release", Status.PASS, duration_s=0.1),
    step(
        "stop",
        Status.FAIL,
        HOSTILE,
        number=2,
        expected="cancelled",
        observed=HOSTILE,
        evidence=[Evidence(source="GET /v1/runs/{run_id}", value=HOSTILE)],
        fix=["hermes gateway restart"],
        duration_s=2.5,
    ),
    step("model", Status.UNKNOWN, "no second model", number=3),
    step("traces", Status.WARN, "large", number=4),
    step("cache", Status.SKIP, "no adapter", number=5),
    step("capacity", Status.FAIL, "advisory only", number=6, severity=Severity.ADVISORY),
)


def check(*steps: Step, version: str = "0.20.4.post1", **fields: Any) -> Report:
    """One check; `contract` and `timings` may be given."""
    chosen = list(steps or STEPS)
    verdict = decide(chosen)
    given: dict[str, Any] = {
        "contract": contract(),
        "timings": Timings(first_event_s=0.3, run_s=1.2, stop_to_cancelled_s=0.2, poll_s=0.01),
        "cost": Cost(runs=2, input_tokens=100, output_tokens=20),
        "runs": [trace()],
    }
    return Report(
        tool=Tool(version="1.2.3"),
        node=NodeDescription(
            name="node1", url="http://127.0.0.1:8642", profile=None, hermes_version=version
        ),
        checklist=ChecklistDescription(name="api-server", release="==0.20.4.*", sha256="0" * 64),
        started_at=NOW,
        duration_s=4.2,
        verdict=verdict,
        exit_code=int(EXIT_CODE_OF[verdict]),
        counts=count(chosen),
        steps=chosen,
        **{**given, **fields},
    )


def ready(**fields: Any) -> Report:
    return check(step("release", Status.PASS), step("stop", Status.PASS), **fields)


def contract(**fields: Any) -> Contract:
    """A small contract; `fields` replace what they name."""
    given: dict[str, Any] = {
        "features": {"run_submission": True, "admin_config_rw": False},
        "endpoints": {"skills": "GET /v1/skills", "runs": "POST /v1/runs"},
        "shapes": {
            "GET /v1/skills 200": shape({"$": ["object"], "$.data": ["array"]}),
            "POST /v1/runs 202": shape({"$": ["object"], "$.run_id": ["string"]}),
        },
        "events": {"run.completed": {"$": ["object"], "$.output": ["string"]}},
        "states": ["running", "completed"],
        "comments": ["stream closed"],
        "errors": {"no key": "401 gateway_auth_failed"},
        "behaviours": {"reopened stream": "404 while the run goes on"},
    }
    return Contract(**{**given, **fields})


def shape(paths: dict[str, list[str]], status: int = 200, **fields: Any) -> Shape:
    return Shape(
        status=status,
        content_type=fields.pop("content_type", "application/json"),
        paths=paths,
        **fields,
    )


def trace(**fields: Any) -> RunTrace:
    given: dict[str, Any] = {
        "purpose": "canary",
        "run_id": "run_1",
        "started_s": 0.5,
        "ended_s": 2.0,
        "status": "completed",
        "first_event_s": 0.3,
        "read_to_end": True,
        "marks": [
            Mark(at_s=0.8, name="tool.started", detail="terminal"),
            Mark(at_s=1.0, name="tool.completed", detail="terminal"),
            Mark(at_s=1.2, name="message.delta", until_s=1.8),
            Mark(at_s=1.9, name="run.completed"),
        ],
    }
    return RunTrace(**{**given, **fields})


def fleet() -> FleetReport:
    return FleetReport.of([ready(), check()])


def gate(*waivers: Waiver, new: Report | None = None, old: Report | None = None) -> GateReport:
    """By default NEW has lost a route, and gained a feature."""
    lost = contract(
        features={"run_submission": True, "run_steer": True, "admin_config_rw": False},
        shapes={
            "GET /v1/skills 500": shape({}, status=500, content_type="text/plain"),
            "POST /v1/runs 202": shape({"$": ["object"], "$.run_id": ["string"]}),
        },
    )
    return judge_gate(
        Side(asked="hermes-agent==0.20.4", report=old or ready()),
        Side(asked="hermes-agent==0.22.2", report=new or ready(version="0.22.2", contract=lost)),
        waivers,
        now=NOW,
    )
