"""Each deep probe passes on a healthy stand-in and fails on one that is broken on purpose, and
leaves nothing behind either way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.checks.checklist import StepEntry, load_checklist
from hermes_ctl.checks.model import Report, Status, Step
from hermes_ctl.secrets import Secret
from tests.faults.checking import Checker, quick_checklist, said
from tests.faults.deep_server import BREAKABLE, DeepServer
from tests.faults.wire import Reply, error_reply, json_reply

PASS, WARN, FAIL, SKIP, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.SKIP, Status.UNKNOWN


@pytest.fixture
def deep() -> Iterator[DeepServer]:
    with DeepServer() as server:
        yield server


class Deep:
    """Checks single steps of the deep checklists on the stand-in."""

    def __init__(self, server: DeepServer, folder: Path) -> None:
        self.server = server
        self.checker = Checker(server, folder)

    def report(self, *steps: str, **settings: Any) -> Report:
        checklist = quick_checklist("api-server")
        approval = checklist.approval.model_copy(update={"unattended": 0.3, "deadline": 5.0})
        self.checker.checklist = checklist.model_copy(
            update={
                "step": [StepEntry(id=step) for step in steps],
                "approval": approval,
                "steer": checklist.steer.model_copy(update={"deadline": 5.0}),
            }
        )
        return self.checker.check(**settings)

    def step(self, step: str, **settings: Any) -> Step:
        return self.report(step, **settings).step(step)

    def owes_nothing(self) -> None:
        assert self.checker.left_running == []
        assert self.checker.left_sessions == []
        assert self.server.answers.jobs == {}  # type: ignore[attr-defined]


@pytest.fixture
def probe(deep: DeepServer, tmp_path: Path) -> Deep:
    return Deep(deep, tmp_path)


HEALTHY = {
    "approval": PASS,
    "steer": PASS,
    "continuity": PASS,
    "sessions": PASS,
    "jobs": PASS,
    "reopen": PASS,
    "readers": WARN,  # as every release up to 0.20.4 is
    "idempotency": PASS,
    "chat": PASS,
    "responses": PASS,
    "memory-scope": PASS,
    "profiles": WARN,  # any prefix serves the default profile while multiplexing is off
    "limit": PASS,
    "wire": PASS,
    "relay-routes": PASS,
    "keys": PASS,
    "cors": PASS,
    "headers": PASS,
    "leaks": PASS,
    "key-strength": PASS,
    "encryption": PASS,
    "exposure": PASS,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(probe: Deep, name: str) -> None:
    _prepare(probe, name)
    step = probe.step(name)
    assert step.status is HEALTHY[name], said(step)
    probe.owes_nothing()


def _prepare(probe: Deep, name: str) -> None:
    if name == "steer":
        probe.server.tool_seconds = 8.0  # a tool that works while the steer comes
    if name == "limit":
        probe.server.faults.limit = 3
    if name == "idempotency":
        probe.server.faults.idempotent = True
        probe.server.faults.extra_features["runs_idempotency"] = {"supported": True}


BROKEN = [
    ("approval", "nobody asked", "nobody was asked"),
    ("approval", "approves itself", "nobody had answered"),
    ("approval", "denial ignored", "denied, and the tool completed without an error"),
    ("approval", "asked twice", "asked again"),
    ("approval", "refused unasked", "refused without asking"),
    ("approval", "deny not offered", "no choice deny"),
    ("steer", "steer lost", "as if there had been none"),
    ("steer", "steer not accepted", "not accepted"),
    ("continuity", "session forgets", "does not know the first"),
    ("continuity", "session stream without done", "not done"),
    ("continuity", "session messages lost", "do not hold both turns"),
    ("sessions", "session title lost", "still has its old title"),
    ("sessions", "session not listed", "is not in the list"),
    ("sessions", "session not deleted", "answers 200, not 404"),
    ("sessions", "session made twice", "answers 201, not 409"),
    ("sessions", "fork without parent", "does not name its parent"),
    ("jobs", "job pause ignored", "still enabled"),
    ("jobs", "job not listed", "is not in the list"),
    ("jobs", "job not deleted", "answers 200, not 404"),
    ("jobs", "job name lost", "still has its old name"),
    ("chat", "chat without word", "does not hold the word"),
    ("chat", "chat without usage", "no usage"),
    ("chat", "chat stream without end", "[DONE]"),
    ("responses", "response forgets", "does not know the one that it follows"),
    ("responses", "response not kept", "answers 404, not 200"),
    ("responses", "response stream without end", "response.completed"),
    ("reopen", "dropped stream ends the run", "ended the run"),
    ("reopen", "reopened stream is silent", "silent"),
    ("reopen", "reopened stream of another run", "another run"),
    ("idempotency", "key makes a second run", "made a second run"),
    ("idempotency", "conflict accepted", "was accepted"),
    ("memory-scope", "session key lost", "did not come back"),
    ("relay-events", "relay event missing", "lacks message.started"),
    ("relay-events", "relay events out of order", "another order"),
]


def test_every_way_of_breaking_is_tried() -> None:
    assert {broken for _, broken, _ in BROKEN} == BREAKABLE


@pytest.mark.parametrize(("name", "broken", "words"), BROKEN, ids=[one[1] for one in BROKEN])
def test_broken(probe: Deep, name: str, broken: str, words: str) -> None:
    _prepare(probe, name)
    probe.server.break_(broken)
    step = probe.step(name)
    assert step.status is FAIL, said(step)
    assert words in step.summary, step.summary
    assert probe.checker.left_running == []


# What is broken by other means than the names above


def test_two_readers_of_which_one_hears_of_another_run(probe: Deep) -> None:
    probe.server.faults.change_run_id = "events"
    step = probe.step("readers")
    assert (step.status, "another run" in step.summary) == (FAIL, True), said(step)


def test_two_readers_who_are_told_no_end(probe: Deep) -> None:
    probe.server.faults.no_terminal_event = True
    step = probe.step("readers")
    assert (step.status, "neither reader" in step.summary) == (FAIL, True), said(step)


def test_a_slot_that_never_becomes_free(probe: Deep) -> None:
    probe.server.faults.limit = 2
    probe.server.faults.keep_slot = True
    step = probe.step("limit")
    assert (step.status, "never became free" in step.summary) == (FAIL, True), said(step)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (error_reply(429, "Too many", "busy", headers={"Retry-After": "1"}), "code busy"),
        (error_reply(429, "Too many", "rate_limit_exceeded"), "no Retry-After"),
    ],
)
def test_a_limit_that_is_told_otherwise(probe: Deep, reply: Reply, words: str) -> None:
    probe.server.faults.say("POST /v1/runs", reply, skip=2)
    step = probe.step("limit")
    assert (step.status, words in step.summary) == (FAIL, True), said(step)


def test_no_limit_at_all_is_a_warning(probe: Deep) -> None:
    probe.server.faults.limit = 0
    step = probe.step("limit")
    assert (step.status, "none was refused" in step.summary) == (WARN, True), said(step)
    probe.owes_nothing()


def test_a_session_key_that_is_too_long_and_accepted(probe: Deep) -> None:
    probe.server.faults.say("POST /v1/runs", json_reply({"run_id": "r"}, 202), skip=1)
    assert probe.step("memory-scope").status is FAIL


def test_profiles_apart_and_not(probe: Deep) -> None:
    server = probe.server
    server.answers.profiles["second"] = "the-second-profile-s-own-key"
    other = server.node(
        url=f"{server.url}/p/second",
        profile="second",
        key=Secret("the-second-profile-s-own-key", "the test"),
    )
    healthy = probe.step("profiles", profiles=(other,))
    assert healthy.status is PASS, said(healthy)
    server.faults.accept_any_key = True
    step = probe.step("profiles", profiles=(other,))
    assert (step.status, "opens" in step.summary) == (FAIL, True), said(step)


def test_a_prefix_that_breaks_the_server(probe: Deep) -> None:
    probe.server.faults.status("GET /p/*", 500)
    probe.server.faults.status("GET /v1/models", 500)
    assert probe.step("profiles").status is FAIL


@pytest.mark.parametrize("name", ["chat", "responses", "continuity", "sessions", "jobs"])
def test_a_route_that_is_not_served(probe: Deep, name: str) -> None:
    route = {
        "chat": "POST /v1/chat/completions",
        "responses": "POST /v1/responses",
        "continuity": "POST /api/sessions/{session_id}/chat",
        "sessions": "POST /api/sessions/{session_id}/fork",
        "jobs": "POST /api/jobs",
    }[name]
    probe.server.faults.drop_route(route)
    step = probe.step(name)
    assert (step.status, "is not served" in step.summary) == (FAIL, True), said(step)
    probe.owes_nothing()


@pytest.mark.parametrize("name", ["steer", "approval", "chat", "responses", "continuity"])
def test_what_is_not_offered_is_skipped(probe: Deep, name: str) -> None:
    features = {
        "steer": "run_steer",
        "approval": "run_approval_response",
        "chat": "chat_completions",
        "responses": "responses_api",
        "continuity": "session_chat",
    }
    probe.server.faults.drop_feature(features[name])
    step = probe.step(name)
    assert (step.status, "not advertised" in step.summary) == (SKIP, True), said(step)


@pytest.mark.parametrize("name", ["steer", "approval"])
def test_a_model_without_tools_leaves_it_open(probe: Deep, name: str) -> None:
    probe.server.faults.no_tool_call = True
    step = probe.step(name)
    assert (step.status, "no tool call" in step.summary) == (UNKNOWN, True), said(step)
    probe.owes_nothing()


def test_wire_names_what_is_advertised_and_broken(probe: Deep) -> None:
    probe.server.faults.status("GET /v1/skills", 500)
    step = probe.step("wire")
    assert (step.status, "GET /v1/skills answers 500" in step.summary) == (WARN, True), said(step)


def test_wire_fails_where_no_key_is_needed(probe: Deep) -> None:
    probe.server.faults.accept_no_key = True
    assert probe.step("wire").status is FAIL


def test_wire_fails_where_a_wrong_request_breaks_the_server(probe: Deep) -> None:
    probe.server.faults.status("POST /v1/runs", 500)
    step = probe.step("wire")
    assert (step.status, "answered with 500" in step.summary) == (FAIL, True), said(step)


def test_relay_routes_that_are_advertised_and_not_served(probe: Deep) -> None:
    probe.server.faults.drop_route("POST /api/sessions/{session_id}/fork")
    step = probe.step("relay-routes")
    assert (step.status, "/fork is advertised" in step.summary) == (FAIL, True), said(step)
    assert step.fix == ["hermes gateway restart; a defect of the release if it stays"]


def test_a_prefix_of_nobodys_is_mended_without_another_release(probe: Deep) -> None:
    """0.20.4 answers it, too: to install 0.20 would mend nothing."""
    step = probe.step("profiles")
    assert (step.status, "install" in " ".join(step.fix)) == (WARN, False), said(step)
    assert "gateway.multiplex_profiles" in " ".join(step.fix)


def test_relay_falls_back_where_sessions_are_not_offered(probe: Deep) -> None:
    for name in ("session_chat_stream", "session_chat_streaming"):
        probe.server.faults.drop_feature(name)
    probe.server.faults.drop_route("POST /api/sessions/{session_id}/chat/stream")
    step = probe.step("relay-routes")
    assert (step.status, "falls back" in step.summary) == (WARN, True), said(step)


def test_every_checklist_of_the_house_is_known_here() -> None:
    """A deep probe that a checklist names and nothing here breaks would be unproved."""
    tried = {*HEALTHY, *(name for name, _, _ in BROKEN)}
    twelve = {entry.id for entry in load_checklist("bmas-node").step}
    for name in ("api-server", "relay-client", "hardening"):
        assert {entry.id for entry in load_checklist(name).step} - twelve <= tried
