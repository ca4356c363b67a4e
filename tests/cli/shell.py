"""The command line as a user types it, in this process or in one of its own, and golden files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pexpect
import pytest

from hermes_ctl.main import main

GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"
"""`UPDATE_GOLDEN=1 pytest tests/cli/test_check_screen.py` writes the golden files anew."""

_OURS = re.compile(r"HERMES|GITHUB_|API_SERVER|XDG_|CI$|.*_PROXY$|.*_proxy$|COLUMNS|FORCE_COLOR")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Shell:
    """A user with an empty home. `environment` is all that the command gets to see."""

    home: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not _OURS.match(name)}
        self.environment = {**kept, "HOME": str(self.home), "NO_COLOR": "1", "TERM": "xterm"}
        for name in set(os.environ) - set(kept):
            self.monkeypatch.delenv(name)
        for name, value in self.environment.items():
            self.monkeypatch.setenv(name, value)

    def export(self, name: str, value: str) -> None:
        self.environment[name] = value
        self.monkeypatch.setenv(name, value)

    def key_file(self, key: str, name: str = "node.key", mode: int = 0o600) -> str:
        path = self.home / name
        path.write_text(key)
        path.chmod(mode)
        return str(path)

    def __call__(self, *arguments: str) -> Done:
        """Run it here; nobody's terminal."""
        self.capsys.readouterr()
        code = main(arguments)
        captured = self.capsys.readouterr()
        return Done(code, captured.out, captured.err)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run it as a process, which ends with the block."""
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes_ctl", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def on_terminal(self, *arguments: str, columns: int = 80, animated: bool = False) -> Done:
        """Run it on a terminal of that width: both streams, as they appear there."""
        still = {} if animated else {"CI": "1"}
        child: pexpect.spawn[str] = pexpect.spawn(
            sys.executable,
            ["-m", "hermes_ctl", *arguments],
            env={**self.environment, **still},
            encoding="utf-8",
            dimensions=(60, columns),
            timeout=60,
        )
        out = child.read().replace("\r\n", "\n")
        child.close()
        return Done(child.exitstatus if child.exitstatus is not None else -1, out, "")


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    return Shell(tmp_path / "user", capsys, monkeypatch)


def golden(name: str, text: str) -> None:
    """`text` is what stands in that golden file."""
    path = GOLDEN / name
    if UPDATE:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"UPDATE_GOLDEN=1 writes {name} anew"
