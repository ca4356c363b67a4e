"""`hermesctl check` as it is typed: what it refuses, what it says, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hermes_ctl.checks.checklist import load_checklist
from tests.cli.shell import Done, Shell
from tests.faults.checking import PACE
from tests.faults.faults import HOSTILE
from tests.faults.loopback import free_port
from tests.faults.server import HermesServer

STEPS = [step.id for step in load_checklist().step]


@pytest.fixture
def node(server: HermesServer, shell: Shell) -> list[str]:
    """The options that name the stand-in, quickened."""
    server.pace = PACE
    return ["--url", server.url, "--key-file", shell.key_file(server.key)]


def one_sentence(done: Done, *words: str) -> None:
    """Exit code 2, and on standard error one line that says what, and one that says what to do."""
    assert done.code == 2, done
    assert done.out == ""
    lines = done.err.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2, done.err
    for word in words:
        assert word in done.err
    assert "Traceback" not in done.err


# Bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "nothing"], ["has no step 'nothing'", "release, routes"]),
        (["--skip", "Auth"], ["has no step 'Auth'"]),
        (["--only", "auth", "--skip", "auth"], ["leave no step to check"]),
        (["--only", "stop", "--no-runs"], ["--no-runs leaves no step to check"]),
        (["--checklist", "no-such"], ["there is no checklist 'no-such'", "bmas-node"]),
        (["--checklist", "./missing.toml"], ["cannot be read: No such file"]),
        (["--wait", "forever"], ["'forever' is not a duration", "90s"]),
        (["--timeout", "0"], ["--timeout"]),
        (["--node-capacity", "0"], ["--node-capacity"]),
        (["--node-capacity", "ten"], ["--node-capacity"]),
        (["--release", "0.20"], ["'0.20' is no version specifier", "==0.20.4.*"]),
        (["--agent-env", "./missing.env"], ["missing.env cannot be read: No such file"]),
        (["--agent-url", "localhost:8090"], ["from --agent-url has no scheme"]),
        (["--hermes-bin", "./missing"], ["--hermes-bin missing is no executable file"]),
        (["--hermes-bin", "/"], ["is no executable file"]),
        (["--hermes-home", "./missing"], ["--hermes-home missing is no folder"]),
        (["--report", "json"], ["is not FORM=FILE"]),
        (["--report", "paper=x"], ["there is no report form 'paper'"]),
        (["--report", "json=/no/such/folder/x"], ["cannot be written: No such file"]),
        (["--report", "json=/"], ["is a folder"]),
        (["--report", "json=-"], ["is no ordinary file", "-o json"]),
        (["--report", "json=/dev/null"], ["is no ordinary file"]),
        (["--report", "json=x", "--report", "junit=./x"], ["named twice"]),
        (["--profile", "a/b"], ["'a/b' is no name of a profile"]),
        (["--lab"], ["--lab names the node already"]),
        (["http://127.0.0.1:1"], ["one way or the other"]),
        (["--no-such-option"], ["--no-such-option"]),
        (["-o", "yaml"], ["yaml"]),
    ],
)
def test_bad_input(
    shell: Shell, server: HermesServer, node: list[str], arguments: list[str], words: list[str]
) -> None:
    os.chdir(shell.home)
    one_sentence(shell("check", *arguments, *node), *words)
    assert not server.requests, "nothing was sent"
    assert [path.name for path in shell.home.iterdir()] == ["node.key"], "and nothing written"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:8642", "has no scheme"),
        ("localhost", "has no scheme"),
        ("ftp://127.0.0.1", "is not an http or https one"),
        ("http://127.0.0.1:8642/v1", "goes on with /v1"),
        ("http://user:secret@127.0.0.1", "has a user name or a password in it"),
    ],
)
def test_bad_addresses(shell: Shell, url: str, words: str) -> None:
    done = shell("check", "--url", url)
    one_sentence(done, words)
    assert "secret" not in done.err
    assert "secret" not in done.err


def test_an_unreadable_key_file(shell: Shell, server: HermesServer) -> None:
    one_sentence(
        shell("check", "--url", server.url, "--key-file", str(shell.home / "missing")),
        "missing",
    )
    open_to_all = shell.key_file(server.key, "open.key", 0o644)
    done = shell("check", "--url", server.url, "--key-file", open_to_all)
    one_sentence(done, "chmod 600")
    assert server.key not in done.err
    assert not server.requests


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        ("nmae = 'x'", 1, "nmae: there is no such key"),
        ("release = 20", 1, "release: a release is a text such as ==0.20.4.*"),
        ("release = 'newest'", 1, "release: 'newest' is no version specifier"),
        ("[canary]\ndeadline = 'soon'", 2, "canary.deadline: duration 'soon' is not a duration"),
        ("[canary]\nprompt = 1", 2, "canary.prompt: "),
        ("[canary]\nretries = 1", 2, "canary.retries: there is no such key"),
        ("[traces]\nevent-bytes = 0", 2, "traces.event-bytes: "),
        ("[[step]]\nid = 'nothing'", 2, "step.id: there is no probe 'nothing'"),
        ("[[step]]\nid = 'x'\nprobe = 'nothing'", 3, "step.probe: 'nothing' is none of"),
        ("[[step]]\nid = 'auth'\nseverity = 'deadly'", 3, "step.severity: "),
        ("[[step]]\nid = 'auth'\n[[step]]\nid = 'auth'", 4, "step 'auth' stands twice"),
        ("[[step]]\nid = 'Auth'", 2, "step.id: "),
        ("x = = 1", 1, "this is not TOML"),
        ("[canary]\nprompt = 'say something'", 2, "canary.prompt: {token} has to stand in it"),
        ("\xff", 1, "this is not TOML"),
    ],
)
def test_bad_checklists(
    shell: Shell, server: HermesServer, node: list[str], change: str, line: int, words: str
) -> None:
    """File, line and key of the first mistake, by `check` and by `checklist validate`."""
    head = "schema = 'hermesctl.checklist/1'\nname = 'mine'\n"
    head += "" if "release" in change else "release = '==0.20.4.*'\n"
    tail = "" if "[[step]]" in change else "\n[[step]]\nid = 'auth'\n"
    path = shell.home / "mine.toml"
    path.write_bytes((head + change + tail).encode("latin-1"))
    done = shell("check", "--checklist", str(path), *node)
    one_sentence(done, words)
    if "TOML" not in words:
        assert f"{path}:{head.count(chr(10)) + line}: {words}" in done.err
    one_sentence(shell("checklist", "validate", str(path)), words)
    assert not server.requests


@pytest.mark.parametrize("missing", ["schema", "name", "release", "step"])
def test_checklists_that_lack_something(shell: Shell, missing: str) -> None:
    parts = {
        "schema": "schema = 'hermesctl.checklist/1'",
        "name": "name = 'mine'",
        "release": "release = '==0.20.4.*'",
        "step": "[[step]]\nid = 'auth'",
    }
    path = shell.home / "mine.toml"
    path.write_text("\n".join(text for name, text in parts.items() if name != missing))
    one_sentence(
        shell("check", "--checklist", str(path)), f"{path}:", f"{missing}: this key is missing"
    )


# What it says


def test_one_json_document(shell: Shell, node: list[str], server: HermesServer) -> None:
    done = shell("check", *node, "-o", "json")
    document = json.loads(done.out)
    schema = json.loads(shell("check", "--schema").out)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["schema"] == "hermesctl.check/1"
    assert [step["id"] for step in document["steps"]] == STEPS
    assert document["exit_code"] == done.code
    assert done.err == ""
    assert server.key not in done.out


def test_the_exit_code_does_not_depend_on_the_form(
    shell: Shell, node: list[str], server: HermesServer
) -> None:
    server.faults.degrade("model")
    for form in ([], ["-q"], ["-o", "json"], ["-v"]):
        assert shell("check", *node, "--no-runs", *form).code == 1


def test_a_json_document_of_an_error(shell: Shell) -> None:
    done = shell("check", "--url", "nowhere", "-o", "json")
    assert done.code == 2
    assert json.loads(done.out)["error"]["exit_code"] == 2


def test_quiet_says_the_verdict_alone(shell: Shell, node: list[str]) -> None:
    done = shell("check", *node, "--no-runs", "-q", "--skip", "release", "--skip", "capacity")
    assert done.code == 0
    [line] = done.out.splitlines()
    assert line.startswith("127.0.0.1:")
    assert "  READY  " in line


def test_ready_unknown_and_not_ready(shell: Shell, node: list[str], server: HermesServer) -> None:
    options = [*node, "--no-runs", "--node-capacity", "10"]
    assert shell("check", *options, "--skip", "capacity").code == 0
    assert shell("check", *options).code == 3, "the limit is not to be seen from here"
    server.faults.degrade("disk")
    assert shell("check", *options).code == 1


def test_a_weak_key_is_told_before_anything_is_sent(shell: Shell) -> None:
    """Refused, because Hermes does not start with such a key: field-notes 25."""
    port = free_port()
    key = shell.key_file("x7-k3y-0")
    done = shell("check", "--url", f"http://127.0.0.1:{port}", "--key-file", key)
    assert done.err.startswith("warning: 127.0.0.1:")
    assert "The key has 8 characters; with fewer than 16 Hermes does not start" in done.err
    assert f"nothing listens on 127.0.0.1:{port}" in done.out
    assert done.code == 3


def test_the_step_that_waits_says_for_what(shell: Shell, server: HermesServer) -> None:
    port = free_port()
    done = shell(
        "check",
        "--url",
        f"http://127.0.0.1:{port}",
        "--no-runs",
        "--wait",
        "1500ms",
        "--key-file",
        shell.key_file(server.key),
    )
    assert done.code == 3
    notes = done.err.splitlines()
    assert notes == [notes[0]], "said once, not with every second"
    assert re.match(r"waiting up to \d\.\d s: nothing listens on 127.0.0.1:", notes[0])
    assert f"nothing listens on 127.0.0.1:{port}, for 1.5 s" in done.out


def test_reports(shell: Shell, node: list[str], server: HermesServer) -> None:
    path = shell.home / "report.json"
    done = shell("check", *node, "--no-runs", "--report", f"json={path}")
    document = json.loads(path.read_text())
    assert document["exit_code"] == done.code
    assert document["interrupted"] is False
    assert [file.name for file in shell.home.iterdir() if "report" in file.name] == ["report.json"]


def test_a_report_that_could_not_be_written_after_all(
    shell: Shell, node: list[str], server: HermesServer
) -> None:
    folder = shell.home / "reports"
    folder.mkdir()

    def remove(request: Any) -> Any:
        for path in folder.iterdir():
            path.unlink()
        if folder.exists():
            folder.rmdir()
        return server.answers.health(request)

    server.answers.routes["GET /health"] = remove
    other = shell.home / "report.md"
    wanted = ["--report", f"json={folder}/x.json", "--report", f"markdown={other}"]
    done = shell("check", *node, "--no-runs", *wanted)
    assert done.code == 3
    assert "x.json was not written: No such file or directory" in done.err
    assert other.read_text().startswith("## "), "the others are written all the same"


def test_a_report_goes_where_a_link_leads(shell: Shell, node: list[str]) -> None:
    link, path = shell.home / "latest.json", shell.home / "report.json"
    link.symlink_to(path)
    shell("check", *node, "--no-runs", "--report", f"json={link}")
    assert link.is_symlink()
    assert json.loads(path.read_text())["schema"] == "hermesctl.check/1"


def test_a_report_does_not_replace_what_the_command_writes_to(
    shell: Shell, node: list[str], tmp_path: Path
) -> None:
    """As root, /dev/stdout is a link that could be replaced, and it leads to an ordinary file where
    a shell redirects it."""
    out, link = tmp_path / "out", tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    with out.open("w") as file:
        command = [sys.executable, "-m", "hermes_ctl", "check", *node, "--report", f"json={link}"]
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, env=shell.environment, text=True
        )
    assert done.returncode == 2
    assert "is no ordinary file" in done.stderr
    assert link.is_symlink()


# Secrets and hostile text


def test_no_key_in_any_output(shell: Shell, server: HermesServer) -> None:
    """The node repeats the wrong key in every error; nothing of ours does."""
    wrong = "wrong-0123456789abcdef-key"
    server.faults.echo_key = True
    key = shell.key_file(wrong)
    reports = [shell.home / form for form in ("json", "junit", "markdown", "html")]
    for form in ([], ["-v"], ["-o", "json"], ["-q"]):
        options = [f"--report={path.name}={path}" for path in reports]
        done = shell("check", "--url", server.url, "--key-file", key, *form, *options)
        assert done.code == 1
        for text in (done.out, done.err, *(path.read_text() for path in reports)):
            assert wrong not in text
    assert any(request.bearer == wrong for request in server.requests)


def test_no_key_in_a_process_list(shell: Shell, node: list[str], server: HermesServer) -> None:
    server.faults.slow(0.5, "GET /health")
    with shell.started("check", *node, "--no-runs") as process:
        server.wait_until(lambda: bool(server.requests))
        for pid in children(process.pid):
            assert server.key.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        process.communicate(timeout=30)


def children(pid: int) -> list[int]:
    import psutil

    process = psutil.Process(pid)
    return [pid, *(child.pid for child in process.children(recursive=True))]


def test_hostile_text_never_reaches_the_terminal(shell: Shell, server: HermesServer) -> None:
    faults = server.faults
    faults.hostile = True
    faults.version = f"0.20.4{HOSTILE}"
    faults.degrade(f"config{HOSTILE}", f"bad{HOSTILE}", detail=HOSTILE)
    faults.status("GET /v1/skills", 500, {"error": {"message": HOSTILE}})
    faults.change_run_id = "events"
    server.pace = PACE
    key = shell.key_file(server.key)
    for form in ([], ["-v"], ["-o", "json"]):
        done = shell.on_terminal("check", "--url", server.url, "--key-file", key, *form)
        for character in ("\x1b", "\x07", "\u202e", "\r"):
            assert character not in done.out, repr(done.out)
        assert "[bold]markup[/bold]" in done.out, "shown as it is, not read as markup"


# Several nodes


def test_nodes_side_by_side(shell: Shell, server: HermesServer) -> None:
    """One hangs, one is refused, one is fine: nobody waits for another, and each is told."""
    shell.export("HERMES_GATEWAY_KEY", server.key)
    refused = f"http://127.0.0.1:{free_port()}"
    with HermesServer() as hanging:
        hanging.faults.hang()
        began = time.monotonic()
        done = shell(
            "check", hanging.url, refused, server.url, "--no-runs", "--timeout", "2s",
            "--skip", "capacity", "-o", "json",
        )  # fmt: skip
        assert time.monotonic() - began < 10
    document = json.loads(done.out)
    definitions = json.loads(shell("check", "--schema").out)
    schema = {**definitions, "$ref": "#/$defs/FleetReport"}
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["schema"] == "hermesctl.fleet/1"
    verdicts = [node["verdict"] for node in document["nodes"]]
    assert verdicts == ["undetermined", "undetermined", "ready"]
    assert (document["verdict"], document["exit_code"], done.code) == ("undetermined", 3, 3)
    assert document["nodes"][0]["duration_s"] >= 2
    assert document["nodes"][2]["duration_s"] < 2


# Interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["submitted", "running", "waiting"])
def test_interrupted(
    shell: Shell, node: list[str], server: HermesServer, number: signal.Signals, moment: str
) -> None:
    """Every run is stopped at the server, the report is written, the exit code is the signal's."""
    server.pace = 1.0
    server.tool_seconds = 60.0
    if moment == "submitted":
        server.faults.slow(0.3, "POST /v1/runs")
    if moment == "waiting":
        server.faults.draining = True
    path = shell.home / "report.json"
    with shell.started(
        "check", *node, "--report", f"json={path}", *(["--wait", "60s"] * (moment == "waiting"))
    ) as process:
        server.wait_until(
            {
                "submitted": lambda: bool(server.received("POST /v1/runs")),
                "running": lambda: len(server.runs) >= 3,
                "waiting": lambda: len(server.received("GET /health/detailed")) >= 2,
            }[moment],
            seconds=30,
        )
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert err.splitlines()[-1] == (
        "error: interrupted" if number is signal.SIGINT else "error: terminated"
    )
    document = json.loads(path.read_text())
    assert document["interrupted"] is True
    assert [step["id"] for step in document["steps"]] == STEPS
    assert document["cost"]["runs"] == len(server.runs)
    assert not [run for run in server.runs.values() if run.is_active]
    assert not [name for name in server.answers.sessions.rows if "hermesctl" in name]
    assert "Traceback" not in out + err
    assert "UNDETERMINED (interrupted)" in out
    assert "explain polling" not in out, "there is nothing to explain"


