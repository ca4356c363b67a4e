"""Fleets that are large enough for several processes: one story all the same, and nothing left."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from hermes_ctl.checks import shards
from tests.cli.shell import Shell
from tests.faults.loopback import free_port
from tests.faults.server import HermesServer

NODES = 2 * shards.SMALLEST_SHARE
QUICK = ("--only", "auth", "--timeout", "60s")
PROCESSES = shards.processes_for(NODES)
WORKERS = PROCESSES if PROCESSES > 1 else 0
"""Processes beside the one that was started: none where this machine has one processor."""


@pytest.fixture
def inventory(shell: Shell, server: HermesServer, tmp_path: Path) -> list[str]:
    """The options that choose one dead node among many that are one healthy server."""
    server.faults.limit = 0
    key = shell.key_file(server.key)
    tables = [f'[contexts.n{number}]\nurl = "{server.url}"\n' for number in range(NODES - 1)]
    tables.append(f'[contexts.dead]\nurl = "http://127.0.0.1:{free_port()}"\n')
    path = tmp_path / "fleet.toml"
    path.write_text("".join(f'{table}key-file = "{key}"\n' for table in tables))
    return ["--inventory", str(path)]


def children(process_id: int) -> list[psutil.Process]:
    return psutil.Process(process_id).children()


def test_how_many_processes() -> None:
    assert shards.processes_for(2) == shards.processes_for(shards.SMALLEST_SHARE) == 1
    assert 1 <= shards.processes_for(1_000_000) <= (os.cpu_count() or 1)


def test_every_node_is_told_as_by_one_process(shell: Shell, inventory: list[str]) -> None:
    with shell.started("check", *inventory, *QUICK, "-o", "json") as process:
        out, err = process.communicate(timeout=120)
    report = json.loads(out)
    assert process.returncode == 3, err
    assert [node["node"]["name"] for node in report["nodes"]] == [
        *(f"n{number}" for number in range(NODES - 1)),
        "dead",
    ]
    assert report["counts"] == {"ready": NODES - 1, "not_ready": 0, "undetermined": 1}
    assert report["nodes"][0]["contract"]["shapes"]
    assert not report["interrupted"]


def test_ended_by_a_signal_nothing_is_left(
    shell: Shell, inventory: list[str], server: HermesServer, tmp_path: Path
) -> None:
    server.pace = 0.5
    report = tmp_path / "report.json"
    options = ("--timeout", "60s", "--allow-busy", "--report", f"json={report}")
    with shell.started("check", *inventory, *options) as process:
        server.wait_until(lambda: len(server.runs) > 2, 60)
        working = children(process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert len(working) == WORKERS
    assert not [one for one in working if one.is_running()]
    assert not [run for run in server.runs.values() if run.is_active]
    document = json.loads(report.read_text())
    assert document["interrupted"]
    assert len(document["nodes"]) == NODES


def test_killed_outright_its_processes_clean_up_and_end(
    shell: Shell, inventory: list[str], server: HermesServer
) -> None:
    server.pace = 0.5
    with shell.started("check", *inventory, "--timeout", "60s", "--allow-busy") as process:
        server.wait_until(lambda: len(server.runs) > 2, 60)
        working = children(process.pid)
        process.kill()
        process.wait()
        gone, alive = psutil.wait_procs(working, timeout=60)
    assert (len(gone), alive) == (WORKERS, [])
    assert WORKERS == 0 or not [run for run in server.runs.values() if run.is_active]


def test_a_process_that_is_lost_takes_only_its_share(
    shell: Shell, inventory: list[str], server: HermesServer
) -> None:
    server.faults.slow(0.1, "GET /health")
    with shell.started("check", *inventory, *QUICK, "-j", "8", "-o", "json") as process:
        server.wait_until(lambda: bool(server.received("GET /health")), 60)
        for worker in children(process.pid)[:1]:
            worker.kill()
        out, _ = process.communicate(timeout=120)
    report = json.loads(out)
    assert process.returncode == 3
    assert report["counts"]["ready"] >= NODES * (WORKERS - 1) // PROCESSES - 1
    lost = [node for node in report["nodes"] if "has ended" in node["steps"][0]["summary"]]
    assert bool(lost) == bool(WORKERS)
    assert len(lost) <= NODES // PROCESSES
    assert not report["interrupted"]


def test_nobody_reads_any_more(shell: Shell, inventory: list[str]) -> None:
    with shell.started("check", *inventory, *QUICK, "-o", "jsonl") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 141
