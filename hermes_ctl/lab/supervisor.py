"""The process that owns a lab: it runs the model, starts the gateway, and leaves nothing behind.

`python -m hermes_ctl.lab.supervisor FOLDER` reads one JSON line on standard input (`Order`),
answers one JSON line on standard output (`{"ready": true}`, or `{"failed": WHY}`),
and from then on ends, with everything that it and Hermes started,

- when its standard input closes: the process that started it is gone, `kill -9` included
  (a line `keep` before that means that the lab is to outlive it; it is answered by
  `{"kept": true}`),
- on SIGTERM or SIGINT,
- when the gateway ends by itself.

SIGUSR1 restarts the gateway (SIGTERM, and time to drain), SIGUSR2 kills it and starts it again,
on the same port and home. `Lab` in `gateway.py` is the face of all this.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

from hermes_ctl.clock import now
from hermes_ctl.lab.home import key_of, write_home
from hermes_ctl.lab.loopback import ask
from hermes_ctl.lab.model import Model
from hermes_ctl.lab.state import Identity, Order, Plan, State

PORTS_TRIED = 4
STOP_GRACE = 3.0
"""Seconds that the gateway gets to end by itself when the lab is taken down."""
DRAIN_GRACE = 40.0
"""The same for a restart: 0.22 drains its runs for 30 s."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")


class _StartFailed(Exception):
    """The gateway could not be brought up; the text says why."""


class _PortTaken(_StartFailed):
    """Somebody else has the port."""


