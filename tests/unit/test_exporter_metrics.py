"""What a board says to Prometheus, read back by Prometheus' own parser."""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hermes_ctl.checks.model import (
    EXIT_CODE_OF,
    ChecklistDescription,
    NodeDescription,
    Report,
    Status,
    Step,
    Tool,
    Verdict,
    count,
)
from hermes_ctl.config import Node
from hermes_ctl.errors import UsageError
from hermes_ctl.monitor.board import KEPT_LATENCIES, Board
from hermes_ctl.monitor.listener import Place, listening, parse_place
from hermes_ctl.monitor.metrics import registry
from hermes_ctl.monitor.pulse import Pulse, Trouble
from hermes_ctl.runs.happenings import Approval
from hermes_ctl.runs.survey import Live, Waiting

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NODES = [Node("one", "http://one:8642"), Node("two", "http://two:8642")]
Labels = frozenset[tuple[str, str]]


def report_of(node: Node, verdict: Verdict = Verdict.READY, *, version: str = "0.20.4") -> Report:
    status = {Verdict.READY: Status.PASS, Verdict.NOT_READY: Status.FAIL}
    steps = [
        Step(number=1, id="release", title="t", summary="s", status=status.get(verdict, "unknown")),
        Step(number=2, id="routes", title="t", summary="s", status=Status.PASS, duration_s=0.25),
    ]
    return Report(
        tool=Tool(version="1"),
        node=NodeDescription(name=node.name, url=node.url, hermes_version=version),
        checklist=ChecklistDescription(name="bmas-node", release="==0.20.4.*", sha256="0"),
        started_at=NOW,
        duration_s=1.5,
        verdict=verdict,
        exit_code=int(EXIT_CODE_OF[verdict]),
        counts=count(steps),
        steps=steps,
    )


def live(node: Node, state: str, *, waiting: int = 0) -> Live:
    entry: Any = SimpleNamespace(url=node.url, verdict=None)
    return Live(entry, state, waiting=(Waiting(Approval(), NOW),) * waiting)


def samples(board: Board) -> dict[str, dict[Labels, float]]:
    """Every sample that a scrape gives, by its name and its labels."""
    return parsed(generate_latest(registry(board, 60.0)).decode())


