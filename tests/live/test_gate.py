"""The version-bump gate on real releases: what each move loses and gains, and that a release does
not differ from itself."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.checks.checklist import checklist_path, load_checklist
from hermes_ctl.checks.drift.comparison import compare
from hermes_ctl.checks.drift.difference import Level
from hermes_ctl.checks.gate import GateReport, Waiver, judge_gate
from hermes_ctl.checks.model import Report
from hermes_ctl.checks.runner import check_node
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.cli.sides import with_lab
from hermes_ctl.config import environment
from hermes_ctl.lab.gateway import Lab, running
from hermes_ctl.lab.releases import REVIEWED
from tests.live.conftest import NEW, OLD

SNAPSHOTS = {
    f"field:/api/jobs {path}_snapshot"
    for path in ("$.job.model", "$.job.provider", "$.jobs[].model", "$.jobs[].provider")
}
"""Fields that a job no longer has in 0.22.2."""

HANGS = {"step:limit"} if (os.cpu_count() or 1) + 4 < 10 else set[str]()
"""0.22.2 works each run in the event loop's own threads, of which there are four more than cores:
with as many runs under way another submission hangs, long before the limit of 10."""

UNATTENDED = 'unattended = "3s"'
"""In place of the 31 s that the shipped checklist waits for a keepalive."""


@pytest.fixture
def quick(tmp_path: Path) -> str:
    """The gate's own checklist, all of it, with a shorter wait."""
    text = checklist_path("api-server").read_text()
    assert 'unattended = "31s"' in text
    path = tmp_path / "quick.toml"
    path.write_text(text.replace('unattended = "31s"', UNATTENDED))
    return str(path)


@pytest.fixture
def narrow(quick: str, tmp_path: Path) -> str:
    """The same without the steps that the other gate has seen already."""
    head, *steps = Path(quick).read_text().split("[[step]]\n")
    left_out = ("continuity", "reopen", "readers", "chat", "responses", "memory-scope", "limit")
    kept = [one for one in steps if not any(f'id = "{name}"' in one for name in left_out)]
    assert len(kept) == len(steps) - len(left_out)
    path = tmp_path / "narrow.toml"
    path.write_text(head + "".join(f"[[step]]\n{one}" for one in kept))
    return str(path)


def gate(*arguments: str, report: Path) -> tuple[subprocess.CompletedProcess[str], GateReport]:
    done = subprocess.run(
        [sys.executable, "-m", "hermes_ctl", "gate", *arguments, "--report", f"json={report}"],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stderr
    return done, GateReport.model_validate(json.loads(report.read_text()))


def levels(report: GateReport) -> dict[str, Level]:
    return {one.id: one.level for one in report.differences}


def told(report: GateReport) -> str:
    return "\n".join(f"{one.level}: {one.id}: {one.summary}" for one in report.differences)


def test_from_the_reviewed_release_to_one_that_breaks_skills(quick: str, tmp_path: Path) -> None:
    done, report = gate(
        REVIEWED,
        NEW,
        "--checklist",
        quick,
        "--waive",
        "steer=never needed",
        report=tmp_path / "gate.json",
    )
    assert done.returncode == report.exit_code == 1
    found = levels(report)
    assert found["route:GET /v1/skills"] is Level.BREAKING, told(report)
    assert "✗ GET /v1/skills is advertised and answers 500" in done.stdout
    for gained in (
        "feature:runs_idempotency",
        "comment:open",
        "behaviour:reopened stream",
        "behaviour:second reader",
        "behaviour:wrong approval request id",
        "behaviour:conversation of runs on one session",
        "step:idempotency",
    ):
        assert found[gained] is Level.COMPATIBLE, (gained, told(report))
    assert [one.state.value for one in report.waivers] == ["unused"]
    assert {one.id for one in report.differences if one.is_regression} == {
        "route:GET /v1/skills",
        *SNAPSHOTS,
        *HANGS,
    }
    _as_the_rest_deserves(report)
    assert "old: Hermes 0.20.4.post1 answers" in done.stderr, "progress is shown"


def _as_the_rest_deserves(report: GateReport) -> None:
    """The same two checks with the known finding waived: the rest decides."""
    known = Waiver("route:GET /v1/skills", "HA#108967")
    rest = judge_gate(report.old, report.new, [known], now=report.started_at)
    assert rest.exit_code == 1
    assert len(rest.reasons) == len(SNAPSHOTS | HANGS), rest.reasons
    others = [Waiver("field:/api/jobs *", "nobody of us reads a job's snapshots")]
    others += [Waiver(finding, "we allow four runs at once") for finding in HANGS]
    accepted = judge_gate(report.old, report.new, [known, *others], now=report.started_at)
    assert accepted.exit_code == 0, accepted.reasons
    assert accepted.counts.waived == 1 + len(SNAPSHOTS | HANGS)


def test_from_an_old_release_to_the_reviewed_one(narrow: str, tmp_path: Path) -> None:
    done, report = gate(OLD, REVIEWED, "--checklist", narrow, report=tmp_path / "gate.json")
    assert report.at(Level.BREAKING) == [], told(report)
    assert done.returncode == report.exit_code == 0, report.reasons
    found = levels(report)
    for gained in (
        "feature:run_steer",
        "feature:model_options",
        "feature:session_model_lock",
        "step:model",
        "step:steer",
        "step:profiles",
    ):
        assert found[gained] is Level.COMPATIBLE, (gained, told(report))
    assert "model: lab-other received by the provider" in done.stdout


def test_a_release_does_not_differ_from_itself_five_times(lab: Lab) -> None:
    """Noise is no drift: all five are compared with one another. The runs of the twelve steps, and
    the resources that the deep ones make."""
    checklist = load_checklist("api-server")
    chosen = {*(entry.id for entry in load_checklist("bmas-node").step), "wire", "sessions", "jobs"}
    steps = [entry for entry in checklist.step if entry.id in chosen - {"capacity"}]
    checklist = checklist.model_copy(update={"step": steps})
    settings = with_lab(CheckSettings(allow_busy=True, environment=environment()), lab)

    async def one() -> Report:
        return await check_node(lab.node, checklist, settings, lambda event: None)

    reports = [asyncio.run(one()) for _ in range(5)]
    for before, after in itertools.combinations(reports, 2):
        assert compare(before, after) == []


def test_a_gate_that_is_interrupted_leaves_no_lab(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes_ctl", "gate", REVIEWED, REVIEWED],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    while "answers" not in (line := process.stderr.readline()):
        assert line, "the gate ended by itself"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert _labs_of(process.pid, until=time.monotonic() + 20) == []


def _labs_of(pid: int, until: float) -> list[Any]:
    """The labs that this process started and that still run when they should be gone."""
    while True:
        left = [lab.name for lab in running(environment()) if lab.name.startswith(f"lab-{pid}-")]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.1)
