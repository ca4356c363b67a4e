"""The lab on real Hermes releases: the model is obeyed, and nothing is left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from hermes_ctl.config import Node, environment
from hermes_ctl.errors import LabFailure
from hermes_ctl.lab.gateway import Lab, every_lab
from hermes_ctl.lab.loopback import ask
from hermes_ctl.lab.releases import REVIEWED
from tests.live.conftest import NEW, OLD

StartLab = Callable[..., Lab]
TERMINAL_STATES = ("completed", "failed", "cancelled")
CANARY = (
    "Use your terminal tool once to run exactly this command: `seq 1 20000`. When it has "
    "finished, reply with exactly this and nothing else: {}"
)


def post(node: Node, path: str, body: dict[str, Any]) -> Any:
    status, answer = ask(f"{node.url}{path}", key=node.key, body=body, timeout=30)
    assert status in (200, 202), answer
    return answer


def submit(node: Node, prompt: str, **fields: Any) -> str:
    run: str = post(node, "/v1/runs", {"input": prompt, **fields})["run_id"]
    return run


def wait_for(node: Node, run: str, *states: str) -> dict[str, Any]:
    deadline = time.monotonic() + 90
    while True:
        _, answer = ask(f"{node.url}/v1/runs/{run}", key=node.key, timeout=30)
        if answer.get("status") in states:
            assert isinstance(answer, dict)
            return answer
        assert answer.get("status") not in TERMINAL_STATES, answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)


def test_canary_long_and_tiny_prompts_are_obeyed(any_lab: Lab) -> None:
    node, before = any_lab.node, len(any_lab.requests())
    canary = submit(node, CANARY.format("tok-canary"))
    tiny = submit(node, "Reply with exactly this and nothing else: tok-tiny")
    long = submit(node, "Count slowly from 1 to 600, one number per line, without using any tool.")
    assert wait_for(node, tiny, "completed")["output"] == "tok-tiny"
    end = wait_for(node, canary, "completed")
    assert end["output"] == "tok-canary"
    assert end["usage"]["total_tokens"] > 0
    assert wait_for(node, long, "running")
    assert post(node, f"/v1/runs/{long}/stop", {})["status"] == "stopping"
    wait_for(node, long, "cancelled")
    chats = any_lab.requests(after=before, purpose="chat")
    after_tool = [one for one in chats if "tok-canary" in one["user"] and one["messages"] > 2]
    assert "19999" in after_tool[0]["last"]
    assert all(one["authorization"] for one in chats)


def test_model_of_a_run_at_the_provider(any_lab: Lab) -> None:
    """0.19.0 never hands it on; the others do, and an unknown one fails the run at once."""
    prompt = f"Reply with exactly this and nothing else: {any_lab.version}-other"
    wait_for(any_lab.node, submit(any_lab.node, prompt, model="lab-other"), "completed")
    (asked,) = [one for one in any_lab.requests(purpose="chat") if one["user"] == prompt]
    assert asked["model"] == ("lab-model" if any_lab.version == "0.19.0" else "lab-other")
    if any_lab.version != "0.19.0":
        failed = wait_for(any_lab.node, submit(any_lab.node, "hi", model="nobody-has-it"), "failed")
        assert "nobody-has-it" in failed["error"]


def test_approve_me_is_flagged(any_lab: Lab) -> None:
    run = submit(any_lab.node, "[[approve-me flagged]] [[say settled]]")
    wait_for(any_lab.node, run, "waiting_for_approval")
    post(any_lab.node, f"/v1/runs/{run}/approval", {"choice": "once"})
    assert wait_for(any_lab.node, run, "completed")["output"] == "settled"


@pytest.mark.parametrize("any_lab", ["lab", "new_lab"], indirect=True)
def test_two_approvals_wait_at_once(any_lab: Lab) -> None:
    prompt = "[[delegate [[approve-me a]]]] + [[delegate [[approve-me b]]]] [[count 300]]"
    run = submit(any_lab.node, prompt)
    resolved, deadline = 0, time.monotonic() + 60
    while resolved < 2:
        assert time.monotonic() < deadline
        wait_for(any_lab.node, run, "waiting_for_approval", "running")
        waiting = [one for one in any_lab.requests(purpose="chat") if "[[approve-me" in one["user"]]
        if len(waiting) >= 2:
            path = f"{any_lab.node.url}/v1/runs/{run}/approval"
            body = {"choice": "deny", "all": True}
            status, answer = ask(path, key=any_lab.node.key, body=body)
            resolved += answer["resolved"] if status == 200 else 0
        time.sleep(0.1)
    post(any_lab.node, f"/v1/runs/{run}/stop", {})
    wait_for(any_lab.node, run, "cancelled")


@pytest.mark.parametrize("any_lab", ["lab", "new_lab"], indirect=True)
def test_steer_reaches_the_model(any_lab: Lab) -> None:
    run = submit(any_lab.node, "[[run sleep 2]] [[say not steered]]")
    deadline = time.monotonic() + 30
    while wait_for(any_lab.node, run, "running").get("last_event") != "tool.started":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    steer = {"input": "Reply with exactly this and nothing else: steered"}
    post(any_lab.node, f"/v1/runs/{run}/steer", steer)
    assert wait_for(any_lab.node, run, "completed")["output"] == "steered"


@pytest.mark.parametrize("spec", [OLD, REVIEWED, NEW])
def test_profiles(start_lab: StartLab, spec: str) -> None:
    lab = start_lab(spec, profiles=("planner", "coder"))
    for profile in ("planner", "coder"):
        node = lab.profile_node(profile)
        # wire.md, 7: on 0.19.0 the default key opens every profile, on later ones its own
        key = lab.node.key if lab.version == "0.19.0" else node.key
        status, answer = ask(f"{node.url}/v1/models", key=key)
        assert (status, answer["data"][0]["id"]) == (200, profile)
    coder = lab.profile_node("coder")
    assert ask(f"{coder.url}/v1/models", key=lab.profile_node("planner").key)[0] == 401


def test_limit_is_the_running_one(start_lab: StartLab) -> None:
    lab = start_lab(max_concurrent_runs=1)
    run = submit(lab.node, "[[count 600]]")
    refused = {"input": "hi"}
    status, answer = ask(f"{lab.node.url}/v1/runs", key=lab.node.key, body=refused, timeout=30)
    assert (status, answer["error"]["message"]) == (429, "Too many concurrent runs (max 1)")
    post(lab.node, f"/v1/runs/{run}/stop", {})
    wait_for(lab.node, run, "cancelled")


def test_restart_forgets_runs_and_keeps_the_address(start_lab: StartLab) -> None:
    lab = start_lab()
    node, run = lab.node, submit(lab.node, "[[count 600]]")
    lab.restart(kill=True)
    assert lab.node == node
    assert ask(f"{node.url}/v1/runs/{run}", key=node.key)[0] == 404


def test_taken_port(start_lab: StartLab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lab = start_lab(port=listener.getsockname()[1])
        assert lab.node.url != f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert ask(f"{lab.node.url}/health")[0] == 200


def test_gateway_without_a_listener_is_told(start_lab: StartLab) -> None:
    """As with a weak key: the process stays up, and its port closed."""
    closed = {"platforms": {"api_server": {"enabled": False}}}
    with pytest.raises(LabFailure, match="did not open its port within 6 s"):
        start_lab(settings=closed, start_timeout=6.0)


PARENT = """
import sys, time
from hermes_ctl.config import environment
from hermes_ctl.lab.gateway import start
lab = start(sys.argv[1], environment=environment())
print(lab.name, flush=True)
time.sleep(600)
"""


def test_killed_parent_leaves_nothing_running(lab: Lab) -> None:
    """Not even a command that a run left in the background, in a session of its own."""
    command = [sys.executable, "-c", PARENT, str(lab.executable)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            name = parent.stdout.readline().strip()
            (theirs,) = [one for one in every_lab(environment()) if one.name == name]
            script = theirs.folder / "home" / "escape"
            script.write_text("#!/bin/sh\nsetsid sleep 987654 </dev/null >/dev/null 2>&1 &\n")
            script.chmod(0o755)
            prompt = (
                '[[run ./escape]] [[call terminal {"command":"sleep 98765","background":true}]]'
            )
            wait_for(theirs.node, submit(theirs.node, prompt), "completed")
            submit(theirs.node, "[[count 600]]")
            supervisor = psutil.Process(theirs.state.supervisor.pid)
            family = [supervisor, *supervisor.children(recursive=True)]
            assert {"987654", "98765"} <= {process.cmdline()[-1] for process in family}
        finally:
            parent.kill()
    gone, alive = psutil.wait_procs(family, timeout=15)
    assert (len(gone), alive) == (len(family), [])
    assert not theirs.folder.exists()


def hermesctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("hermesctl")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_commands_as_typed(lab: Lab) -> None:
    name = f"typed-{os.getpid()}"
    up = hermesctl("lab", "up", "--name", name, "--hermes", str(lab.executable), "-o", "json")
    try:
        assert up.returncode == 0, up.stderr
        raw = json.loads(up.stdout)
        assert raw["status"] == "running"
        assert f"hermesctl lab down --name {name}" in up.stderr
        again = hermesctl("lab", "up", "--name", name, "--hermes", str(lab.executable))
        assert (again.returncode, "already up" in again.stderr) == (0, True)
        other = hermesctl("lab", "up", "--name", name)
        assert (other.returncode, "runs already with" in other.stderr) == (2, True)
        rows = hermesctl("lab", "status", "--columns", "name,status,url,until").stdout
        assert f"{name}\trunning\t{raw['url']}\tlab down\n" in rows
        script = 'echo "$HERMES_GATEWAY_URL ${#HERMES_GATEWAY_KEY} $HERMES_HOME"; hermes --version; exit 7'
        inside = hermesctl("lab", "exec", "--name", name, "--", "sh", "-c", script)
        assert inside.returncode == 7
        assert inside.stdout.startswith(
            f"{raw['url']} 64 {raw['home']}\nHermes Agent v{lab.version}"
        )
        missing = hermesctl("lab", "exec", "--name", name, "--", "no-such-command")
        assert (missing.returncode, "cannot be run" in missing.stderr) == (2, True)
    finally:
        down = hermesctl("lab", "down", "--name", name)
    assert (down.returncode, down.stderr) == (0, f"the lab {name} is down\n")
    assert not psutil.pid_exists(raw["pid"])
    assert f"no lab {name} is up" in hermesctl("lab", "down", "--name", name).stderr