def parsed(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = frozenset(pair for pair in sample.labels.items() if pair[1])
            assert labels not in found.setdefault(sample.name, {}), "a sample told twice"
            found[sample.name][labels] = sample.value
    return found


def labels(node: Node, **more: str) -> Labels:
    return frozenset({"node": node.name, **more}.items())


def of_check(node: Node, **more: str) -> Labels:
    return labels(node, checklist="bmas-node", **more)


def test_a_board_nobody_has_written_on_claims_nothing() -> None:
    found = samples(Board(NODES))
    assert found["hermesctl_check_interval_seconds"] == {frozenset(): 60.0}
    (build,) = found["hermesctl_build_info"]
    assert dict(build).keys() == {"version", "python"}
    claims = {"hermesctl_node_up", "hermesctl_node_ready", "hermesctl_last_ready_timestamp_seconds"}
    assert claims.isdisjoint(found)
    assert "hermesctl_waiting_approvals" not in found, "0 would say that somebody looked"


def test_what_is_known_of_each_node_is_told_apart() -> None:
    one, two = NODES
    board = Board(NODES)
    board.looked("one", Pulse(NOW, 0.125, "0.20.4", "ok", "running", 3))
    board.looked("two", Pulse(NOW, trouble=Trouble("ConnectionRefused", "nobody listens")))
    board.checked("one", report_of(one))
    board.checked("two", report_of(two, Verdict.UNDETERMINED))
    found = samples(board)
    assert found["hermesctl_node_up"] == {labels(one): 1, labels(two): 0}
    assert found["hermesctl_node_latency_seconds"] == {labels(one): 0.125}
    assert found["hermesctl_node_active_runs"] == {labels(one): 3}
    assert found["hermesctl_node_ready"] == {of_check(one): 1, of_check(two): 0}
    verdicts = found["hermesctl_node_verdict"]
    assert verdicts[of_check(two, verdict="undetermined")] == 1
    assert verdicts[of_check(two, verdict="not_ready")] == 0
    assert found["hermesctl_last_ready_timestamp_seconds"] == {labels(one): NOW.timestamp()}
    assert found["hermesctl_checks_total"][labels(two, verdict="undetermined")] == 1
    assert found["hermesctl_step_duration_seconds"][of_check(one, step="routes")] == 0.25
    step = {"step": "release", "severity": "required"}
    assert found["hermesctl_step_status"][of_check(two, **step, status="unknown")] == 1
    assert found["hermesctl_step_status"][of_check(one, **step, status="pass")] == 1


def test_a_failed_check_does_not_make_the_last_success_forgotten() -> None:
    one = NODES[0]
    board = Board([one])
    board.checked("one", report_of(one))
    board.checked("one", report_of(one, Verdict.NOT_READY))
    board.checked("one", None)
    found = samples(board)
    assert found["hermesctl_last_ready_timestamp_seconds"] == {labels(one): NOW.timestamp()}
    assert found["hermesctl_node_ready"] == {of_check(one): 0}
    assert sum(found["hermesctl_checks_total"].values()) == 2


def test_runs_are_counted_on_their_node_by_states_of_ours() -> None:
    one, two = NODES
    board = Board(NODES)
    board.surveyed(
        [
            live(one, "running"),
            live(one, "waiting_for_approval", waiting=2),
            live(one, "a state of tomorrow"),
            live(two, "running"),
            live(Node("three", "http://three:1"), "running", waiting=1),
        ]
    )
    found = samples(board)
    assert found["hermesctl_waiting_approvals"] == {labels(one): 2, labels(two): 0}
    runs = found["hermesctl_journal_runs"]
    assert runs[labels(one, state="running")] == 1
    assert runs[labels(one, state="other")] == 1
    assert runs[labels(two, state="waiting_for_approval")] == 0


def test_a_thousand_checks_of_ever_new_versions_leave_no_series_behind() -> None:
    one = NODES[0]
    board = Board([one])

    def number() -> int:
        return sum(len(one) for one in samples(board).values())

    for turn in range(1000):
        board.looked("one", Pulse(NOW, 0.1, f"0.{turn}", "ok"))
        board.checked("one", report_of(one, version=f"0.{turn}"))
        if turn == 0:
            before = number()
    assert number() == before
    assert len(board.state("one").latencies) == KEPT_LATENCIES


def test_hostile_words_of_a_node_stay_one_label() -> None:
    one = replace(NODES[0], name='a"b\\c')
    board = Board([one])
    board.checked(one.name, report_of(one, version='\x1b[2J"\n} 1\nowned{x="1'))
    text = generate_latest(registry(board, 60.0)).decode()
    assert "\x1b" not in text
    info = parsed(text)["hermesctl_node_info"]
    assert len(info) == 1
    assert ("node", 'a"b\\c') in next(iter(info))


def test_two_nodes_of_one_name_cannot_be_told_apart() -> None:
    with pytest.raises(UsageError, match="two nodes have the name one"):
        Board([NODES[0], Node("one", "http://other:1")])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:9464", Place("127.0.0.1", 9464)),
        ("[::1]:0", Place("::1", 0)),
        ("node1:80", Place("node1", 80)),
    ],
)
def test_places_are_read_and_written(text: str, place: Place) -> None:
    assert parse_place(text) == place
    assert str(place) == text


@pytest.mark.parametrize(
    "text", ["", "9464", ":9464", "::1:9464", "a:", "a:x", "a:65536", "a:-1", "[a:1", "[]:1", "a:²"]
)
def test_other_places_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        parse_place(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("n1", False)],
)
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert Place(host, 1).is_loopback is expected


def test_metrics_are_at_their_path_alone() -> None:
    with listening(Place("127.0.0.1", 0), registry(Board(NODES), 60.0)) as place:
        with urlopen(f"http://{place}/metrics") as answer:
            assert re.match("text/plain; version=", answer.headers["Content-Type"])
            assert b"hermesctl_build_info" in answer.read()
        with urlopen(f"http://{place}/") as answer:
            assert b"/metrics" in answer.read()
        with pytest.raises(OSError, match="404"):
            urlopen(f"http://{place}/other")


def test_scrapers_that_say_nothing_hold_up_nobody() -> None:
    with (
        listening(Place("127.0.0.1", 0), registry(Board(NODES), 60.0)) as place,
        ExitStack() as all,
    ):
        for _ in range(20):
            all.enter_context(socket.create_connection((place.host, place.port)))
        with urlopen(f"http://{place}/metrics", timeout=10) as answer:
            assert answer.status == 200


def test_a_taken_port_is_a_sentence() -> None:
    with listening(Place("127.0.0.1", 0), CollectorRegistry()) as place:
        taken = pytest.raises(UsageError, match=f"cannot listen at {place}: Address already in use")
        with taken, listening(place, CollectorRegistry()):
            pass
    with listening(place, CollectorRegistry()) as again:
        assert again == place, "the port is free as soon as the block is left"
