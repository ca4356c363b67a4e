"""A whole check of the stand-in, in this process, and what every check owes whatever it found.

def test_x(checker: Checker) -> None:
    checker.server.faults.keep_slot = True
    report = checker.check()
    assert_only(report, stop=FAIL)
    assert "slot" in report.step("stop").summary
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hermes_ctl.checks.checklist import Checklist, load_checklist
from hermes_ctl.checks.model import EXIT_CODE_OF, Report, Status, Step, count, decide
from hermes_ctl.checks.runner import CheckEvent, CheckFinished, StepSettled, check_node
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.config import Node
from tests.faults.runs import KNOWN_MODELS
from tests.faults.server import HermesServer

PASS, WARN, FAIL, SKIP, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.SKIP, Status.UNKNOWN

PACE = 0.05
"""The stand-in's model speaks so much faster than the lab's."""

HEALTHY = {step.id: PASS for step in load_checklist().step} | {"cache": SKIP}
"""A node without an adapter whose capacity is stated."""

RUN_STEPS = ("run-id", "events", "polling", "stop", "model", "traces")
WITHOUT_RUNS = HEALTHY | dict.fromkeys(RUN_STEPS, SKIP)
"""The same with `--no-runs`."""

CLI_ANSWER = """#!/bin/sh
echo 'Hermes Agent v{version} (2026.8.21)'
echo 'Install directory: /opt/hermes'
echo 'Python: 3.11.7'
"""


@cache
def quick_checklist(name: str = "bmas-node") -> Checklist:
    """The shipped checklist with deadlines that a test can wait for."""
    checklist = load_checklist(name)
    return checklist.model_copy(
        update={
            "canary": checklist.canary.model_copy(update={"deadline": 5.0}),
            "long_run": checklist.long_run.model_copy(
                update={"deadline": 5.0, "stop_deadline": 1.0, "slot_deadline": 0.5}
            ),
            "model_run": checklist.model_run.model_copy(update={"deadline": 5.0}),
        }
    )


@dataclass
class Checker:
    """Checks `server` as on the node itself: with its executable, its files, its capacity."""

    server: HermesServer
    folder: Path
    checklist: Checklist = field(default_factory=quick_checklist)
    events: list[CheckEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.pace = PACE
        self.settings: dict[str, Any] = {
            "hermes_bin": self.hermes("0.20.4.post1"),
            "hermes_home": self.home("gateway: {api_server: {max_concurrent_runs: 10}}"),
            "node_capacity": 10,
            "other_model": KNOWN_MODELS[1],
        }

    def hermes(self, version: str, text: str = CLI_ANSWER) -> Path:
        """An executable that says it is that version."""
        path = self.folder / f"hermes-{version}"
        path.write_text(text.format(version=version))
        path.chmod(0o755)
        return path

    def home(self, config: str, *, age: float = 3600.0) -> Path:
        """A HERMES_HOME whose config.yaml was written `age` seconds before this process started;
        negative: after it."""
        folder = self.folder / "home"
        folder.mkdir(exist_ok=True)
        path = folder / "config.yaml"
        path.write_text(config)
        moment = time.time() - age
        if age >= 0:
            import psutil

            moment = psutil.Process().create_time() - age
        os.utime(path, (moment, moment))
        return folder

    def check(self, node: Node | None = None, **settings: Any) -> Report:
        """The report of one check, and what it owes in any case."""
        chosen = CheckSettings(**{**self.settings, **settings})
        self.events.clear()
        report = asyncio.run(
            check_node(node or self.server.node(), self.checklist, chosen, self.events.append)
        )
        self._owes(report, strict=chosen.strict)
        return report

    def check_without_runs(self, node: Node | None = None, **settings: Any) -> Report:
        """The same with `--no-runs`: quicker, where no run is in question."""
        return self.check(node, runs=False, **settings)

    def _owes(self, report: Report, *, strict: bool) -> None:
        assert [step.id for step in report.steps] == [step.id for step in self.checklist.step]
        assert [step.number for step in report.steps] == list(range(1, len(report.steps) + 1))
        assert report.verdict is decide(report.steps, strict=strict)
        assert report.exit_code == EXIT_CODE_OF[report.verdict]
        assert report.counts == count(report.steps)
        assert not report.interrupted
        told = [event.step.id for event in self.events if isinstance(event, StepSettled)]
        assert sorted(told) == sorted(step.id for step in report.steps), "told once each"
        assert isinstance(self.events[-1], CheckFinished)
        for step in report.steps:
            assert_explained(step)

    @property
    def left_running(self) -> list[str]:
        """The runs that the check left behind."""
        return [run.run_id for run in self.server.runs.values() if run.is_active]

    @property
    def left_sessions(self) -> list[str]:
        return [name for name in self.server.answers.sessions.rows if "hermesctl" in name]


def assert_explained(step: Step) -> None:
    """A step says what it saw in one line; one that is not well says what to do."""
    assert step.summary
    assert "\n" not in step.summary, step.summary
    if step.status in (FAIL, WARN, UNKNOWN) and step.blocked_by is None:
        assert step.fix, f"{step.id} says nothing of what to do: {step.summary}"
    if step.status is FAIL:
        assert step.expected, step.id
        assert step.observed, step.id
    if step.blocked_by is not None:
        assert step.status is SKIP, step.id


def statuses(report: Report) -> dict[str, Status]:
    return {step.id: step.status for step in report.steps}


def assert_only(
    report: Report, *, expected: Mapping[str, Status] = HEALTHY, **other: Status
) -> None:
    """These steps came out so (`run_id=FAIL`), and every other one as on a healthy node."""
    wanted = {**expected, **{name.replace("_", "-"): status for name, status in other.items()}}
    assert statuses(report) == wanted, "\n".join(
        f"{step.id}: {step.status} {step.summary}"
        for step in report.steps
        if step.status is not wanted[step.id]
    )


def said(step: Step) -> str:
    """All that a step says, to look for words in."""
    evidence = [f"{item.source}: {item.value}" for item in step.evidence]
    lines = [step.summary, step.expected or "", step.observed or "", *evidence, *step.fix]
    return "\n".join(lines)
