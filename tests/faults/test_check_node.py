"""Each way for the steps that need no run to fail: release, routes, readiness, auth."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probes import readiness
from hermes_ctl.secrets import Secret
from tests.faults.checking import (
    FAIL,
    HEALTHY,
    PASS,
    RUN_STEPS,
    SKIP,
    UNKNOWN,
    WARN,
    WITHOUT_RUNS,
    Checker,
    assert_only,
    said,
    statuses,
)
from tests.faults.faults import PROXY_PAGE
from tests.faults.wire import Reply, Request, html_reply, json_reply, text_reply

Arrange = Callable[[Checker], Any]


def test_a_healthy_node(checker: Checker) -> None:
    report = checker.check()
    assert_only(report)
    assert (report.verdict, report.exit_code) == ("ready", 0)
    assert report.node.hermes_version == "0.20.4.post1"
    assert report.cost.runs == 4
    assert report.cost.output_tokens > 0
    assert report.timings.first_event_s is not None
    assert report.timings.stop_to_cancelled_s is not None
    assert checker.left_running == []
    assert checker.left_sessions == []


# 1 release


@pytest.mark.parametrize(
    ("gateway", "cli", "status", "words"),
    [
        ("0.19.0", "0.19.0", FAIL, "the gateway runs 0.19.0, the reviewed release is ==0.20.4.*"),
        ("0.22.2.post1", "0.22.2.post1", FAIL, "the gateway runs 0.22.2.post1"),
        ("0.19.0", "0.20.4.post1", FAIL, "gateway still runs 0.19.0, the CLI is 0.20.4.post1"),
        ("0.20.4.post1", "0.22.2", FAIL, "gateway still runs 0.20.4.post1, the CLI is 0.22.2"),
        ("0.20.4.post1", "0.19.0", FAIL, "the CLI is 0.19.0: not the gateway's own, or taken back"),
        ("0.20.4", "0.20.4.post1", FAIL, "gateway still runs 0.20.4, the CLI is 0.20.4.post1"),
        ("v0.20.4", "0.20.4", PASS, "CLI and gateway both run"),
        ("0.20.4rc1", "0.20.4rc1", PASS, "CLI and gateway both run 0.20.4rc1"),
        ("nightly", "0.20.4", UNKNOWN, "no version that can be judged (nightly)"),
    ],
)
def test_release(checker: Checker, gateway: str, cli: str, status: Status, words: str) -> None:
    checker.server.faults.version = gateway
    report = checker.check_without_runs(hermes_bin=checker.hermes(cli))
    assert_only(report, expected=WITHOUT_RUNS, release=status)
    step = report.step("release")
    assert words in step.summary
    assert f"{gateway} from GET /health, {cli} from hermes --version" in str(step.observed)
    assert report.verdict == {FAIL: "not_ready", PASS: "ready", UNKNOWN: "undetermined"}[status]


def test_release_old_gateway_needs_a_restart_alone(checker: Checker) -> None:
    checker.server.faults.version = "0.19.0"
    report = checker.check_without_runs()
    assert report.step("release").fix == ["hermes gateway restart"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "#!/bin/sh\necho 'cannot import name x' >&2; exit 3\n",
            "ended with 3: cannot import name x",
        ),
        ("#!/bin/sh\necho 'something else'\n", "names no version of Hermes: something else"),
        ("#!/bin/sh\necho 'true (GNU) 9.1'\n", "names no version of Hermes: true (GNU) 9.1"),
        ("#!/no/such/interpreter\n", "not startable: No such file or directory"),
    ],
)
def test_release_cli_that_does_not_tell(checker: Checker, script: str, words: str) -> None:
    """Match, differ, unknown: never a failure on unknown alone (field-notes 6)."""
    report = checker.check_without_runs(
        hermes_bin=checker.hermes("broken", script.replace("{", "{{"))
    )
    assert_only(report, expected=WITHOUT_RUNS, release=WARN)
    assert words in report.step("release").summary
    assert report.verdict == "ready"


def test_release_cli_that_is_named_by_its_relative_path(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    hermes = checker.hermes("0.20.4.post1")
    monkeypatch.chdir(hermes.parent)
    report = checker.check(only=("release",), hermes_bin=Path(hermes.name))
    assert report.step("release").summary == "CLI and gateway both run 0.20.4.post1"


def test_release_reads_past_warnings(checker: Checker) -> None:
    script = "#!/bin/sh\necho 'warning: lib 9.9.9 is old' >&2\necho 'Hermes Agent v{version} (x)'\n"
    report = checker.check_without_runs(hermes_bin=checker.hermes("0.20.4.post1", script))
    assert_only(report, expected=WITHOUT_RUNS)


def test_release_without_a_cli_in_sight(checker: Checker) -> None:
    report = checker.check_without_runs(hermes_bin=None)
    assert_only(report, expected=WITHOUT_RUNS, release=WARN)
    assert "was not seen" in report.step("release").summary
    assert "--hermes-bin" in said(report.step("release"))


def test_release_found_on_the_path_of_the_node(checker: Checker) -> None:
    hermes = checker.hermes("0.20.4.post1")
    hermes.rename(hermes.with_name("hermes"))
    report = checker.check_without_runs(hermes_bin=None, environment={"PATH": str(hermes.parent)})
    assert_only(report, expected=WITHOUT_RUNS)


def test_release_of_another_machine_behind_a_tunnel(checker: Checker) -> None:
    """A loopback address may lead elsewhere: the process it names is none of this machine, and so
    the `hermes` here is not the node's."""
    hermes = checker.hermes("0.19.0")
    hermes.rename(hermes.with_name("hermes"))
    with_pid(checker, 2**22 + 1)
    report = checker.check_without_runs(hermes_bin=None, environment={"PATH": str(hermes.parent)})
    assert_only(report, expected=WITHOUT_RUNS, release=WARN, capacity=WARN)
    assert "whether the gateway runs with it was not seen" in report.step("capacity").summary


