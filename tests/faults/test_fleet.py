"""Many nodes side by side: one that hangs, lies or floods harms nobody but itself, and nothing is
left behind whenever it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_ctl.checks import fleet, runner
from hermes_ctl.checks.fleet import FleetCheck, Target, room_for
from hermes_ctl.checks.model import FleetReport, Status, Verdict
from hermes_ctl.checks.runner import CheckEvent, StepSettled
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.config import Node
from tests.faults.checking import PACE, quick_checklist
from tests.faults.loopback import free_port
from tests.faults.server import HermesServer

NO_RUNS = CheckSettings(runs=False, skip=("capacity", "release"))
WITH_RUNS = CheckSettings(skip=("capacity", "release", "model"))

Start = Callable[[], HermesServer]


@pytest.fixture
def start() -> Iterator[Start]:
    """Brings one more healthy node up, each with a process id of its own."""
    with ExitStack() as stack:

        def one_more() -> HermesServer:
            server = stack.enter_context(HermesServer())
            server.pace = PACE
            return server

        yield one_more


def target(server: HermesServer, name: str, settings: CheckSettings = NO_RUNS) -> Target:
    return Target(server.node(name=name), settings)


def checked(targets: Sequence[Target], **options: int) -> FleetReport:
    check = FleetCheck(targets, quick_checklist(), lambda *_: None, **options)
    asyncio.run(check.run())
    return check.report()


def verdicts(report: FleetReport) -> dict[str, Verdict]:
    return {one.node.name: one.verdict for one in report.nodes}


def test_each_node_has_its_own_verdict_and_the_worst_is_that_of_all(start: Start) -> None:
    good, bad = start(), start()
    bad.faults.degrade("config", "degraded")
    dead = Target(Node("dead", f"http://127.0.0.1:{free_port()}"), NO_RUNS)
    report = checked([target(good, "good"), dead, target(bad, "bad")])
    assert verdicts(report) == {
        "good": Verdict.READY,
        "dead": Verdict.UNDETERMINED,
        "bad": Verdict.NOT_READY,
    }
    assert (report.verdict, report.exit_code) == (Verdict.NOT_READY, 1)
    assert report.counts.model_dump() == {"ready": 1, "not_ready": 1, "undetermined": 1}
    assert not report.interrupted


def test_a_node_that_hangs_delays_nobody(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one slot for all: those that say nothing give it on to the one that speaks."""
    monkeypatch.setattr(fleet, "PATIENCE", 0.2)
    good, hanging = start(), start()
    hanging.faults.hang("*")
    settings = replace(NO_RUNS, deadline=3.0)
    targets = [target(hanging, f"hangs{number}", settings) for number in range(3)]
    targets.append(target(good, "good"))
    settled: list[tuple[int, float]] = []
    began = time.monotonic()

    def observe(index: int, event: CheckEvent) -> None:
        if isinstance(event, StepSettled):
            settled.append((index, time.monotonic() - began))

    check = FleetCheck(targets, quick_checklist(), observe, jobs=1)
    asyncio.run(check.run())
    report = check.report()
    assert verdicts(report)["good"] is Verdict.READY
    good_done = max(at for index, at in settled if index == 3)
    hung_done = min(at for index, at in settled if index == 0 and at > 1)
    assert good_done < hung_done
    first = report.nodes[0].step("routes")
    assert first.status is Status.UNKNOWN
    assert first.summary == "not settled within 3.0 s, the deadline of this check"
    assert report.nodes[0].duration_s < 6


