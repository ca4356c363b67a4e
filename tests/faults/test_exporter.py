"""`hermesctl exporter` as Prometheus and systemd see it: a process, scraped, while its nodes come and go."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.faults.server import KEY, HermesServer

Metrics = dict[str, float]


@dataclass(frozen=True)
class Exporter:
    """A running exporter of one node. `scrape` gives the samples that have no label but the node."""

    process: subprocess.Popen[str]
    url: str

    def families(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        with urlopen(self.url, timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    def scrape(self) -> Metrics:
        return {name: found[0][1] for name, found in self.families().items() if len(found) == 1}

    def verdict(self) -> str | None:
        found = self.families().get("hermesctl_node_verdict", [])
        return next((labels["verdict"] for labels, value in found if value == 1), None)

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, "the exporter has ended"
            assert time.monotonic() < deadline, self.families()
            time.sleep(0.1)


@pytest.fixture
def export(tmp_path: Path) -> Iterator[Callable[..., Exporter]]:
    """Starts an exporter of the given address, in a home of its own."""
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    started: list[subprocess.Popen[str]] = []

    def start(url: str, *options: str) -> Exporter:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "hermes_ctl", "exporter", url),
                *(
                    "--key-file",
                    str(key),
                    "--listen",
                    "127.0.0.1:0",
                    "--skip",
                    "capacity",
                    *options,
                ),
            ],
            env={"HOME": str(tmp_path), "HERMES_MANAGED_DIR": str(tmp_path / "none")},
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.match(r"http://\S+/metrics", line)
        assert found, line + process.stderr.read()
        return Exporter(process, found.group())

    yield start
    for process in started:
        process.kill()
        process.wait()


@contextmanager
def server_at(port: int) -> Iterator[HermesServer]:
    """A stand-in at a port that another one has left."""
    server = HermesServer()
    server.port = port
    with server:
        yield server


def test_a_node_that_goes_and_comes_back_is_shown_truly(
    export: Callable[..., Exporter],
) -> None:
    with HermesServer() as server:
        exporter = export(server.url, "--interval", "1s")
        exporter.until(lambda: exporter.verdict() == "ready")
        port = server.port
    exporter.until(lambda: exporter.scrape()["hermesctl_node_up"] == 0)
    exporter.until(lambda: exporter.verdict() == "undetermined")
    gone = exporter.scrape()
    assert "hermesctl_node_latency_seconds" not in gone
    assert "hermesctl_node_active_runs" not in gone
    with server_at(port) as server:
        server.faults.foreign_runs = 2
        exporter.until(lambda: exporter.verdict() == "ready")
        back = exporter.scrape()
        assert back["hermesctl_node_up"] == 1
        assert back["hermesctl_node_active_runs"] == 2
        last = "hermesctl_last_ready_timestamp_seconds"
        assert back[last] > gone[last]


def test_neither_memory_nor_descriptors_grow(export: Callable[..., Exporter]) -> None:
    """As far as seconds tell: `tests/bench/exporter.py` looks for longer."""
    with HermesServer() as server:
        exporter = export(server.url, "--interval", "1s")
        process = psutil.Process(exporter.process.pid)
        exporter.until(lambda: checks(exporter) >= 2)
        for _ in range(20):
            exporter.scrape()
        before, memory = process.num_fds(), process.memory_info().rss
        done = checks(exporter)
        while checks(exporter) < done + 3:
            exporter.scrape()
        exporter.until(lambda: process.num_fds() <= before)
        assert process.memory_info().rss < memory * 1.1
        assert process.num_threads() < 12


def checks(exporter: Exporter) -> float:
    return sum(value for _, value in exporter.families().get("hermesctl_checks_total", []))


def test_a_scrape_asks_no_node_anything(export: Callable[..., Exporter]) -> None:
    with HermesServer() as server:
        exporter = export(server.url, "--interval", "1h")
        exporter.until(lambda: exporter.verdict() == "ready")
        server.wait_until(lambda: server.open_connections <= 1)
        before = len(server.requests)
        began = time.monotonic()
        for _ in range(30):
            exporter.scrape()
        looked = 1 + (time.monotonic() - began) // 10
        assert len(server.requests) - before <= 2 * looked
        assert not server.runs, "a check costs nothing unless --runs is given"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_ends_when_it_is_told_to(
    export: Callable[..., Exporter], number: signal.Signals, code: int
) -> None:
    with HermesServer() as server:
        server.faults.hang("GET /v1/capabilities")
        exporter = export(server.url)
        server.wait_until(lambda: bool(server.received("GET /v1/capabilities")))
        exporter.process.send_signal(number)
        assert exporter.process.wait(20) == code
        assert exporter.process.stderr is not None
        assert "Traceback" not in exporter.process.stderr.read()
        server.wait_until(lambda: server.open_connections == 0)


def test_a_full_check_that_is_interrupted_leaves_no_run_behind(
    export: Callable[..., Exporter],
) -> None:
    with HermesServer() as server:
        exporter = export(server.url, "--runs", "--interval", "1h")
        server.wait_until(lambda: any(run.is_active for run in server.runs.values()), 60)
        exporter.process.send_signal(signal.SIGTERM)
        assert exporter.process.wait(30) == 143
        assert not any(run.is_active for run in server.runs.values())


def test_nodes_are_chosen_as_check_does_and_one_that_hangs_holds_up_nobody(
    export: Callable[..., Exporter], tmp_path: Path
) -> None:
    with HermesServer() as well, HermesServer() as hanging:
        hanging.faults.hang()
        contexts = "".join(
            f'[contexts.{name}]\nurl = "{one.url}"\nkey-file = "{tmp_path}/key"\n'
            for name, one in (("well", well), ("hanging", hanging))
        )
        folder = tmp_path / ".config" / "hermesctl"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "config.toml").write_text(contexts)
        (folder / "config.toml").chmod(0o600)
        exporter = export("--all", "--timeout", "60s")

        def ready() -> dict[str, float]:
            found = exporter.families().get("hermesctl_node_ready", [])
            return {labels["node"]: value for labels, value in found}

        exporter.until(lambda: ready() == {"well": 1})
        hanging.wait_until(lambda: hanging.open_connections > 0)


def test_a_key_that_was_changed_is_read_again(
    export: Callable[..., Exporter], tmp_path: Path
) -> None:
    with HermesServer() as server:
        exporter = export(server.url, "--interval", "1s")
        exporter.until(lambda: exporter.verdict() == "ready")
        server.key = "another-key-0123456789abcdef"
        exporter.until(lambda: exporter.verdict() != "ready")
        assert exporter.scrape()["hermesctl_node_up"] == 1
        (tmp_path / "key").write_text(server.key)
        exporter.until(lambda: exporter.verdict() == "ready")
