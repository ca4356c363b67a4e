"""What the screen of `top` says of a board, line by line."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len

from hermes_ctl.checks.model import (
    EXIT_CODE_OF,
    ChecklistDescription,
    Counts,
    NodeDescription,
    Report,
    Status,
    Step,
    Tool,
    Verdict,
)
from hermes_ctl.config import Node
from hermes_ctl.monitor.board import NodeState
from hermes_ctl.monitor.pulse import Pulse, Trouble
from hermes_ctl.runs.happenings import Approval
from hermes_ctl.runs.survey import Live, Waiting
from hermes_ctl.secrets import Secret
from hermes_ctl.top import rows
from hermes_ctl.top.tables import APPROVALS, NODES, RUNS, uncolored, widths
from tests.faults.faults import HOSTILE

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NODE = Node("one", "http://one:8642")


def report(verdict: Verdict, **status: Status) -> Report:
    steps = [
        Step(number=at, id=name, title=name, status=one, summary=f"{name} told", fix=["mend it"])
        for at, (name, one) in enumerate(status.items(), 1)
    ]
    return Report(
        tool=Tool(version="1"),
        node=NodeDescription(name="one", url=NODE.url, hermes_version="0.20.4"),
        checklist=ChecklistDescription(name="bmas-node", release="==0.20.4.*", sha256="0"),
        started_at=NOW,
        duration_s=1.0,
        verdict=verdict,
        exit_code=int(EXIT_CODE_OF[verdict]),
        counts=Counts(),
        steps=steps,
    )


def live(number: int = 1, state: str = "running", **fields: Any) -> Live:
    entry = {
        "number": number,
        "run_id": f"run_{number:032x}",
        "node": "one",
        "url": NODE.url,
        "prompt": "Tidy up",
        "verdict": None,
        "reason": None,
        "session_id": None,
        "submitted_at": NOW - timedelta(seconds=42),
        "seen_at": NOW,
        "ended_at": None,
    }
    own = {name: fields.pop(name) for name in list(fields) if name in entry}
    given: Any = SimpleNamespace(**{**entry, **own})
    return Live(given, state, **fields)


def waiting(command: str | None = "rm -rf x", since: datetime = NOW) -> Waiting:
    return Waiting(Approval("id-1", command, "recursive delete"), since)


def up(**fields: Any) -> Pulse:
    return Pulse(NOW, **{"latency_s": 0.012, "version": "0.20.4", "active_runs": 2, **fields})


NOT_READY = report(Verdict.NOT_READY, release=Status.FAIL, routes=Status.PASS, auth=Status.FAIL)
UNTOLD = report(Verdict.UNDETERMINED, release=Status.PASS, capacity=Status.UNKNOWN)


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (NodeState(NODE), "…"),
        (NodeState(NODE, is_checking=True), "… checking"),
        (NodeState(NODE, up(), report=report(Verdict.READY, auth=Status.PASS)), "✓ ready"),
        (NodeState(NODE, up(), report=NOT_READY), "✗ not ready: release, auth"),
        (NodeState(NODE, up(), report=UNTOLD), "? undetermined: capacity"),
        (
            NodeState(NODE, up(gateway_state="draining"), report=report(Verdict.READY)),
            "! draining",
        ),
        (
            NodeState(
                NODE,
                Pulse(NOW, trouble=Trouble("ConnectionRefused", "nothing listens")),
                report=report(Verdict.READY, auth=Status.PASS),
            ),
            "✗ down: nothing listens",
        ),
    ],
)
def test_the_newest_word_on_a_node_is_told(state: NodeState, word: str) -> None:
    assert rows.node_cells(state, 8)[1].plain == word


def test_a_node_that_is_down_shows_no_figures_of_before() -> None:
    state = NodeState(NODE, Pulse(NOW), latencies=(0.1, None))
    _, _, version, runs, latency = (cell.plain for cell in rows.node_cells(state, 8))
    assert (version, runs) == ("", "")
    assert latency.strip() == "█×"


@pytest.mark.parametrize(
    ("seconds", "drawn"),
    [
        ((), ""),
        ((0.0, 0.001), "▁▁"),
        ((0.01, 0.02, 0.05), "▂▄█"),
        ((1.0, 2.0, None, 4.0), "▃▅×█"),
        ((9.0, *[0.05] * 4), "████"),
    ],
)
def test_latencies_are_drawn_against_the_longest_one_shown(
    seconds: tuple[float | None, ...], drawn: str
) -> None:
    assert rows.sparkline(seconds, 4) == drawn


def test_an_approval_shows_command_reason_and_age() -> None:
    asking = rows.Asking(live(waiting=()), waiting(since=NOW - timedelta(minutes=3)))
    run, node, since, command = (cell.plain for cell in rows.approval_cells(asking, NOW))
    assert (run, node, since) == ("▲ run_00000000", "one", "3m")
    assert command == "rm -rf x  (recursive delete)"
    unknown = rows.Asking(live(), Waiting(Approval(), NOW))
    assert rows.approval_cells(unknown, NOW)[3].plain == "a command not known here"


def test_a_run_says_how_it_is() -> None:
    def state(one: Live) -> str:
        return rows.run_cells(one, NOW)[2].plain

    assert state(live()) == "● running"
    assert state(live(state="waiting_for_approval")) == "▲ approval"
    assert state(live(waiting=(waiting(),))) == "▲ approval"
    assert state(live(state="completed", verdict="success")) == "✓ completed"
    assert state(live(state="completed", verdict="suspect")) == "✗ suspect"
    assert state(live(state="failed", verdict="failed")) == "✗ failed"
    lost = live(problem="unreachable: nothing listens")
    assert state(lost) == "? running"
    assert rows.run_cells(lost, NOW)[4].plain == "unreachable: nothing listens"


def test_the_age_of_a_run_stops_with_it() -> None:
    assert rows.run_cells(live(), NOW)[3].plain == "42s"
    ended = live(state="completed", verdict="success", ended_at=NOW - timedelta(seconds=40))
    assert rows.run_cells(ended, NOW)[3].plain == "2s"


@pytest.mark.parametrize(
    ("passed", "word"), [(-5, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (7300, "2h"), (2e5, "2d")]
)
def test_ages(passed: float, word: str) -> None:
    assert rows.age(timedelta(seconds=passed)) == word


def test_runs_that_go_on_come_first_and_approvals_by_age() -> None:
    ended = live(4, "completed", verdict="success")
    old = live(1, waiting=(waiting("a", NOW),))
    new = live(3, waiting=(waiting("b", NOW - timedelta(hours=1)),))
    assert [one.entry.number for one in rows.ordered([old, ended, new])] == [3, 1, 4]
    assert [one.waiting.approval.command for one in rows.asked([old, ended, new])] == ["b", "a"]


def test_the_headline_counts_what_matters() -> None:
    states = [
        NodeState(NODE, up(), report=report(Verdict.READY)),
        NodeState(NODE, Pulse(NOW), report=report(Verdict.READY)),
        NodeState(NODE, up()),
    ]
    assert rows.headline(states, None) == "3 nodes: 1 ready, 1 down, 1 checking"
    told = rows.headline(states[:1], [live(waiting=(waiting(),)), live(2)])
    assert told == "1 node: 1 ready · 2 runs active · 1 approval waits"


def test_hostile_text_is_shown_and_not_obeyed() -> None:
    key = Secret("hostile-key-0123456789", "the test").reveal()
    evil = f"{HOSTILE}\n{key}"
    state = NodeState(
        replace(NODE, name=evil), up(version=evil), report=report(Verdict.READY, auth=Status.WARN)
    )
    one = live(run_id=evil, node=evil, prompt=evil, problem=evil, reason=evil)
    asking = rows.Asking(one, Waiting(Approval(evil, evil, evil), NOW))
    told = [
        *rows.node_cells(state, 8),
        *rows.approval_cells(asking, NOW),
        *rows.run_cells(one, NOW),
        *rows.run_cells(replace(one, problem=None, state=evil), NOW),
        rows.run_details(one),
        rows.node_details(state),
        rows.paragraph(evil),
    ]
    for text in told:
        assert not any(ord(sign) < 32 and sign != "\n" for sign in text.plain), text.plain
        assert "\u202e" not in text.plain
        assert key not in text.plain
    shown = "".join(text.plain for text in told)
    assert "[bold]markup[/bold]" in shown, "markup is text like any other"


def test_details_say_what_mends_a_node() -> None:
    text = rows.node_details(NodeState(NODE, up(), report=NOT_READY)).plain
    assert "✗  1 release    release told\n     fix  mend it\n" in text
    assert text.count("fix") == 2
    assert NODE.url in text


def test_nothing_is_said_by_colour_alone() -> None:
    for verdict in Verdict:
        cells = rows.node_cells(NodeState(NODE, up(), report=report(verdict)), 8)
        plain = [uncolored(cell) for cell in cells]
        assert [cell.plain for cell in plain] == [cell.plain for cell in cells]
        assert all(getattr(cell.style, "color", None) is None for cell in plain)
    details = uncolored(rows.node_details(NodeState(NODE, up(), report=NOT_READY)))
    assert all(getattr(span.style, "color", None) is None for span in details.spans)


@pytest.mark.parametrize("layout", [NODES, APPROVALS, RUNS])
@pytest.mark.parametrize("total", [80, 81, 100, 200])
def test_columns_fill_the_screen_and_no_more(layout: Any, total: int) -> None:
    found = widths(layout, total)
    taken = sum(width + 2 for width in found)
    assert total - len(layout) - 1 <= taken <= total - 1
    assert all(width >= cell_len(column.title) for width, column in zip(found, layout, strict=True))
