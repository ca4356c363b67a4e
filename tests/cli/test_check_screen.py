"""What a check looks like, held by golden files: on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hermes_ctl.checks.probes import load_probe, probe_names
from tests.cli.shell import Shell, golden
from tests.faults.checking import CLI_ANSWER, PACE
from tests.faults.loopback import free_port
from tests.faults.server import HermesServer

_STEADY = (
    (r"127\.0\.0\.1:\d+", "127.0.0.1:8642"),
    (r"\d+\.\d\d s", "0.00 s"),
    (r" {2,}\d+\.\d s$", ""),
    (r"· \d+\.\d s$", "· 0.0 s"),
    (r"(largest|largest tool event) \d+ B", r"\1 412 B"),
    (r"run_[0-9a-f]{6,32}", "run_85eb76"),
    (r"hermesctl-no-such-model-[0-9a-f]{8}", "hermesctl-no-such-model-00000000"),
    (r"HERMESCTL-[0-9A-F]{10}", "HERMESCTL-0000000000"),
)


def steady(text: str) -> str:
    """`text` without what differs from one check to the next: ports, times, ids."""
    for pattern, same in _STEADY:
        text = re.sub(pattern, same, text, flags=re.MULTILINE)
    return text


@pytest.fixture
def healthy(server: HermesServer, shell: Shell) -> list[str]:
    """The options of a check in which every step is settled as on a lab."""
    server.pace = PACE
    home = shell.home / "hermes-home"
    home.mkdir()
    hermes = shell.home / "hermes"
    hermes.write_text(CLI_ANSWER.format(version="0.20.4.post1"))
    hermes.chmod(0o755)
    key = shell.key_file(server.key)
    return [
        *("--url", server.url, "--key-file", key, "--hermes-bin", str(hermes)),
        *("--hermes-home", str(home), "--node-capacity", "10", "--model", "lab-other"),
    ]


def breaks(server: HermesServer) -> None:
    """A node with trouble of every kind."""
    faults = server.faults
    faults.version = "0.19.0"
    faults.degrade("config", "degraded", detail="invalid config (ParserError)")
    faults.ignore_model = True
    faults.no_tool_call = True
    faults.no_closing_comment = True
    faults.late_stop = True
    faults.status("GET /v1/skills", 500, {"error": {"message": "Failed to enumerate skills"}})


@pytest.mark.parametrize("columns", [80, 120])
def test_healthy_on_a_terminal(shell: Shell, healthy: list[str], columns: int) -> None:
    done = shell.on_terminal("check", *healthy, columns=columns)
    golden(f"check-healthy-{columns}.txt", steady(done.out))
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= columns


def test_the_verdict_says_what_strict_holds_against_the_node(
    shell: Shell, healthy: list[str]
) -> None:
    chosen = ["--only", "auth", "--only", "cache", "--strict"]
    done = shell.on_terminal("check", *healthy, *chosen, columns=40)
    assert done.code == 3
    assert "--strict lets nothing be skipped:" in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 40
    verdict = done.out[done.out.index("UNDETERMINED") :].splitlines()
    assert verdict[1].startswith(" " * 14), "what the line does not hold stands below its words"


@pytest.mark.parametrize("columns", [80, 120])
def test_broken_on_a_terminal(
    shell: Shell, healthy: list[str], server: HermesServer, columns: int
) -> None:
    breaks(server)
    done = shell.on_terminal("check", *healthy, columns=columns)
    golden(f"check-broken-{columns}.txt", steady(done.out))
    assert done.code == 1
    assert max(map(len, done.out.splitlines())) <= columns


def test_with_v_each_step_says_what_it_saw(shell: Shell, healthy: list[str]) -> None:
    done = shell.on_terminal("check", *healthy, "-v", columns=80)
    lines = done.out.splitlines()
    assert "release   GET /health       version 0.20.4.post1" in lines
    assert "          GET /v1/models with a wrong key  401" in lines
    assert done.out.index("GET /v1/models with a wrong key") < done.out.index("READY  ")
    assert max(map(len, lines)) <= 80
    assert "wrong key  401" not in shell.on_terminal("check", *healthy, columns=80).out


def test_broken_in_a_pipe(shell: Shell, healthy: list[str], server: HermesServer) -> None:
    """The same rows, whole: nothing is wrapped."""
    breaks(server)
    done = shell("check", *healthy)
    golden("check-broken-pipe.txt", steady(done.out))
    assert done.err == ""


def test_broken_and_quiet(shell: Shell, healthy: list[str], server: HermesServer) -> None:
    breaks(server)
    golden("check-broken-quiet.txt", steady(shell("check", *healthy, "-q").out))


def test_wrong_key(shell: Shell, healthy: list[str], server: HermesServer) -> None:
    shell.export("HERMES_GATEWAY_KEY", "wrong-key-0123456789")
    named = healthy.index("--key-file")
    done = shell.on_terminal("check", *healthy[:named], *healthy[named + 2 :])
    golden("check-wrong-key.txt", steady(done.out))
    assert done.code == 1


def test_unreachable(shell: Shell, server: HermesServer) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    key = shell.key_file(server.key)
    done = shell.on_terminal("check", "--url", url, "--key-file", key)
    golden("check-unreachable.txt", steady(done.out))
    assert done.code == 3


def test_what_was_not_chosen_is_not_worth_a_line(
    shell: Shell, healthy: list[str], server: HermesServer
) -> None:
    done = shell("check", *healthy, "--only", "auth", "--only", "stop", "--no-runs")
    assert steady(done.out).splitlines() == [
        "http://127.0.0.1:8642  Hermes 0.20.4.post1  checklist bmas-node (release ==0.20.4.*)",
        "",
        "  ✓  4 auth       key accepted; no key and a wrong key refused with 401",
        "  –  8 stop       needs a run (--no-runs)",
        "",
        "READY  1 passed, 11 left out · 0.0 s",
    ]


def test_the_schema(shell: Shell) -> None:
    golden("check-schema.json", shell("check", "--schema").out)


def test_json(shell: Shell, healthy: list[str], server: HermesServer) -> None:
    """Which fields there are, and in which order; values differ from check to check."""
    breaks(server)
    document = json.loads(shell("check", *healthy, "-o", "json").out)
    del document["contract"], document["runs"]
    golden("check-fields.txt", "\n".join(fields(document)) + "\n")


def fields(value: object, path: str = "$") -> list[str]:
    if isinstance(value, dict):
        return [line for key, inner in value.items() for line in fields(inner, f"{path}.{key}")]
    if isinstance(value, list):
        lines = [line for inner in value for line in fields(inner, f"{path}[]")]
        return list(dict.fromkeys(lines)) or [f"{path}[]"]
    return [f"{path}: {type(value).__name__}"]


def test_it_moves_on_a_terminal_and_leaves_it_as_it_was(shell: Shell, healthy: list[str]) -> None:
    """Each line comes to stand where it stays; the cursor is given back."""
    done = shell.on_terminal("check", *healthy, animated=True)
    assert done.code == 0
    assert done.out.count("\x1b[?25l") == done.out.count("\x1b[?25h") == 1
    last = done.out.rpartition("\x1b[?25h")[2]
    assert "READY  11 passed, 1 not applicable" in last
    assert "run identifier" in done.out, "a step that is under way says what it is"
    assert "run identifier" not in last


# explain


def test_the_steps(shell: Shell) -> None:
    done = shell("explain")
    assert [line.split()[1] for line in done.out.splitlines()] == list(probe_names())


@pytest.mark.parametrize("name", probe_names())
def test_every_step_is_explained(shell: Shell, name: str) -> None:
    """By its id and by its number; offline, in full."""
    probe = load_probe(name)
    done = shell("explain", name)
    assert done.code == 0
    number = probe_names().index(name) + 1
    assert done.out.splitlines()[0] == f"{number} {name}: {probe.title}"
    assert done.out == shell("explain", str(number)).out
    flat = " ".join(done.out.split())
    assert " ".join(probe.proves.split()) in flat
    assert probe.causes
    for cause in probe.causes:
        assert " ".join(cause.seen.split()) in flat
        assert " ".join(cause.mend.split()) in flat
    assert max(map(len, done.out.splitlines())) <= 88


def test_a_step_is_explained_on_a_narrow_terminal(shell: Shell) -> None:
    done = shell.on_terminal("explain", "capacity", columns=60)
    assert max(map(len, done.out.splitlines())) <= 60
    assert "gateway.api_server.max_concurrent_runs" in done.out, "no name is cut"


def test_a_step_that_there_is_not(shell: Shell) -> None:
    for step in ("nothing", "0", "99"):
        done = shell("explain", step)
        assert done.code == 2
        assert f"there is no step '{step}'" in done.err


# checklists


def test_the_shipped_checklists(shell: Shell) -> None:
    done = shell("checklist", "list", "-o", "name")
    names = done.out.split()
    assert {"bmas-node", "hermes-node"} <= set(names)
    for name in names:
        shown = shell("checklist", "show", name)
        path = shell.home / f"{name}.toml"
        path.write_text(shown.out)
        checked = shell("checklist", "validate", str(path))
        assert checked.code == 0
        assert f"{path}: ok" in checked.out


def test_a_checklist_of_ones_own(shell: Shell, healthy: list[str], server: HermesServer) -> None:
    """Fewer steps, other names, another release: a first-class checklist."""
    path = shell.home / "mine.toml"
    path.write_text(
        "schema = 'hermesctl.checklist/1'\nname = 'mine'\nrelease = '==0.19.*'\n"
        "[[step]]\nid = 'which'\nprobe = 'release'\ntitle = 'Which one'\n"
        "[[step]]\nid = 'key'\nprobe = 'auth'\n"
        "[[step]]\nid = 'ready'\nprobe = 'readiness'\nseverity = 'advisory'\n"
    )
    server.faults.degrade("disk")
    server.faults.version = "0.19.0"
    hermes = Path(shell.home / "hermes")
    hermes.write_text(CLI_ANSWER.format(version="0.19.0"))
    done = shell("check", *healthy, "--checklist", str(path), "-o", "json")
    document = json.loads(done.out)
    assert [(step["number"], step["id"], step["status"]) for step in document["steps"]] == [
        (1, "which", "pass"),
        (2, "key", "pass"),
        (3, "ready", "fail"),
    ]
    assert (document["verdict"], done.code) == ("ready", 0)
    assert document["steps"][0]["title"] == "Which one"
    assert len(document["checklist"]["sha256"]) == 64


def test_what_is_no_checklist_to_show(shell: Shell) -> None:
    done = shell("checklist", "show", "no-such")
    assert done.code == 2
    assert "there is no checklist 'no-such'" in done.err
