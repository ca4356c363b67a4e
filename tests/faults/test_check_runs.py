"""Each way for the steps that watch the canary and the long run to fail: run-id, events, polling,
stop. In each case the run that suffered is not left behind, and the other steps are as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hermes_ctl.checks import ledger, long_run, transcript
from tests.faults.checking import (
    FAIL,
    HEALTHY,
    PASS,
    RUN_STEPS,
    SKIP,
    UNKNOWN,
    WARN,
    Checker,
    assert_only,
    said,
    statuses,
)
from tests.faults.proxy import Link
from tests.faults.wire import Reply, Request, json_reply, not_found

Arrange = Callable[[Checker], Any]
SUBMIT = "POST /v1/runs"
STOP = "POST /v1/runs/{run_id}/stop"
STATUS = "GET /v1/runs/{run_id}"


def instead(checker: Checker, route: str, change: Callable[[Request, Reply], Reply]) -> None:
    """What `route` answers goes through `change`; the work is done as ever."""
    answers = checker.server.answers
    healthy = answers.routes[route]

    def answer(request: Request) -> Reply:
        reply = healthy(request)
        assert isinstance(reply, Reply)
        return change(request, reply)

    answers.routes[route] = answer


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for on a real node is over sooner on the stand-in."""
    monkeypatch.setattr(long_run, "PATIENCE", 0.1)
    monkeypatch.setattr(long_run, "SILENT_FOR", 0.4)
    monkeypatch.setattr(long_run, "HELD_BACK", 0.2)


# 5 run-id


@pytest.mark.parametrize(
    ("where", "words"),
    [("events", "in event tool.started, run_"), ("status", "in the status, run_")],
)
def test_run_id_that_changes(checker: Checker, where: str, words: str) -> None:
    checker.server.faults.change_run_id = where
    report = checker.check()
    assert_only(report, run_id=FAIL)
    assert report.step("run-id").summary.startswith("the id changes: run_")
    assert words in report.step("run-id").summary
    assert "two gateways" in "\n".join(report.step("run-id").fix)
    assert (report.verdict, report.exit_code) == ("not_ready", 1)
    assert checker.left_running == []


def test_run_id_in_the_answer_that_the_node_does_not_know(checker: Checker) -> None:
    checker.server.faults.change_run_id = "answer"
    report = checker.check()
    blocked = dict.fromkeys(("events", "polling", "stop", "model", "traces"), SKIP)
    assert statuses(report) == {**HEALTHY, "run-id": FAIL, **blocked}
    assert "the node does not know the run it accepted" in report.step("run-id").summary
    assert report.step("stop").blocked_by == "run-id"


def test_run_id_under_its_old_name(checker: Checker) -> None:
    checker.server.faults.answer_with_id = True
    assert_only(checker.check())


def test_run_id_missing(checker: Checker) -> None:
    checker.server.faults.say(SUBMIT, json_reply({"status": "started"}, 202))
    report = checker.check()
    assert report.step("run-id").status is FAIL
    assert report.step("run-id").summary.startswith("no run id: ")
    assert report.step("events").blocked_by == "run-id"
    assert report.step("polling").blocked_by == "run-id"


def test_run_id_answered_with_200(checker: Checker) -> None:
    instead(checker, SUBMIT, lambda request, reply: json_reply(json.loads(reply.body), 200))
    report = checker.check()
    assert report.step("run-id").status is WARN
    assert "answered with 200" in report.step("run-id").summary
    assert checker.left_running == []


def test_run_id_missing_in_an_unknown_event(checker: Checker) -> None:
    """Newer servers have events of their own; one without an id is no other id."""
    checker.server.faults.foreign_frame_at = 2
    report = checker.check()
    assert_only(report, run_id=WARN)
    assert "events carry none (artifact.created)" in report.step("run-id").summary


def advertise_idempotency(checker: Checker) -> None:
    checker.server.faults.extra_features["runs_idempotency"] = {"supported": True}


def test_run_id_replayed(checker: Checker) -> None:
    advertise_idempotency(checker)
    first: dict[str, Reply] = {}
    healthy = checker.server.answers.create_run

    def answer(request: Request) -> Reply:
        key = request.headers.get("idempotency-key")
        if key is None:
            return healthy(request)
        if key not in first:
            first[key] = healthy(request)
        return first[key]

    checker.server.answers.routes[SUBMIT] = answer
    report = checker.check()
    assert_only(report)
    assert report.step("run-id").summary.endswith(", and for the same idempotency key")
    assert report.cost.runs == 4


