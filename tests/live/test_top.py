"""`hermesctl top` against live runs: an approval is given, a run is steered and stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes_ctl.lab.gateway import Lab
from tests.terminal import Terminal


@pytest.fixture
def environment(new_lab: Lab, tmp_path: Path) -> dict[str, str]:
    assert new_lab.node.key is not None
    return {
        "HOME": str(tmp_path),
        "HERMES_MANAGED_DIR": str(tmp_path / "none"),
        "HERMES_GATEWAY_URL": new_lab.node.url,
        "HERMES_GATEWAY_KEY": new_lab.node.key.reveal(),
    }


def submit(environment: dict[str, str], prompt: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hermes_ctl", "run", prompt],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_an_approval_is_given_and_a_run_steered_and_stopped(environment: dict[str, str]) -> None:
    asking = submit(environment, "[[approve-me flagged]] [[say settled]]")
    with Terminal("top", environment=environment, columns=120) as terminal:
        terminal.shows("1 approval waits", "rm -rf")
        terminal.types("a")
        terminal.shows(f"{asking} on", "why", "flagged")
        terminal.types("o")
        terminal.shows("once, 1 resolved")
        terminal.shows("✓ completed")
        counting = submit(environment, "Count slowly from 1 to 600, one number per line.")
        terminal.shows(counting[:12], "● running")
        terminal.types("\x1b[A\x1b[A")
        terminal.types("s")
        terminal.shows(f"Steer {counting}")
        terminal.types("be quick\r")
        terminal.shows("accepted")
        terminal.types("x")
        terminal.shows(f"Stop {counting}?")
        terminal.types("y")
        terminal.shows("✗ cancelled")
        terminal.types("q")
        assert terminal.ends() == 0
        assert terminal.is_as_it_was_found()
