"""The probes of the hardening checklist, and the frozen one, each made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.api.client import Client
from hermes_ctl.checks.checklist import Checklist, StepEntry, load_checklist, read_checklist
from hermes_ctl.checks.freeze import frozen_checklist, survey
from hermes_ctl.checks.model import Status, Step
from hermes_ctl.checks.probe import Finding
from hermes_ctl.checks.probes import encryption, exposure, load_probe
from hermes_ctl.checks.subject import CheckSettings, Subject
from hermes_ctl.config import Node
from hermes_ctl.secrets import Secret
from tests.faults.checking import Checker, said
from tests.faults.deep_server import DeepServer
from tests.faults.wire import Reply, json_reply

PASS, WARN, FAIL, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN


@pytest.fixture
def deep() -> Iterator[DeepServer]:
    with DeepServer() as server:
        yield server


@pytest.fixture
def checker(deep: DeepServer, tmp_path: Path) -> Checker:
    return Checker(deep, tmp_path)


def one_step(checker: Checker, step: str, node: Node | None = None, **settings: Any) -> Step:
    hardening = load_checklist("hardening")
    checker.checklist = hardening.model_copy(update={"step": [StepEntry(id=step)]})
    return checker.check(node, **settings).step(step)


def alone(step: str, node: Node, checklist: Checklist | None = None) -> Finding:
    """A probe that asks the node for nothing, settled without a server."""

    async def settle() -> Finding:
        async with Client(node) as client:
            subject = Subject(
                node, client, checklist or load_checklist("hardening"), CheckSettings()
            )
            return await load_probe(step).settle(subject)

    return asyncio.run(settle())


def test_routes_that_need_no_key(checker: Checker) -> None:
    checker.server.faults.accept_no_key = True
    step = one_step(checker, "keys")
    assert (step.status, "answers no key with" in step.summary) == (FAIL, True), said(step)
    assert checker.left_sessions == [], "a route that let us in was not made to do anything"


def test_routes_that_take_any_key(checker: Checker) -> None:
    checker.server.faults.accept_any_key = True
    step = one_step(checker, "keys")
    assert (step.status, "answers a wrong key with" in step.summary) == (FAIL, True), said(step)
    assert checker.server.runs == {}


def test_a_route_that_is_advertised_and_not_served_lets_nobody_in(checker: Checker) -> None:
    """0.22 lists routes of its browser extension that are served only where that is switched on."""
    checker.server.faults.drop_route("POST /v1/runs/{run_id}/approval")
    step = one_step(checker, "keys")
    assert step.status is PASS, said(step)
    assert step.summary.endswith("; 1 that are advertised are not served")


@pytest.mark.parametrize("allowed", ["*", "https://hermesctl.invalid"])
def test_every_origin_is_allowed(checker: Checker, allowed: str) -> None:
    headers = {"Access-Control-Allow-Origin": allowed}
    checker.server.faults.say("GET /v1/models", json_reply({"data": []}, 200, headers))
    step = one_step(checker, "cors")
    assert (step.status, "allows any page" in step.summary) == (FAIL, True), said(step)


def test_some_origins_are_allowed(checker: Checker) -> None:
    checker.server.faults.extra_features["cors"] = "http://localhost:3000"
    assert one_step(checker, "cors").status is WARN


def test_a_proxy_that_strips_headers(checker: Checker) -> None:
    bare = Reply(200, b'{"object": "list", "data": []}', hardened=False)
    checker.server.faults.say("GET /v1/models", bare)
    step = one_step(checker, "headers")
    assert (step.status, "x-frame-options on GET /v1/models" in step.summary) == (FAIL, True)


def test_a_key_that_stands_in_an_answer(checker: Checker) -> None:
    checker.server.faults.echo_key = True
    step = one_step(checker, "leaks")
    assert (step.status, "GET /v1/models 401" in step.summary) == (FAIL, True), said(step)


def test_another_secret_of_the_node_in_an_answer(checker: Checker) -> None:
    home = checker.home("")
    (home / ".env").write_text("OPENROUTER_API_KEY=abcdefgh-12345678-ijkl\n")
    told = json_reply(
        {"object": "list", "data": [{"name": "x", "description": "abcdefgh-12345678-ijkl"}]}
    )
    checker.server.faults.say("GET /v1/skills", told)
    step = one_step(checker, "leaks", hermes_home=home)
    assert (step.status, "GET /v1/skills 200" in step.summary) == (FAIL, True), said(step)


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("change-me-local-dev", FAIL),
        ("short", FAIL),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", WARN),
        ("9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a3928", PASS),
    ],
)
def test_strength_of_a_key(key: str, status: Status) -> None:
    node = Node(name="n", url="http://127.0.0.1:1", key=Secret(key, "the test"))
    found = alone("key-strength", node)
    assert found.status is status, found.summary
    assert key not in repr(found)


def test_no_key_leaves_its_strength_open() -> None:
    assert (
        alone("key-strength", Node(name="n", url="http://127.0.0.1:1", key=None)).status is UNKNOWN
    )


@pytest.mark.parametrize(
    ("url", "fields", "status"),
    [
        ("http://127.0.0.1:8642", {}, PASS),
        ("http://node1.invalid:8642", {}, FAIL),
        ("https://node1.invalid", {}, PASS),
        ("https://node1.invalid", {"insecure": True}, WARN),
    ],
)
def test_encryption(url: str, fields: dict[str, Any], status: Status) -> None:
    assert encryption.PROBE.offline
    assert alone("encryption", Node(name="n", url=url, key=None, **fields)).status is status


@pytest.mark.parametrize(
    ("addresses", "exposed", "status"),
    [
        (["127.0.0.1"], False, PASS),
        (["0.0.0.0"], False, FAIL),
        (["127.0.0.1", "::"], False, FAIL),
        (["0.0.0.0"], True, PASS),
        ([], False, UNKNOWN),
    ],
)
def test_exposure(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], exposed: bool, status: Status
) -> None:
    monkeypatch.setattr(exposure, "_listening_on", lambda port: addresses)
    checklist = load_checklist("hardening")
    meant = checklist.hardening.model_copy(update={"exposed": exposed})
    node = Node(name="n", url="http://127.0.0.1:8642", key=None)
    found = alone("exposure", node, checklist.model_copy(update={"hardening": meant}))
    assert found.status is status, found.summary


def test_a_node_over_the_network_has_to_be_meant() -> None:
    node = Node(name="n", url="https://node1.invalid", key=None)
    assert alone("exposure", node).status is FAIL


# The frozen checklist


def freeze(server: DeepServer, path: Path) -> Checklist:
    import tomli_w

    async def look() -> dict[str, Any]:
        async with Client(server.node()) as client:
            seen = await survey(lambda route: client.request("GET", route), None)
        return frozen_checklist(seen, "mine")

    path.write_text(tomli_w.dumps(asyncio.run(look())))
    return read_checklist(path)


def pinned(checker: Checker, checklist: Checklist) -> Step:
    checker.checklist = checklist
    return checker.check().step("pinned")


def test_a_frozen_node_that_did_not_change(
    deep: DeepServer, checker: Checker, tmp_path: Path
) -> None:
    step = pinned(checker, freeze(deep, tmp_path / "mine.toml"))
    assert step.status is PASS, said(step)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda faults: faults.extra_features.update(new_thing=True), "feature new_thing"),
        (lambda faults: faults.drop_feature("run_steer"), "run_steer"),
        (lambda faults: faults.degrade("session_store", "ok"), "session_store added"),
        (
            lambda faults: faults.say("GET /v1/toolsets", json_reply({"data": []})),
            "toolset",
        ),
        (lambda faults: faults.status("GET /v1/skills", 500), "GET /v1/skills"),
    ],
    ids=["feature gained", "feature lost", "check gained", "tools lost", "route broken"],
)
def test_a_frozen_node_that_changed(
    deep: DeepServer, checker: Checker, tmp_path: Path, change: Any, words: str
) -> None:
    checklist = freeze(deep, tmp_path / "mine.toml")
    change(deep.faults)
    step = pinned(checker, checklist)
    assert (step.status, words in said(step)) == (FAIL, True), said(step)


def test_a_limit_that_changed(deep: DeepServer, checker: Checker, tmp_path: Path) -> None:
    checklist = freeze(deep, tmp_path / "mine.toml")
    assert checklist.pinned is not None
    limited = checklist.pinned.model_copy(update={"limit": 4})
    step = pinned(checker, checklist.model_copy(update={"pinned": limited}))
    assert (step.status, "10, not 4" in said(step)) == (FAIL, True), said(step)


def test_a_checklist_that_pins_nothing(checker: Checker) -> None:
    assert one_step(checker, "pinned").status is UNKNOWN
