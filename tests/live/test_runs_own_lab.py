"""Runs on a gateway that is killed, restarted, left unanswered, and asked by many at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.config import environment
from hermes_ctl.lab.gateway import Lab, start
from hermes_ctl.lab.releases import REVIEWED
from tests.typed import Hermesctl, ended

PROCESSES = 8
RUNS_EACH = 25
LIMIT = 10


@pytest.fixture(scope="module")
def own_lab() -> Iterator[Lab]:
    """A lab that may be restarted; nobody who does not answer within 2 s is waited for."""
    settings = {"approvals": {"timeout": 2}}
    with start(
        REVIEWED, environment=environment(), max_concurrent_runs=LIMIT, settings=settings
    ) as lab:
        yield lab


@pytest.fixture
def hermesctl(
    own_lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Hermesctl]:
    assert own_lab.node.key is not None
    key = own_lab.node.key.reveal()
    typed = Hermesctl(tmp_path, monkeypatch, capsys, url=own_lab.node.url, key=key)
    yield typed
    typed.end()


def first_event(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["event"] == name:
            return event
    pytest.fail(f"it ended without {name}")


# The submitter: what eight people type at once, each command after the other

SUBMITTER = """
import sys
from hermes_ctl.main import main
for number in range(int(sys.argv[2])):
    while (code := main(["run", f"[[say mark-{sys.argv[1]}-{number}.]]", "-q"])) == 7:
        pass
    if code:
        sys.exit(code)
"""


@pytest.mark.timeout(900)
def test_two_hundred_runs_by_eight_processes(own_lab: Lab, hermesctl: Hermesctl) -> None:
    before = len(own_lab.requests())
    submitters = [
        hermesctl.process([sys.executable, "-c", SUBMITTER, str(number), str(RUNS_EACH)])
        for number in range(PROCESSES)
    ]
    done = [ended(process, 800.0) for process in submitters]
    assert [one.code for one in done] == [0] * PROCESSES, [one.err for one in done]
    printed = [line for one in done for line in one.out.split()]
    assert len(set(printed)) == PROCESSES * RUNS_EACH

    while hermesctl("runs", "--active", "--limit", "0", "-o", "name").out:
        pass
    rows = hermesctl("runs", "--limit", "0", "-o", "json").json
    assert sorted(row["run_id"] for row in rows) == sorted(printed), "each journalled once"
    assert {row["verdict"] for row in rows} == {"success"}
    marks = Counter(
        mark
        for request in own_lab.requests(after=before, purpose="chat")
        for mark in re.findall(r"mark-\d+-\d+(?=\.)", str(request["last"]))
    )
    assert len(marks) == PROCESSES * RUNS_EACH, "none lost"
    assert set(marks.values()) == {1}, "none doubled"


def test_a_full_node_is_reported_once_it_stays_full(hermesctl: Hermesctl) -> None:
    for _ in range(LIMIT):
        assert hermesctl("run", "[[silent 60s]]").code == 0
    typed = hermesctl("run", "[[say too many]]", "-o", "json")
    assert typed.code == 7
    assert "its limit is 10 runs" in typed.json["error"]["message"]
    assert "(3 of 3)" in typed.err
    active = hermesctl("runs", "--active", "-o", "name").out.split()
    assert len(active) == LIMIT, "what was refused is in no journal"
    for run_id in active:  # some wait for a worker of the gateway and stop only when they get one
        assert hermesctl("stop", run_id, "--no-wait").code == 0
    states = {row["state"] for row in hermesctl("wait", *active, "-o", "json").json}
    assert states == {"cancelled"}


def test_an_approval_that_times_out_is_told_and_the_run_goes_on(hermesctl: Hermesctl) -> None:
    assert hermesctl("run", "[[approve-me late]] [[say went on]]", "--follow").code == 8
    typed = hermesctl("tail")
    assert (typed.code, typed.out) == (0, "went on\n")
    assert hermesctl("approvals", "-o", "name").out == "", "nothing waits any more"
    assert hermesctl("approve").code == 6


def test_a_gateway_that_is_killed_during_a_run(own_lab: Lab, hermesctl: Hermesctl) -> None:
    """Up to 0.22 a run is in the memory of the gateway alone: it is lost, and that is said."""
    process = hermesctl.start("run", "[[count 600 every 100ms]]", "--follow", "-o", "jsonl")
    run_id = first_event(process, "message.delta")["run_id"]
    own_lab.restart(kill=True)
    typed = ended(process)
    assert typed.code == 1
    result = typed.lines[-1]
    assert (result["verdict"], result["run_id"]) == ("gone", run_id)
    assert "no record" in typed.err
    again = hermesctl("tail", run_id)
    assert again.code == 1
    assert "lost before it ended" in again.err


def test_a_gateway_that_is_restarted_during_a_run(own_lab: Lab, hermesctl: Hermesctl) -> None:
    """0.20 reports it as completed, with half an output and no token; or it is gone by the next poll."""
    process = hermesctl.start("run", "[[count 600 every 100ms]]", "--follow", "-o", "jsonl")
    first_event(process, "message.delta")
    own_lab.restart()
    typed = ended(process)
    result = typed.lines[-1]
    assert result["verdict"] in ("suspect", "gone", "unknown")
    assert typed.code in (1, 3)


def test_a_run_that_had_ended_before_the_restart(own_lab: Lab, hermesctl: Hermesctl) -> None:
    followed = hermesctl("run", "[[say kept here]]", "--follow")
    assert followed.code == 0
    unfollowed = hermesctl("run", "[[say kept there]]").out.strip()
    while own_lab_is_busy(hermesctl):
        pass
    own_lab.restart()
    kept = hermesctl("tail", unfollowed)
    assert (kept.code, kept.out) == (0, "kept there\n")
    assert "from its session" in kept.err
    rows = hermesctl("runs", "-o", "json").json
    assert [row["verdict"] for row in rows] == ["success", "success"]
    own = hermesctl("status", rows[1]["run_id"], "-o", "json").json
    assert (own["source"], own["output"]) == ("journal", "kept here")


def own_lab_is_busy(hermesctl: Hermesctl) -> bool:
    health = hermesctl("health", "--detailed", "-o", "json").json
    queues = health["readiness"]["checks"]["background_queues"]
    return bool(queues["active_api_runs"])