def test_interrupted_twice(shell: Shell, node: list[str], server: HermesServer) -> None:
    """The second Ctrl-C leaves at once, and says what may be left behind."""
    server.pace = 1.0
    server.tool_seconds = 60.0
    server.faults.hang("POST /v1/runs/{run_id}/stop", skip=1)  # the first is that of the routes
    with shell.started("check", *node) as process:
        server.wait_until(lambda: len(server.runs) >= 3, seconds=30)
        process.send_signal(signal.SIGINT)
        server.wait_until(lambda: len(server.received("POST /v1/runs/{run_id}/stop")) >= 2)
        time.sleep(0.2)  # two in less are one wish
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines() == [
        "error: left at once, without cleaning up",
        "  hint  runs of the check may go on: their sessions begin with hermesctl-check",
    ]


def test_a_pipe_that_closes(shell: Shell, node: list[str], server: HermesServer) -> None:
    """`hermesctl check | head -1`"""
    server.pace = 1.0
    server.tool_seconds = 60.0
    with shell.started("check", *node) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        server.wait_until(lambda: len(server.runs) >= 3, seconds=30)
        process.stdout.close()
        process.stdout = None
        [canary] = [run for run in server.runs.values() if run.session_id.endswith("canary")]
        server.in_loop(canary.finish)  # so that there is something to say
        process.wait(timeout=60)
    assert process.returncode == 141
    assert len(server.runs) > 1
    assert not [run for run in server.runs.values() if run.is_active]