def test_run_id_replay_that_makes_a_second_run(checker: Checker) -> None:
    advertise_idempotency(checker)
    report = checker.check()
    assert_only(report, run_id=FAIL)
    assert "the same Idempotency-Key made a second run" in report.step("run-id").summary
    assert "would do the work twice" in "\n".join(report.step("run-id").fix)
    assert report.cost.runs == 5
    assert checker.left_running == []
    assert checker.left_sessions == []


def test_run_id_replay_that_is_refused(checker: Checker) -> None:
    advertise_idempotency(checker)
    healthy = checker.server.answers.create_run
    seen: set[str] = set()

    def answer(request: Request) -> Reply:
        key = request.headers.get("idempotency-key")
        if key in seen:
            return json_reply({"error": {"message": "used", "code": "idempotency_conflict"}}, 409)
        if key:
            seen.add(key)
        return healthy(request)

    checker.server.answers.routes[SUBMIT] = answer
    report = checker.check()
    assert_only(report, run_id=WARN)
    assert "the same Idempotency-Key was refused" in report.step("run-id").summary


def test_submission_that_fails_is_told_once(checker: Checker) -> None:
    checker.server.faults.status(SUBMIT, 500, "Server got itself in trouble")
    report = checker.check()
    runs = dict.fromkeys(RUN_STEPS, SKIP)
    assert statuses(report) == {**HEALTHY, "routes": FAIL, **runs, "run-id": UNKNOWN}
    assert "POST /v1/runs answered 500" in report.step("run-id").summary
    assert {report.step(step_id).blocked_by for step_id in RUN_STEPS} == {None, "run-id"}


def test_submission_that_is_refused_for_want_of_room(checker: Checker) -> None:
    """429 while no run of ours is active: not waited for."""
    checker.server.faults.limit = 1
    checker.server.faults.foreign_runs = 1
    report = checker.check(allow_busy=True, node_capacity=None)
    assert report.step("run-id").status is UNKNOWN
    assert "Too many concurrent runs (max 1)" in report.step("run-id").summary
    assert report.verdict == "undetermined"


def test_a_node_that_takes_one_run_at_a_time(checker: Checker) -> None:
    """The check takes no more than the node gives: each of its runs waits for the one before."""
    checker.server.faults.limit = 1
    home = checker.home("gateway: {api_server: {max_concurrent_runs: 1}}")
    report = checker.check(hermes_home=home, node_capacity=1)
    assert_only(report)
    assert len(checker.server.runs) == 4
    assert max(active_at_once(checker)) == 1


def active_at_once(checker: Checker) -> list[int]:
    """How many runs were active when each of them began."""
    runs = list(checker.server.runs.values())
    return [sum(run.created_at <= one.created_at < run.updated_at for run in runs) for one in runs]


# 6 events


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("fault", "value", "words"),
    [
        (
            "cut_stream_after",
            2,
            "closed the connection in the middle of its answer, after 2 events",
        ),
        ("reset_stream_after", 2, "was reset after the request was sent, after"),
        ("end_stream_after", 2, "the stream ended after 2 events without a terminal event"),
        ("no_terminal_event", True, "without a terminal event"),
        (
            "stream_content_type",
            "application/json",
            "application/json instead of text/event-stream",
        ),
        ("stream_content_type", "text/html", "answered 200 with a web page"),
        ("raw_stream", [b'data: {"event": "message.del'], "in the middle of a frame (28 B)"),
        ("raw_stream", [], "the stream ended after 0 events without a terminal event"),
    ],
)
def test_events_that_break_off(checker: Checker, fault: str, value: Any, words: str) -> None:
    """The run itself goes on, and polling tells how it ended."""
    setattr(checker.server.faults, fault, value)
    report = checker.check()
    assert words in report.step("events").summary
    assert_only(report, events=FAIL, traces=SKIP)
    assert report.step("traces").blocked_by == "events"
    assert report.step("polling").summary.startswith("output (")
    assert "polling is not affected" in "\n".join(report.step("events").fix)
    assert checker.left_running == []


def test_events_malformed(checker: Checker) -> None:
    checker.server.faults.malformed_frame_at = 2
    report = checker.check()
    assert_only(report, events=FAIL)
    assert "1 frame cannot be read: not JSON" in report.step("events").summary


