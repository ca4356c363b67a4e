"""The check as a whole: what is chosen, what is waited for, what is refused, what is told once."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hermes_ctl.checks import runner
from hermes_ctl.checks.model import Report
from hermes_ctl.checks.probe import Finding
from hermes_ctl.checks.probes import load_probe
from hermes_ctl.checks.runner import (
    CheckEvent,
    CheckFinished,
    CheckStarted,
    NodeReached,
    StepSettled,
    StepStarted,
    Waiting,
    check_node,
)
from hermes_ctl.checks.subject import CheckSettings, Subject
from hermes_ctl.errors import ClosedPipe, ConfigurationError, UsageError
from hermes_ctl.secrets import Secret
from hermes_ctl.text import visible
from tests.faults.checking import (
    FAIL,
    HEALTHY,
    PASS,
    RUN_STEPS,
    SKIP,
    UNKNOWN,
    WITHOUT_RUNS,
    Checker,
    assert_only,
    said,
    statuses,
)
from tests.faults.faults import HOSTILE
from tests.faults.loopback import free_port
from tests.faults.server import HermesServer

# What is chosen


def test_only_and_skip(checker: Checker) -> None:
    report = checker.check(only=("auth", "readiness"), skip=("readiness",))
    chosen = dict.fromkeys(HEALTHY, SKIP) | {"auth": PASS}
    assert statuses(report) == chosen
    assert report.step("routes").summary == "not chosen"
    assert report.verdict == "ready"
    assert not checker.server.received("GET /v1/capabilities")
    assert not checker.server.runs


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"only": ("nothing",)}, "has no step 'nothing'"),
        ({"skip": ("auth", "autth")}, "has no step 'autth'"),
        ({"only": ("auth",), "skip": ("auth",)}, "leave no step to check"),
        ({"only": ("stop",), "runs": False}, "--no-runs leaves no step to check"),
    ],
)
def test_a_choice_that_is_none(checker: Checker, chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        checker.check(**chosen)
    assert not checker.server.requests


def test_without_runs(checker: Checker) -> None:
    report = checker.check_without_runs()
    assert_only(report, expected=WITHOUT_RUNS)
    assert report.step("stop").summary == "needs a run (--no-runs)"
    assert report.verdict == "ready"
    assert report.cost.runs == 0
    assert not checker.server.runs
    changing = [request for request in checker.server.requests if request.method != "GET"]
    assert all("no-such-id" in request.target or request.json() == {} for request in changing)


def test_strict(checker: Checker) -> None:
    report = checker.check(strict=True)
    assert_only(report)
    assert (report.verdict, report.exit_code) == ("undetermined", 3)
    assert report.untold_reason == "--strict lets nothing be skipped: cache"


def test_where_nothing_was_proved_nothing_is_ready(checker: Checker) -> None:
    report = checker.check(only=("cache",))
    assert (report.verdict, report.exit_code) == ("undetermined", 3)
    assert report.untold_reason == "nothing was proved: no step was settled"


def test_a_checklist_whose_advisory_step_fails(checker: Checker) -> None:
    from tests.faults.checking import quick_checklist

    checker.checklist = quick_checklist("hermes-node")
    checker.server.faults.no_tool_call = True
    report = checker.check()
    assert report.step("traces").status is UNKNOWN
    assert report.step("traces").severity == "advisory"
    assert report.verdict == "ready"


# A node that is busy


def test_busy(checker: Checker) -> None:
    checker.server.faults.foreign_runs = 2
    report = checker.check()
    assert statuses(report) == {
        **HEALTHY,
        **dict.fromkeys(RUN_STEPS, SKIP),
        "run-id": UNKNOWN,
    }
    step = report.step("run-id")
    assert step.summary == "the node is busy: 2 active runs, so none was added"
    assert "--allow-busy" in step.fix[0]
    assert {report.step(step_id).blocked_by for step_id in RUN_STEPS} == {None, "run-id"}
    assert report.verdict == "undetermined"
    assert not checker.server.runs


def test_busy_and_allowed(checker: Checker) -> None:
    checker.server.faults.foreign_runs = 2
    assert_only(checker.check(allow_busy=True))


# A node that is not reached


def test_unreachable(checker: Checker) -> None:
    port = free_port()
    report = checker.check(checker.server.node(url=f"http://127.0.0.1:{port}"))
    others = dict.fromkeys(HEALTHY, SKIP)
    assert statuses(report) == {**others, "release": UNKNOWN}
    first = report.step("release")
    assert first.summary == f"nothing listens on 127.0.0.1:{port}"
    assert "is the gateway running" in first.fix[0]
    assert {step.blocked_by for step in report.steps} == {None, "release"}
    assert report.step("cache").blocked_by is None
    assert (report.verdict, report.exit_code) == ("undetermined", 3)
    assert report.node.hermes_version is None
    assert not any(isinstance(event, NodeReached) for event in checker.events)


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (lambda s: s.faults.dashboard(), "with a web page titled 'Hermes Agent'"),
        (lambda s: s.faults.bad_gateway(), "answered 502: a web page titled '502 Bad Gateway'"),
        (lambda s: s.faults.hang(), "did not answer within 0.3 s"),
        (lambda s: s.faults.empty_reply(), "closed the connection without an answer"),
        (lambda s: s.faults.redirect("http://other/"), "a redirect to http://other/"),
        (lambda s: s.faults.bad_json(), "with a body that is not JSON"),
        (lambda s: s.faults.drop_route("GET /health"), "this server has no such route"),
    ],
)
def test_something_else_answers(
    checker: Checker, arrange: Callable[[HermesServer], None], words: str
) -> None:
    """The first line tells what is there, and each line what to do with it."""
    arrange(checker.server)
    if "no such route" in words:
        checker.server.faults.drop_route("GET /v1/capabilities")
    report = checker.check(checker.server.node(timeout=0.3))
    assert report.step("release").status is UNKNOWN
    assert words in report.step("release").summary
    assert report.step("release").fix
    assert report.exit_code == 3


def test_a_server_without_health_that_is_hermes(checker: Checker) -> None:
    """The other steps tell the rest."""
    checker.server.faults.drop_route("GET /health")
    report = checker.check_without_runs()
    assert report.step("routes").status is FAIL
    assert report.step("readiness").status is PASS
    assert report.step("release").status is UNKNOWN


# Waiting


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_RETRY_INTERVAL", 0.1)


@pytest.mark.usefixtures("eager")
def test_wait_for_a_node_that_comes_up(checker: Checker) -> None:
    """Refused first; then it is there, and the whole check is as ever."""
    port = free_port()
    late = HermesServer()
    late.port = port
    waiting = threading.Event()

    def observe(event: CheckEvent) -> None:
        checker.events.append(event)
        if isinstance(event, Waiting) and not waiting.is_set():
            waiting.set()
            late.__enter__()

    node = replace(checker.server.node(), url=f"http://127.0.0.1:{port}")
    settings = CheckSettings(**{**checker.settings, "wait": 20.0, "runs": False})
    try:
        report = asyncio.run(check_node(node, checker.checklist, settings, observe))
    finally:
        late.close()
    assert_only(report, expected=WITHOUT_RUNS)
    [reason] = {event.reason for event in checker.events if isinstance(event, Waiting)}
    assert reason == f"nothing listens on 127.0.0.1:{port}"


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("fault", ["draining", "probe_pending"])
def test_wait_for_what_passes(checker: Checker, fault: str) -> None:
    faults = checker.server.faults
    setattr(faults, fault, True if fault == "draining" else 3)
    seen: list[str] = []

    def observe(event: CheckEvent) -> None:
        if isinstance(event, Waiting):
            seen.append(event.reason)
            if len(seen) == 2:
                faults.draining = False

    settings = CheckSettings(**{**checker.settings, "wait": 20.0, "runs": False})
    node = checker.server.node()
    report = asyncio.run(check_node(node, checker.checklist, settings, observe))
    assert_only(report, expected=WITHOUT_RUNS)
    assert len(seen) >= 2
    draining = "gateway draining, readiness ok"
    assert seen[0] == (draining if fault == "draining" else "gateway running, readiness degraded")


def test_a_node_that_is_away_until_the_deadline_is_told_as_it_was_seen(checker: Checker) -> None:
    """`--wait` longer than `--deadline`: nothing listens there, which is not 'slow or hangs'."""
    away = checker.server.node(url=f"http://127.0.0.1:{free_port()}")
    report = checker.check_without_runs(away, wait=30.0, deadline=0.3)
    step = report.step("release")
    assert (step.status, step.summary.startswith("nothing listens on ")) == (UNKNOWN, True)
    assert report.verdict == "undetermined"


@pytest.mark.usefixtures("eager")
def test_wait_in_vain(checker: Checker) -> None:
    """The last state seen is told, and that it was waited for."""
    port = free_port()
    began = time.monotonic()
    report = checker.check(checker.server.node(url=f"http://127.0.0.1:{port}"), wait=0.4)
    assert 0.4 <= time.monotonic() - began < 5
    assert report.step("release").summary == f"nothing listens on 127.0.0.1:{port}, for 0.4 s"
    assert report.exit_code == 3
    left = [event.seconds_left for event in checker.events if isinstance(event, Waiting)]
    assert left == sorted(left, reverse=True)


@pytest.mark.usefixtures("eager")
def test_wait_does_not_help_against_a_wrong_key(checker: Checker) -> None:
    node = checker.server.node(key=Secret("0123456789abcdef-wrong", "the test"))
    began = time.monotonic()
    report = checker.check(node, wait=30.0)
    assert time.monotonic() - began < 10
    assert report.step("auth").status is FAIL


@pytest.mark.usefixtures("eager")
def test_wait_for_a_drain_that_does_not_pass(checker: Checker) -> None:
    checker.server.faults.draining = True
    report = checker.check(wait=0.3)
    assert report.step("readiness").status is FAIL
    assert "gateway draining" in report.step("readiness").summary


# A probe that crashes


def test_a_probe_that_crashes_is_unknown_and_the_rest_goes_on(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(subject: Subject) -> Finding:
        raise KeyError(subject.node.key and subject.node.key.reveal())

    probe = replace(load_probe("readiness"), settle=crash)
    monkeypatch.setattr(
        runner, "load_probe", lambda name: probe if name == "readiness" else load_probe(name)
    )
    report = checker.check()
    assert_only(report, readiness=UNKNOWN)
    step = report.step("readiness")
    assert step.summary.startswith("this probe crashed (KeyError:")
    assert step.evidence[0].source.startswith("test_check_whole.py:")
    assert report.exit_code == 3
    key = checker.server.key
    assert key not in said(step), "masked even there"


# What the observers see


def test_events_come_in_order(checker: Checker) -> None:
    report = checker.check()
    kinds = [type(event) for event in checker.events]
    assert kinds[0] is CheckStarted
    assert kinds[-1] is CheckFinished
    started = [event.id for event in checker.events if isinstance(event, StepStarted)]
    for step_id in started:
        begun = next(
            index
            for index, event in enumerate(checker.events)
            if isinstance(event, StepStarted) and event.id == step_id
        )
        ended = next(
            index
            for index, event in enumerate(checker.events)
            if isinstance(event, StepSettled) and event.step.id == step_id
        )
        assert begun < ended
    assert started[-1] == "capacity", "it wants the node for itself"
    finished = checker.events[-1]
    assert isinstance(finished, CheckFinished)
    assert finished.report is report


def test_steps_take_their_own_time_not_that_of_others(checker: Checker) -> None:
    """What several steps wait for is the time of the one that began it."""
    checker.server.pace = 1.0
    checker.server.tool_seconds = 0.5
    report = checker.check(only=("run-id", "polling", "traces"))
    assert report.step("run-id").duration_s > 0.5
    assert report.step("polling").duration_s < 0.3
    assert report.step("traces").duration_s < 0.3


# Any end


async def cancelled(checker: Checker, when: Callable[[HermesServer], bool]) -> Report:
    """The report of a check that is cancelled as soon as `when` holds at the server."""
    reports: list[Report] = []

    def observe(event: CheckEvent) -> None:
        if isinstance(event, CheckFinished):
            reports.append(event.report)

    settings = CheckSettings(**checker.settings)
    node = checker.server.node()
    task = asyncio.create_task(check_node(node, checker.checklist, settings, observe))
    while not when(checker.server):
        assert not task.done()
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [report] = reports
    return report


MOMENTS: dict[str, Callable[[HermesServer], bool]] = {
    "at the first request": lambda server: bool(server.requests),
    "while the first run is submitted": lambda server: bool(submissions(server)),
    "when the first run runs": lambda server: bool(server.runs),
    "when four runs run": lambda server: len(server.runs) >= 4,
    "when a stop was sent": lambda server: any(
        run.status == "stopping" for run in server.runs.values()
    ),
}


def submissions(server: HermesServer) -> list[Any]:
    return [one for one in server.received("POST /v1/runs") if one.json().get("input")]


@pytest.mark.anyio
@pytest.mark.parametrize("moment", MOMENTS)
async def test_cancelled_at_any_moment(checker: Checker, moment: str) -> None:
    """Each run is stopped at the server, the one whose answer was under way as well."""
    checker.server.pace = 1.0
    checker.server.tool_seconds = 60.0
    checker.server.faults.slow(0.1, "POST /v1/runs")
    report = await cancelled(checker, MOMENTS[moment])
    assert report.interrupted
    assert [step.id for step in report.steps] == list(HEALTHY)
    assert report.step("polling").status is UNKNOWN
    assert report.step("polling").summary == "interrupted"
    assert checker.left_running == []
    assert checker.left_sessions == []
    assert report.cost.runs == len(checker.server.runs)


@pytest.mark.parametrize("deadline", [0.5, None])
def test_submissions_that_nobody_answers(
    checker: Checker, deadline: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that stops half-way: whoever waited for the answer may have gone before it fails."""
    checker.server.faults.hang("POST /v1/runs", skip=2)
    began = time.monotonic()
    report = checker.check(checker.server.node(timeout=1.0), deadline=deadline)
    gc.collect()
    assert time.monotonic() - began < 10
    assert report.verdict == "undetermined"
    stop = report.step("stop")
    assert stop.status is UNKNOWN, said(stop)
    assert stop.fix[0].startswith("should the node take up what it did not answer"), said(stop)
    assert [record.getMessage() for record in caplog.records] == [], "asyncio has nothing to say"


