"""`hermesctl check` of many nodes, as it is typed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.cli.shell import Shell
from tests.faults.checking import PACE
from tests.faults.loopback import free_port
from tests.faults.server import HermesServer

QUICK = ("--no-runs", "--skip", "capacity", "--skip", "release")


@dataclass
class Fleet:
    """Three nodes in the configuration: `good`, `bad` (degraded, in the group gpu), `dead`."""

    shell: Shell
    good: HermesServer
    bad: HermesServer

    def check(self, *arguments: str) -> tuple[int, str, str]:
        done = self.shell("check", *arguments)
        return done.code, done.out, done.err


@pytest.fixture
def fleet(shell: Shell) -> Iterator[Fleet]:
    with ExitStack() as servers:
        good, bad = (servers.enter_context(HermesServer()) for _ in range(2))
        good.pace = bad.pace = PACE
        bad.faults.degrade("config", "degraded", detail="invalid config")
        shell.export("HERMESCTL_CONFIG", str(configuration(shell, good, bad)))
        yield Fleet(shell, good, bad)


def configuration(shell: Shell, good: HermesServer, bad: HermesServer) -> Path:
    shell.key_file(good.key)
    tables = [
        f'[contexts.good]\nurl = "{good.url}"\nlabels = {{ site = "lab" }}',
        f'[contexts.bad]\nurl = "{bad.url}"\ngroups = ["gpu"]\nlabels = {{ site = "lab" }}',
        f'[contexts.dead]\nurl = "http://127.0.0.1:{free_port()}"',
    ]
    path = shell.home / "config.toml"
    path.write_text("\n".join(f'{table}\nkey-file = "node.key"\n' for table in tables))
    path.chmod(0o600)
    return path


def first_cells(out: str, number: int = 2) -> list[list[str]]:
    return [line.split("\t")[:number] for line in out.splitlines()]


def test_in_a_pipe_the_nodes_are_rows_worst_first_and_the_rest_is_apart(fleet: Fleet) -> None:
    code, out, err = fleet.check("--all", *QUICK)
    assert code == 1
    assert first_cells(out) == [["bad", "not_ready"], ["dead", "undetermined"], ["good", "ready"]]
    assert [line.split("\t")[3] for line in out.splitlines()] == [
        "-.F.--------",
        "-?----------",
        "-...--------",
    ]
    assert "readiness fail on bad: config degraded (detail invalid config)" in err
    assert "fix  mend config.yaml in HERMES_HOME; it is read again at once" in err
    assert err.splitlines()[-1].startswith(
        "NOT READY  3 nodes: 1 ready, 1 not ready, 1 undetermined · "
    )


@pytest.mark.parametrize(
    ("arguments", "code", "names"),
    [
        (["--group", "gpu"], 1, ["bad"]),
        (["--label", "site=lab"], 1, ["bad", "good"]),
        (["good", "dead"], 3, ["dead", "good"]),
        (["--all", "--only", "auth"], 3, ["dead", "good", "bad"]),
    ],
)
def test_who_is_chosen(fleet: Fleet, arguments: list[str], code: int, names: list[str]) -> None:
    done, out, _ = fleet.check(*arguments, *(QUICK if "--only" not in arguments else ()))
    assert done == code
    assert [cells[0] for cells in first_cells(out)] == names


def test_an_inventory_from_a_file(fleet: Fleet, tmp_path: Path) -> None:
    inventory = tmp_path / "hosts"
    inventory.write_text(f"{fleet.good.url}\n{fleet.bad.url}  # the degraded one\n")
    key = fleet.shell.key_file(fleet.good.key)
    code, out, _ = fleet.check("--inventory", str(inventory), "--key-file", key, *QUICK)
    assert (code, len(out.splitlines())) == (1, 2)


def test_an_ansible_inventory_from_standard_input(fleet: Fleet, tmp_path: Path) -> None:
    inventory = {
        "_meta": {
            "hostvars": {
                "web1": {
                    "hermes_url": fleet.good.url,
                    "hermes_key_file": fleet.shell.key_file("k"),
                },
                "db1": {},
            }
        },
        "web": {"hosts": ["web1"]},
    }
    fleet.shell.key_file(fleet.good.key)
    done = subprocess.run(
        [sys.executable, "-m", "hermes_ctl", "check", "--inventory", "-", "-g", "web", *QUICK],
        input=json.dumps(inventory),
        env=fleet.shell.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split("\t")[:2]) == (0, ["web1", "ready"])
    assert "1 host has no hermes_url and is left out: db1" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["good", "good"],
        ["--group", "cpu"],
        ["--label", "site=cellar"],
        ["--label", "site"],
        ["good", "--all"],
        ["--all", "-u", "http://h"],
        ["--all", "--inventory", "/no/such/file"],
        ["--all", "--exec", "true"],
        ["--all", "--watch", "0.5s"],
        ["--all", "--watch", "5s", "-o", "json"],
        ["--all", "--watch", "5s", "--exec", "'"],
        ["--all", "--lab"],
        ["--all", "-j", "0"],
        ["--all", "--deadline", "0s"],
    ],
)
def test_what_cannot_be_meant_ends_before_anything_is_sent(
    fleet: Fleet, arguments: list[str]
) -> None:
    assert fleet.check(*arguments)[0] == 2
    assert fleet.check(*arguments, "--nagios")[0] == 3, "UNKNOWN, as plugins have it"
    assert fleet.good.requests == fleet.bad.requests == []


def test_json_is_one_document_of_the_published_schema(fleet: Fleet) -> None:
    code, out, err = fleet.check("--all", *QUICK, "-o", "json")
    document = json.loads(out)
    schema = json.loads(fleet.check("--schema")[1])
    Draft202012Validator({**schema, "$ref": "#/$defs/FleetReport"}).validate(document)
    assert (code, err) == (1, "")
    assert [node["node"]["name"] for node in document["nodes"]] == ["good", "bad", "dead"]
    assert document["exit_code"] == 1
    assert "stand-in-key" not in out


def test_json_lines_are_a_report_each(fleet: Fleet) -> None:
    _, out, _ = fleet.check("--all", *QUICK, "-o", "jsonl")
    reports = [json.loads(line) for line in out.splitlines()]
    assert {report["node"]["name"] for report in reports} == {"good", "bad", "dead"}
    assert {report["schema"] for report in reports} == {"hermesctl.check/1"}


def test_one_node_that_was_chosen_from_many_is_a_fleet(fleet: Fleet) -> None:
    """Whoever reads the document need not know how many there happened to be."""
    _, out, _ = fleet.check("--group", "gpu", *QUICK, "-o", "json")
    assert json.loads(out)["schema"] == "hermesctl.fleet/1"


def test_as_a_plugin_of_nagios(fleet: Fleet) -> None:
    code, out, _ = fleet.check("--all", *QUICK, "--nagios")
    assert code == 2
    assert out.startswith("HERMES CRITICAL - NOT READY")


def test_on_a_terminal_the_lines_fill_in(fleet: Fleet) -> None:
    done = fleet.shell.on_terminal("check", "--all", *QUICK, columns=100, animated=True)
    assert done.code == 1
    last = done.out.rpartition("\x1b[?25h")[2]
    lines = last.splitlines()
    rows = [line.split()[:4] for line in lines if "–" in line[:40]]
    assert rows == [
        ["✗", "bad", "–✓✗✓––––––––", "0.20.4.post1"],
        ["?", "dead", "–?––––––––––", "not"],
        ["✓", "good", "–✓✓✓––––––––", "0.20.4.post1"],
    ]
    assert "readiness on       bad" in last
    assert lines[-1].startswith("NOT READY  3 nodes: 1 ready, 1 not ready, 1 undetermined · ")


def test_quiet_shows_who_is_not_ready(fleet: Fleet) -> None:
    done = fleet.shell.on_terminal("check", "--all", *QUICK, "-q", columns=100)
    assert [line.split()[1] for line in done.out.splitlines()[:2]] == ["bad", "dead"]
    assert "fix" not in done.out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ended_by_a_signal_it_tells_what_was_settled(
    fleet: Fleet, tmp_path: Path, number: signal.Signals
) -> None:
    fleet.good.faults.hang("GET /health/detailed")
    fleet.bad.pace = 0.5
    report = tmp_path / "report.json"
    with fleet.shell.started("check", "--all", "--report", f"json={report}") as process:
        fleet.bad.wait_until(lambda: bool(fleet.bad.runs), 60)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert not [run for run in fleet.bad.runs.values() if run.is_active]
    document = json.loads(report.read_text())
    assert document["interrupted"]
    assert [node["interrupted"] for node in document["nodes"]] == [True, True, False]
    assert {cells[0] for cells in first_cells(out)} == {"good", "bad", "dead"}
    assert "interrupted" in err


def test_watching_tells_only_what_changes_and_acts_on_verdicts(
    fleet: Fleet, tmp_path: Path
) -> None:
    log, report = tmp_path / "log", tmp_path / "report.json"
    script = (
        "import json, os, sys; r = json.load(sys.stdin); "
        f"open({str(log)!r}, 'a').write(' '.join([os.environ['HERMESCTL_NODE'], "
        "os.environ['HERMESCTL_WAS'] or '-', r['verdict']]) + chr(10))"
    )
    command = f'{sys.executable} -c "{script}"'
    arguments = ["good", "bad", *QUICK, "--watch", "1s", "--exec", command]
    with fleet.shell.started(
        "check", *arguments, "--report", f"json={report}", "-o", "jsonl"
    ) as process:
        assert process.stdout is not None
        first = sorted(
            (json.loads(process.stdout.readline()) for _ in range(2)), key=lambda one: one["node"]
        )
        fleet.bad.faults.clear()
        fleet.bad.faults.degraded.clear()
        change = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest, err = process.communicate(timeout=30)
    assert [(one["node"], one["was"], one["verdict"]) for one in first] == [
        ("bad", None, "not_ready"),
        ("good", None, "ready"),
    ]
    assert (change["node"], change["was"], change["verdict"]) == ("bad", "not_ready", "ready")
    assert [one["id"] for one in change["steps"]] == ["readiness"]
    assert rest == ""
    assert process.returncode == 143, err
    assert log.read_text().splitlines()[0] == "bad - not_ready"
    assert json.loads(report.read_text())["verdict"] == "ready"
