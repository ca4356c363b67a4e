"""`hermesctl checklist freeze` and `hermesctl check --nagios`, as they are typed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.faults.server import HermesServer


def node(shell: Shell, server: HermesServer) -> tuple[str, ...]:
    return ("--url", server.url, "--key-file", shell.key_file(server.key))


def test_a_frozen_checklist_holds_until_the_node_changes(
    shell: Shell, server: HermesServer, tmp_path: Path
) -> None:
    frozen = shell("checklist", "freeze", "--name", "mine", *node(shell, server))
    assert frozen.code == 0, frozen.err
    document = tomllib.loads(frozen.out)
    assert (document["name"], document["release"]) == ("mine", "==0.20.4.post1")
    assert "GET /health 200" in document["pinned"]["shapes"]
    assert server.key not in frozen.out
    path = tmp_path / "mine.toml"
    path.write_text(frozen.out)
    only = ("check", "--checklist", str(path), "--only", "pinned", *node(shell, server))
    assert shell(*only).code == 0
    server.faults.extra_features["new_thing"] = True
    changed = shell(*only)
    assert (changed.code, "feature new_thing is offered now" in changed.out) == (1, True)


def test_nothing_is_printed_for_a_node_that_does_not_answer(shell: Shell) -> None:
    done = shell("checklist", "freeze", "--url", "http://127.0.0.1:1")
    assert (done.code, done.out) == (3, "")


@pytest.mark.parametrize(
    ("fault", "code", "word"),
    [(None, 1, "WARNING"), ("wrong key", 2, "CRITICAL"), ("refused", 3, "UNKNOWN")],
)
def test_nagios_gets_its_line_and_its_codes(
    shell: Shell, server: HermesServer, fault: str | None, code: int, word: str
) -> None:
    url = "http://127.0.0.1:1" if fault == "refused" else server.url
    key = "another-key-0123456789abcdef" if fault == "wrong key" else server.key
    done = shell(
        "check",
        "--nagios",
        "--no-runs",
        "--skip",
        "capacity",
        "--url",
        url,
        "--key-file",
        shell.key_file(key),
    )
    first = done.out.splitlines()[0]
    assert (done.code, first.startswith(f"HERMES {word} - ")) == (code, True), done.out
    assert " | duration=" in first
