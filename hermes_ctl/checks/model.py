"""The report of a check, and the one place that decides its verdict and exit code.

This is the published document `hermesctl.check/1`. Its JSON Schema is `schema()`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hermes_ctl.errors import ExitCode

SCHEMA = "hermesctl.check/1"


class Status(StrEnum):
    """How a step came out. `unknown`: it could not be told; a step that crashed is `unknown`."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """`required` decides the verdict; `advisory` is reported and decides nothing."""

    REQUIRED = "required"
    ADVISORY = "advisory"


class Verdict(StrEnum):
    READY = "ready"
    NOT_READY = "not_ready"
    UNDETERMINED = "undetermined"


WORST_FIRST = (Verdict.NOT_READY, Verdict.UNDETERMINED, Verdict.READY)

EXIT_CODE_OF = {
    Verdict.READY: ExitCode.YES,
    Verdict.NOT_READY: ExitCode.NO,
    Verdict.UNDETERMINED: ExitCode.UNDETERMINED,
}


class ReportModel(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, defer_build=True)


class Evidence(ReportModel):
    """One thing that was seen: where (`GET /health`, `hermes --version`, a file), and what."""

    source: str
    value: str


class Step(ReportModel):
    """One step of the checklist, settled."""

    number: int
    id: str
    title: str
    status: Status
    severity: Severity = Severity.REQUIRED
    summary: str
    expected: str | None = None
    observed: str | None = None
    evidence: list[Evidence] = []
    fix: list[str] = Field(default=[], description="Commands or sentences that mend it")
    blocked_by: str | None = Field(default=None, description="Id of the step that prevented this")
    attempts: int = 1
    duration_s: float = 0.0


class Tool(ReportModel):
    name: Literal["hermesctl"] = "hermesctl"
    version: str


class ServerProcess(ReportModel):
    """The gateway's process, by its own word. `started` is told in the node's own way: it serves to
    be compared."""

    pid: int
    started: str


class NodeDescription(ReportModel):
    name: str
    url: str = Field(description="Without secrets")
    profile: str | None = None
    hermes_version: str | None = None
    process: ServerProcess | None = None


class ChecklistDescription(ReportModel):
    name: str
    release: str = Field(description="PEP 440 specifier of the reviewed release")
    sha256: str


class Counts(ReportModel):
    passed: int = Field(default=0, alias="pass")
    warn: int = 0
    fail: int = 0
    skip: int = 0
    unknown: int = 0


class Cost(ReportModel):
    """What the check spent on the node's model provider."""

    runs: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Timings(ReportModel):
    """Seconds, None where the check did not measure it."""

    first_event_s: float | None = None
    run_s: float | None = None
    stop_to_stopping_s: float | None = None
    stop_to_cancelled_s: float | None = None
    poll_s: float | None = None


class Mark(ReportModel):
    """Something that happened to a run: an event, or a request that steered, answered or stopped it.

    `until_s` is the end of a stretch of streamed text.
    """

    at_s: float
    name: str
    detail: str = ""
    until_s: float | None = None


class RunTrace(ReportModel):
    """The timeline of one run. Seconds since the check began; `first_event_s` since its own start."""

    purpose: str = Field(description="What the check made it for: the end of its session's id")
    run_id: str
    started_s: float
    ended_s: float | None = None
    status: str | None = None
    first_event_s: float | None = None
    read_to_end: bool = Field(default=False, description="Whether its event stream was")
    marks: list[Mark] = []


class Shape(ReportModel):
    """What one route answered: status code, media type, each JSON path with its types (`absent`
    among them: optional), the codes of its error bodies, and the watched headers that it always had.
    """

    status: int
    content_type: str
    paths: dict[str, list[str]] = {}
    codes: list[str] = []
    headers: list[str] = []


class Contract(ReportModel):
    """The node's wire contract as it was seen.

    `shapes` is keyed `METHOD /route STATUS`, for a run's status with the run's state behind it;
    `events` by event name, of streams other than a run's with the stream before it; `errors` says
    how the node refuses, `behaviours` how it behaves, each keyed by what was tried.
    """

    features: dict[str, Any] = {}
    endpoints: dict[str, str] = {}
    shapes: dict[str, Shape] = {}
    events: dict[str, dict[str, list[str]]] = {}
    states: list[str] = []
    comments: list[str] = []
    errors: dict[str, str] = {}
    behaviours: dict[str, str] = {}


