"""Real Hermes labs that all workers of one test run share. A plugin of `tests/conftest.py`.

The labs belong to the process that runs pytest (under xdist: the controller), which brings each up
when a test first asks for it and ends them with the run; killed, it takes them along.
"""

from __future__ import annotations

import json
import shutil
import socketserver
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

import pytest

from hermes_ctl.config import environment
from hermes_ctl.errors import HermesctlError
from hermes_ctl.lab.gateway import Lab, find, start

_ADDRESS = "lab_server"


class LabServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers a line with a requirement by the name of the lab that runs it."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Handler)
        self._labs: dict[str, Lab] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def lab(self, spec: str) -> Lab:
        with self._locks[spec]:
            if spec not in self._labs:
                self._labs[spec] = start(spec, environment=environment())
            return self._labs[spec]

    def stop_labs(self) -> None:
        for lab in self._labs.values():
            lab.stop()


class _Handler(socketserver.StreamRequestHandler):
    server: LabServer

    def handle(self) -> None:
        spec = self.rfile.readline().decode().strip()
        try:
            answer = {"name": self.server.lab(spec).name}
        except HermesctlError as failure:
            answer = {"failed": f"{failure.message}\n{failure.hint or ''}"}
        self.wfile.write(json.dumps(answer).encode())


def shared_lab(config: pytest.Config, spec: str) -> Lab:
    """The lab of this test run for `spec`; the first call brings it up."""
    with socket(AF_UNIX, SOCK_STREAM) as connection:
        connection.connect(_workerinput(config)[_ADDRESS])
        connection.sendall(f"{spec}\n".encode())
        with connection.makefile("rb") as reader:
            answer = json.loads(reader.read())
    if "failed" in answer:
        pytest.fail(answer["failed"])
    lab = find(answer["name"], environment())
    assert lab is not None
    return lab


_here: dict[str, Any] = {}


def _workerinput(config: pytest.Config) -> dict[str, Any]:
    """What a worker got from its controller; in the controller itself, the same values."""
    return getattr(config, "workerinput", _here)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    folder = Path(tempfile.mkdtemp(prefix="hermesctl-tests-"))
    server = LabServer(folder / "labs")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _here[_ADDRESS] = str(folder / "labs")

    def end() -> None:
        server.shutdown()
        server.server_close()
        server.stop_labs()
        shutil.rmtree(folder)

    config.add_cleanup(end)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[_ADDRESS] = _here[_ADDRESS]
