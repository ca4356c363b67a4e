"""`health`, `capabilities`, `models`, `toolsets`, `jobs` and `profiles` where recordings do not reach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.operators import Operator, hostile
from tests.faults.deep_server import DeepServer
from tests.faults.faults import HOSTILE
from tests.faults.wire import Request, error_reply, json_reply

OPTIONS = "GET /api/model/options"
JOBS = "GET /api/jobs"


# Health


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("degraded", 1), ("starting", 1)])
def test_health_says_yes_or_no(
    node: DeepServer, operator: Operator, status: str, code: int
) -> None:
    node.faults.say("GET /health", json_reply({"status": status, "version": HOSTILE}))
    typed = operator("health", terminal=True)
    assert typed.code == code
    assert hostile(typed) == set()
    assert "authorization" not in node.requests[-1].headers, "health needs no key, and gets none"


def test_detailed_health_judges_each_check(node: DeepServer, operator: Operator) -> None:
    assert operator("health", "--detailed").code == 0
    node.faults.degrade("disk", "unavailable", why="full")
    typed = operator("health", "--detailed")
    assert typed.code == 1
    assert "disk\tunavailable (used_percent" in typed.out
    checks = {"disk": {"status": "retrying"}}
    told = {"status": "ok", "readiness": {"status": "ok", "checks": checks}}
    node.faults.say("GET /health/detailed", json_reply(told))
    assert operator("health", "--detailed").code == 1, "whatever the server makes of it"
    assert json.loads(operator("health", "--detailed", "-o", "json").out) == told


def test_a_failing_node_is_no_unhealthy_one(node: DeepServer, operator: Operator) -> None:
    node.faults.status("GET /health", 503)
    assert operator("health").code == 3
    assert operator("health", "-u", "http://127.0.0.1:9").code == 3


# Capabilities


def test_requirements_are_all_or_nothing(node: DeepServer, operator: Operator) -> None:
    node.faults.extra_features = {
        "yes": True,
        "supported": {"supported": True},
        "disabled": {"enabled": False},
        "no": False,
        "text": "X-Header",
        "nothing": None,
        "empty": "",
    }
    for name in ("yes", "supported", "text", "runs", "run_steer"):
        assert operator("capabilities", "--require", name).code == 0, name
    for name in ("disabled", "no", "nothing", "empty", "never_heard_of"):
        typed = operator("capabilities", "--require", "yes", "--require", name, "-o", "json")
        assert typed.code == 1, name
        assert json.loads(typed.out)["error"]["kind"] == "NotOffered"
        assert name in typed.err


def test_the_whole_document_is_there_for_machines(node: DeepServer, operator: Operator) -> None:
    told = {
        "features": {"a": {"b": [1]}},
        "endpoints": {},
        "auth": {"type": "bearer"},
        "new": HOSTILE,
    }
    node.faults.say("GET /v1/capabilities", json_reply(told))
    assert json.loads(operator("capabilities", "-o", "json").out) == told
    for terminal in (True, False):
        assert hostile(operator("capabilities", "-o", "wide", terminal=terminal)) == set()


# Models and toolsets


def provider(slug: str, **more: Any) -> dict[str, Any]:
    return {"slug": slug, "name": slug, "is_current": False, "authenticated": True, **more}


def test_providers_with_prices_and_abilities(node: DeepServer, operator: Operator) -> None:
    prices = {"big": {"input": "$3.00", "output": "$15.00"}, "small": "cheap"}
    known = [
        provider("one", models=["big", "small"], pricing=prices,
                 capabilities={"big": {"reasoning": True, "fast": False, "vision": True}}),
        provider("two", models=[{"id": "object"}, 7], capabilities=[], pricing=None),
        provider("off", models=[], authenticated=False, warning="paste KEY"),
    ]  # fmt: skip
    told = {"providers": known, "model": "big", "provider": "one", "more": [1]}
    node.faults.say(OPTIONS, json_reply(told))
    typed = operator("models", "list", "--options")
    assert typed.lines == [
        "one\tbig\ttrue\treasoning,vision\t$3.00\t$15.00",
        "one\tsmall\tfalse\t\t\t",
        "two\tobject\tfalse\t\t\t",
        "two\t7\tfalse\t\t\t",
    ]
    assert "1 providers are not set up" in typed.err
    every = operator("models", "list", "--options", "--all", "--grep", "^off$", "-o", "wide")
    assert every.lines == ["off\t\tfalse\t\t\t\tfalse\tpaste KEY"]
    assert json.loads(operator("models", "list", "--options", "-o", "json").out) == told
    assert operator("models", "list", "--options", "-o", "name").lines[0] == "one/big"


def test_a_refresh_has_time_and_needs_the_inventory(node: DeepServer, operator: Operator) -> None:
    node.faults.slow(0.3, OPTIONS)
    assert operator("models", "list", "--options", "--timeout", "200ms").code == 3
    assert operator("models", "list", "--options", "--refresh", "--timeout", "200ms").code == 0
    assert node.received(OPTIONS)[-1].query == {"refresh": "1"}
    assert operator("models", "list", "--refresh").code == 2


def test_tools_in_any_shape(node: DeepServer, operator: Operator) -> None:
    rows = [
        {"name": "a", "tools": [{"name": "t1"}, "t2", None]},
        {"name": "b", "tools": "t1", "enabled": "yes"},
    ]
    node.faults.say("GET /v1/toolsets", json_reply(rows))
    assert [line.split("\t")[3] for line in operator("toolsets", "list").lines] == ["2", "0"]
    assert json.loads(operator("toolsets", "list", "-o", "json").out) == rows


@pytest.mark.parametrize("pattern", ["(", "[", "*"])
def test_a_pattern_that_is_none(operator: Operator, pattern: str) -> None:
    typed = operator("toolsets", "list", "--grep", pattern)
    assert typed.code == 2
    assert "no regular expression" in typed.err
    assert operator("toolsets", "list", "--sort", "colour").code == 2


def test_sorting_puts_nothing_last(node: DeepServer, operator: Operator) -> None:
    rows = [
        {"name": n, "category": c} for n, c in (("a", None), ("b", "x"), ("c", "A"), ("d", "b"))
    ]
    node.faults.say("GET /v1/skills", json_reply({"skills": rows}))
    assert operator("skills", "list", "--sort", "category", "-o", "name").lines == list("cdba")
    assert operator("skills", "list", "--sort", "-category", "-o", "name").lines == list("bdca")


# Jobs


def job(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"{number:012x}", "name": f"job {number}", "enabled": True, **more}


def test_jobs_in_any_shape(node: DeepServer, operator: Operator) -> None:
    rows = [
        job(1, schedule="every 5m", next_run_at=1_790_000_000, repeat={"times": 3, "completed": 1}),
        job(
            2, enabled=False, schedule={"kind": "cron", "display": "0 9 * * *"}, next_run_at="soon"
        ),
        job(3, schedule=7, repeat="for ever", name=HOSTILE, last_error=HOSTILE, prompt=HOSTILE),
    ]
    node.faults.say(JOBS, json_reply({"jobs": rows}))
    lines = operator("jobs", "list").lines
    assert lines[0] == "000000000001\tjob 1\tscheduled\tevery 5m\t2026-09-21T14:13:20Z\t\t"
    assert lines[1] == "000000000002\tjob 2\tpaused\t0 9 * * *\t\t\t"
    assert node.received(JOBS)[0].query == {"include_disabled": "true"}
    assert json.loads(operator("jobs", "list", "-o", "json").out) == rows
    assert hostile(operator("jobs", "list", "-o", "wide", terminal=True)) == set()
    assert operator("jobs", "list", "--enabled", "-o", "name").lines == [
        "000000000001",
        "000000000003",
    ]


@pytest.mark.parametrize(
    ("schedule", "warned"),
    [("30m", True), ("2 h", True), ("1d", True), ("every 30m", False), ("in 30m", False),
     ("0 9 * * *", False), ("2026-12-31T09:00", False)],
)  # fmt: skip
def test_a_delay_that_releases_read_differently_is_warned_of(
    operator: Operator, schedule: str, warned: bool
) -> None:
    typed = operator("jobs", "create", schedule, "do it", "--name", "n")
    assert typed.code == 0
    assert ("a bare delay is once up to Hermes 0.20.4" in typed.err) is warned


def test_a_schedule_that_cannot_be_read_is_a_no_whatever_the_status(
    node: DeepServer, operator: Operator
) -> None:
    said = {"error": "Invalid schedule 'zzz'. Use:\n  - Interval: 'every 30m'"}
    for status in (500, 400):
        node.faults.status("POST /api/jobs", status, said)
        assert operator("jobs", "create", "zzz", "p", "--name", "n").code == 1
        node.faults.status("PATCH /api/jobs/{job_id}", status, said)
        assert operator("jobs", "update", "000000000001", "--schedule", "zzz").code == 1
    node.faults.status("POST /api/jobs", 500, {"error": "the scheduler is on fire"})
    assert operator("jobs", "create", "30m", "p", "--name", "n").code == 3


def test_a_job_that_is_not_said_to_be_gone_is_not(node: DeepServer, operator: Operator) -> None:
    node.faults.say("DELETE /api/jobs/{job_id}", json_reply({"ok": False}))
    assert operator("jobs", "delete", "000000000001", "-y").code == 3
    node.faults.say("DELETE /api/jobs/{job_id}", json_reply({"deleted": True}))
    assert operator("jobs", "delete", "000000000001", "-y").code == 0
    before = len(node.requests)
    assert operator("jobs", "delete", "000000000001").code == 2
    assert operator("jobs", "delete", "000000000001", answer="no\n").code == 1
    assert len(node.requests) == before


# Profiles


def serve_profiles(node: DeepServer, opens: dict[str, set[str]]) -> None:
    """`opens` has for each profile the keys that open it; the others are unknown to the node."""

    def answer(request: Request) -> Any:
        profile = request.values.get("profile", "default")
        if profile not in opens:
            return json_reply({"error": "Unknown or unconfigured profile"}, 404)
        if request.bearer not in opens[profile]:
            return error_reply(401, "no", "gateway_auth_failed")
        name = "hermes-agent" if profile == "default" else profile
        return json_reply({"object": "list", "data": [{"id": name}]})

    node.answers.routes["GET /v1/models"] = answer
    node.answers.profiles = dict.fromkeys(opens, node.key)
    node.answers._refuse_key = lambda request: None  # type: ignore[method-assign]
    node.answers._refuse_profile = lambda request: None  # type: ignore[method-assign]


PLANNER = "key-of-the-planner-0123456789"


@pytest.fixture
def two_profiles(
    node: DeepServer, operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Operator:
    """A context that knows the default key and the planner's."""
    for name, key in (("default", node.key), ("planner", PLANNER)):
        (tmp_path / name).write_text(key)
        (tmp_path / name).chmod(0o600)
    config = tmp_path / "config.toml"
    config.write_text(
        f'version = 1\ncurrent-context = "n"\n[contexts.n]\nurl = "{node.url}"\nkey-file = "default"\n'
        '[contexts.n.profiles.planner]\nkey-file = "planner"\n'
    )
    config.chmod(0o600)
    monkeypatch.delenv("HERMES_GATEWAY_URL")
    monkeypatch.delenv("HERMES_GATEWAY_KEY")
    return operator