def with_pid(checker: Checker, pid: int) -> None:
    """The node names this process as its gateway's."""
    healthy = checker.server.answers.detailed_health

    def answer(request: Request) -> Reply:
        return json_reply({**json.loads(healthy(request).body), "pid": pid})

    checker.server.answers.routes["GET /health/detailed"] = answer


def test_release_asked_for_on_the_command_line(checker: Checker) -> None:
    checker.server.faults.version = "0.22.2.post1"
    hermes = checker.hermes("0.22.2.post1")
    report = checker.check_without_runs(hermes_bin=hermes, release="==0.22.*")
    assert_only(report, expected=WITHOUT_RUNS)
    assert report.checklist.release == "==0.22.*"


# 2 routes

EVENTS = "GET /v1/runs/{run_id}/events"
STOP = "POST /v1/runs/{run_id}/stop"


@pytest.mark.parametrize(
    ("arrange", "words", "changed"),
    [
        (
            lambda c: c.server.faults.drop_feature("run_stop"),
            "feature run_stop is 'missing', not true, and 1 more",
            {},
        ),
        (
            lambda c: c.server.faults.extra_features.update(run_status="yes"),
            "feature run_status is 'yes', not true",
            {},
        ),
        (
            lambda c: c.server.faults.status("GET /v1/skills", 500, "no skills"),
            "20 of 21 advertised: GET /v1/skills answers 500: no skills",
            {"routes": WARN},
        ),
        (
            lambda c: c.server.faults.status("GET /v1/toolsets", 403),
            "GET /v1/toolsets answers 403 to the key that opened GET /v1/capabilities",
            {"routes": WARN},
        ),
        (
            lambda c: c.server.faults.redirect("http://elsewhere/", "GET /v1/skills"),
            "GET /v1/skills answers 302, a redirect",
            {"routes": WARN},
        ),
        (
            lambda c: c.server.faults.drop_route("GET /v1/capabilities"),
            "the node has no GET /v1/capabilities: it advertises nothing",
            {},
        ),
    ],
)
def test_routes(checker: Checker, arrange: Arrange, words: str, changed: dict[str, Status]) -> None:
    arrange(checker)
    report = checker.check()
    assert statuses(report) == {**HEALTHY, "routes": FAIL, **changed}
    assert words in report.step("routes").summary
    assert report.exit_code == (0 if changed else 1)


def test_routes_one_that_is_listed_and_not_served(checker: Checker) -> None:
    checker.server.faults.drop_route(EVENTS)
    report = checker.check()
    assert_only(report, routes=FAIL, events=FAIL, traces=SKIP)
    assert f"{EVENTS} is not served (404 text/plain: 404: Not Found)" in said(report.step("routes"))
    assert "404" in report.step("events").summary
    assert report.step("traces").blocked_by == "events"
    assert report.step("run-id").summary.endswith("no event came (see events)")
    assert checker.left_running == []


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (html_reply(200, "<html><title>Sign in</title></html>"), "answered by a web page (200)"),
        (html_reply(502, PROXY_PAGE), "answered by a web page (502)"),
        (text_reply(200, "OK"), "is not served (200 text/plain: OK)"),
        (text_reply(500, "500 Internal Server Error"), "answers 500: 500 Internal Server Error"),
    ],
)
def test_routes_listed_and_served_by_something_else(
    checker: Checker, reply: Any, words: str
) -> None:
    checker.server.faults.say(STOP, reply)
    report = checker.check()
    assert report.step("routes").status is FAIL
    assert words in said(report.step("routes"))
    assert "while the run went on" in report.step("stop").summary or (
        "(it answered with no state)" in report.step("stop").summary
    )
    others = {**HEALTHY, "routes": FAIL, "stop": FAIL}
    assert statuses(report) == others