def test_events_over_the_frame_limit(checker: Checker) -> None:
    checker.server.faults.oversized_frame = 9 * 1024 * 1024
    report = checker.check(only=("events", "polling", "traces"))
    assert report.step("events").status is FAIL
    assert "larger than 8 MiB" in report.step("events").summary
    assert report.step("polling").status is PASS
    assert report.step("traces").blocked_by == "events"


@pytest.mark.parametrize("fault", ["stall_stream_after", "only_keepalives_after"])
def test_events_that_hang_after_the_end_of_the_run(
    checker: Checker, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(transcript, "_WATCH_INTERVAL", 0.1)
    monkeypatch.setattr(transcript, "_STREAM_GRACE", 0.1)
    setattr(checker.server.faults, fault, 3)
    checker.server.faults.keepalive = 0.05
    report = checker.check()
    assert_only(report, events=FAIL, traces=SKIP)
    words = "the run is completed, but its event stream neither said so nor ended, after 3 events"
    assert report.step("events").summary == words


def test_events_without_the_closing_comment(checker: Checker) -> None:
    checker.server.faults.no_closing_comment = True
    report = checker.check()
    assert_only(report, events=WARN)
    assert report.step("events").summary == "complete, but without the closing comment"
    assert report.verdict == "ready"


def test_events_after_the_end(checker: Checker) -> None:
    run = '"run_id": "run_x", "timestamp": 1.0'
    frames = f'data: {{"event": "run.completed", {run}}}\n\ndata: {{"event": "late", {run}}}\n\n'
    checker.server.faults.raw_stream = [frames.encode(), b": stream closed\n\n"]
    report = checker.check(only=("events",))
    assert report.step("events").status is FAIL
    assert report.step("events").summary == "late came after run.completed"


def test_events_in_pieces_and_compressed(checker: Checker) -> None:
    checker.server.faults.stream_pieces = 7
    checker.server.faults.gzip_stream = True
    assert_only(checker.check())


@pytest.mark.usefixtures("impatient")
def test_events_held_back_by_the_node(checker: Checker) -> None:
    checker.server.faults.buffer_stream = True
    report = checker.check()
    assert_only(report, events=FAIL)
    assert report.step("events").summary.startswith("held back")
    assert "proxy_buffering off" in "\n".join(report.step("events").fix)


@pytest.mark.usefixtures("impatient")
def test_events_held_back_on_the_way(checker: Checker, link: Link) -> None:
    link.hold_back = True
    report = checker.check(checker.server.node(url=link.url))
    assert_only(report, events=FAIL, capacity=HEALTHY["capacity"])
    assert report.step("events").summary.startswith("held back")


@pytest.mark.usefixtures("impatient")
def test_events_of_a_slow_model_are_not_held_back(checker: Checker) -> None:
    """Nothing comes, because nothing happens: no proof, and no reproach."""
    checker.checklist = with_prompt(checker, "[[silent 60s]] [[say late]]")
    checker.server.pace = 1.0
    checker.server.tool_seconds = 1.0
    report = checker.check()
    assert_only(report)


def with_prompt(checker: Checker, prompt: str) -> Any:
    long_settings = checker.checklist.long_run.model_copy(update={"prompt": prompt})
    return checker.checklist.model_copy(update={"long_run": long_settings})


# 7 polling


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (
            {"polled_output": "something else"},
            "polled output differs from the streamed one: 'somet",
        ),
        ({"empty_output": True, "zero_tokens": True}, "completed with no output and 0 tokens"),
        ({"empty_output": True}, "a failed turn that calls itself completed"),
        ({"zero_tokens": True}, "the answer is right, but no token was counted"),
        (
            {"final_output": "API Error: 429"},
            "the answer is not the one asked for: 'API Error: 429'",
        ),
    ],
)
def test_polling_output(checker: Checker, faults: dict[str, Any], words: str) -> None:
    for name, value in faults.items():
        setattr(checker.server.faults, name, value)
    report = checker.check()
    assert_only(report, polling=FAIL)
    assert words in report.step("polling").summary
    assert report.exit_code == 1