def test_json_when_interrupted(shell: Shell, node: list[str], server: HermesServer) -> None:
    """Still exactly one document on standard output."""
    server.pace = 1.0
    server.tool_seconds = 60.0
    with shell.started("check", *node, "-o", "json") as process:
        server.wait_until(lambda: bool(server.runs), seconds=30)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    document = json.loads(out)
    assert document["interrupted"] is True
    assert document["verdict"] == "undetermined"
    assert process.returncode == 143


def test_the_node_that_this_machine_is(shell: Shell, server: HermesServer) -> None:
    """No option at all: its own files name address and key, its own command the release."""
    home = shell.home / ".hermes"
    home.mkdir()
    config = f"gateway: {{api_server: {{port: {server.port}, max_concurrent_runs: 10}}}}\n"
    (home / "config.yaml").write_text(config)
    os.utime(home / "config.yaml", (1, 1))
    (home / ".env").write_text(f"API_SERVER_KEY={server.key}\nAPI_SERVER_PORT={server.port}\n")
    bin_folder = shell.home / "bin"
    bin_folder.mkdir()
    (bin_folder / "hermes").write_text("#!/bin/sh\necho 'Hermes Agent v0.20.4.post1 (2026.8.21)'\n")
    (bin_folder / "hermes").chmod(0o755)
    shell.export("PATH", f"{bin_folder}:{os.environ['PATH']}")
    server.pace = PACE
    done = shell("check", "--node-capacity", "10")
    assert done.code == 0, done.out
    assert done.out.startswith(f"local  {server.url}  Hermes 0.20.4.post1")
    assert "READY  11 passed, 1 not applicable · 4 runs" in done.out