def test_routes_a_submission_without_input_that_is_accepted(checker: Checker) -> None:
    """It is a run like any other, and not left behind."""
    answers = checker.server.answers
    create = answers.routes["POST /v1/runs"]

    def accept(request: Any) -> Any:
        if request.json().get("input"):
            return create(request)
        request.body = b'{"input": "Count slowly from 1 to 600, one number per line."}'
        return create(request)

    answers.routes["POST /v1/runs"] = accept
    report = checker.check()
    assert_only(report, routes=FAIL)
    assert "starts a run without an input" in report.step("routes").summary
    assert report.cost.runs == 5
    assert checker.left_running == []


def test_routes_without_an_answer_are_unknown(checker: Checker) -> None:
    checker.server.faults.reset("GET /v1/runs/{run_id}/events", times=1)
    report = checker.check()
    assert report.step("routes").status is UNKNOWN or report.step("events").status is FAIL


# 3 readiness


@pytest.mark.parametrize(
    ("check", "status", "details", "words", "mend"),
    [
        (
            "config",
            "degraded",
            {"detail": "invalid config (ParserError)"},
            "ParserError",
            "config.yaml",
        ),
        ("model", "degraded", {}, "model degraded", "model.default"),
        (
            "state_db",
            "corrupt",
            {"detail": "DatabaseError"},
            "corrupt (detail DatabaseError)",
            "state.db",
        ),
        ("disk", "degraded", {"used_percent": 97.0}, "used_percent 97.0", "free space"),
        ("gateway", "degraded", {"state": "starting"}, "gateway starting", "--wait"),
        ("session_store", "unavailable", {}, "session_store unavailable", "state.db"),
        ("session_store", "retrying", {}, "session_store retrying", "state.db"),
    ],
)
def test_readiness_each_check(
    checker: Checker, check: str, status: str, details: dict[str, Any], words: str, mend: str
) -> None:
    """HTTP 200 while degraded."""
    checker.server.faults.degrade(check, status, **details)
    report = checker.check_without_runs()
    assert_only(report, expected=WITHOUT_RUNS, readiness=FAIL)
    step = report.step("readiness")
    assert words in step.summary
    assert mend in "\n".join(step.fix)
    assert (report.verdict, report.exit_code) == ("not_ready", 1)


def test_readiness_draining_takes_no_runs(checker: Checker) -> None:
    checker.server.faults.draining = True
    report = checker.check()
    assert statuses(report) == {**HEALTHY, "readiness": FAIL, **dict.fromkeys(RUN_STEPS, SKIP)}
    assert "gateway draining" in report.step("readiness").summary
    assert report.step("run-id").blocked_by == "readiness"
    assert report.step("run-id").summary == "not settled: the gateway is draining and takes no runs"
    assert not checker.server.runs


def test_readiness_probe_pending_once(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "ASK_AGAIN_AFTER", 0.05)
    checker.server.faults.probe_pending = 1
    report = checker.check_without_runs()
    assert report.step("readiness").status is PASS
    assert report.step("readiness").attempts == 2


def test_readiness_probe_pending_for_ever(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "ASK_AGAIN_AFTER", 0.05)
    checker.server.faults.probe_pending = 1000
    report = checker.check_without_runs()
    assert report.step("readiness").status is FAIL
    assert "state_db degraded (detail probe pending)" in report.step("readiness").summary
    assert report.step("readiness").attempts == 4


def test_readiness_that_comes_and_goes(checker: Checker) -> None:
    degraded = {"status": "degraded", "readiness": {"status": "degraded", "checks": {}}}
    degraded["readiness"]["checks"] = {"disk": {"status": "degraded"}}  # type: ignore[index]
    checker.server.faults.say("GET /health/detailed", json_reply(degraded), times=1)
    report = checker.check_without_runs()
    assert report.step("readiness").status is WARN
    assert "ok now, but at first: disk degraded" in report.step("readiness").summary


