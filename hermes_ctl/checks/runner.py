"""Drives the probes of a checklist over one node, and adds their findings up to a report.

It yields typed events as steps start and settle; whoever renders observes them. Whatever ends the
check, the runs it started are stopped and the report is complete, all steps in order.

A step that one error kept from being settled waits for the others of its round: where the same
error befell several, the first of them tells it and the rest point there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from hermes_ctl import __version__, clock
from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.checks.checklist import Checklist, StepEntry
from hermes_ctl.checks.findings import (
    crashed,
    note_left_over,
    settled_step,
    too_late,
    unreached,
)
from hermes_ctl.checks.ledger import LeftOver
from hermes_ctl.checks.model import (
    EXIT_CODE_OF,
    ChecklistDescription,
    NodeDescription,
    Report,
    Status,
    Step,
    Tool,
    count,
    decide,
)
from hermes_ctl.checks.probe import Blocked, Finding, Probe
from hermes_ctl.checks.probes import load_probe
from hermes_ctl.checks.subject import CheckSettings, Subject
from hermes_ctl.checks.troubles import Trouble, Troubles
from hermes_ctl.config import DEFAULT, DEFAULT_TIMEOUT, Node
from hermes_ctl.errors import (
    ClosedPipe,
    ConnectionLost,
    HermesctlError,
    NoAnswer,
    RouteNotFound,
    ServerFailure,
    Unreachable,
    UsageError,
)
from hermes_ctl.secrets import redact
from hermes_ctl.text import one_line

NOT_CHOSEN = "not chosen"
NO_RUNS = "needs a run (--no-runs)"
"""Why a step was left out, which is another thing than not applicable."""

INTERRUPTED = "interrupted"
"""What is said of a step that was not settled when the check was ended."""

PATIENCE = 30.0
"""Seconds for one answer of a node that has answered before."""

_RETRY_INTERVAL = 1.0
_PASSES_IN_TIME = (Unreachable, ConnectionLost, NoAnswer, ServerFailure)


@dataclass(frozen=True, slots=True)
class CheckStarted:
    """`steps` are (number, id, title) of the checklist, in order."""

    node: Node
    checklist: Checklist
    release: str
    steps: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class NodeReached:
    """The node answered: `version` is the running gateway's, where it says so."""

    version: str | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The node is not there yet; `reason` is the state last seen (`--wait`)."""

    reason: str
    seconds_left: float


@dataclass(frozen=True, slots=True)
class StepStarted:
    number: int
    id: str


@dataclass(frozen=True, slots=True)
class StepSettled:
    step: Step


@dataclass(frozen=True, slots=True)
class CheckFinished:
    report: Report


CheckEvent = CheckStarted | NodeReached | Waiting | StepStarted | StepSettled | CheckFinished
Observer = Callable[[CheckEvent], None]


def select(checklist: Checklist, settings: CheckSettings) -> set[str]:
    """The ids of the steps to settle. Raises `UsageError` for an unknown step or an empty choice."""
    known = [entry.id for entry in checklist.step]
    for step_id in (*settings.only, *settings.skip):
        if step_id not in known:
            raise UsageError(
                f"checklist {checklist.name} has no step {step_id!r}",
                hint=f"its steps: {', '.join(known)}",
            )
    chosen = {
        step_id
        for step_id in known
        if (not settings.only or step_id in settings.only) and step_id not in settings.skip
    }
    if not chosen:
        raise UsageError(
            "--only and --skip leave no step to check", hint=f"steps: {', '.join(known)}"
        )
    if not settings.runs and all(
        load_probe(entry.probe_name).needs_runs for entry in checklist.step if entry.id in chosen
    ):
        raise UsageError(
            "--no-runs leaves no step to check: each of those chosen needs a run",
            hint="leave --no-runs out, or choose other steps",
        )
    return chosen


async def check_node(
    node: Node, checklist: Checklist, settings: CheckSettings, observe: Observer
) -> Report:
    """Check one node. The report is always complete; it is also observed as `CheckFinished`.

    Raises `UsageError` before anything is sent, and `CancelledError` after the clean-up when it is
    cancelled: the report observed last is then marked as interrupted.
    """
    chosen = select(checklist, settings)
    run = _CheckRun(node, checklist, settings, chosen, observe)
    return await run.go()


class _CheckRun:
    def __init__(
        self,
        node: Node,
        checklist: Checklist,
        settings: CheckSettings,
        chosen: set[str],
        observe: Observer,
    ) -> None:
        self.node = node
        self.checklist = checklist
        self.settings = settings
        self.chosen = chosen
        self.observe = observe
        self.probes = {entry.id: load_probe(entry.probe_name) for entry in checklist.step}
        self.settled: dict[str, Step] = {}
        self.troubles = Troubles()
        self.started_at = clock.now()
        self.began = time.monotonic()
        self.interrupted = False
        self.late = False
        self.away: HermesctlError | None = None
        self.version: str | None = None

    async def go(self) -> Report:
        steps = tuple(
            (number, entry.id, self._title(entry)) for number, entry in self.checklist.numbered()
        )
        client = Client(
            _patient(self.node), observe=self._record, connections=self.settings.connections
        )
        self.subject = Subject(self.node, client, self.checklist, self.settings)
        self.observe(CheckStarted(self.node, self.checklist, self.subject.release, steps))
        async with client:
            try:
                async with asyncio.timeout(self.settings.deadline):
                    await self._settle_all()
            except TimeoutError:
                self.late = True
            except BaseException:
                self.interrupted = True
                with contextlib.suppress(ClosedPipe):
                    await self._finish(client)
                raise
            return await self._finish(client)

    def _record(self, answer: Answer) -> None:
        self.subject.recorder.answer(answer)

    async def _settle_all(self) -> None:
        for number, entry in self.checklist.numbered():
            reason = self._not_wanted(entry)
            if reason:
                self._settle(number, entry, Finding(Status.SKIP, reason), 0.0)
        waiting = [pair for pair in self.checklist.numbered() if pair[1].id not in self.settled]
        online = [entry.id for _, entry in waiting if not self.probes[entry.id].offline]
        unreachable = await self._reach() if online else None
        for turn in (0, 1, 2):
            async with asyncio.TaskGroup() as group:
                for number, entry in waiting:
                    probe = self.probes[entry.id]
                    if probe.turn != turn:
                        continue
                    if unreachable and not probe.offline:
                        finding = unreached(entry.id, online[0], unreachable, self.settings.wait)
                        self._settle(number, entry, finding, 0.0)
                        continue
                    group.create_task(self._run_step(number, entry))
            self._settle_troubled()

    def _not_wanted(self, entry: StepEntry) -> str | None:
        if entry.id not in self.chosen:
            return NOT_CHOSEN
        if self.probes[entry.id].needs_runs and not self.settings.runs:
            return NO_RUNS
        return None

    async def _reach(self) -> HermesctlError | None:
        """Ask for `/health` until it answers, as long as `--wait` allows. None when it did."""
        limit = self.began + self.settings.wait
        while True:
            try:
                await self.subject.get("/health", timeout=self.node.timeout)
                health = await self.subject.health()
                self.version = health.version
                self.away = None
                self.observe(NodeReached(health.version))
                await self._until_settled_down(limit)
                return None
            except _PASSES_IN_TIME as error:
                left = limit - time.monotonic()
                if left <= 0:
                    return error
                self.away = error
                self.observe(Waiting(error.message, left))
                self.subject.forget()
                await asyncio.sleep(min(_RETRY_INTERVAL, left))
            except RouteNotFound as error:
                return None if await self._is_hermes() else error
            except HermesctlError as error:
                return error

    async def _is_hermes(self) -> bool:
        """Whether a server without `/health` still is one: then that is for the routes step to say."""
        try:
            return bool((await self.subject.capabilities()).endpoints)
        except HermesctlError:
            return False

    async def _until_settled_down(self, limit: float) -> None:
        """With `--wait`: also wait while the node drains or its readiness is not yet ok."""
        while (left := limit - time.monotonic()) > 0:
            try:
                detailed = await self.subject.detailed_health()
            except HermesctlError:
                return
            state = detailed.gateway_state or "running"
            if state == "running" and detailed.status in ("ok", "ready", "healthy"):
                return
            self.observe(Waiting(f"gateway {state}, readiness {detailed.status}", left))
            self.subject.forget()
            await asyncio.sleep(min(_RETRY_INTERVAL, left))

    async def _run_step(self, number: int, entry: StepEntry) -> None:
        self.observe(StepStarted(number, entry.id))
        began = time.monotonic()
        outcome = await self._outcome(self.probes[entry.id])
        seconds = time.monotonic() - began - self.subject.waited()
        if isinstance(outcome, Finding):
            self._settle(number, entry, outcome, seconds)
        else:
            self.troubles.add(Trouble(number, entry, outcome, seconds))

    async def _outcome(self, probe: Probe) -> Finding | HermesctlError | Blocked:
        try:
            return await probe.settle(self.subject)
        except (Blocked, HermesctlError) as error:
            return error
        except Exception as error:  # a probe that crashes is a result, not the end of the report
            return crashed(error)

    def _settle_troubled(self) -> None:
        for trouble, finding in self.troubles.findings(self.settled):
            self._settle(trouble.number, trouble.entry, finding, trouble.seconds)

    def _settle(self, number: int, entry: StepEntry, finding: Finding, seconds: float) -> None:
        step = settled_step(number, entry, self._title(entry), finding, seconds)
        self.settled[entry.id] = step
        self.observe(StepSettled(step))

    def _title(self, entry: StepEntry) -> str:
        return entry.title or self.probes[entry.id].title

    async def _finish(self, client: Client) -> Report:
        left_over = await _shielded(self._clean_up(client))
        with contextlib.suppress(ClosedPipe):
            self._settle_troubled()
        open_steps = [pair for pair in self.checklist.numbered() if pair[1].id not in self.settled]
        for number, entry in open_steps:
            finding = Finding(Status.UNKNOWN, INTERRUPTED)
            if self.late and self.settings.deadline is not None:
                finding = self._too_late(entry.id, open_steps[0][1].id, self.settings.deadline)
            with contextlib.suppress(ClosedPipe):
                self._settle(number, entry, finding, 0.0)
        report = self._report(left_over)
        self.observe(CheckFinished(report))
        return report

    def _too_late(self, step_id: str, first: str, deadline: float) -> Finding:
        """A node that was never reached is told as it was last seen (`--wait`)."""
        if self.away is not None:
            return unreached(step_id, first, self.away, deadline)
        return too_late(step_id, first, deadline)

    async def _clean_up(self, client: Client) -> LeftOver:
        await self.subject.close()
        return await self.subject.ledger.clean_up(client)

    def _report(self, left_over: LeftOver) -> Report:
        steps = [self.settled[entry.id] for entry in self.checklist.step]
        if left_over:
            note_left_over(steps, left_over)
        verdict = decide(steps, strict=self.settings.strict)
        return Report(
            tool=Tool(version=__version__),
            node=NodeDescription(
                name=self.node.name,
                url=redact(self.node.url),
                profile=self.node.profile,
                hermes_version=one_line(self.version, 60) if self.version else None,
                process=self.subject.seen_process(),
            ),
            checklist=ChecklistDescription(
                name=self.checklist.name,
                release=self.subject.release,
                sha256=self.checklist.sha256,
            ),
            started_at=self.started_at,
            duration_s=round(time.monotonic() - self.began, 3),
            verdict=verdict,
            exit_code=int(EXIT_CODE_OF[verdict]),
            interrupted=self.interrupted,
            counts=count(steps),
            cost=self.subject.ledger.cost,
            steps=steps,
            timings=self.subject.timings,
            contract=self.subject.recorder.contract,
            runs=self.subject.recorder.timeline.runs,
        )


def _patient(node: Node) -> Node:
    """The node, given more time for each answer unless the operator said how much: it is loaded by
    the check itself, and the first run after its start keeps it from answering (wire.md, 1)."""
    if node.sources.get("timeout", DEFAULT) != DEFAULT or node.timeout != DEFAULT_TIMEOUT:
        return node
    return replace(node, timeout=PATIENCE)


async def _shielded(work: Coroutine[Any, Any, LeftOver]) -> LeftOver:
    """Let the clean-up end even when the task is cancelled again meanwhile."""
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
    return task.result()
