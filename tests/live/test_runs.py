"""Runs on the reviewed release, 0.20.4: followed, lost and found, stopped, steered, approved."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pexpect
import pytest

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import RunRequest
from hermes_ctl.lab.gateway import Lab
from hermes_ctl.runs.follow import Follower, FollowSettings
from hermes_ctl.runs.happenings import Ended, Notice
from tests.faults.proxy import Link
from tests.typed import Hermesctl, ended

ID = re.compile(r"run_[0-9a-f]{32}")


@pytest.fixture
def hermesctl(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Hermesctl]:
    """hermesctl, pointed at the shared lab."""
    assert lab.node.key is not None
    key = lab.node.key.reveal()
    typed = Hermesctl(tmp_path, monkeypatch, capsys, url=lab.node.url, key=key)
    yield typed
    typed.end()


@pytest.fixture
def link(lab: Lab) -> Iterator[Link]:
    """A link to the lab that breaks when it is told to."""
    with Link(port(lab)) as link:
        yield link


def port(lab: Lab) -> int:
    number = urlsplit(lab.node.url).port
    assert number is not None
    return number


def token() -> str:
    """A word that no other test says."""
    return f"token-{uuid.uuid4().hex[:12]}"


def next_line(process: subprocess.Popen[str], holding: str) -> dict[str, Any]:
    """The next JSON line of a started command that holds a text."""
    assert process.stdout is not None
    for line in process.stdout:
        if holding in line:
            found: dict[str, Any] = json.loads(line)
            return found
    pytest.fail(f"it ended without {holding}: {process.stderr and process.stderr.read()}")


def wait_for_state(hermesctl: Hermesctl, run_id: str, state: str) -> dict[str, Any]:
    for _ in range(200):
        document: dict[str, Any] = hermesctl("status", run_id, "-o", "json").json
        if document.get("state") == state:  # a cold gateway may not answer in time
            return document
    pytest.fail(f"{run_id} never was {state}")


# Submit and follow


def test_follow_to_a_good_end(hermesctl: Hermesctl) -> None:
    word = token()
    typed = hermesctl("run", f"[[say Let me look.]] [[run echo hi]] [[say {word}]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{word}\n"), typed.err
    assert "terminal   echo hi" in typed.err
    assert re.search(r"completed in .* tokens in, .* out · hermesctl status run_", typed.err)


def test_a_run_that_fails_fails(hermesctl: Hermesctl) -> None:
    typed = hermesctl("run", "[[status 400]]", "--follow", "-o", "json")
    assert (typed.code, typed.json["verdict"]) == (1, "failed")
    assert "400" in typed.json["error"]


def test_an_empty_answer_is_no_success(hermesctl: Hermesctl) -> None:
    typed = hermesctl("run", "[[empty]]", "--follow")
    assert typed.code == 1
    assert "SUSPECT" in typed.err
    assert "No reply" in typed.out, "the server's own text, not the model's"


def test_a_large_answer_comes_whole_by_polling(hermesctl: Hermesctl) -> None:
    """Its last event is larger than any frame that is read."""
    typed = hermesctl("run", "[[size 9MB]]", "--follow")
    assert typed.code == 0, typed.err
    assert len(typed.out) == 9_000_000
    assert "following by polling" in typed.err


# The stream is lost, the run is not


def test_a_cut_in_the_middle(hermesctl: Hermesctl, link: Link) -> None:
    word = token()
    hermesctl.point_at(link.url)
    link.cut_when(b"tool.started")
    typed = hermesctl("run", f"[[run sleep 1]] [[say {word}]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{word}\n"), typed.err
    assert typed.err.count("following by polling") == 1


def test_a_network_that_stalls(lab: Lab, link: Link) -> None:
    """As for 100 s, with a shorter patience: what stalls is the stream, then every answer."""

    async def followed() -> list[Any]:
        async with Client(lab.node) as direct:
            accepted = await direct.submit_run(request)
        node = type(lab.node)("link", link.url, lab.node.key, timeout=0.5)
        settings = FollowSettings(accepted=True, silence=1.0)
        seen: list[Any] = []
        async with (
            Client(node) as client,
            Follower(client, accepted.run_id, settings, never) as run,
        ):
            link.stall()
            async for happening in run:
                seen.append(happening)
                if isinstance(happening, Notice) and happening.kind == "unreachable":
                    link.resume()
        return seen

    async def never(_: object) -> None:
        return None

    word = token()
    request = RunRequest(input=f"[[silent 3s]] [[say {word}]]")
    seen = asyncio.run(followed())
    kinds = [one.kind for one in seen if isinstance(one, Notice)]
    assert "unreachable" in kinds
    assert "reachable" in kinds
    assert isinstance(seen[-1], Ended)
    assert (seen[-1].result.output, seen[-1].result.exit_code) == (word, 0)


def test_a_second_reader_steals_events(lab: Lab, hermesctl: Hermesctl) -> None:
    process = hermesctl.start("run", "[[count 20 every 100ms]]", "--follow", "-o", "jsonl")
    run_id = next_line(process, "hermesctl.submitted")["run_id"]
    next_line(process, "message.delta")

    async def steal() -> int:
        stolen = 0
        async with Client(lab.node) as client, client.events(run_id) as stream:
            async for _ in stream:
                stolen += 1
                if stolen == 4:
                    break
        return stolen

    assert asyncio.run(steal()) == 4
    typed = ended(process)
    assert typed.code == 0
    result = typed.lines[-1]
    assert result["event"] == "hermesctl.result"
    assert result["output"] == "\n".join(str(number) for number in range(1, 21))


def test_a_second_hermesctl_only_polls(hermesctl: Hermesctl) -> None:
    process = hermesctl.start("run", "[[count 15 every 100ms]]", "--follow", "-o", "jsonl")
    run_id = next_line(process, "hermesctl.submitted")["run_id"]
    typed = hermesctl("tail", run_id)
    first = ended(process)
    whole = "\n".join(str(number) for number in range(1, 16))
    assert (typed.code, typed.out) == (0, f"{whole}\n")
    deltas = [line["delta"] for line in first.lines if line["event"] == "message.delta"]
    assert "".join(deltas).strip() == whole, "nothing was taken from the first reader"


# hermesctl is killed, the run is not lost


def test_killed_between_the_submission_and_its_answer(
    lab: Lab, hermesctl: Hermesctl, link: Link
) -> None:
    word = token()
    hermesctl.point_at(link.url)
    link.stall_when(b'"features"')
    before = len(lab.requests())
    process = hermesctl.start("run", f"[[say {word}]]", "--follow")
    while not any(word in str(one["last"]) for one in lab.requests(after=before)):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    link.resume()
    (row,) = hermesctl("runs", "-o", "json").json
    assert ID.fullmatch(row["run_id"])
    typed = hermesctl("tail")
    assert (typed.code, typed.out) == (0, f"{word}\n"), typed.err


def test_killed_after_the_answer_and_in_the_middle_of_the_stream(hermesctl: Hermesctl) -> None:
    word = token()
    for moment in ("hermesctl.submitted", "message.delta"):
        prompt = f"[[count 8 every 150ms]] [[run echo {word}]] [[say {word}]]"
        process = hermesctl.start("run", prompt, "--follow", "-o", "jsonl")
        run_id = next_line(process, moment)["run_id"]
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=10)
        assert run_id in hermesctl("runs", "--active", "-o", "name").out.split()
        typed = hermesctl("tail")
        assert (typed.code, typed.out) == (0, f"{word}\n"), typed.err


# Ctrl-C


@pytest.mark.parametrize(
    ("option", "state"), [("stop", "cancelled"), ("detach", "running")], ids=["stop", "detach"]
)
def test_ctrl_c(hermesctl: Hermesctl, option: str, state: str) -> None:
    process = hermesctl.start(
        *("run", "[[count 300 every 100ms]]", "--follow", "-o", "jsonl", "--on-interrupt", option)
    )
    run_id = next_line(process, "message.delta")["run_id"]
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130
    assert hermesctl("status", run_id, "-o", "json").json["state"] == state
    if state == "running":
        assert hermesctl("stop", run_id).code == 0


def test_ctrl_c_in_tail_only_detaches(hermesctl: Hermesctl) -> None:
    run_id = hermesctl("run", "[[silent 60s]]").out.strip()
    process = hermesctl.start("tail", "-o", "jsonl")
    next_line(process, "hermesctl.status")
    process.send_signal(signal.SIGINT)
    typed = ended(process)
    assert typed.code == 130
    assert f"hermesctl tail {run_id}" in typed.err
    assert hermesctl("stop").code == 0


def test_sigterm_leaves_the_run_and_says_how_to_go_on(hermesctl: Hermesctl) -> None:
    process = hermesctl.start("run", "[[silent 60s]]", "--follow", "-o", "jsonl")
    run_id = next_line(process, "hermesctl.submitted")["run_id"]
    process.send_signal(signal.SIGTERM)
    typed = ended(process)
    assert typed.code == 143
    assert f"hermesctl tail {run_id}" in typed.err
    assert hermesctl("stop", run_id).code == 0


# Stop


@pytest.mark.parametrize(
    ("prompt", "state"),
    [
        ("[[count 300 every 100ms]]", "running"),
        ("[[run sleep 60]]", "running"),
        ("[[approve-me stop]]", "waiting_for_approval"),
    ],
    ids=["streaming", "in a tool", "waiting for approval"],
)
def test_stop_in_every_state(hermesctl: Hermesctl, prompt: str, state: str) -> None:
    run_id = hermesctl("run", prompt).out.strip()
    wait_for_state(hermesctl, run_id, state)
    typed = hermesctl("stop", "-o", "json")
    assert (typed.code, typed.json["state"]) == (0, "cancelled")
    assert hermesctl("stop").code == 6, "it has ended"


def test_stop_twice(hermesctl: Hermesctl) -> None:
    hermesctl("run", "[[run sleep 60]]")
    assert hermesctl("stop", "--no-wait").code == 0
    typed = hermesctl("stop")
    assert typed.code in (0, 6), "stopped, or by then ended already"
    assert hermesctl("status", "-o", "json").json["state"] == "cancelled"


# Steer


def test_steer_in_a_tool_is_delivered(lab: Lab, hermesctl: Hermesctl) -> None:
    word, before = token(), len(lab.requests())
    process = hermesctl.start("run", "[[run sleep 2]] [[say done]]", "--follow", "-o", "jsonl")
    run_id = next_line(process, "tool.started")["run_id"]
    assert hermesctl("steer", run_id, f"remember {word}").code == 0
    typed = ended(process)
    assert (typed.code, typed.lines[-1]["pending_steer"]) == (0, None)
    assert any(word in json.dumps(one) for one in lab.requests(after=before))


def test_steer_while_streaming_is_left_over_and_said(hermesctl: Hermesctl) -> None:
    process = hermesctl.start("run", "[[count 20 every 100ms]]", "--follow", "-o", "jsonl")
    run_id = next_line(process, "message.delta")["run_id"]
    typed = hermesctl("steer", run_id, "be quick", "--wait")
    assert typed.code == 0
    assert "left over, never delivered: the steer 'be quick'" in typed.err
    assert ended(process).lines[-1]["pending_steer"] == "be quick"


# Approvals


@pytest.mark.parametrize(("command", "failed"), [("approve", False), ("deny", True)])
def test_an_approval_answered_from_another_terminal(
    hermesctl: Hermesctl, command: str, failed: bool
) -> None:
    word = token()
    process = hermesctl.start(
        *("run", f"[[approve-me {word}]] [[say {word}]]", "--follow", "-o", "jsonl"),
        "--on-approval",
        "fail",
    )
    typed = ended(process)
    assert typed.code == 8
    (row,) = hermesctl("approvals", "-o", "json").json
    assert (row["command"], row["description"]) == (
        f"rm -rf ./lab-scratch/{word}",
        "recursive delete",
    )
    typed = hermesctl(command, "-o", "json")
    assert (typed.code, typed.json["resolved"]) == (0, 1)
    assert typed.json["command"] == row["command"]
    typed = hermesctl("tail")
    assert (typed.code, typed.out) == (0, f"{word}\n")
    assert hermesctl("approvals", "-o", "name").out == ""


@pytest.mark.parametrize("rule", ["once", "session", "deny"])
def test_an_approval_answered_by_a_rule(hermesctl: Hermesctl, rule: str) -> None:
    prompt = "[[approve-me one]] [[approve-me two]] [[say done]]"
    typed = hermesctl("run", prompt, "--follow", "-o", "jsonl", "--on-approval", rule)
    assert typed.code == 0
    answers = [line for line in typed.lines if line["event"] == "approval.responded"]
    assert {line["choice"] for line in answers} == {rule}
    assert len(answers) == (1 if rule == "session" else 2)
    tools = [line for line in typed.lines if line["event"] == "tool.completed"]
    assert {line["error"] for line in tools} == {rule == "deny"}


TWO_CHILDREN = """[[call delegate_task {"tasks": [{"goal": "[[approve-me child1]] [[say done]]"},
{"goal": "[[approve-me child2]] [[say done]]"}]}]] [[silent 100s]]"""


def test_two_approvals_at_once_are_told_apart(hermesctl: Hermesctl) -> None:
    """Only subagents ask at once. Before 0.22 the node goes by their order, whatever id it gets."""
    terminal = on_a_terminal("run", TWO_CHILDREN.replace("\n", " "), "--follow")
    for _ in range(2):
        terminal.expect("approval +rm -rf ./lab-scratch/child")
    first, second = hermesctl("approvals", "-o", "json").json
    assert {first["command"], second["command"]} == {
        "rm -rf ./lab-scratch/child1",
        "rm -rf ./lab-scratch/child2",
    }
    guess = hermesctl("approve")
    assert guess.code == 2
    assert first["request_id"] in guess.err
    assert second["request_id"] in guess.err
    wrong = hermesctl("approve", "--request-id", second["request_id"])
    assert wrong.code == 1
    assert "would take the oldest request" in wrong.err
    assert hermesctl("approve", "--request-id", first["request_id"]).code == 0
    terminal.expect("answered +once")
    (left,) = hermesctl("approvals", "-o", "json").json or [second]
    assert left["request_id"] == second["request_id"]
    assert hermesctl("deny", "--all").code == 0
    terminal.expect("answered +deny")
    terminal.sendintr()
    terminal.expect(pexpect.EOF)


# On a terminal


def on_a_terminal(*arguments: str) -> pexpect.spawn[str]:
    command = [sys.executable, "-m", "hermes_ctl", *arguments]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("CI", None)
    return pexpect.spawn(
        command[0],
        command[1:],
        env=environment,
        encoding="utf-8",
        dimensions=(40, 100),
        timeout=60,
    )


def test_an_approval_is_answered_in_place(hermesctl: Hermesctl) -> None:
    word = token()
    terminal = on_a_terminal("run", f"[[approve-me {word}]] [[say {word}]]", "--follow")
    terminal.expect("once, session, always or deny\\?")
    terminal.sendline("always")
    terminal.expect("type always once more:")
    terminal.sendline("no")
    terminal.expect("once, session, always or deny\\?")
    terminal.sendline("o")
    terminal.expect("answered +once")
    terminal.expect(word)
    terminal.expect("completed in")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 0


def test_a_question_that_is_answered_elsewhere_is_taken_back(hermesctl: Hermesctl) -> None:
    terminal = on_a_terminal(
        "run", "[[approve-me elsewhere]] [[silent 1s]] [[say done]]", "--follow"
    )
    terminal.expect("once, session, always or deny\\?")
    assert hermesctl("deny").code == 0
    terminal.expect("no answer is needed any more")
    terminal.expect("completed in")
    terminal.expect(pexpect.EOF)


def test_the_answer_is_streamed_and_not_said_twice(hermesctl: Hermesctl) -> None:
    word = token()
    terminal = on_a_terminal("run", f"[[run echo hi]] [[count 5 every 50ms]] [[say {word}]]", "-f")
    terminal.expect(pexpect.EOF)
    assert terminal.before is not None
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.before)
    lines = [line.strip() for line in shown.replace("\r", "\n").split("\n")]
    assert [line for line in lines if line.isdecimal()] == ["1", "2", "3", "4", "5"]
    assert sum(word in line for line in lines) == 1
    assert any(re.search("terminal +echo hi .* s$", line) for line in lines)
    assert terminal.wait() == 0
