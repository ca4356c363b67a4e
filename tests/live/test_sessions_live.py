"""The sessions and profiles commands, typed at real Hermes releases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest

from hermes_ctl.api import sessions
from hermes_ctl.lab.gateway import Lab
from hermes_ctl.main import main
from tests.cli.operators import Stream


def environment_of(lab: Lab) -> dict[str, str]:
    return {**lab.environment(os.environ), "PYTHONUNBUFFERED": "1"}


def run(lab: Lab, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command, typed in this process."""
    out, err = Stream(False), Stream(False)
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        for name, value in environment_of(lab).items():
            patched.setenv(name, value)
        code = main([*arguments, "--timeout", "90s"])
    return code, out.text(), err.text()


def typed(lab: Lab, *arguments: str, code: int = 0) -> str:
    """What the command wrote to standard output; its exit code has to be `code`."""
    got, out, err = run(lab, *arguments)
    assert got == code, out + err
    return out


@contextmanager
def session(lab: Lab, *more: str) -> Iterator[str]:
    """A session that is gone afterwards."""
    name = typed(lab, "sessions", "create", "-o", "name", *more).strip()
    try:
        yield name
    finally:
        typed(lab, "sessions", "delete", name, "--yes")


@pytest.fixture(params=["lab", "new_lab"])
def newer_lab(request: pytest.FixtureRequest) -> Lab:
    found: Lab = request.getfixturevalue(request.param)
    return found


async def fill(lab: Lab, names: list[str]) -> None:
    """Make these sessions, the first two of them pinned."""
    from hermes_ctl.api.client import Client

    async with Client(lab.node) as client:
        for name in names:
            await sessions.create(client, {"id": name})
        for name in names[:2]:
            await sessions.update(client, name, {"pinned": True})


@pytest.mark.anyio
async def test_a_long_list_with_pinned_sessions_has_each_once(
    newer_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`has_more` is of no use there, and pinned sessions come on every page (wire.md, 0.18)."""
    from hermes_ctl.api.client import Client

    monkeypatch.setattr(sessions, "PAGE", 7)
    names = [f"page-{os.getpid()}-{number}" for number in range(23)]
    try:
        await fill(newer_lab, names)
        async with Client(newer_lab.node) as client:
            listed = [one.id async for one in sessions.sessions(client)]
        assert len(listed) == len(set(listed))
        assert set(names) <= set(listed)
    finally:
        async with Client(newer_lab.node) as client:
            for name in names:
                await client.delete_session(name)


def test_a_turn_is_streamed_and_kept(lab: Lab) -> None:
    with session(lab) as name:
        said = typed(lab, "sessions", "chat", name, "[[run echo hi]] [[say first answer]]")
        assert said == "first answer\n"
        lines = typed(lab, "sessions", "chat", name, "[[say second]]", "-o", "jsonl").splitlines()
        events = [json.loads(line)["event"] for line in lines]
        assert events[1:3] == ["run.started", "message.started"]
        assert events[-2:] == ["done", "hermesctl.result"]
        tail = typed(lab, "sessions", "messages", name, "--tail", "2", "-o", "jsonl").splitlines()
        assert [json.loads(line)["content"] for line in tail] == ["[[say second]]", "second"]
        told = typed(lab, "sessions", "messages", name)
        assert '● terminal {"command": "echo hi"}' in told


def test_ctrl_c_stops_a_turn(lab: Lab) -> None:
    with session(lab) as name:
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes_ctl", "sessions", "chat", name, "[[count 500]]", "-o", "jsonl"],
            env=environment_of(lab), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(json.loads(line))
            if told[-1]["event"] == "assistant.delta" and process.poll() is None:
                process.send_signal(signal.SIGINT)
                break
        rest = [json.loads(line) for line in process.stdout]
        assert process.wait(timeout=60) == 130
        assert rest[-1]["event"] == "hermesctl.result"
        assert rest[-1]["state"] in ("stopped", "cancelled")
        run_id = told[0]["run_id"]
        status = typed(lab, "api", "GET", f"/v1/runs/{run_id}", "--query", "status").strip()
        assert status in ("completed", "cancelled"), "it is over, whatever 0.20.4 calls it"


@pytest.mark.parametrize(("rule", "reached"), [("once", True), ("deny", False)])
def test_an_approval_in_a_turn_is_answered(new_lab: Lab, rule: str, reached: bool) -> None:
    """Such events came with 0.22."""
    with session(new_lab) as name:
        lines = typed(
            new_lab, "sessions", "chat", name, "[[approve-me turn]] [[say tried]]",
            "--on-approval", rule, "-o", "jsonl",
        ).splitlines()  # fmt: skip
        events = [json.loads(line) for line in lines]
        assert "approval.request" in [event["event"] for event in events]
        ended = [
            one["event"] for one in events if one["event"] in ("tool.completed", "tool.failed")
        ]
        assert ended == ["tool.completed" if reached else "tool.failed"]
        assert events[-1]["output"] == "tried"


def test_a_command_that_wants_an_approval_is_not_run_before_0_22(lab: Lab) -> None:
    with session(lab) as name:
        code, out, err = run(lab, "sessions", "chat", name, "[[approve-me x]] [[say y]]")
        assert (code, out) == (0, "y\n")
        assert "not run, because it wants an approval" in err


def test_profiles_of_one_gateway_are_kept_apart(start_lab: Callable[..., Lab]) -> None:
    lab = start_lab(profiles=("planner", "coder"))
    context = ("-c", f"lab:{lab.name}")
    states = json.loads(typed(lab, "profiles", *context, "-o", "json"))
    assert [(state["profile"], state["answers_as"]) for state in states] == [
        ("default", "hermes-agent"),
        ("planner", "planner"),
        ("coder", "coder"),
    ]
    assert [state["default_key_accepted"] for state in states[1:]] == [False, False]
    typed(lab, "sessions", "create", "--id", "mine", "-p", "planner", *context)
    assert typed(lab, "sessions", "list", "-o", "name", "-p", "planner", *context) == "mine\n"
    assert typed(lab, "sessions", "list", "-o", "name", "-p", "coder", *context) == ""
    assert typed(lab, "sessions", "list", "-o", "name", *context) == ""
    typed(lab, "sessions", "show", "mine", *context, code=5)