@pytest.mark.anyio
async def test_cancelled_again_while_it_cleans_up(checker: Checker) -> None:
    checker.server.pace = 1.0
    checker.server.tool_seconds = 60.0
    checker.server.faults.slow(0.3, "POST /v1/runs/{run_id}/stop")
    settings = CheckSettings(**checker.settings)
    node = checker.server.node()
    task = asyncio.create_task(check_node(node, checker.checklist, settings, checker.events.append))
    await asyncio.to_thread(checker.server.wait_until, lambda: len(checker.server.runs) >= 2)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert checker.left_running == []


def test_an_output_that_closes_in_the_middle_leaves_nothing_behind(checker: Checker) -> None:
    """`hermesctl check | head -1`: whoever read the screen has gone, the runs go too."""
    checker.server.pace = 1.0
    checker.server.tool_seconds = 60.0
    reports: list[Report] = []

    def observe(event: CheckEvent) -> None:
        if isinstance(event, CheckFinished):
            reports.append(event.report)
        if isinstance(event, StepSettled) and len(checker.server.runs) >= 2:
            raise ClosedPipe

    settings = CheckSettings(**checker.settings)
    node = checker.server.node()
    with pytest.raises((ClosedPipe, BaseExceptionGroup)):
        asyncio.run(check_node(node, checker.checklist, settings, observe))
    assert checker.left_running == []
    assert reports[0].interrupted