class Inbox:
    """What the supervisor waits for: lines and the end of its standard input, and signals."""

    def __init__(self) -> None:
        self.kept = False
        self.ending = False
        self.restart_grace: float | None = None
        self._buffer = b""
        self._input: int | None = sys.stdin.fileno()
        self._wake, waker = socket.socketpair()
        self._wake.setblocking(False)
        waker.setblocking(False)
        self._waker = waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _signalled(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self.restart_grace = DRAIN_GRACE
        elif number == signal.SIGUSR2:
            self.restart_grace = 0.0
        else:
            self.ending = True

    def first_line(self) -> bytes:
        """The first line on standard input; `ending` is set when there is none."""
        while b"\n" not in self._buffer and not self.ending:
            self.wait(None)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def wait(self, timeout: float | None) -> None:
        """Sleep until something came (a child that ended counts) or `timeout` seconds are over."""
        sources = [self._wake.fileno(), *([] if self._input is None else [self._input])]
        readable, _, _ = select.select(sources, [], [], timeout)
        if self._wake.fileno() in readable:
            with contextlib.suppress(BlockingIOError):
                while self._wake.recv(4096):
                    pass
        if self._input is not None and self._input in readable:
            self._read(self._input)

    def _read(self, descriptor: int) -> None:
        data = os.read(descriptor, 65536)
        self._buffer += data
        if self._buffer.startswith(b"keep\n"):
            self.kept = True
        if not data:
            self._input = None
            self.ending = not self.kept


@dataclass(slots=True)
class Supervisor:
    """One lab, from its first process to its last."""

    folder: Path
    order: Order
    model: Model
    inbox: Inbox
    gateway: subprocess.Popen[bytes] | None = None
    port: int = 0
    _started_at: str = field(default_factory=lambda: now().isoformat(timespec="seconds"))
    _kept: bool = False

    @property
    def _home(self) -> Path:
        return self.folder / "hermes"

    @property
    def _log(self) -> Path:
        return self.folder / "gateway.log"

    def start(self) -> None:
        """Bring the gateway up on the wished port or a free one; raises `_StartFailed`."""
        plan = self.order.plan
        for attempt in range(PORTS_TRIED):
            self.port = (plan.port if attempt == 0 else None) or free_port()
            write_home(self._home, plan, self.port, self.model.url)
            try:
                self._start_gateway()
                return
            except _PortTaken:
                self.end_gateway(0.0)
                if attempt == PORTS_TRIED - 1:
                    raise

    def watch(self) -> None:
        """Keep the lab until it is to end."""
        while not self.inbox.ending:
            self.inbox.wait(None)
            if self.inbox.restart_grace is not None:
                self.end_gateway(self.inbox.restart_grace)
                self.inbox.restart_grace = None
                self._start_gateway()
            if self.gateway is None or self.gateway.poll() is not None:
                return
            self._reap()
            if self.inbox.kept and not self._kept:
                self._kept = True
                self.write_state()
                _say({"kept": True})

    def write_state(self) -> None:
        """Write `lab.json`, so that other processes find this lab."""
        assert self.gateway is not None
        State(
            name=self.order.name,
            plan=self.order.plan,
            kept=self._kept,
            started_at=self._started_at,
            url=f"http://127.0.0.1:{self.port}",
            model_url=self.model.url,
            supervisor=Identity.of(os.getpid()),
            gateway=Identity.of(self.gateway.pid),
        ).write(self.folder)

    def end_gateway(self, grace: float) -> None:
        """Ask the gateway to end, and after `grace` seconds kill it and all that it started."""
        deadline = time.monotonic() + grace
        if self.gateway is not None and grace and self.gateway.poll() is None:
            self.gateway.terminate()
            while self.gateway.poll() is None and (left := deadline - time.monotonic()) > 0:
                self.inbox.wait(left)
        while children := psutil.Process().children(recursive=True):
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            psutil.wait_procs(children, timeout=1.0)
        if self.gateway is not None:
            self.gateway.wait()

    def _start_gateway(self) -> None:
        (self.folder / "home").mkdir(mode=0o700, exist_ok=True)
        with self._log.open("ab") as log:
            position = log.tell()
            self.gateway = subprocess.Popen(
                [self.order.plan.executable, "gateway", "run"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder / "home",
                env=_gateway_environment(self.order.plan, self.folder, os.environ),
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self._wait_until_it_answers(self.gateway, position)
        self.write_state()

    def _wait_until_it_answers(self, gateway: subprocess.Popen[bytes], position: int) -> None:
        """Wait for an answer that only our own gateway can give: to its key, from its pid."""
        deadline = time.monotonic() + self.order.start_timeout
        while time.monotonic() < deadline:
            if gateway.poll() is not None:
                raise _StartFailed(f"the gateway ended while it started ({_ending(gateway)})")
            if self._answers(gateway.pid):
                return
            if f"{self.port} already in use" in self._log_since(position):
                raise _PortTaken(f"port {self.port} is taken")
            self.inbox.wait(0.1)
            if self.inbox.ending:
                raise _StartFailed("the start was interrupted")
        if not _is_free(self.port):
            raise _PortTaken(f"port {self.port} is taken")
        raise _StartFailed(
            f"the gateway did not open its port within {self.order.start_timeout:.0f} s"
        )

    def _answers(self, pid: int) -> bool:
        """Whether process `pid` answers on the port; raises `_PortTaken` if another one does."""
        url = f"http://127.0.0.1:{self.port}/health/detailed"
        try:
            status, answer = ask(url, key=key_of(self._home))
        except OSError:
            return False
        except ValueError as failure:
            raise _PortTaken(f"port {self.port} is taken by something else") from failure
        if status == 200 and isinstance(answer, dict) and answer.get("pid", pid) == pid:
            return True
        raise _PortTaken(f"port {self.port} is taken by another server")

    def _log_since(self, position: int) -> str:
        with self._log.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace")

    def _reap(self) -> None:
        """Collect orphans of the gateway that ended: as a subreaper they are ours."""
        for child in psutil.Process().children():
            ended = child.status() == psutil.STATUS_ZOMBIE
            if ended and (self.gateway is None or child.pid != self.gateway.pid):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(child.pid, os.WNOHANG)


def _ending(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _gateway_environment(
    plan: Plan, folder: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """Little of ours: no proxy, no provider key, no HERMES_* reaches the gateway of a lab."""
    passed = {name: environment[name] for name in _PASSED_ON if name in environment}
    folders = [str(Path(plan.executable).parent), passed.get("PATH", os.defpath)]
    return {
        **passed,
        "PATH": os.pathsep.join(folders),
        "HOME": str(folder / "home"),
        "HERMES_HOME": str(folder / "hermes"),
    }


def free_port() -> int:
    """A port on loopback that nobody holds at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """In the gateway, before it starts: SIGTERM when the supervisor dies, even by `kill -9`."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _adopt_orphans() -> None:
    """Make all that descends from here our child when its parent dies, so that none escapes:
    a background command of the terminal tool leaves its session and its process group."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _say(message: Mapping[str, object]) -> None:
    """One line to the process that started us, if it is still there to read it."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Run one lab until it is to end."""
    folder = Path(arguments[0])
    inbox = Inbox()
    line = inbox.first_line()
    if inbox.ending:
        return
    _adopt_orphans()
    order = Order.parse(line)
    with Model(record=folder / "requests.jsonl") as model:
        model.start()
        supervisor = Supervisor(folder, order, model, inbox)
        try:
            supervisor.start()
            _say({"ready": True})
            supervisor.watch()
        except _StartFailed as failure:
            _say({"failed": str(failure)})
        finally:
            supervisor.end_gateway(STOP_GRACE)
    if inbox.ending:
        (folder / "lab.json").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
