"""Each way for the step capacity to fail: by the node's files, and by filling the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_ctl.checks.model import Status
from hermes_ctl.secrets import Secret
from tests.faults.checking import FAIL, PASS, SKIP, UNKNOWN, WARN, Checker, assert_only, said

RIGHT = "gateway: {api_server: {max_concurrent_runs: %s}}"


@pytest.mark.parametrize(
    ("config", "stated", "status", "words"),
    [
        (RIGHT % 10, 10, PASS, "limit 10, running and configured, for a stated capacity of 10"),
        (RIGHT % 4, 10, FAIL, "limit 4, stated capacity 10"),
        (RIGHT % 20, 10, FAIL, "limit 20, stated capacity 10"),
        (RIGHT % 0, 10, FAIL, "no limit at all: 0 switches it off"),
        (RIGHT % -1, 10, FAIL, "no limit at all: 0 switches it off"),
        (RIGHT % "many", 10, PASS, "limit 10"),  # no whole number counts as the default
        ("model: {default: x}", 10, PASS, "limit 10, running and configured"),
        (RIGHT % 10, None, WARN, "limit 10, but nobody stated what the node can carry"),
        (
            "platforms: {api_server: {max_concurrent_runs: 4}}",
            4,
            FAIL,
            "limit 10, stated capacity 4 (",
        ),
        (
            "gateway: {platforms: {api_server: {max_concurrent_runs: 4}}}",
            4,
            FAIL,
            "max_concurrent_runs has no effect)",
        ),
    ],
)
def test_capacity_by_the_files(
    checker: Checker, config: str, stated: int | None, status: Status, words: str
) -> None:
    home = checker.home(config)
    report = checker.check(only=("capacity",), hermes_home=home, node_capacity=stated)
    step = report.step("capacity")
    assert step.status is status, step.summary
    assert words in step.summary
    if status is FAIL:
        assert "gateway.api_server.max_concurrent_runs" in step.fix[0]
    assert not checker.server.runs


def test_capacity_edited_after_the_start(checker: Checker) -> None:
    home = checker.home(RIGHT % 10, age=-60)
    report = checker.check(only=("capacity",), hermes_home=home)
    step = report.step("capacity")
    assert step.status is WARN
    assert "the file was edited after the gateway started" in step.summary
    assert step.fix == [
        "hermes gateway restart",
        "or measure the running limit: --probe-capacity",
    ]


def test_capacity_edited_and_wrong_besides(checker: Checker) -> None:
    home = checker.home(RIGHT % 4, age=-60)
    report = checker.check(only=("capacity",), hermes_home=home)
    assert report.step("capacity").status is FAIL


def test_capacity_configured_and_not_seen_running(checker: Checker) -> None:
    """The node does not tell its process, so nobody knows whether it has read the file."""
    checker.server.faults.status("GET /health/detailed", 500)
    report = checker.check(only=("capacity",))
    assert report.step("capacity").status is WARN
    assert "whether the gateway runs with it was not seen" in report.step("capacity").summary


def test_capacity_behind_a_refused_key(checker: Checker) -> None:
    """That is for step auth to tell."""
    node = checker.server.node(key=Secret("0123456789abcdef-wrong", "the test"))
    report = checker.check(node, only=("auth", "capacity"))
    assert report.step("capacity").blocked_by == "auth"


def test_capacity_neither_file_nor_probe(checker: Checker) -> None:
    report = checker.check(hermes_home=None, environment={"HOME": str(checker.folder)})
    assert_only(report, capacity=UNKNOWN)
    step = report.step("capacity")
    assert "the node's files are not here" in step.summary
    assert "--probe-capacity" in step.fix[0]
    assert report.verdict == "undetermined"


def test_capacity_by_the_files_of_this_machine(checker: Checker) -> None:
    """Found by HERMES_HOME, where they name this very address."""
    port = checker.server.port
    config = f"gateway: {{api_server: {{max_concurrent_runs: 10, port: {port}}}}}\n"
    home = checker.home(config)
    report = checker.check(
        checker.server.node(url=f"http://localhost:{port}"),
        only=("capacity",),
        hermes_home=None,
        environment={"HERMES_HOME": str(home)},
    )
    assert report.step("capacity").status is PASS
    other = checker.home(config.replace(str(port), "8642"))
    report = checker.check(
        only=("capacity",), hermes_home=None, environment={"HERMES_HOME": str(other)}
    )
    assert report.step("capacity").status is UNKNOWN


def test_capacity_less_than_the_daemon_sends(checker: Checker, tmp_path: Path) -> None:
    home = checker.home(RIGHT % 2)
    env = tmp_path / "agent.env"
    env.write_text("ACTIVATION_CACHE_DIR=/var/lib/x\n")
    report = checker.check(only=("capacity",), hermes_home=home, node_capacity=2, agent_env=env)
    step = report.step("capacity")
    assert step.status is WARN
    assert "limit 2, but the daemon sends up to 4 at once" in step.summary


# By filling the node


def test_capacity_measured(checker: Checker) -> None:
    checker.server.faults.limit = 3
    home = checker.home(RIGHT % 3)
    report = checker.check(probe_capacity=True, hermes_home=home, node_capacity=3)
    assert_only(report)
    assert "running and configured" in report.step("capacity").summary
    assert "POST /v1/runs until 429: 3" in said(report.step("capacity"))
    assert report.cost.runs == 4 + 3
    assert checker.left_running == []
    assert checker.left_sessions == []


def test_capacity_measured_is_not_the_configured(checker: Checker) -> None:
    checker.server.faults.limit = 3
    report = checker.check(only=("capacity",), probe_capacity=True)
    step = report.step("capacity")
    assert step.status is FAIL
    assert step.summary == "3 runs at once, but 10 is configured"
    assert step.fix == ["hermes gateway restart"]
    assert checker.left_running == []


def test_capacity_measured_without_a_limit_loads_no_further_than_needed(checker: Checker) -> None:
    checker.server.faults.limit = 0
    home = checker.home(RIGHT % 3)
    report = checker.check(
        only=("capacity",), probe_capacity=True, hermes_home=home, node_capacity=3
    )
    step = report.step("capacity")
    assert step.status is FAIL
    assert step.summary.startswith("4 runs at once were accepted: the limit is higher")
    assert len(checker.server.runs) == 4
    assert checker.left_running == []


def test_capacity_measured_on_a_busy_node(checker: Checker) -> None:
    checker.server.faults.foreign_runs = 1
    report = checker.check(only=("capacity",), probe_capacity=True)
    assert report.step("capacity").status is UNKNOWN
    assert "the node is busy: 1 active run" in report.step("capacity").summary
    assert not checker.server.runs


def test_capacity_measured_where_others_work_too(checker: Checker) -> None:
    """The limit is what the 429 names, whoever holds the slots."""
    checker.server.faults.foreign_runs = 2
    checker.server.faults.limit = 5
    report = checker.check(
        only=("capacity",),
        probe_capacity=True,
        allow_busy=True,
        hermes_home=checker.home(RIGHT % 5),
        node_capacity=5,
    )
    assert report.step("capacity").status is PASS
    assert len(checker.server.runs) == 3


def test_capacity_of_a_node_that_does_not_tell_how_busy_it_is(checker: Checker) -> None:
    checker.server.faults.status("GET /health/detailed", 500)
    report = checker.check(only=("capacity",), probe_capacity=True)
    assert report.step("capacity").status is UNKNOWN
    assert "so it was not filled" in report.step("capacity").summary
    assert not checker.server.runs


def test_capacity_measured_while_the_node_breaks(checker: Checker) -> None:
    """What was started is stopped, whatever ended the filling."""
    checker.server.faults.status("POST /v1/runs", 500, skip=2)
    report = checker.check(only=("capacity",), probe_capacity=True)
    assert report.step("capacity").status is UNKNOWN
    assert len(checker.server.runs) == 2
    assert checker.left_running == []


def test_capacity_measured_where_the_next_run_is_taken_and_not_answered(checker: Checker) -> None:
    """As 0.22 does on two processors: its own runs hold the answer up, and the run that nobody was
    told of begins when they are stopped."""
    checker.server.faults.version = "0.22.2"
    checker.server.faults.idempotent = True
    checker.server.faults.hang("POST /v1/runs", skip=2, times=1, work_done=True)
    report = checker.check(
        checker.server.node(timeout=0.5), only=("capacity",), probe_capacity=True
    )
    step = report.step("capacity")
    assert step.status is UNKNOWN
    assert step.summary == "2 runs at once were accepted, the next got no answer"
    assert report.step("stop").status is SKIP, "nothing was left to be told"
    assert report.cost.runs == len(checker.server.runs) == 3
    assert checker.left_running == []
    assert checker.left_sessions == []


def test_capacity_is_not_measured_without_runs(checker: Checker) -> None:
    report = checker.check_without_runs(probe_capacity=True)
    assert report.step("capacity").status is PASS
    assert not checker.server.runs