def test_settings_that_cannot_be_used_are_refused_before_anything_is_sent(
    checker: Checker,
) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        checker.check(agent_env=checker.folder / "missing.env")
    assert not checker.server.requests


# Hostile text


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON document, the names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts_in(key)
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


def test_hostile_text_is_neutral_in_the_report(checker: Checker) -> None:
    """Whoever renders the report finds nothing in it that a terminal would obey."""
    faults = checker.server.faults
    faults.hostile = True
    faults.version = f"0.20.4{HOSTILE}"
    faults.degrade(f"config{HOSTILE}", f"bad{HOSTILE}", detail=HOSTILE)
    faults.extra_features[f"name{HOSTILE}"] = {"inner": [HOSTILE]}
    faults.raw_stream = [
        f"data: {json.dumps({'event': HOSTILE, 'run_id': HOSTILE, HOSTILE: HOSTILE})}\n\n".encode(),
        f": {HOSTILE!r}\n\n".encode(),
    ]
    faults.status("GET /v1/skills", 500, {"error": {"message": HOSTILE, "code": HOSTILE}})
    report = checker.check()
    for text in texts_in(report.document()):
        assert text == visible(text)
        assert "\r" not in text
    assert "\\x1b" in said(report.step("readiness"))


def test_a_flood_of_event_names_is_bounded(checker: Checker) -> None:
    run = '"run_id": "run_x", "timestamp": 1.0'
    frames = "".join(f'data: {{"event": "e{number}", {run}}}\n\n' for number in range(3000))
    checker.server.faults.raw_stream = [frames.encode(), b": stream closed\n\n"]
    report = checker.check(only=("events",))
    step = report.step("events")
    assert step.status is FAIL
    assert len(said(step)) < 2000