class Report(ReportModel):
    """One check of one node."""

    schema_: Literal["hermesctl.check/1"] = Field(default="hermesctl.check/1", alias="schema")
    tool: Tool
    node: NodeDescription
    checklist: ChecklistDescription
    started_at: datetime
    duration_s: float
    verdict: Verdict
    exit_code: int
    interrupted: bool = False
    counts: Counts
    cost: Cost = Cost()
    steps: list[Step]
    timings: Timings = Timings()
    contract: Contract = Contract()
    runs: list[RunTrace] = []

    def step(self, step_id: str) -> Step:
        """The step of that id. Raises KeyError where the checklist has none."""
        for step in self.steps:
            if step.id == step_id:
                return step
        raise KeyError(step_id)

    @property
    def untold_reason(self) -> str | None:
        """Why it is undetermined, where no step of it says so."""
        if self.verdict is not Verdict.UNDETERMINED or self.interrupted:
            return None
        if any(step.status is Status.UNKNOWN or step.blocked_by for step in self.steps):
            return None
        skipped = [step for step in self.steps if step.status is Status.SKIP]
        if len(skipped) == len(self.steps):
            return "nothing was proved: no step was settled"
        names = ", ".join(step.id for step in skipped if step.severity is Severity.REQUIRED)
        return f"--strict lets nothing be skipped: {names}"

    def document(self) -> dict[str, Any]:
        """The report as plain JSON values, as it is published."""
        return self.model_dump(mode="json", by_alias=True)


def decide(steps: Iterable[Step], *, strict: bool = False) -> Verdict:
    """design.md, section 3: `ready` when no required step is fail or unknown, `not_ready` when one
    failed, `undetermined` otherwise.

    A required step that another one blocked was not settled, so it counts as unknown. `strict` lets
    nothing be skipped: a skipped required step counts as unknown too. Where every step was skipped,
    nothing was proved.
    """
    all_steps = list(steps)
    undetermined = all(step.status is Status.SKIP for step in all_steps)
    for step in all_steps:
        if step.severity is not Severity.REQUIRED:
            continue
        if step.status is Status.FAIL:
            return Verdict.NOT_READY
        unsettled = step.status is Status.SKIP and (strict or step.blocked_by is not None)
        undetermined = undetermined or unsettled or step.status is Status.UNKNOWN
    return Verdict.UNDETERMINED if undetermined else Verdict.READY


def count(steps: Iterable[Step]) -> Counts:
    counts = Counts()
    for step in steps:
        name = "passed" if step.status is Status.PASS else step.status.value
        setattr(counts, name, getattr(counts, name) + 1)
    return counts


class FleetCounts(ReportModel):
    """How many nodes came to which verdict."""

    ready: int = 0
    not_ready: int = 0
    undetermined: int = 0


class SameServer(ReportModel):
    """Names that lead to one and the same process of one server, by its own word."""

    nodes: list[str]
    process: ServerProcess


class FleetReport(ReportModel):
    """Several nodes, checked side by side: `hermesctl.fleet/1`. Verdict and exit code are the worst
    of the nodes': not ready, then undetermined, then ready."""

    schema_: Literal["hermesctl.fleet/1"] = Field(default="hermesctl.fleet/1", alias="schema")
    tool: Tool
    started_at: datetime
    duration_s: float
    verdict: Verdict
    exit_code: int
    interrupted: bool = False
    counts: FleetCounts
    same_server: list[SameServer] = []
    nodes: list[Report]

    @classmethod
    def of(cls, reports: list[Report]) -> FleetReport:
        """The reports of at least one node, in their order, and what they come to together."""
        verdicts = [report.verdict for report in reports]
        verdict = worst(verdicts)
        started = min(report.started_at for report in reports)
        ends = [(one.started_at - started).total_seconds() + one.duration_s for one in reports]
        return cls(
            tool=reports[0].tool,
            started_at=started,
            duration_s=round(max(ends), 3),
            verdict=verdict,
            exit_code=int(EXIT_CODE_OF[verdict]),
            interrupted=any(report.interrupted for report in reports),
            counts=FleetCounts(**{each.value: verdicts.count(each) for each in Verdict}),
            same_server=same_servers(reports),
            nodes=reports,
        )

    def worst_first(self) -> list[Report]:
        """The nodes' reports in the order in which people want them."""
        return sorted(self.nodes, key=lambda report: WORST_FIRST.index(report.verdict))

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


def same_servers(reports: Iterable[Report]) -> list[SameServer]:
    """The names that mean one server more than once. Several profiles at one address are what they
    were meant to be; a second address, or one profile twice, is not."""
    by_process: dict[tuple[int, str, str | None], list[NodeDescription]] = {}
    for report in reports:
        node = report.node
        if node.process is not None:
            key = (node.process.pid, node.process.started, node.hermes_version)
            by_process.setdefault(key, []).append(node)
    found = []
    for nodes in by_process.values():
        addresses = {node.url.removesuffix(f"/p/{node.profile}") for node in nodes}
        profiles = {node.profile for node in nodes}
        if nodes[0].process and (len(addresses) > 1 or len(profiles) < len(nodes)):
            names = [node.name for node in nodes]
            found.append(SameServer(nodes=names, process=nodes[0].process))
    return found


def schema() -> dict[str, Any]:
    """The JSON Schema of the report. That of several nodes, `hermesctl.fleet/1`, is in its `$defs`."""
    document = FleetReport.model_json_schema(by_alias=True, mode="serialization")
    definitions = document.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        "$ref": "#/$defs/Report",
        "$defs": {**definitions, "FleetReport": document},
    }


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for many: not ready where one node is not, undetermined where one could not be
    told, ready only where all are."""
    return min(verdicts, key=WORST_FIRST.index, default=Verdict.READY)
