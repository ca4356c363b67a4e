"""The typed client on what three real releases answered (`tests/cassettes/scenarios.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Capabilities, DetailedHealth, Run, StopAnswer
from hermes_ctl.config import Node
from hermes_ctl.errors import (
    AuthenticationFailed,
    ObjectNotFound,
    Refused,
    RequestRejected,
    RouteNotFound,
    RunNotFound,
    ServerFailure,
)
from hermes_ctl.secrets import Secret
from tests.cassettes import scenarios
from tests.cassettes.scenarios import BASE, RELEASES, Found
from tests.live.labs import shared_lab

pytestmark = [pytest.mark.anyio, pytest.mark.vcr]

CASSETTES = Path(scenarios.__file__).parent
OLD, REVIEWED, NEW = RELEASES

Told = Callable[[str], Awaitable[Found]]


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def vcr_cassette_dir(release: str) -> str:
    return str(CASSETTES / release)


@pytest.fixture
def default_cassette_name(request: pytest.FixtureRequest) -> str:
    name: str = request.function.__name__
    return name.removeprefix("test_")


@pytest.fixture(scope="module")
def vcr_config() -> dict[str, Any]:
    return {
        "filter_headers": ["authorization", "user-agent", "host"],
        "match_on": ["method", "path", "query", "body"],
        "before_record_request": scenarios.anonymous_request,
        "before_record_response": scenarios.anonymous_response,
    }


@pytest.fixture
def told(release: str, record_mode: str, pytestconfig: pytest.Config) -> Told:
    """Holds a scenario with the recorded release, or with a lab of it while recording."""
    recording = record_mode != "none"
    node = Node("recorded", url=BASE, key=Secret("cassette-key-0123456789", "the test"))
    if recording:
        node = replace(shared_lab(pytestconfig, RELEASES[release]).node, timeout=120)

    async def tell(name: str) -> Found:
        async with Client(node) as client:
            return await scenarios.SCENARIOS[name](client, 0.25 if recording else 0.0)

    return tell


async def test_inventory(told: Told, release: str) -> None:
    found = await told("inventory")
    assert (found["health"].status, found["health"].version) == ("ok", release)
    detailed: DetailedHealth = found["detailed_health"]
    assert detailed.status == "ok"
    assert detailed.version == release
    assert detailed.active_api_runs == 0
    assert detailed.readiness
    assert {"state_db", "config", "model", "disk", "gateway"} <= detailed.readiness.checks.keys()
    assert [model.id for model in found["models"]] == ["hermes-agent"]
    assert {"terminal", "file"} <= {toolset.name for toolset in found["toolsets"]}
    assert any("terminal" in toolset.tools for toolset in found["toolsets"])
    assert_offers(found, release)


def assert_offers(found: Found, release: str) -> None:
    """What a newer release has and an older one has not."""
    capabilities: Capabilities = found["capabilities"]
    assert capabilities.has("run_submission")
    assert capabilities.has("run_events_sse")
    assert not capabilities.has("session_key_header"), "a text is no strict true"
    assert capabilities.endpoints["run_status"].path == "/v1/runs/{run_id}"
    assert capabilities.has("run_steer") == (release != OLD)
    assert capabilities.supports("runs_idempotency") == (release == NEW)
    assert not capabilities.has("runs_idempotency"), "an object is no strict true"
    assert isinstance(found["model_options"], RouteNotFound) == (release == OLD)
    assert isinstance(found["skills"], ServerFailure) == (release == NEW)
    if release != OLD:
        assert found["model_options"].model
        assert any(provider.is_current for provider in found["model_options"].providers)


async def test_finished_run(told: Told, release: str) -> None:
    found = await told("finished_run")
    run: Run = found["run"]
    assert found["accepted"].run_id == run.run_id
    assert found["accepted"].session_key_echo == "cassette:task-1:planner"
    assert (run.status, run.output) == ("completed", "TOKEN-cassette-42")
    assert run.tokens > 0
    assert run.model == "lab-other", "an echo, in every release"
    assert (found["session"].model == "lab-other") == (release != OLD)
    assert run.session_id in [session.id for session in found["sessions"]]
    assert [message.role for message in found["messages"]] == ["user", "assistant"]
    assert found["messages"][-1].content == run.output
    if release == NEW:
        assert (run.runtime or {})["model"] == "lab-other"
    assert_afterwards(found, release)


def assert_afterwards(found: Found, release: str) -> None:
    """What may still be asked of a run that is over, and of a session that is gone."""
    if release == NEW:
        assert isinstance(found["stop"], StopAnswer)
        assert found["stop"].status == "completed"
    else:
        assert isinstance(found["stop"], RunNotFound)
    late = RouteNotFound if release == OLD else Refused
    assert isinstance(found["steer"], late)
    assert isinstance(found["approval"], Refused)
    assert found["approval"].code == "approval_not_active"
    assert found["deleted"] is None
    assert isinstance(found["deleted_again"], ObjectNotFound)


async def test_failed_run(told: Told, release: str) -> None:
    found = await told("failed_run")
    run: Run = found["run"]
    assert run.status == ("completed" if release == OLD else "failed")
    assert bool(run.error) == (release != OLD)
    assert isinstance(found["session"], ObjectNotFound) == (release != OLD)


async def test_stopped_run(told: Told, release: str) -> None:
    found = await told("stopped_run")
    assert found["before"].status == "running"
    assert found["before"].last_event is None, "deltas are no events to the status"
    assert (found["stop"].status, found["stop"].run_id) == ("stopping", found["before"].run_id)
    assert found["after"].status == "cancelled"
    assert found["after"].output is None
    assert found["approval"].code == "approval_not_pending"
    assert found["bad_choice"].code == "invalid_approval_choice"
    if release == OLD:
        assert isinstance(found["steer"], RouteNotFound)
    else:
        assert found["steer"].accepted


async def test_refusals(told: Told, release: str) -> None:
    found = await told("refusals")
    code = "invalid_api_key" if release == OLD else "gateway_auth_failed"
    for name in ("no_key", "wrong_key"):
        assert isinstance(found[name], AuthenticationFailed)
        assert (found[name].status, found[name].code) == (401, code)
    assert isinstance(found["unknown_route"], RouteNotFound)
    assert isinstance(found["unknown_run"], RunNotFound)
    assert isinstance(found["unknown_session"], ObjectNotFound)
    assert isinstance(found["no_object"], ServerFailure)
    assert (found["origin"].status, type(found["origin"])) == (403, AuthenticationFailed)
    for name in ("wrong_method", "no_input", "no_json", "long_session_key"):
        assert isinstance(found[name], RequestRejected)
        assert found[name].message
        assert found[name].hint