def test_profiles_that_are_kept_apart(node: DeepServer, two_profiles: Operator) -> None:
    serve_profiles(node, {"default": {node.key}, "planner": {PLANNER}})
    typed = two_profiles("profiles")
    assert typed.code == 0
    assert typed.lines == [
        "default\ttrue\ttaken\t\thermes-agent\t",
        "planner\ttrue\ttaken\trefused\tplanner\t",
    ]
    assert PLANNER not in typed.out + typed.err


@pytest.mark.parametrize(
    ("planner", "default", "finding"),
    [
        ({PLANNER, "DEFAULT"}, {"DEFAULT"}, "profiles are not kept apart"),
        ({"DEFAULT"}, {"DEFAULT"}, "it refuses its own key"),
        (
            {PLANNER},
            {"DEFAULT", PLANNER},
            "the key of the profile planner opens the default profile",
        ),
        ({"other"}, {"DEFAULT"}, "it refuses its own key"),
    ],
)
def test_profiles_that_are_not(
    node: DeepServer, two_profiles: Operator, planner: set[str], default: set[str], finding: str
) -> None:
    def real(keys: set[str]) -> set[str]:
        return {node.key if key == "DEFAULT" else key for key in keys}

    serve_profiles(node, {"default": real(default), "planner": real(planner)})
    typed = two_profiles("profiles")
    assert typed.code == 1
    assert finding in typed.out


