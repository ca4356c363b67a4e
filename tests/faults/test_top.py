"""`hermesctl top` in a terminal, from the prompt to the prompt."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.server import KEY, HermesServer
from tests.terminal import Terminal


@pytest.fixture
def environment(tmp_path: Path, server: HermesServer) -> dict[str, str]:
    """A home whose owner means the stand-in."""
    return {
        "HOME": str(tmp_path),
        "HERMES_MANAGED_DIR": str(tmp_path / "none"),
        "HERMES_GATEWAY_URL": server.url,
        "HERMES_GATEWAY_KEY": KEY,
    }


def hermesctl(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hermes_ctl", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_runs_are_stopped_and_nodes_go_on_one_screen(
    server: HermesServer, environment: dict[str, str]
) -> None:
    started = hermesctl(environment, "run", "Count slowly from 1 to 600, one number per line.")
    run_id = started.stdout.strip()
    with Terminal("top", "--skip", "capacity", environment=environment) as terminal:
        terminal.shows("1 node: 1 ready", "● running", run_id[:12])
        terminal.resize(60, 15)
        terminal.until(lambda screen: len(screen.split("\n")) == 15 and "● running" in screen)
        terminal.resize(100, 30)
        terminal.shows("● running")
        terminal.types("x")
        terminal.shows(f"Stop {run_id}?")
        terminal.types("y")
        terminal.shows("✗ cancelled")
        assert server.runs[run_id].status == "cancelled"
        server.close()
        terminal.shows("1 node: 1 down", "✗ down")
        terminal.types("q")
        assert terminal.ends() == 0
        assert terminal.is_as_it_was_found()


def test_hostile_text_reaches_no_terminal(
    server: HermesServer, environment: dict[str, str]
) -> None:
    server.faults.version = "0.20.4\x1b]0;owned\x07"
    hermesctl(environment, "run", "Count slowly \x1b]0;owned\x07 [red]x[/red]")
    with Terminal("top", environment=environment, columns=120) as terminal:
        terminal.shows("\\x1b", "[red]x[/red]")
        assert b"\x1b]0;owned" not in terminal.raw
        terminal.types("\x03")
        assert terminal.ends() == 0
        assert terminal.is_as_it_was_found()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_leaves_the_terminal_as_it_was(
    environment: dict[str, str], number: signal.Signals, code: int
) -> None:
    with Terminal("top", environment=environment) as terminal:
        terminal.shows("q quit")
        terminal.child.kill(number)
        assert terminal.ends() == code
        assert terminal.is_as_it_was_found()
        assert b"Traceback" not in terminal.raw


def test_without_a_terminal_it_says_what_to_type_instead(environment: dict[str, str]) -> None:
    done = hermesctl(environment, "top")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: top needs a terminal\n")
    assert "hermesctl check" in done.stderr


def test_without_textual_it_says_how_to_get_it(environment: dict[str, str]) -> None:
    program = (
        "import sys; sys.modules['textual'] = None\n"
        "from hermes_ctl.main import main\n"
        "sys.exit(main(['top']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: top needs textual, which is not installed\n"
        f"  hint  {sys.executable} -m pip install 'hermesctl[top]'\n"
    )
