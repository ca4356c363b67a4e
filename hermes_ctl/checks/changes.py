"""Watches many nodes by checking them again and again, and tells what has changed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from hermes_ctl.checks.checklist import Checklist
from hermes_ctl.checks.fleet import (
    JOBS,
    Door,
    Room,
    SharedContracts,
    Target,
    check_target,
    room_for,
)
from hermes_ctl.checks.model import FleetReport, Report, Status, Verdict
from hermes_ctl.checks.runner import CheckEvent, CheckFinished

JITTER = 0.2
"""A node is checked again after an interval that is up to so much shorter or longer, so that nodes
which were checked together once do not stay together."""


@dataclass(frozen=True, slots=True)
class StepChange:
    """A step that came out otherwise than before; `was` is None where there was none of that id."""

    id: str
    was: Status | None
    status: Status
    summary: str


@dataclass(frozen=True, slots=True)
class Change:
    """What is otherwise since the last check of a node. `was` is None at its first one."""

    report: Report
    was: Verdict | None
    steps: tuple[StepChange, ...]

    @property
    def of_verdict(self) -> bool:
        """Whether it is one to act on. A node is taken to have been ready before its first check."""
        return (self.was or Verdict.READY) is not self.report.verdict

    def document(self) -> dict[str, Any]:
        """The change as plain JSON values: `hermesctl.change/1`."""
        return {
            "schema": "hermesctl.change/1",
            "at": self.report.started_at.isoformat(),
            "node": self.report.node.name,
            "was": self.was,
            "verdict": self.report.verdict,
            "steps": [
                {"id": one.id, "was": one.was, "status": one.status, "summary": one.summary}
                for one in self.steps
            ],
        }


def change_between(before: Report | None, now: Report) -> Change | None:
    """What is otherwise in `now`, None where nothing is that anybody would act on."""
    was = {step.id: step.status for step in before.steps} if before else {}
    steps = tuple(
        StepChange(step.id, was.get(step.id), step.status, step.summary)
        for step in now.steps
        if was.get(step.id) is not step.status
    )
    if before is not None and before.verdict is now.verdict and not steps:
        return None
    return Change(now, before.verdict if before else None, steps)


class FleetWatch:
    """Checks each target about every `interval` seconds, at most `jobs` at one time.

    `changed` is awaited with what changed, for one node after the other's check and never twice at
    once for the same node. Of each node the last report is kept and nothing more.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        checklist: Checklist,
        interval: float,
        changed: Callable[[Change], Awaitable[None]],
        *,
        jobs: int = JOBS,
    ) -> None:
        self._targets = targets
        self._checklist = checklist
        self._interval = interval
        self._changed = changed
        self._room: Room = room_for(jobs, runs=any(one.settings.runs for one in targets))
        self._slots = asyncio.Semaphore(self._room.jobs)
        self._door = Door()
        self._last: dict[int, Report] = {}
        self._contracts = SharedContracts()

    async def run(self) -> NoReturn:
        """Until it is cancelled; checks that are under way then clean up after themselves."""
        async with asyncio.TaskGroup() as group:
            for index in range(len(self._targets)):
                group.create_task(self._keep_checking(index))
        raise AssertionError("watching ends by cancelling alone")

    def report(self) -> FleetReport | None:
        """The last report of every node that has one, None where none has."""
        reports = [self._last[index] for index in sorted(self._last)]
        return FleetReport.of(reports) if reports else None

    async def _keep_checking(self, index: int) -> None:
        while True:
            async with self._slots, self._door:
                began = time.monotonic()
                now = await self._check(index)
            change = change_between(self._last.get(index), now)
            self._last[index] = now
            if change is not None:
                await self._changed(change)
            pause = self._interval * random.uniform(1 - JITTER, 1 + JITTER)
            await asyncio.sleep(max(0.0, began + pause - time.monotonic()))

    async def _check(self, index: int) -> Report:
        finished: list[Report] = []

        def observe(event: CheckEvent) -> None:
            if isinstance(event, CheckFinished):
                finished.append(event.report)

        await check_target(self._targets[index], self._checklist, self._room.connections, observe)
        report = finished[-1]
        report.contract = self._contracts.shared(report.contract)
        return report