def test_readiness_a_check_that_is_not_reported(checker: Checker) -> None:
    ready = {"status": "ok", "checks": {"config": {"status": "ok"}, "model": {"status": "ok"}}}
    reply = json_reply({"status": "ok", "readiness": ready, "gateway_state": "running"})
    checker.server.faults.say("GET /health/detailed", reply)
    report = checker.check()
    assert report.step("readiness").status is UNKNOWN
    assert "state_db is not reported; disk is not reported" in report.step("readiness").summary
    assert report.verdict == "undetermined"


def test_readiness_route_that_fails_poisons_nothing(checker: Checker) -> None:
    checker.server.faults.status("GET /health/detailed", 500, "Server got itself in trouble")
    report = checker.check()
    assert_only(report, routes=WARN, readiness=UNKNOWN, capacity=WARN)
    assert "slot not reported" in report.step("stop").summary
    assert checker.left_running == []


def test_readiness_another_profile_answers(checker: Checker) -> None:
    """Up to 0.20.4 any prefix serves the default profile (wire.md, 0.12)."""
    server = checker.server
    node = server.node(url=f"{server.url}/p/planner", profile="planner")
    report = checker.check(node)
    assert_only(report, readiness=FAIL)
    words = "profile planner is asked for, hermes-agent answers"
    assert words in report.step("readiness").summary
    assert "multiplex_profiles" in "\n".join(report.step("readiness").fix)


def test_readiness_the_profile_asked_for(checker: Checker) -> None:
    server = checker.server
    server.answers.profiles["planner"] = server.key
    report = checker.check(server.node(url=f"{server.url}/p/planner", profile="planner"))
    assert_only(report)


def test_readiness_profile_that_cannot_be_told(checker: Checker) -> None:
    checker.server.faults.status("GET /v1/models", 500, "trouble")
    report = checker.check_without_runs()
    assert report.step("readiness").status is UNKNOWN
    assert "the profile cannot be told" in report.step("readiness").summary
    assert report.step("auth").status is UNKNOWN


# 4 auth

BEHIND_THE_KEY = ("routes", "readiness", *RUN_STEPS, "capacity")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "the node wants a key and none is configured here"),
        (Secret("0123456789abcdef-wrong", "file node.key"), "it came from file node.key"),
    ],
)
def test_auth_no_key_and_a_wrong_one(checker: Checker, key: Secret | None, words: str) -> None:
    report = checker.check(checker.server.node(key=key))
    blocked = dict.fromkeys(BEHIND_THE_KEY, SKIP)
    assert statuses(report) == {**HEALTHY, **blocked, "auth": FAIL}
    assert words in report.step("auth").summary
    for step_id in BEHIND_THE_KEY:
        assert report.step(step_id).blocked_by == "auth"
        assert report.step(step_id).summary == "not settled: the key was refused"
    assert (report.verdict, report.exit_code) == ("not_ready", 1)
    assert not checker.server.runs


def test_auth_left_out_is_told_by_who_needs_it(checker: Checker) -> None:
    """What would say "see auth" says it itself where auth was not chosen."""
    wrong = Secret("0123456789abcdef-wrong", "file node.key")
    report = checker.check(checker.server.node(key=wrong), skip=("auth",))
    assert report.step("routes").status is UNKNOWN
    assert "401" in report.step("routes").summary
    assert report.step("readiness").blocked_by is not None
    assert report.verdict == "undetermined"


def test_auth_weak_key(checker: Checker) -> None:
    checker.server.key = "x7-k"  # what is a key once is masked ever after: no word of the language
    finding = "The key has 4 characters; with fewer than 16 Hermes does not start its API server"
    report = checker.check(checker.server.node(key_findings=(finding,)))
    assert_only(report, auth=WARN)
    assert finding in report.step("auth").summary
    assert report.verdict == "ready"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("accept_no_key", "anyone gets in without a key; anyone gets in with a wrong key"),
        ("accept_any_key", "anyone gets in with a wrong key"),
    ],
)
def test_auth_anyone_gets_in(checker: Checker, fault: str, words: str) -> None:
    setattr(checker.server.faults, fault, True)
    report = checker.check()
    assert_only(report, auth=FAIL)
    assert report.step("auth").summary == words
    assert "API_SERVER_KEY" in "\n".join(report.step("auth").fix)


def test_auth_echoed_key_is_masked(checker: Checker) -> None:
    """The server repeats the key in its error; the report does not."""
    wrong = Secret("0123456789abcdef-echoed", "the test")
    checker.server.faults.echo_key = True
    report = checker.check(checker.server.node(key=wrong))
    assert wrong.reveal() not in report.model_dump_json()
