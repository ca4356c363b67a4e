"""The commands for runs as they are typed, against a node that misbehaves: output and exit codes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.api import events
from hermes_ctl.runs import follow, submit
from tests.faults.proxy import Link
from tests.faults.server import HermesServer
from tests.typed import Hermesctl, ended

RUNS = "POST /v1/runs"
STATUS = "GET /v1/runs/{run_id}"
EVENTS = "GET /v1/runs/{run_id}/events"
ANSWER = "word1 word2 word3"
WORDS = "[[words 3]]"


@pytest.fixture
def hermesctl(
    server: HermesServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Hermesctl:
    """hermesctl, pointed at the stand-in."""
    monkeypatch.setattr(submit, "_FIRST_WAIT", 0.05)
    return Hermesctl(tmp_path, monkeypatch, capsys, url=server.url, key=server.key)


# The good way


def test_the_answer_alone_is_on_standard_output(hermesctl: Hermesctl, server: HermesServer) -> None:
    typed = hermesctl("run", "[[run ls]] [[words 3]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")
    (run_id,) = server.runs
    assert typed.err.splitlines()[0] == f"{run_id}  model default"
    assert "terminal   ls" in typed.err
    assert f"hermesctl status {run_id}" in typed.err
    assert "\x1b" not in typed.err, "no escape sequences in a pipe"


def test_without_follow_the_id_is_printed(hermesctl: Hermesctl, server: HermesServer) -> None:
    typed = hermesctl("run", WORDS)
    assert (typed.code, typed.out.strip(), typed.err) == (0, next(iter(server.runs)), "")
    assert server.received(EVENTS) == []


def test_one_json_document(hermesctl: Hermesctl, server: HermesServer) -> None:
    document = hermesctl("run", WORDS, "--follow", "-o", "json").json
    assert (document["verdict"], document["output"], document["exit_code"]) == (
        "success",
        ANSWER,
        0,
    )
    assert hermesctl("run", WORDS, "-o", "json").json["status"] == "started"


def test_json_lines_pass_every_event_whole(hermesctl: Hermesctl, server: HermesServer) -> None:
    server.faults.foreign_frame_at = 1
    typed = hermesctl("run", WORDS, "--follow", "-o", "jsonl")
    lines = [json.loads(line) for line in typed.out.splitlines()]
    (run,) = server.runs.values()
    assert lines[0] == {"event": "hermesctl.submitted", "run_id": run.run_id}
    assert lines[-1]["event"] == "hermesctl.result"
    theirs = [line for line in lines if not line["event"].startswith("hermesctl.")]
    assert theirs[-1]["event"] == "run.completed"
    assert theirs[-1]["output"] == ANSWER
    known = {"message.delta", "reasoning.available", "run.completed"}
    assert {line["event"] for line in theirs} - known, "the unknown event is there too"


def test_the_record_has_every_event_with_its_time(
    hermesctl: Hermesctl, server: HermesServer, tmp_path: Path
) -> None:
    record = tmp_path / "events.jsonl"
    server.faults.malformed_frame_at = 1
    hermesctl("run", "[[run ls]] [[words 3]]", "--follow", "--record", str(record))
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert all(line["arrived"].endswith("Z") for line in lines)
    assert any("broken" in line for line in lines)
    assert [line["event"]["event"] for line in lines if "event" in line][-1] == "run.completed"
    assert record.stat().st_mode & 0o777 == 0o600


def test_everything_that_a_request_can_hold_is_sent(
    hermesctl: Hermesctl, server: HermesServer, tmp_path: Path
) -> None:
    (tmp_path / "role.txt").write_text("Be brief.")
    (tmp_path / "history.json").write_text('[{"role": "user", "content": "hi"}]')
    options = (
        *("--instructions", f"@{tmp_path}/role.txt", "--model", "other-model"),
        *("--provider", "custom", "--session", "s-1", "--session-key", "task-1"),
        *("--previous-response", "resp_1", "--history", f"{tmp_path}/history.json"),
        *("--model-option", "reasoning_effort=high", "--model-option", "reasoning.effort=2"),
    )
    assert hermesctl("run", WORDS, *options).code == 0
    (request,) = server.received(RUNS)
    assert json.loads(request.body) == {
        "input": WORDS,
        "instructions": "Be brief.",
        "model": "other-model",
        "provider": "custom",
        "session_id": "s-1",
        "previous_response_id": "resp_1",
        "conversation_history": [{"role": "user", "content": "hi"}],
        "model_options": {"reasoning_effort": "high", "reasoning": {"effort": 2}},
    }
    assert request.headers["x-hermes-session-key"] == "task-1"


# The stream fails, the run does not


def cut(server: HermesServer) -> None:
    server.faults.cut_stream_after = 1


def reset(server: HermesServer) -> None:
    server.faults.reset_stream_after = 1


def clean_end(server: HermesServer) -> None:
    server.faults.end_stream_after = 1


def keepalives(server: HermesServer) -> None:
    server.faults.only_keepalives_after, server.faults.keepalive = 1, 0.05


def no_terminal(server: HermesServer) -> None:
    server.faults.no_terminal_event = True


def malformed(server: HermesServer) -> None:
    server.faults.malformed_frame_at = 2


def buffered(server: HermesServer) -> None:
    server.faults.buffer_stream = True


def no_stream(server: HermesServer) -> None:
    server.faults.status(EVENTS, 404)


def html(server: HermesServer) -> None:
    server.faults.html(EVENTS)


def broken(server: HermesServer) -> None:
    server.faults.status(EVENTS, 500)


def wrong_type(server: HermesServer) -> None:
    server.faults.stream_content_type = "application/json"


def gzipped(server: HermesServer) -> None:
    server.faults.gzip_stream = True


def in_pieces(server: HermesServer) -> None:
    server.faults.stream_pieces = 1


FAILING = [cut, reset, clean_end, keepalives, no_terminal, malformed, buffered]
FAILING += [no_stream, html, broken, wrong_type, gzipped, in_pieces]


@pytest.mark.parametrize("fail", FAILING, ids=lambda fail: fail.__name__)
def test_the_result_is_the_run_s_own_whatever_the_stream_does(
    hermesctl: Hermesctl, server: HermesServer, fail: Callable[[HermesServer], None]
) -> None:
    fail(server)
    typed = hermesctl("run", "[[run ls]] [[words 3]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n"), typed.err
    assert typed.err.count("the event stream is lost") <= 1
    assert len(server.received(EVENTS)) == 1, "one reader, once"


def test_a_stalled_stream_is_given_up_and_the_run_is_polled(
    hermesctl: Hermesctl, server: HermesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "SILENCE", 0.3)
    defaults = follow.FollowSettings.__init__.__defaults__
    assert defaults is not None
    changed = tuple(0.3 if value == 75.0 else value for value in defaults)
    monkeypatch.setattr(follow.FollowSettings.__init__, "__defaults__", changed)
    server.faults.stall_stream_after = 1
    typed = hermesctl("run", "[[run ls]] [[silent 1s]] [[words 3]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")
    assert "it was silent for 0.3 s" in typed.err


def test_an_event_that_is_too_large_is_left_to_polling(
    hermesctl: Hermesctl, server: HermesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FRAME_LIMIT", 10_000)
    server.faults.oversized_frame = 20_000
    typed = hermesctl("run", "[[run ls]] [[words 3]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")
    assert "the event stream is lost" in typed.err


def test_a_link_that_breaks_in_the_middle(hermesctl: Hermesctl, server: HermesServer) -> None:
    with Link(server.port) as link:
        hermesctl.point_at(link.url)
        link.cut_when(b"tool.started")
        typed = hermesctl("run", "[[run ls]] [[words 3]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")


# What a run came to


@pytest.mark.parametrize(
    ("faults", "code", "said"),
    [
        ({"run_error": "HTTP 500: boom"}, 1, "HTTP 500: boom"),
        ({"empty_output": True}, 1, "SUSPECT"),
        ({"zero_tokens": True}, 1, "without a token spent"),
    ],
    ids=["failed", "empty", "no tokens"],
)
def test_what_is_no_success_is_said(
    hermesctl: Hermesctl, server: HermesServer, faults: dict[str, Any], code: int, said: str
) -> None:
    vars(server.faults).update(faults)
    typed = hermesctl("run", WORDS, "--follow")
    assert typed.code == code
    assert said in typed.err


def test_a_run_that_the_node_forgot_is_read_from_its_session(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    run_id = hermesctl("run", WORDS).out.strip()
    server.wait_until(lambda: not server.runs[run_id].is_active)
    server.faults.status(STATUS, 404, {"error": {"message": "no", "code": "run_not_found"}})
    typed = hermesctl("tail", run_id)
    assert typed.out == f"{ANSWER}\n"
    assert typed.code in (0, 3), "its own, or it cannot be known"
    assert "session" in typed.err


def test_a_run_that_nobody_knows(hermesctl: Hermesctl, server: HermesServer) -> None:
    typed = hermesctl("status", "run_nobody", "-o", "json")
    assert typed.code == 5
    assert typed.json["error"]["exit_code"] == 5


def test_a_node_that_stays_away_after_the_submission(
    hermesctl: Hermesctl, server: HermesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow.FollowSettings.__init__, "__defaults__", _patience(0.5))
    server.faults.reset(STATUS)
    server.faults.cut_stream_after = 1
    typed = hermesctl("run", "[[run ls]] [[silent 60s]]", "--follow")
    assert typed.code == 3
    assert "may go on" in typed.err


def _patience(seconds: float) -> tuple[Any, ...]:
    defaults = follow.FollowSettings.__init__.__defaults__
    assert defaults is not None
    return tuple(seconds if value == 300.0 else value for value in defaults)


# Approvals

ASKING = "[[approve-me x]] [[words 3]]"


def test_an_approval_that_nobody_answers_is_left_with_its_command(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    typed = hermesctl("run", ASKING, "--follow")
    (run,) = server.runs.values()
    assert (typed.code, typed.out) == (8, "")
    assert f"hermesctl approve {run.run_id} --once" in typed.err
    assert run.status == "waiting_for_approval"
    listed = hermesctl("approvals", "-o", "json").json
    assert [row["command"] for row in listed] == ["rm -rf ./lab-scratch/x"]
    assert hermesctl("status").code == 8
    assert hermesctl("approve").code == 0
    typed = hermesctl("tail")
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")
    assert hermesctl("approve").code == 6, "it waits for nothing any more"


def test_an_approval_that_was_not_seen_waits_since_it_was_asked_for(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    hermesctl("run", ASKING)
    (run,) = server.runs.values()
    server.wait_until(lambda: run.status == "waiting_for_approval")
    first, again = (hermesctl("approvals", "-o", "json").json[0]["since"] for _ in range(2))
    assert first == again, "looking does not make it younger"


@pytest.mark.parametrize("rule", ["deny", "once", "session"])
def test_a_rule_answers_approvals(hermesctl: Hermesctl, server: HermesServer, rule: str) -> None:
    typed = hermesctl("run", ASKING, "--follow", "--on-approval", rule)
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")
    (answer,) = server.received("POST /v1/runs/{run_id}/approval")
    body = json.loads(answer.body)
    assert body["choice"] == rule
    assert len(body["request_id"]) == 32, "the id is sent whenever the event had one"


def test_asking_needs_a_terminal(hermesctl: Hermesctl, server: HermesServer) -> None:
    typed = hermesctl("run", ASKING, "--follow", "--on-approval", "ask")
    assert typed.code == 2
    assert server.requests == []


def test_always_has_to_be_confirmed(hermesctl: Hermesctl, server: HermesServer) -> None:
    hermesctl("run", ASKING, "--follow")
    assert hermesctl("approve", "--always").code == 2
    assert server.received("POST /v1/runs/{run_id}/approval") == []
    typed = hermesctl("approve", "--always", "--yes", "-o", "json")
    assert (typed.code, typed.json["choice"], typed.json["resolved"]) == (0, "always", 1)


# Control


def test_stop(hermesctl: Hermesctl, server: HermesServer) -> None:
    run_id = hermesctl("run", "[[silent 60s]]").out.strip()
    typed = hermesctl("stop", "-o", "json")
    assert (typed.code, typed.json["state"]) == (0, "cancelled")
    again = hermesctl("stop", run_id)
    assert again.code == 6
    assert "had ended already" in again.err


def test_a_stop_that_comes_too_late(hermesctl: Hermesctl, server: HermesServer) -> None:
    server.faults.late_stop = True
    hermesctl("run", "[[silent 60s]]")
    typed = hermesctl("stop")
    assert typed.code == 1
    assert "ended before that, completed" in typed.err


def test_a_run_that_does_not_stop(hermesctl: Hermesctl, server: HermesServer) -> None:
    server.faults.never_stop = True
    hermesctl("run", "[[silent 60s]]")
    typed = hermesctl("stop", "--deadline", "300ms")
    assert typed.code == 8
    assert "still stopping" in hermesctl("stop", "--deadline", "0s").err
    assert hermesctl("stop", "--no-wait").out.endswith("stopping\n")


def test_the_deadline_stops_a_followed_run(hermesctl: Hermesctl, server: HermesServer) -> None:
    typed = hermesctl("run", "[[silent 60s]]", "--follow", "--deadline", "300ms")
    (run,) = server.runs.values()
    assert (typed.code, run.status) == (1, "cancelled")
    assert "the deadline has passed" in typed.err


@pytest.mark.parametrize("command", ["tail", "wait"])
def test_the_deadline_leaves_other_runs_alone(
    hermesctl: Hermesctl, server: HermesServer, command: str
) -> None:
    hermesctl("run", "[[silent 60s]]")
    typed = hermesctl(command, "--deadline", "300ms")
    (run,) = server.runs.values()
    assert (typed.code, run.status) == (8, "running")
    assert "running" in typed.err


def test_steer_says_what_is_true(hermesctl: Hermesctl, server: HermesServer) -> None:
    hermesctl("run", "[[count 5 every 100ms]]")
    typed = hermesctl("steer", "be quick")
    assert (typed.code, typed.out.endswith("accepted, not yet delivered\n")) == (0, True)
    typed = hermesctl("tail")
    assert typed.code == 0
    assert "left over, never delivered: the steer 'be quick'" in typed.err
    assert hermesctl("steer", "too late").code == 6


def test_steer_where_there_is_no_such_route(hermesctl: Hermesctl, server: HermesServer) -> None:
    server.faults.drop_route("POST /v1/runs/{run_id}/steer")
    hermesctl("run", "[[silent 60s]]")
    typed = hermesctl("steer", "be quick")
    assert typed.code == 1
    assert "steering" in typed.err


def test_wait_for_all_and_for_any(hermesctl: Hermesctl, server: HermesServer) -> None:
    first = hermesctl("run", WORDS).out.strip()
    second = hermesctl("run", "[[status 500]]").out.strip()
    endless = hermesctl("run", "[[silent 60s]]").out.strip()
    typed = hermesctl("wait", first, second, "-o", "json")
    assert typed.code == 1
    assert {row["run_id"]: row["verdict"] for row in typed.json} == {
        first: "success",
        second: "failed",
    }
    typed = hermesctl("wait", "--any", "-o", "name", endless, first)
    assert (typed.code, typed.out.strip()) == (0, first)
    typed = hermesctl("wait", first, endless, "--deadline", "500ms")
    assert typed.code == 8
    assert f"the run goes on: {endless} running\n" in typed.err


def test_a_wait_that_is_interrupted_says_what_goes_on(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    run_id = hermesctl("run", "[[silent 60s]]").out.strip()
    process = hermesctl.start("wait")
    server.wait_until(lambda: len(server.received(STATUS)) > 1)
    process.send_signal(signal.SIGINT)
    typed = ended(process)
    assert typed.code == 130
    assert f"the run goes on: {run_id} running\n" in typed.err
    assert "hermesctl wait" in typed.err


# The journal at the command line


def test_runs_with_their_state_now(hermesctl: Hermesctl, server: HermesServer) -> None:
    first = hermesctl("run", WORDS).out.strip()
    endless = hermesctl("run", "[[silent 60s]]").out.strip()
    server.wait_until(lambda: not server.runs[first].is_active)
    rows = hermesctl("runs", "-o", "json").json
    assert [(row["run_id"], row["state"]) for row in rows] == [
        (endless, "running"),
        (first, "completed"),
    ]
    assert hermesctl("runs", "--active", "-o", "name").out.split() == [endless]
    assert hermesctl("runs", "--state", "completed", "-o", "name").out.split() == [first]
    assert hermesctl("runs", "--limit", "1", "-o", "name").out.split() == [endless]
    assert hermesctl("runs", "--grep", "words", "-o", "name").out.split() == [first]
    hermesctl("runs", "--prune", "--older-than", "0s")
    assert hermesctl("runs", "-o", "name").out.split() == [endless]


def test_runs_of_a_node_that_is_away(hermesctl: Hermesctl, server: HermesServer) -> None:
    hermesctl("run", "[[silent 60s]]")
    server.__exit__(None, None, None)
    (row,) = hermesctl("runs", "-o", "json").json
    assert row["state"] == "started"
    assert row["problem"].startswith("unreachable")
    assert "started?" in hermesctl("runs").out
    assert hermesctl("runs", "--offline", "-o", "json").json[0]["problem"] is None


def test_a_lost_submission_is_found_by_its_session(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    server.faults.reset(RUNS, work_done=True, times=1)
    typed = hermesctl("run", WORDS)
    assert typed.code == 9
    (run,) = server.runs.values()
    server.wait_until(lambda: not run.is_active)
    (row,) = hermesctl("runs", "-o", "json").json
    assert row["run_id"] == run.run_id
    typed = hermesctl("tail")
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")
    assert len(server.received(RUNS)) == 1


def test_a_submission_that_never_arrived_stays_uncertain(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    server.faults.reset(RUNS, times=1)
    assert hermesctl("run", WORDS).code == 9
    (row,) = hermesctl("runs", "-o", "json").json
    assert (row["run_id"], row["state"]) == (None, "uncertain")
    assert hermesctl("tail").code == 9
    assert len(server.received(RUNS)) == 1


def test_a_run_is_named_by_its_beginning(hermesctl: Hermesctl, server: HermesServer) -> None:
    run_id = hermesctl("run", WORDS).out.strip()
    for name in (run_id, run_id[:12], run_id.removeprefix("run_")[:8]):
        assert hermesctl("wait", name, "-o", "name").out.strip() == run_id
    hermesctl("run", WORDS)
    typed = hermesctl("status", "run_")
    assert typed.code == 2
    assert "2 runs begin with" in typed.err


def test_a_run_that_was_started_elsewhere_is_known_once_it_was_followed(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    run_id = hermesctl("run", WORDS, "--no-journal").out.strip()
    assert hermesctl("tail", "run_nobody").code == 5
    assert hermesctl("runs", "-o", "json").json == []
    assert hermesctl("tail", run_id).code == 0
    (row,) = hermesctl("runs", "-o", "json").json
    assert (row["run_id"], row["started_here"], row["verdict"]) == (run_id, False, "success")
    assert hermesctl("tail").code == 2, "it is not the last one started here"


@pytest.mark.parametrize("command", ["status", "tail", "wait", "stop", "approve"])
def test_a_run_is_not_given_up_because_another_node_does_not_know_it(
    hermesctl: Hermesctl, server: HermesServer, command: str
) -> None:
    run_id = hermesctl("run", WORDS).out.strip()
    before = hermesctl("runs", "--offline", "-o", "json").json
    run = server.runs.pop(run_id)
    nothing = {"error": {"message": "no such session", "code": "session_not_found"}}
    server.faults.status("GET /api/sessions/{session_id}/messages", 404, nothing)
    typed = hermesctl(command, run_id[:12], "--url", f"{server.url}/p/other")
    assert (typed.code, typed.out) == (5, ""), typed.err
    assert hermesctl("runs", "--offline", "-o", "json").json == before
    server.runs[run_id] = run
    assert hermesctl("wait", run_id).code == 0, "the journal still knows where it is"


def test_no_run_yet(hermesctl: Hermesctl, server: HermesServer) -> None:
    typed = hermesctl("tail")
    assert (typed.code, server.requests) == (2, [])


def test_the_final_output_is_kept(hermesctl: Hermesctl, server: HermesServer) -> None:
    run_id = hermesctl("run", WORDS).out.strip()
    assert hermesctl("wait").code == 0
    server.runs.clear()
    typed = hermesctl("tail", run_id)
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")
    assert "from the journal" in typed.err


def test_status_of_a_run_that_ended_does_not_need_its_node(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    run_id = hermesctl("run", WORDS).out.strip()
    assert hermesctl("wait").code == 0
    going_on = hermesctl("run", WORDS).out.strip()
    server.faults.reset(STATUS)
    typed = hermesctl("status", run_id)
    assert (typed.code, ANSWER in typed.out) == (0, True), typed.err
    assert "this is from the journal" in typed.err
    assert hermesctl("status", going_on).code == 3, "its end was not seen"


def test_no_journal_keeps_nothing(
    hermesctl: Hermesctl, server: HermesServer, tmp_path: Path
) -> None:
    assert hermesctl("run", WORDS, "--follow", "--no-journal").code == 0
    assert not (tmp_path / "state").exists()


def test_prompts_are_kept_unless_the_configuration_says_otherwise(
    hermesctl: Hermesctl, server: HermesServer, tmp_path: Path
) -> None:
    hermesctl("run", WORDS)
    config = tmp_path / "config.toml"
    config.write_text("version = 1\njournal-prompts = false\n")
    config.chmod(0o600)
    hermesctl("run", "[[words 4]]")
    assert [row["prompt"] for row in hermesctl("runs", "-o", "json").json] == [None, WORDS]


def test_only_the_runs_of_the_typed_node_are_forgotten(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    here = hermesctl("run", WORDS).out.strip()
    other = f"{server.url}/p/other"
    hermesctl("tail", here, "--url", other)
    assert len(hermesctl("runs", "-o", "json").json) == 2
    hermesctl("tail", here)
    forgotten = hermesctl("runs", "--prune", "--older-than", "0s", "--url", other)
    assert (forgotten.code, forgotten.err) == (0, "1 run forgotten\n")
    (left,) = hermesctl("runs", "-o", "json").json
    assert left["url"] == server.url


def test_what_cannot_be_forgotten_is_no_success(
    hermesctl: Hermesctl, server: HermesServer, tmp_path: Path
) -> None:
    assert hermesctl("runs", "--prune", "--older-than", "0s").code == 0
    (tmp_path / "state" / "hermesctl" / "journal.sqlite3").unlink()
    (tmp_path / "state" / "hermesctl" / "journal.sqlite3").mkdir()
    typed = hermesctl("runs", "--prune", "--older-than", "0s")
    assert typed.code == 1
    assert "cannot be used" in typed.err


# What is typed wrong


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", ""],
        ["run", "x", "--input", "file"],
        ["run", "--input", "/nowhere"],
        ["run", "--input", "-"],
        ["run", "x", "--instructions", "@/nowhere"],
        ["run", "x", "--history", "/nowhere"],
        ["run", "x", "--model-option", "high"],
        ["run", "x", "--model-option", "a=1", "--model-option", "a.b=2"],
        ["run", "x", "--session-key", "k" * 257],
        ["run", "x", "--session-key", "a\nb"],
        ["run", "x", "--deadline", "5s"],
        ["run", "x", "--on-approval", "deny"],
        ["run", "x", "--record", "file"],
        ["run", "x", "--follow", "--deadline", "for ever"],
        ["run", "x", "--follow", "--on-approval", "always"],
        ["run", "x", "--follow", "--record", "/nowhere/file"],
        ["approve", "x", "--once", "--always"],
        ["deny", "x", "--request-id", "r", "--all"],
        ["steer", "x", "--deadline", "5s"],
        ["steer", "a", "b", "c"],
        ["steer", "run_1", " "],
        ["runs", "--older-than", "1d"],
        ["runs", "--prune", "--state", "failed"],
        ["runs", "--prune", "--grep", "x"],
        ["approvals", "--every", "1s"],
        ["approvals", "--watch", "-o", "json"],
        ["run", "no text: \udcff"],
        ["status", "two\nlines"],
        ["wait", ""],
    ],
    ids=repr,
)
def test_bad_input_is_one_sentence_and_nothing_is_sent(
    hermesctl: Hermesctl, server: HermesServer, arguments: list[str]
) -> None:
    typed = hermesctl(*arguments)
    assert typed.code == 2, typed.err
    assert "Traceback" not in typed.err
    assert typed.err.startswith("error: ")
    assert server.received(RUNS) == []


def test_a_prompt_from_an_input_that_is_closed(
    hermesctl: Hermesctl, server: HermesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    typed = hermesctl("run", "-")
    assert (typed.code, server.requests) == (2, [])
    assert "standard input is closed" in typed.err
    typed = hermesctl("run", WORDS, "--follow")
    assert (typed.code, typed.out) == (0, f"{ANSWER}\n")
    assert hermesctl("approve", "--always").code == 2, "nobody can be asked"
    assert hermesctl("top").code == 2


def test_a_history_that_is_no_list_of_messages(
    hermesctl: Hermesctl, server: HermesServer, tmp_path: Path
) -> None:
    file = tmp_path / "history.json"
    for text in (
        "{",
        "{}",
        "[1]",
        '[{"role": "user"}]',
        "\udcff".encode("utf-8", "surrogateescape"),
    ):
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        assert hermesctl("run", "x", "--history", str(file)).code == 2
    assert server.requests == []


# Hostile text


def test_nothing_that_the_model_says_reaches_the_terminal_as_it_is(
    hermesctl: Hermesctl, server: HermesServer
) -> None:
    server.faults.hostile = True
    for arguments in (
        ["run", "[[approve-me x]] [[run ls]] [[words 3]]", "--follow", "--on-approval", "once"],
        ["run", "[[status 500]]", "--follow"],
        ["status"],
        ["status", "-o", "json"],
        ["wait"],
        ["runs"],
        ["runs", "-o", "wide"],
        ["tail", "-o", "jsonl"],
    ):
        typed = hermesctl(*arguments)
        for text in (typed.out, typed.err):
            assert text.replace("\n", "").replace("\t", "").isprintable(), (arguments, text)
