"""`hermesctl config`, as it is typed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY = "cli-key-0123456789abcdef"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class User:
    """Somebody at a prompt, in a home and a folder of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "HERMES_MANAGED_DIR": str(home / "none"),
            "PYTHONWARNINGS": "error",
        }

    @property
    def file(self) -> Path:
        return self.home / ".config/hermesctl/config.toml"

    def types(self, *arguments: str, stdin: str = "", **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "hermes_ctl", *arguments],
            env={**self.environment, **environment},
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert KEY not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def succeeds(self, *arguments: str, **environment: str) -> str:
        done = self.types(*arguments, **environment)
        assert done.code == 0, done.err
        return done.out

    def key_file(self, mode: int = 0o600) -> str:
        path = self.home / "node1.key"
        path.write_text(KEY + "\n")
        path.chmod(mode)
        return str(path)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def settings(out: str) -> dict[str, tuple[str, str]]:
    """The rows of `config explain` in a pipe: setting -> value and source."""
    rows = [line.split("\t") for line in out.splitlines()]
    return {setting: (value, source) for setting, value, source in rows}


def test_a_context_is_made_used_and_deleted(user: User) -> None:
    key = user.key_file()
    made = user.types(
        *("config", "set-context", "node1", "--url", "http://node1:8642/"),
        *("--key-file", "node1.key", "--timeout", "1m", "--label", "site=lab", "--group", "gpu"),
    )
    assert made.code == 0
    assert made.out == ""
    assert "context node1 made" in made.err
    assert stat.S_IMODE(user.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(user.file.parent.stat().st_mode) == 0o700
    assert tomllib.loads(user.succeeds("config", "view")) == {
        "version": 1,
        "contexts": {
            "node1": {
                "url": "http://node1:8642",
                "key-file": key,
                "timeout": "60s",
                "labels": {"site": "lab"},
                "groups": ["gpu"],
            }
        },
    }
    assert user.succeeds("config", "get-contexts", "-o", "name") == "node1\n"
    assert (
        user.succeeds("config", "get-contexts")
        == f"\tnode1\thttp://node1:8642\t\tfile {key}\tgpu\n"
    )
    user.succeeds("config", "use-context", "node1")
    assert user.succeeds("config", "get-contexts").startswith("*\tnode1\t")
    rows = settings(user.succeeds("config", "explain"))
    assert rows["url"] == ("http://node1:8642", f"context node1 in {user.file}")
    assert rows["key"] == ("***", f"file {key}, by context node1 in {user.file}")
    assert rows["timeout"][0] == "60 s"
    named = settings(user.succeeds("config", "explain", "-u", "http://node1:8642"))["name"]
    assert named == ("node1", f"context node1 in {user.file}")
    deleted = user.types("config", "delete-context", "node1")
    assert "no context is the current one" in deleted.err
    assert user.succeeds("config", "get-contexts") == ""
    assert Path(key).exists()


def test_a_change_leaves_what_was_not_named(user: User) -> None:
    set_context = ("config", "set-context", "node1")
    user.succeeds(*set_context, "-u", "http://node1", "-p", "planner", "--insecure")
    user.succeeds(*set_context, "--for-profile", "coder", "--key-command", "pass show 'the coder'")
    user.succeeds(*set_context, "--no-insecure", "--label", "a=1", "--label", "b=2")
    user.succeeds(*set_context, "--label", "a-", "--unset", "profile", "--key-environment", "K")
    assert json.loads(user.succeeds("config", "view", "-o", "json"))["contexts"]["node1"] == {
        "url": "http://node1",
        "insecure": False,
        "key-environment": "K",
        "labels": {"b": "2"},
        "profiles": {"coder": {"key-command": ["pass", "show", "the coder"]}},
    }


def test_contexts_are_listed_by_group_and_as_json(user: User) -> None:
    for name, group in (("a", "x"), ("b", "y"), ("c", "x")):
        user.succeeds("config", "set-context", name, "-u", f"http://{name}", "--group", group)
    assert user.succeeds("config", "get-contexts", "--group", "x", "-o", "name") == "a\nc\n"
    listed = json.loads(user.succeeds("config", "get-contexts", "-o", "json"))
    assert [(one["name"], one["current"], one["groups"]) for one in listed] == [
        ("a", False, ["x"]),
        ("b", False, ["y"]),
        ("c", False, ["x"]),
    ]
    wide = user.succeeds("config", "get-contexts", "-o", "wide", "--group", "y")
    assert len(wide.rstrip("\n").split("\t")) == 9


def test_explain_on_a_node_needs_no_setup(user: User) -> None:
    home = user.home / ".hermes"
    home.mkdir()
    (home / ".env").write_text(f"API_SERVER_KEY={KEY}\nAPI_SERVER_PORT=9000\n")
    (home / "config.yaml").write_text(
        "gateway: {platforms: {api_server: {max_concurrent_runs: 3}}}\nmodel: {default: opus}\n"
    )
    done = user.types("config", "explain")
    rows = settings(done.out)
    assert rows["name"] == ("local", "this machine")
    assert rows["url"] == ("http://127.0.0.1:9000", f"{home}/.env, API_SERVER_PORT")
    assert rows["key"] == ("***", f"{home}/.env, API_SERVER_KEY")
    assert rows["home"][0] == str(home)
    assert rows["hermes enabled"][0] == "yes"
    assert rows["hermes limit"] == ("10", "default of Hermes")
    assert rows["hermes model"] == ("opus", f"{home}/config.yaml, model.default")
    assert rows["configuration"] == (str(user.file), "no such file")
    assert "max_concurrent_runs has no effect" in done.err
    document = json.loads(user.succeeds("config", "explain", "-o", "json"))
    assert document["settings"]["url"]["value"] == "http://127.0.0.1:9000"
    assert document["settings"]["key"]["value"] == "***"
    assert "max_concurrent_runs has no effect" in document["findings"][0]


def test_explain_tells_of_a_home_that_is_not_there(user: User) -> None:
    missing = str(user.home / "hermse")
    said = f"HERMES_HOME is {missing}, and there is no such folder."
    assert said in user.types("config", "explain", HERMES_HOME=missing).err
    elsewhere = user.types("config", "explain", "-u", "http://node1", HERMES_HOME=missing)
    assert said not in elsewhere.err


def test_explain_takes_a_key_from_standard_input(user: User) -> None:
    done = user.types(
        "config", "explain", "-u", "http://node1", "--key-file", "-", stdin=f"{KEY}\n"
    )
    assert settings(done.out)["key"] == ("***", "--key-file: standard input")


def test_explain_warns_of_a_weak_key(user: User) -> None:
    done = user.types("config", "explain", HERMES_GATEWAY_KEY="short")
    assert done.code == 0
    assert settings(done.out)["key"] == ("***", "environment variable HERMES_GATEWAY_KEY")
    assert "warning: The key has 5 characters" in done.err


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (("explain", "-u", "node1:8642"), "has no scheme", "http://node1:8642"),
        (("explain", "-u", "http://node1/v1"), "/v1", "http://node1"),
        (("explain", "-p", "a/b"), "no name of a profile", ""),
        (("explain", "-c", "nobody"), "no context 'nobody'", "set-context"),
        (("explain", "--key-file", "none"), "No such file", "ls -l none"),
        (("explain", "--timeout", "soon"), "not a duration", "5m"),
        (("use-context", "nobody"), "no context 'nobody'", ""),
        (("delete-context", "nobody"), "no context 'nobody'", ""),
        (("set-context", "node1"), "needs an address", "--url"),
        (("set-context", "a b", "-u", "http://x"), "no name for a context", ""),
        (("set-context", "lab", "-u", "http://x"), "running lab", ""),
        (("set-context", "x", "-u", "http://u:hunter2@x"), "a user name or a password", ""),
        (("set-context", "x", "-u", "http://x", "-p", "A/B"), "no name of a profile", ""),
        (("set-context", "x", "-u", "http://x", "--key-file", "-"), "standard input", ""),
        (("set-context", "x", "-u", "http://x", "--for-profile", "y"), "there is no key", ""),
        (("set-context", "x", "-u", "http://x", "--label", "y"), "is no label", "site=lab"),
        (("set-context", "x", "-u", "http://x", "--key-command", "'y"), "cannot be read", ""),
        (
            ("set-context", "x", "-u", "http://x", "--key-file", "a", "--key-environment", "B"),
            "one source",
            "",
        ),
        (("set-context", "x", "-u", "http://x", "--timeout", "0"), "no time", ""),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    user: User, arguments: tuple[str, ...], said: str, hint: str
) -> None:
    done = user.types("config", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert said in done.err.splitlines()[0]
    assert hint in done.err
    assert "hunter2" not in done.err
    assert not user.file.exists()


def test_a_key_file_that_others_can_read_is_refused_with_what_mends_it(user: User) -> None:
    path = user.key_file(0o644)
    done = user.types("config", "explain", "--key-file", path)
    assert done.code == 2
    assert f"chmod 600 {path}" in done.err
    subprocess.run(["chmod", "600", path], check=True)
    assert user.types("config", "explain", "--key-file", path).code == 0


def test_a_configuration_that_others_can_read_is_refused_everywhere(user: User) -> None:
    user.succeeds("config", "set-context", "node1", "-u", "http://node1")
    user.file.chmod(0o640)
    for arguments in (("view",), ("explain",), ("get-contexts",), ("use-context", "node1")):
        done = user.types("config", *arguments)
        assert done.code == 2
        assert f"chmod 600 {user.file}" in done.err


def test_a_broken_configuration_is_told_with_its_line_as_json_too(user: User) -> None:
    user.file.parent.mkdir(parents=True)
    user.file.write_text('[contexts.node1]\nurl = "http://node1"\nkey = "hunter2-hunter2"\n')
    user.file.chmod(0o600)
    done = user.types("config", "explain", "-o", "json")
    assert done.code == 2
    error = json.loads(done.out)["error"]
    assert error["kind"] == "ConfigurationError"
    assert error["message"].startswith(f"{user.file}:3: contexts.node1.key: ")
    assert "hunter2" not in done.out + done.err


def test_nothing_configured_is_no_error(user: User) -> None:
    done = user.types("config", "view")
    assert (done.code, done.out) == (0, "")
    assert "no configuration file" in done.err
    assert user.succeeds("config", "view", "-o", "json") == "{}\n"
    assert user.succeeds("config", "get-contexts", "-o", "json") == "[]\n"
