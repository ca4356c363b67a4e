"""A thousand simulated nodes, checked by one command: time, memory, and what a node costs.

The nodes are prefixes of one loopback server in a process of its own, which answers as a healthy
0.20.4 does, each with a key of its own. The limits, on two cores:

- 1,000 nodes with `--no-runs` in 60 s and 300 MB;
- 100 nodes of which 10 hang take no longer than the deadline plus what the others take;
- a node costs no more processor time among 1,000 than among 100.

    python tests/bench/fleet.py [NODES]
    python tests/bench/fleet.py --jobs       200 nodes 100 ms away: what -j gives

Where other work takes the processors, time by the clock says little: the processor's time is shown
beside it, and two processors spend it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

HERE = Path(__file__).parent
HERMESCTL = str(Path(sys.executable).with_name("hermesctl"))
CHECK = ("check", "--all", "--no-runs", "--skip", "capacity", "--skip", "release")

SECONDS, MEGABYTES, DEADLINE = 60.0, 300.0, 10.0
DISTANCE = 0.1
GROWTH = 1.25
"""A cost is taken to grow when it is higher by more than what two measurements differ anyway."""


# The nodes


class Node(asyncio.Protocol):
    """One connection to the server of all nodes. `/hang/NAME` takes requests and says nothing,
    `/far/NAME` is as far away as another continent."""

    answers: dict[str, bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            length = _content_length(head)
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        method, target, _ = head.partition(b"\r\n")[0].decode().split(" ")
        _, kind, name, route = target.partition("?")[0].split("/", 3)
        if kind == "hang":
            return
        if kind == "far":
            asyncio.get_running_loop().call_later(DISTANCE, self._say, method, name, route, head)
            return
        self._say(method, name, route, head)

    def _say(self, method: str, name: str, route: str, head: bytes) -> None:
        known = f"Bearer {key_of(name)}\r\n".encode() in head + b"\r\n"
        wanted = f"{method} /{route}"
        if not known and wanted not in ("GET /health", "GET /v1/health"):
            wanted = "401"
        elif wanted == "GET /health/detailed":
            self._transport.write(detailed(name))
            return
        self._transport.write(self.answers.get(wanted, self.answers["404"]))


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def key_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def detailed(name: str) -> bytes:
    checks = {part: {"status": "ok"} for part in ("state_db", "config", "model")}
    checks["disk"] = {"status": "ok", "used_percent": 11.0, "free_bytes": 79308705792}  # type: ignore[dict-item]
    checks["gateway"] = {"status": "ok", "state": "running"}
    platform = {"state": "connected", "writer_pid": 1, "writer_start_time": int(name)}
    return reply(
        200,
        {
            "status": "ok",
            "readiness": {"status": "ok", "checks": checks},
            "version": "0.20.4.post1",
            "gateway_state": "running",
            "platforms": {"api_server": platform},
            "pid": 10_000_000 + int(name),
        },
    )


def reply(status: int, document: object) -> bytes:
    from tests.faults.wire import Reply

    return (answer := Reply(status, json.dumps(document).encode())).head() + answer.body


def all_answers() -> dict[str, bytes]:
    from tests.faults.answers import document

    error = {"param": None, "type": "invalid_request_error"}
    health = {"status": "ok", "platform": "hermes-agent", "version": "0.20.4.post1"}
    model = {"id": "hermes-agent", "object": "model", "created": 1, "owned_by": "hermes"}
    return {
        "GET /health": reply(200, health),
        "GET /v1/health": reply(200, health),
        "GET /v1/models": reply(200, {"object": "list", "data": [model]}),
        "GET /api/sessions": reply(200, {"object": "list", "data": [], "has_more": False}),
        "POST /v1/runs": reply(400, {"error": {**error, "message": "Missing", "code": None}}),
        "401": reply(401, {"error": {**error, "message": "no", "code": "gateway_auth_failed"}}),
        "404": reply(404, {"error": {**error, "message": "no", "code": "run_not_found"}}),
        **{
            f"GET {route}": reply(200, json.loads(document(name)))
            for route, name in (
                ("/v1/capabilities", "capabilities"),
                ("/v1/skills", "skills"),
                ("/v1/toolsets", "toolsets"),
                ("/api/model/options", "model_options"),
            )
        },
    }


async def serve() -> None:
    """Until standard input ends, which it does with the process that reads the port."""
    Node.answers = all_answers()
    server = await asyncio.get_running_loop().create_server(Node, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def served() -> Iterator[int]:
    """The port of the nodes' server."""
    command = [sys.executable, str(Path(__file__)), "--serve"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.communicate()


# Checking them


@dataclass(frozen=True)
class Measured:
    """Seconds by the clock and of the processor, megabytes of all its processes at most, and how
    many nodes were found ready."""

    seconds: float
    processor: float
    megabytes: float
    ready: int
    exit_code: int

    def show(self, label: str) -> None:
        print(
            f"{label:>20}  {self.seconds:6.1f} s  {self.processor:6.1f} s of processor  "
            f"{self.megabytes:4.0f} MB  {self.ready} ready  exit {self.exit_code}",
            flush=True,
        )


def configure(folder: Path, port: int, kinds: Sequence[str]) -> Path:
    """A configuration with a node of each of these kinds."""
    path = folder / "config.toml"
    with path.open("w") as file:
        for number, kind in enumerate(kinds):
            file.write(f'[contexts.n{number}]\nurl = "http://127.0.0.1:{port}/{kind}/{number}"\n')
            file.write(f'key-file = "key{number}"\n')
            key = folder / f"key{number}"
            key.write_text(key_of(str(number)))
            key.chmod(0o600)
    path.chmod(0o600)
    return path


def check(port: int, folder: Path, kinds: Sequence[str], *options: str) -> Measured:
    """One command that checks a node of each of these kinds."""
    report = folder / "report.json"
    environment = {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "HERMESCTL_CONFIG": str(configure(folder, port, kinds)),
    }
    begun = time.monotonic()
    process = psutil.Popen(
        [HERMESCTL, *CHECK, *options, "--report", f"json={report}"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    most = 0
    while process.poll() is None:
        most = max(most, memory_of(process))
        time.sleep(0.2)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Measured(
        time.monotonic() - begun,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        most / 2**20,
        json.loads(report.read_text())["counts"]["ready"],
        process.returncode,
    )


def memory_of(process: psutil.Process) -> int:
    """Bytes of the process and its children. What they share is divided among them (PSS)."""
    total = 0
    with contextlib.suppress(psutil.Error):
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += one.memory_full_info().pss
    return total


def measure_jobs(port: int, folder: Path) -> int:
    for jobs in (4, 8, 16, 32, 64, 128):
        check(port, folder, ["far"] * 200, "-j", str(jobs)).show(f"-j {jobs}")
    return 0


def main() -> int:
    if sys.argv[1:] == ["--serve"]:
        asyncio.run(serve())
        return 0
    missed: list[str] = []
    with TemporaryDirectory() as name, served() as port:
        folder = Path(name)
        check(port, folder, ["n"] * 2)
        if sys.argv[1:] == ["--jobs"]:
            return measure_jobs(port, folder)
        many = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
        few = check(port, folder, ["n"] * 100)
        few.show("100 nodes")
        hung = check(port, folder, ["hang"] * 10 + ["n"] * 90, "--deadline", f"{DEADLINE:g}s")
        hung.show("100, of which 10 hang")
        all_of_them = check(port, folder, ["n"] * many)
        all_of_them.show(f"{many} nodes")
    each = [few.processor / 100, all_of_them.processor / many]
    print(f"a node costs {each[0] * 1000:.1f} ms of 100, {each[1] * 1000:.1f} ms of {many}")
    if (few.ready, hung.ready, all_of_them.ready) != (100, 90, many):
        missed.append("not all nodes that are ready were found to be")
    if all_of_them.seconds > SECONDS * many / 1000:
        missed.append(f"{many} nodes took {all_of_them.seconds:.1f} s")
    if all_of_them.megabytes > MEGABYTES:
        missed.append(f"{many} nodes took {all_of_them.megabytes:.0f} MB")
    if hung.seconds > DEADLINE + few.seconds:
        missed.append(f"10 of 100 that hang made it {hung.seconds:.1f} s")
    if each[1] > each[0] * GROWTH:
        missed.append("the cost for a node grows with their number")
    for line in missed:
        print(line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