def test_a_profile_that_is_not_served(node: DeepServer, two_profiles: Operator) -> None:
    serve_profiles(node, {"default": {node.key}})
    typed = two_profiles("profiles")
    assert typed.code == 1
    assert "planner\tfalse\t\t\t\tnot served" in typed.out


def test_prefixes_that_are_ignored_are_told_apart(node: DeepServer, two_profiles: Operator) -> None:
    """The stand-in is a 0.20.4 without multiplexing: any prefix is the default profile."""
    typed = two_profiles("profiles", "planner", "nobody")
    assert typed.code == 1
    for name in ("planner", "nobody"):
        assert f"{name}\tfalse\t\ttaken\thermes-agent\tprefixes are ignored here" in typed.out


def test_a_key_that_is_not_known_here_is_no_finding(
    node: DeepServer, two_profiles: Operator
) -> None:
    serve_profiles(node, {"default": {node.key}, "coder": {"unknown"}})
    typed = two_profiles("profiles", "coder")
    assert (typed.code, typed.lines[1]) == (0, "coder\ttrue\t\trefused\t\t")


def test_the_node_itself_has_to_answer(node: DeepServer, two_profiles: Operator) -> None:
    node.faults.status("GET /v1/models", 401, {"error": {"message": "no"}})
    assert two_profiles("profiles").code == 4
    assert two_profiles("profiles", "-p", "planner").code == 2
    assert two_profiles("profiles", "-u", f"{node.url}/p/planner").code == 2
