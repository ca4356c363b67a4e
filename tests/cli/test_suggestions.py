"""What tab completion asks a node for: cached, quick, silent, and harmless in a shell's hands."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from pathlib import Path

import pytest

from hermes_ctl import clock
from hermes_ctl.cli import suggestions
from hermes_ctl.main import main
from tests.cli.operators import Operator, session_row
from tests.faults.deep_server import DeepServer
from tests.faults.faults import HOSTILE
from tests.faults.wire import json_reply

LIST = "GET /api/sessions"

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """What the shell gets for the last of the words typed; standard error has to stay empty."""

    def ask(*words: str, shell: str = "fish") -> list[str]:
        monkeypatch.setenv("_HERMESCTL_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", " ".join(["hermesctl", *words]))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            main([])
        monkeypatch.delenv("_HERMESCTL_COMPLETE")
        assert err.getvalue() == ""
        return [line for line in out.getvalue().splitlines() if line]

    return ask


def serve(node: DeepServer, *ids: str) -> None:
    rows = [session_row(number, id=name, title=f"About {name}") for number, name in enumerate(ids)]
    node.faults.say(LIST, json_reply({"data": rows}))


def test_sessions_are_offered_with_their_titles(node: DeepServer, complete: Complete) -> None:
    serve(node, "alpha", "beta", "alone")
    assert complete("sessions", "show", "al") == ["alpha\tAbout alpha", "alone\tAbout alone"]
    assert len(node.received(LIST)) == 1
    for command in ("messages", "rename", "fork", "model", "delete", "chat"):
        assert complete("sessions", command, "b") == ["beta\tAbout beta"], command
    assert len(node.received(LIST)) == 1, "the answer is kept for a while"


def test_what_was_kept_grows_old(
    node: DeepServer, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(node, "old")
    assert complete("sessions", "show", "o") == ["old\tAbout old"]
    serve(node, "new")
    began = clock.now()
    monkeypatch.setattr(clock, "now", lambda: began + timedelta(seconds=31))
    assert complete("sessions", "show", "n") == ["new\tAbout new"]
    node.faults.status(LIST, 500)
    monkeypatch.setattr(clock, "now", lambda: began + timedelta(seconds=99))
    assert complete("sessions", "show", "n") == ["new\tAbout new"], "better an old one than none"


def test_each_node_and_profile_has_its_own(node: DeepServer, complete: Complete) -> None:
    serve(node, "one")
    assert complete("sessions", "show", "o")
    serve(node, "two")
    assert complete("sessions", "show", "-p", "planner", "t") == ["two\tAbout two"]
    assert complete("sessions", "show", "t") == [], "the default profile's is kept"
    assert [request.path for request in node.requests] == [
        "/api/sessions",
        "/p/planner/api/sessions",
    ]


def test_toolsets_and_jobs_are_offered(node: DeepServer, complete: Complete) -> None:
    assert any(line.startswith("terminal\t") for line in complete("toolsets", "show", "ter"))
    node.faults.say("GET /api/jobs", json_reply({"jobs": [{"id": "0123456789ab", "name": "tidy"}]}))
    for command in ("show", "pause", "resume", "run", "delete", "update"):
        assert complete("jobs", command, "0") == ["0123456789ab\ttidy"], command


def test_a_slow_node_is_not_waited_for(node: DeepServer, complete: Complete) -> None:
    node.faults.hang(LIST)
    complete("explain", "re")  # what has to be imported is not what is measured
    began = time.monotonic()
    assert complete("sessions", "show", "a") == []
    assert time.monotonic() - began < suggestions.SECONDS + 2.0


@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_node_that_refuses_offers_nothing(
    node: DeepServer, complete: Complete, status: int
) -> None:
    node.faults.status(LIST, status)
    assert complete("sessions", "show", "a") == []


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "show", "-u", "http://127.0.0.1:9", "a"),
        ("sessions", "show", "-u", "nonsense", "a"),
        ("sessions", "show", "-c", "nobody", "a"),
        ("sessions", "show", "-c", "lab:nobody", "a"),
        ("sessions", "show", "--key-file", "/no/such/file", "a"),
        ("sessions", "show", "--key-file", "-", "a"),
    ],
)
def test_what_cannot_be_asked_is_silent(
    node: DeepServer, complete: Complete, words: tuple[str, ...]
) -> None:
    serve(node, "alpha")
    assert complete(*words) == []
    assert node.requests == []


def test_no_command_is_run_for_a_key(
    node: DeepServer, complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    config = tmp_path / "config.toml"
    config.write_text(
        f'version = 1\n[contexts.n]\nurl = "{node.url}"\nkey-command = ["touch", "{ran}"]\n'
    )
    config.chmod(0o600)
    monkeypatch.delenv("HERMES_GATEWAY_KEY")
    serve(node, "alpha")
    assert complete("sessions", "show", "-c", "n", "a") == ["alpha\tAbout alpha"]
    assert node.requests[-1].bearer is None
    assert not ran.exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_nothing_that_a_shell_would_obey_is_offered(
    node: DeepServer, complete: Complete, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    bad = [
        "a b",
        "a;reboot",
        "a$(reboot)",
        "a`x`",
        "a\nb",
        "-rf",
        "",
        "a'b",
        'a"b',
        "a|b",
        "a" * 300,
    ]
    rows = [session_row(number, id=name) for number, name in enumerate(bad)]
    title = f"\\$(reboot) `x` \"y\" 'z' ) ; {HOSTILE}"
    rows.append(session_row(99, id="api_1.2/x@y", title=title))
    node.faults.say(LIST, json_reply({"data": rows}))
    monkeypatch.setenv("COMP_WORDS", "hermesctl sessions show a")
    monkeypatch.setenv("COMP_CWORD", "3")
    told = "\n".join(complete("sessions", "show", "a", shell=shell))
    assert "api_1.2/x@y" in told
    for word in ("a b", "a;", "a$", "a`", "a'b", "a|b", "a" * 300):
        assert word not in told
    if shell == "zsh":
        assert not set(told) & set("`$\\;|\x1b"), "it is evaluated"


def test_the_cache_is_for_its_owner_alone(
    node: DeepServer, complete: Complete, tmp_path: Path
) -> None:
    serve(node, "alpha")
    complete("sessions", "show", "a")
    folder = tmp_path / ".cache" / "hermesctl" / "completion"
    (file,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600
    assert node.key not in file.read_text()
    for broken in (
        "",
        "{",
        "[]",
        '{"at": "x", "offers": 1}',
        json.dumps({"at": 9e99, "offers": []}),
    ):
        file.write_text(broken)
        assert complete("sessions", "show", "a") == ["alpha\tAbout alpha"], broken


def test_a_cache_that_cannot_be_written_is_done_without(
    node: DeepServer, complete: Complete, tmp_path: Path
) -> None:
    (tmp_path / ".cache").write_text("no folder")
    serve(node, "alpha")
    assert complete("sessions", "show", "a") == ["alpha\tAbout alpha"]


def test_steps_checklists_and_runs_are_offered(complete: Complete) -> None:
    assert complete("explain", "rel")[0].startswith("release")
    assert any(line.startswith("bmas-node") for line in complete("check", "--checklist", "bm"))
    assert any(line.startswith("stop") for line in complete("check", "--only", "st"))
    assert complete("status", "run") == [], "an empty journal"
