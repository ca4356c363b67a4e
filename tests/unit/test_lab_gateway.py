"""How a lab starts and ends, on a stand-in for `hermes` that can be told to fail.

The same on a real Hermes is in tests/live/test_lab.py.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hermes_ctl.errors import ConfigurationError, LabFailure, UsageError
from hermes_ctl.lab.gateway import Lab, every_lab, find, running, start
from hermes_ctl.lab.loopback import ask
from hermes_ctl.lab.state import Identity, folder_of, locked
from hermes_ctl.main import main

HERMES = '''\
#!{python}
"""Enough of a Hermes: --version, and a gateway that answers /health/detailed to its key."""
import json, os, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

if sys.argv[1:] == ["--version"]:
    print("Hermes Agent v9.9.9 (2026.1.1)")
    sys.exit()
home = os.environ["HERMES_HOME"]
env = dict(line.strip().split("=", 1) for line in open(home + "/.env"))
{behaviour}

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        ours = self.headers["Authorization"] == "Bearer " + env["API_SERVER_KEY"]
        body = json.dumps({{"status": "ok", "pid": os.getpid()}}).encode()
        self.send_response(200 if ours else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

try:
    HTTPServer(("127.0.0.1", int(env["API_SERVER_PORT"])), Handler).serve_forever()
except OSError:
    print("Port", env["API_SERVER_PORT"], "already in use.", flush=True)
    import time
    time.sleep(600)
'''

Starter = Callable[..., Lab]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": os.defpath}


@pytest.fixture
def hermes(tmp_path: Path) -> Callable[[str], str]:
    """Makes a stand-in with some more lines of Python and returns its path."""

    def make(behaviour: str = "") -> str:
        path = tmp_path / f"hermes-{len(list(tmp_path.glob('hermes-*')))}"
        lines = textwrap.dedent(behaviour)
        path.write_text(HERMES.format(python=sys.executable, behaviour=lines))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def start_lab(environment: dict[str, str]) -> Iterator[Starter]:
    def begin(spec: str, **options: object) -> Lab:
        return start(spec, environment=environment, **options)  # type: ignore[arg-type]

    yield begin
    for lab in every_lab(environment):
        lab.stop()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, f"not within 15 s: {what}"
        time.sleep(0.02)


def processes_below(folder: Path) -> list[psutil.Process]:
    """Every process that was started for the lab in `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("HERMES_HOME", "").startswith(str(folder))
            if ours or any(part.startswith(str(folder)) for part in process.cmdline()[1:]):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_lab_is_a_node(hermes: Callable[[], str], start_lab: Starter) -> None:
    lab = start_lab(hermes())
    assert lab.node.key is not None
    assert ask(f"{lab.node.url}/health/detailed", key=lab.node.key) == (
        200,
        {"status": "ok", "pid": lab.pid},
    )
    assert lab.version == "9.9.9"
    assert ask(f"{lab.model_url}/models")[0] == 200
    assert [record["path"] for record in lab.requests()] == ["/v1/models"]


def test_nothing_in_it_can_be_read_by_others_and_the_key_is_in_one_file(
    hermes: Callable[[], str], start_lab: Starter
) -> None:
    lab = start_lab(hermes())
    assert lab.node.key is not None
    key = lab.node.key.reveal()
    assert len(key) >= 32
    assert lab.folder.stat().st_mode & 0o777 == 0o700
    holders = [p for p in lab.folder.rglob("*") if p.is_file() and key in p.read_text()]
    assert holders == [lab.home / ".env"]
    assert (lab.home / ".env").stat().st_mode & 0o777 == 0o600
    assert (lab.folder / "lab.json").stat().st_mode & 0o777 == 0o600
    for process in processes_below(lab.folder):
        assert key not in " ".join(process.cmdline())
        assert key not in process.environ().values()


def test_gateway_sees_a_scratch_home_and_nothing_of_ours(
    hermes: Callable[[str], str], start_lab: Starter, environment: dict[str, str]
) -> None:
    environment |= {"HTTP_PROXY": "http://proxy", "OPENAI_API_KEY": "sk-real", "LANG": "C.UTF-8"}
    lab = start_lab(hermes("json.dump(dict(os.environ), open(home + '/seen', 'w'))"))
    seen = json.loads((lab.home / "seen").read_text())
    assert seen["HOME"] == str(lab.folder / "home")
    assert seen["LANG"] == "C.UTF-8"
    assert not {"HTTP_PROXY", "OPENAI_API_KEY", "XDG_CACHE_HOME"} & set(seen)


def test_stop_leaves_nothing(hermes: Callable[[str], str], start_lab: Starter) -> None:
    """Not even a background command that left its session and whose parent has ended."""
    escape = "subprocess.run(['sh', '-c', 'setsid sleep 600 </dev/null >/dev/null 2>&1 &'])"
    lab = start_lab(hermes(escape))
    assert len(processes_below(lab.folder)) == 3
    lab.stop()
    assert processes_below(lab.folder) == []
    assert not lab.folder.exists()


def test_stop_kills_a_gateway_that_does_not_listen(
    hermes: Callable[[str], str], start_lab: Starter
) -> None:
    lab = start_lab(hermes("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"))
    lab.stop()
    assert processes_below(lab.folder) == []


PARENT = """
import sys, time
from hermes_ctl.lab.gateway import start
lab = start(sys.argv[1], environment={"XDG_CACHE_HOME": sys.argv[2]}, keep=len(sys.argv) > 3)
print(lab.folder, flush=True)
time.sleep(600)
"""


@contextmanager
def parent_of_a_lab(
    spec: str, environment: dict[str, str], *more: str
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PARENT, spec, environment["XDG_CACHE_HOME"], *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            yield parent
        finally:
            parent.kill()


def test_lab_dies_with_a_killed_parent(
    hermes: Callable[[str], str], environment: dict[str, str]
) -> None:
    with parent_of_a_lab(hermes(""), environment) as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip())
        assert len(processes_below(folder)) == 2
        parent.kill()
    wait_until(lambda: not processes_below(folder), "the lab has ended")
    wait_until(lambda: not folder.exists(), "its folder is gone")


def test_parent_killed_during_the_start(
    hermes: Callable[[str], str], environment: dict[str, str]
) -> None:
    with parent_of_a_lab(hermes("import time; time.sleep(600)"), environment, "keep") as parent:
        labs = Path(environment["XDG_CACHE_HOME"]) / "hermesctl" / "lab" / "labs"
        wait_until(lambda: len(processes_below(labs)) >= 2, "the gateway starts")
        parent.kill()
    wait_until(lambda: not processes_below(labs), "the start was given up")


def test_kept_lab_outlives_its_parent(
    hermes: Callable[[str], str], environment: dict[str, str], start_lab: Starter
) -> None:
    with parent_of_a_lab(hermes(""), environment, "keep") as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip())
        parent.kill()
    lab = find(folder.name, environment)
    assert lab is not None
    assert lab.state.kept
    assert ask(f"{lab.node.url}/health/detailed", key=lab.node.key)[0] == 200


def test_lab_whose_supervisor_was_killed_is_cleared_away(
    hermes: Callable[[str], str], start_lab: Starter, environment: dict[str, str]
) -> None:
    lab = start_lab(hermes("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"))
    os.kill(lab.state.supervisor.pid, signal.SIGKILL)
    wait_until(lambda: not lab.is_running(), "the supervisor has ended")
    assert running(environment) == []
    assert processes_below(lab.folder) == []
    assert not lab.folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_gateway_ends_by_itself_when_its_supervisor_was_killed(
    hermes: Callable[[str], str], start_lab: Starter
) -> None:
    lab = start_lab(hermes(""))
    os.kill(lab.state.supervisor.pid, signal.SIGKILL)
    wait_until(lambda: lab.state.gateway.process() is None, "the gateway has ended")


def test_recycled_pid_is_nobody_of_ours(
    hermes: Callable[[str], str], start_lab: Starter, environment: dict[str, str]
) -> None:
    lab = start_lab(hermes(""))
    state = lab.state
    lab.stop()
    lab.folder.mkdir()
    other = Identity(os.getpid(), 1.0)
    replace(state, supervisor=other, gateway=other).write(lab.folder)
    assert find(lab.name, environment) is None
    assert running(environment) == []
    assert psutil.pid_exists(os.getpid())


# -- failed starts --------------------------------------------------------------------------------


def test_gateway_that_ends_shows_its_last_lines(
    hermes: Callable[[str], str], start_lab: Starter, environment: dict[str, str]
) -> None:
    behaviour = """
    for number in range(100): print("line", number)
    print("\\x1b[31mBearer", env["API_SERVER_KEY"], flush=True)
    sys.exit(3)
    """
    with pytest.raises(LabFailure, match="exit status 3") as failure:
        start_lab(hermes(behaviour))
    assert failure.value.hint is not None
    assert "line 99" in failure.value.hint
    assert "line 1\n" not in failure.value.hint
    assert failure.value.hint.endswith("mBearer ***")
    assert "\x1b" not in failure.value.hint
    assert every_lab(environment) == []


def test_gateway_that_never_opens_its_port(
    hermes: Callable[[str], str], start_lab: Starter, environment: dict[str, str]
) -> None:
    behaviour = 'print("Refusing to start", flush=True); import time; time.sleep(600)'
    with pytest.raises(LabFailure, match="did not open its port within 1 s") as failure:
        start_lab(hermes(behaviour), start_timeout=1.0)
    assert "Refusing to start" in str(failure.value.hint)
    labs = Path(environment["XDG_CACHE_HOME"]) / "hermesctl" / "lab" / "labs"
    assert processes_below(labs) == []
    assert list(labs.glob("*/")) == []


@pytest.mark.parametrize(
    "answers", [b"", b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}", b"hi\r\n"]
)
def test_port_that_somebody_else_has(
    hermes: Callable[[str], str], start_lab: Starter, answers: bytes
) -> None:
    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if answers:
                connection.recv(1024)
                connection.sendall(answers)
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        taken = listener.getsockname()[1]
        lab = start_lab(hermes(""), port=taken)
        assert lab.node.url != f"http://127.0.0.1:{taken}"
        assert ask(f"{lab.node.url}/health/detailed", key=lab.node.key)[0] == 200
        listener.shutdown(socket.SHUT_RDWR)


def test_wished_port_is_taken_when_it_is_free(
    hermes: Callable[[str], str], start_lab: Starter
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert start_lab(hermes(""), port=port).node.url == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    "script", ["#!/bin/sh\necho hello\n", "#!/bin/sh\nexit 1\n", "#!/nowhere\n"]
)
def test_executable_that_is_no_hermes(tmp_path: Path, start_lab: Starter, script: str) -> None:
    path = tmp_path / "something"
    path.write_text(script)
    path.chmod(0o755)
    with pytest.raises(LabFailure, match="something"):
        start_lab(str(path))


# -- names, plans, restarts -----------------------------------------------------------------------


def test_same_plan_is_the_same_lab_another_plan_is_refused(
    hermes: Callable[[str], str], start_lab: Starter
) -> None:
    spec, notes = hermes(""), list[str]()
    lab = start_lab(spec, name="mine", keep=True)
    again = start_lab(spec, name="mine", keep=True, report=notes.append)
    assert again.pid == lab.pid
    assert notes == ["the lab mine is already up"]
    with pytest.raises(UsageError, match="runs already with other options") as refusal:
        start_lab(spec, name="mine", max_concurrent_runs=2)
    assert "hermesctl lab down --name mine" in str(refusal.value.hint)
    with pytest.raises(UsageError, match=spec):
        start_lab(hermes(""), name="mine")


def test_two_starts_of_one_name_make_one_lab(
    hermes: Callable[[str], str], start_lab: Starter
) -> None:
    spec, pids = hermes("import time; time.sleep(0.3)"), list[int]()
    threads = [
        threading.Thread(target=lambda: pids.append(start_lab(spec, name="one").pid))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 3
    assert len(set(pids)) == 1


def test_two_labs_at_once(
    hermes: Callable[[str], str], start_lab: Starter, environment: dict[str, str]
) -> None:
    spec = hermes("")
    first, second = start_lab(spec), start_lab(spec)
    assert first.node.url != second.node.url
    assert first.node.key != second.node.key
    assert {lab.name for lab in running(environment)} == {first.name, second.name}
    first.stop()
    assert second.is_running()
    assert ask(f"{second.node.url}/health/detailed", key=second.node.key)[0] == 200


def test_gateway_that_ends_later_ends_its_lab(
    hermes: Callable[[str], str], start_lab: Starter, environment: dict[str, str]
) -> None:
    lab = start_lab(hermes(""), name="mine", keep=True)
    os.kill(lab.pid, signal.SIGKILL)
    wait_until(lambda: not lab.is_running(), "the supervisor has ended")
    assert find("mine", environment) is None
    assert [(one.name, one.is_running()) for one in every_lab(environment)] == [("mine", False)]
    again = start_lab(hermes(""), name="mine", keep=True)
    assert again.is_running()


@pytest.mark.parametrize("kill", [True, False])
def test_restart_keeps_address_key_and_edited_files(
    hermes: Callable[[str], str], start_lab: Starter, kill: bool
) -> None:
    lab = start_lab(hermes(""))
    node, pid = lab.node, lab.pid
    (lab.home / "config.yaml").write_text("edited: true\n")
    lab.restart(kill=kill)
    assert lab.pid != pid
    assert (lab.node.url, lab.node.key) == (node.url, node.key)
    assert ask(f"{node.url}/health/detailed", key=node.key) == (
        200,
        {"status": "ok", "pid": lab.pid},
    )
    assert (lab.home / "config.yaml").read_text() == "edited: true\n"


def test_restart_that_fails_is_told(hermes: Callable[[str], str], start_lab: Starter) -> None:
    behaviour = """
    print("once more", flush=True)
    if os.path.exists(home + "/broken"): sys.exit(4)
    """
    lab = start_lab(hermes(behaviour))
    (lab.home / "broken").touch()
    with pytest.raises(LabFailure, match="did not come back") as failure:
        lab.restart()
    assert "once more" in str(failure.value.hint)


def test_settings_and_profiles_are_written(
    hermes: Callable[[str], str], start_lab: Starter
) -> None:
    import yaml

    lab = start_lab(
        hermes(""),
        profiles=("planner", "coder"),
        max_concurrent_runs=3,
        approvals="off",
        settings={"gateway": {"extra": 1}, "agent": {"api_max_retries": 1}},
    )
    written = yaml.safe_load((lab.home / "config.yaml").read_text())
    assert written["gateway"] == {
        "api_server": {"max_concurrent_runs": 3},
        "multiplex_profiles": True,
        "extra": 1,
    }
    assert (written["approvals"], written["agent"]) == ({"mode": "off"}, {"api_max_retries": 1})
    nodes = [lab.profile_node(name) for name in (None, "planner", "coder")]
    assert len({node.key for node in nodes}) == 3
    assert nodes[2].url == f"{lab.node.url}/p/coder"
    assert lab.capacity == 3
    with pytest.raises(UsageError, match="planner, coder"):
        lab.profile_node("tester")


@pytest.mark.parametrize("name", ["", "../up", "a/b", "-x", "A", "x" * 65])
def test_bad_name(name: str, environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="no name for a lab"):
        folder_of(name, environment)


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "cache"
    file.touch()
    with (
        pytest.raises(ConfigurationError, match="cannot be written") as caught,
        locked(file / "lab" / "one.lock", lambda: None),
    ):
        pass
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")


def test_a_lab_may_be_named_as_a_context_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["lab", "down", "--name", "lab:old"]) == 0
    assert capsys.readouterr().err == "no lab old is up\n"
    assert main(["lab", "exec", "--name", "lab:old", "--", "true"]) == 2
    assert "no lab named 'old' is running" in capsys.readouterr().err