def test_polling_provider_error_inside_the_run(checker: Checker) -> None:
    """A 401 in there is Hermes' key to its provider, and not ours to Hermes (field-notes 29)."""
    checker.server.faults.run_error = "HTTP 401: invalid x-api-key"
    report = checker.check()
    failed = {"events": WARN, "polling": FAIL, "stop": UNKNOWN, "model": UNKNOWN, "traces": SKIP}
    assert statuses(report) == {**HEALTHY, **failed}
    assert report.step("events").summary == (
        "complete, but no run streamed long enough to show that events come as they happen"
    )
    assert report.step("polling").summary == "the run failed: HTTP 401: invalid x-api-key"
    assert "hermes doctor" in "\n".join(report.step("polling").fix)
    assert report.step("traces").blocked_by == "polling"
    assert "failed before it could be stopped" in report.step("stop").summary
    assert report.step("stop").fix[0].startswith("its error tells why: hermesctl status run_")


@pytest.mark.usefixtures("impatient")
def test_polling_a_run_without_an_end(checker: Checker) -> None:
    checker.server.faults.stuck = True
    short = {"deadline": 0.5}
    checker.checklist = checker.checklist.model_copy(
        update={
            "canary": checker.checklist.canary.model_copy(update=short),
            "model_run": checker.checklist.model_run.model_copy(update=short),
        }
    )
    report = checker.check()
    stuck = {"events": SKIP, "polling": FAIL, "model": UNKNOWN, "traces": SKIP}
    assert statuses(report) == {**HEALTHY, **stuck}
    assert report.step("polling").summary == "the run had no terminal state after 0.5 s"
    assert report.step("events").blocked_by == "polling"
    assert checker.left_running == []


def test_polling_survives_a_failing_answer(checker: Checker) -> None:
    checker.server.faults.status(STATUS, 502, "bad gateway", times=2, skip=1)
    assert_only(checker.check())


def test_polling_that_always_fails(checker: Checker) -> None:
    checker.server.faults.status(STATUS, 500, "Server got itself in trouble")
    report = checker.check()
    assert report.step("polling").status is FAIL
    assert "GET /v1/runs/{run_id} answered 500" in report.step("polling").summary
    assert report.step("events").status is PASS


def test_polling_a_record_that_is_gone(checker: Checker) -> None:
    """A restart between the end and the poll: the stream told it all, the record is lost."""
    checker.server.faults.say(STATUS, not_found("run", "run_x"))
    report = checker.check(only=("run-id", "events", "polling"))
    assert report.step("polling").status is FAIL
    assert "404" in report.step("polling").summary
    assert "did it restart" in "\n".join(report.step("polling").fix)


def test_polling_that_nobody_answers_is_unknown(checker: Checker) -> None:
    """The gateway stopped half-way: nothing was refused and nothing lost, as far as anybody can tell,
    and an id that no status ever showed is not everywhere."""
    checker.server.faults.hang(STATUS)
    report = checker.check(
        checker.server.node(timeout=0.3), only=("run-id", "events", "polling", "stop")
    )
    assert report.step("polling").status is not FAIL, said(report.step("polling"))
    assert report.step("run-id").status is UNKNOWN, said(report.step("run-id"))
    assert "but its status was not seen" in report.step("run-id").summary
    assert report.verdict == "undetermined"


def test_a_node_that_dies_with_the_stream_did_not_cut_it(checker: Checker) -> None:
    checker.server.faults.end_stream_after = 1
    checker.server.faults.hang(STATUS)
    report = checker.check(checker.server.node(timeout=0.3), only=("events",))
    step = report.step("events")
    assert (step.status, "did not answer within" in step.summary) == (UNKNOWN, True), said(step)


# 8 stop


def test_a_stop_that_nobody_answers_is_not_refused(checker: Checker) -> None:
    checker.server.faults.hang("POST /v1/runs/{run_id}/stop")
    report = checker.check(checker.server.node(timeout=0.3), only=("stop",))
    step = report.step("stop")
    assert (step.status, step.summary[:24]) == (UNKNOWN, "the stop got no answer: "), said(step)
    assert any(line.startswith("hermesctl stop run_") for line in step.fix)


def test_stop_after_the_run_finished_is_tried_again(checker: Checker) -> None:
    checker.server.faults.finish_before_stop = True
    report = checker.check()
    assert_only(report, stop=UNKNOWN)
    step = report.step("stop")
    assert step.summary == "the long run was completed before it could be stopped"
    assert step.attempts == 2
    assert report.cost.runs == 5
    assert "long-run.prompt" in "\n".join(step.fix)
    assert (report.verdict, report.exit_code) == ("undetermined", 3)


