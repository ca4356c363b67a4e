"""The table of routes against the documents that name them, the README's reference, and the commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hermes_ctl.api.routes import FEATURES_SINCE, ROUTES, Route, route_of
from hermes_ctl.cli.app import ENTRIES
from hermes_ctl.cli.root import load

REFERENCE = (Path(__file__).parents[2] / "README.md").read_text("utf-8")

# The routes that the three contract documents name, in the notation of each.
NAMED = """
GET /health, GET /v1/health, GET /health/detailed, GET /v1/capabilities, GET /v1/models,
GET /api/model/options, GET /v1/skills, GET /v1/toolsets, POST /v1/chat/completions,
POST /v1/responses, GET /v1/responses/{id}, DELETE /v1/responses/{id}, POST /v1/runs,
GET /v1/runs/{run_id}, GET /v1/runs/{run_id}/events, POST /v1/runs/{run_id}/stop,
POST /v1/runs/{run_id}/steer, POST /v1/runs/{run_id}/approval, GET /api/sessions,
POST /api/sessions, GET /api/sessions/{id}, PATCH /api/sessions/{id}, DELETE /api/sessions/{id},
GET /api/sessions/{id}/messages, POST /api/sessions/{id}/fork, POST /api/sessions/{id}/chat,
POST /api/sessions/{id}/chat/stream, GET /api/jobs, POST /api/jobs, GET /api/jobs/{job_id},
PATCH /api/jobs/{job_id}, DELETE /api/jobs/{job_id}, POST /api/jobs/{job_id}/pause,
POST /api/jobs/{job_id}/resume, POST /api/jobs/{job_id}/run
"""
DASHBOARD = """
GET /api/status, GET /api/auth/me, POST /api/auth/ws-ticket, WS /api/ws, /api/config,
/api/config/schema, /api/model/*, /api/profiles/*, /api/env, /api/mcp/*, /api/cron/*,
/api/sessions/*, POST /api/audio/transcribe, POST /api/audio/speak,
GET /api/audio/elevenlabs/voices
"""


def names(text: str) -> list[str]:
    return [" ".join(name.split()) for name in text.split(",")]


@pytest.mark.parametrize("name", names(NAMED))
def test_every_route_of_the_documents_is_in_the_table(name: str) -> None:
    method, path = name.split()
    assert route_of(method, re.sub(r"\{\w+\}", "some-id", path)) is not None


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_the_reference_has_every_route_with_its_command(route: Route) -> None:
    since = "" if route.since == "0.19" else route.since
    assert f"| `{route}` | `hermesctl {route.command}` | {since} |" in REFERENCE


@pytest.mark.parametrize("name", names(DASHBOARD))
def test_the_reference_has_the_dashboard_s_routes(name: str) -> None:
    assert f"`{name}`" in REFERENCE


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_the_command_of_a_route_exists(route: Route) -> None:
    entries = {entry.name: entry for entry in ENTRIES}
    for command in route.command.split(", "):
        name, *rest = command.split()
        found = load(entries[name])
        words = [word for word in rest if not word.startswith("-")]
        if hasattr(found, "commands"):
            found = found.commands[words.pop(0)]
        options = {name for param in found.params for name in param.opts}
        assert {word for word in rest if word.startswith("-")} <= options


def test_routes_are_matched_whole() -> None:
    assert route_of("get", "/v1/runs/run_1") is not None
    for method, path in (
        ("GET", "/v1/runs/"),
        ("GET", "/v1/runs"),
        ("GET", "/v1/runs/a/b"),
        ("PUT", "/v1/models"),
        ("GET", "/"),
        ("GET", ""),
        ("GET", "/p/x/v1/models"),
    ):
        assert route_of(method, path) is None, (method, path)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_what_came_later_is_told_once() -> None:
    for route in ROUTES:
        if route.feature is not None:
            assert FEATURES_SINCE.get(route.feature, "0.19") == route.since