def test_a_node_that_floods_and_one_that_lies_spoil_nobody(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_ctl.api.transport.BODY_LIMIT", 1_000_000)
    good, flood, liar = start(), start(), start()
    flood.faults.status("*", 200, b"x" * 5_000_000)
    liar.faults.html("*")
    report = checked([target(good, "good"), target(flood, "flood"), target(liar, "liar")])
    found = verdicts(report)
    assert found.pop("good") is Verdict.READY
    assert Verdict.READY not in found.values()


def test_what_cannot_even_begin_is_a_report_too(start: Start, tmp_path: Path) -> None:
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")
    wrong = Target(Node("wrong", "https://127.0.0.1:1", ca_file=broken), NO_RUNS)
    report = checked([wrong, target(start(), "good")])
    assert verdicts(report) == {"wrong": Verdict.UNDETERMINED, "good": Verdict.READY}
    assert "CA file" in report.nodes[0].steps[0].summary
    assert len(report.nodes[0].steps) == 12


def test_a_crash_is_that_nodes_own(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    real = runner.check_node

    async def crash(node: Node, *rest: object) -> object:
        if node.name == "odd":
            raise ZeroDivisionError("a bug")
        return await real(node, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(fleet, "check_node", crash)
    server = start()
    report = checked([target(server, "odd"), target(server, "good")])
    assert verdicts(report) == {"odd": Verdict.UNDETERMINED, "good": Verdict.READY}
    assert "ZeroDivisionError" in report.nodes[0].steps[0].summary


def test_no_more_checks_at_once_than_there_are_slots(start: Start) -> None:
    server = start()
    under_way: set[int] = set()
    most = 0

    def observe(index: int, event: CheckEvent) -> None:
        nonlocal most
        name = type(event).__name__
        if name == "CheckStarted":
            under_way.add(index)
        elif name == "CheckFinished":
            under_way.discard(index)
        most = max(most, len(under_way))

    targets = [target(server, f"n{number}") for number in range(8)]
    check = FleetCheck(targets, quick_checklist(), observe, jobs=3)
    asyncio.run(check.run())
    assert most == 3
    assert check.report().verdict is Verdict.READY


def test_connections_are_kept_few(start: Start) -> None:
    server = start()
    open_at_once = 0
    real = server.notify

    def notice() -> None:
        nonlocal open_at_once
        open_at_once = max(open_at_once, server.open_connections)
        real()

    server.notify = notice  # type: ignore[method-assign]
    checked([target(server, f"n{number}") for number in range(6)], jobs=2)
    assert 0 < open_at_once <= 2 * fleet.CONNECTIONS + 2


@pytest.mark.parametrize(
    ("jobs", "runs", "descriptors", "room"),
    [
        (32, False, 20_000, (32, 500, 4)),
        (32, True, 20_000, (32, 166, 12)),
        (32, False, 256, (24, 24, 4)),
        (32, True, 256, (12, 12, 12)),
        (1000, False, 1024, (120, 120, 4)),
        (4, False, 10, (1, 1, 4)),
    ],
)
def test_descriptors_bound_what_is_open(
    jobs: int, runs: bool, descriptors: int, room: tuple[int, int, int]
) -> None:
    found = room_for(jobs, runs=runs, descriptors=descriptors)
    assert (found.jobs, found.open_checks, found.connections) == room


@pytest.mark.parametrize("moment", ["first step", "first run", "long run"])
def test_interrupted_at_any_moment_nothing_is_left(start: Start, moment: str) -> None:
    servers = [start() for _ in range(2)]
    for server in servers:
        server.pace = 0.3
    targets = [target(server, f"n{number}", WITH_RUNS) for number, server in enumerate(servers * 2)]
    settled = 0

    def reached() -> bool:
        if moment == "first step":
            return settled > 0
        wanted = 1 if moment == "first run" else 2
        return sum(len(server.runs) for server in servers) >= wanted

    def observe(_: int, event: CheckEvent) -> None:
        nonlocal settled
        settled += isinstance(event, StepSettled)

    check = FleetCheck(targets, quick_checklist(), observe, jobs=3)

    async def interrupt() -> None:
        task = asyncio.create_task(check.run())
        await asyncio.to_thread(servers[0].wait_until, reached)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupt())
    report = check.report()
    left = [run for server in servers for run in server.runs.values() if run.is_active]
    assert left == []
    assert report.interrupted
    assert len(report.nodes) == 4
    assert all(len(one.steps) == 12 for one in report.nodes)
    assert report.nodes[3].interrupted, "the one that had not begun is told as well"


def test_two_names_of_one_server_are_reported(start: Start) -> None:
    one = start()
    report = checked([target(one, "a"), target(one, "b")])
    assert [same.nodes for same in report.same_server] == [["a", "b"]]


def test_profiles_of_one_server_are_what_they_were_meant_to_be(start: Start) -> None:
    one = start()
    planner = Target(
        one.node(name="planner", url=f"{one.url}/p/planner", profile="planner"), NO_RUNS
    )
    report = checked([target(one, "a"), planner])
    assert report.same_server == []


def test_nodes_of_one_release_share_their_contract(start: Start) -> None:
    report = checked([target(start(), "a"), target(start(), "b")])
    assert report.nodes[0].contract is report.nodes[1].contract
    assert report.nodes[0].contract.endpoints