def test_stop_that_succeeds_the_second_time(checker: Checker) -> None:
    healthy = checker.server.answers.stop_run
    done: list[str] = []

    def answer(request: Request) -> Reply:
        checker.server.faults.finish_before_stop = not done
        if request.values["run_id"] in checker.server.runs:
            done.append("once")
        return healthy(request)

    checker.server.answers.routes[STOP] = answer
    report = checker.check()
    assert report.step("stop").status is PASS
    assert report.step("stop").attempts == 2


def test_stop_answered_with_the_whole_status(checker: Checker) -> None:
    """0.22: a stop after the end is 200 with a terminal body."""

    def whole(request: Request, reply: Reply) -> Reply:
        run = checker.server.runs.get(request.values["run_id"])
        return json_reply(run.document()) if run else reply

    checker.server.faults.finish_before_stop = True
    instead(checker, STOP, whole)
    report = checker.check()
    assert_only(report, stop=UNKNOWN)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("late_stop", "the stop was accepted, and the run ended as completed"),
        ("keep_slot", "but its slot is still taken (active_api_runs"),
    ],
)
def test_stop_that_does_not_stop(checker: Checker, fault: str, words: str) -> None:
    setattr(checker.server.faults, fault, True)
    report = checker.check()
    assert_only(report, stop=FAIL)
    assert words in report.step("stop").summary


def test_stop_that_never_stops(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "CLEAN_UP_LIMIT", 0.3)
    checker.server.faults.never_stop = True
    report = checker.check()
    assert_only(report, stop=FAIL)
    [left] = checker.left_running
    step = report.step("stop")
    assert step.summary == "still stopping 1 s after the stop: its work goes on"
    assert step.fix[0] == f"hermesctl stop {left}"
    assert step.fix.count(step.fix[0]) == 1


def test_stop_whose_stopping_shows_only_in_a_poll(checker: Checker) -> None:
    def let_it_end(request: Request, reply: Reply) -> Reply:
        run = checker.server.runs.get(request.values["run_id"])
        if run and run.status == "stopping" and run.task:
            run.task.cancel()
        return reply

    checker.server.faults.never_stop = True
    instead(checker, STOP, lambda request, reply: json_reply({"accepted": True}))
    instead(checker, STATUS, let_it_end)
    report = checker.check()
    assert_only(report)
    assert report.step("stop").summary.startswith("stopping when polled, cancelled after")


def test_stop_without_stopping(checker: Checker) -> None:
    def at_once(request: Request, reply: Reply) -> Reply:
        run = checker.server.runs.get(request.values["run_id"])
        if run:
            run.status = "cancelled"
        return json_reply({"accepted": True}) if run else reply

    instead(checker, STOP, at_once)
    report = checker.check()
    assert_only(report, stop=FAIL)
    assert "cancelled, but never stopping" in report.step("stop").summary


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (json_reply({"error": {"message": "no", "code": "x"}}, 409), "answered 409: no"),
        (not_found("run", "run_x"), "answered 404: Run not found"),
    ],
)
def test_stop_that_is_refused(checker: Checker, reply: Reply, words: str) -> None:
    """It is tried once more when the check cleans up."""
    healthy = checker.server.answers.stop_run
    asked: dict[str, int] = {}

    def answer(request: Request) -> Reply:
        run_id = request.values["run_id"]
        asked[run_id] = asked.get(run_id, 0) + 1
        known = run_id in checker.server.runs
        return reply if known and asked[run_id] == 1 else healthy(request)

    checker.server.answers.routes[STOP] = answer
    report = checker.check()
    assert_only(report, stop=FAIL)
    assert "the stop was refused while the run went on" in report.step("stop").summary
    assert words in report.step("stop").summary
    assert checker.left_running == []


def test_stop_of_a_run_that_vanishes(checker: Checker) -> None:
    def vanish(request: Request, reply: Reply) -> Reply:
        if reply.status == 200:
            checker.server.runs.pop(request.values["run_id"]).stop()
        return reply

    instead(checker, STOP, vanish)
    report = checker.check()
    assert_only(report, stop=FAIL)
    assert "the run vanished after the stop" in report.step("stop").summary


def test_a_state_nobody_has_heard_of_is_waited_on(checker: Checker) -> None:
    checker.server.faults.unknown_state = "hibernating"
    assert_only(checker.check())
