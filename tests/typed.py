"""hermesctl as it is typed: in this process, or as one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.main import main


@dataclass(frozen=True, slots=True)
class Typed:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Hermesctl:
    """Types commands at one node, with a journal and a configuration of its own in `folder`."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        *,
        url: str,
        key: str,
    ) -> None:
        self.folder = folder
        self._key = key
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self._started: list[subprocess.Popen[str]] = []
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        monkeypatch.setenv("HERMESCTL_CONFIG", str(folder / "config.toml"))
        monkeypatch.setenv("HERMES_GATEWAY_KEY", key)
        self.point_at(url)

    def point_at(self, url: str) -> None:
        self._monkeypatch.setenv("HERMES_GATEWAY_URL", url)

    def __call__(self, *arguments: str) -> Typed:
        """Type a command and wait for its end. The key is in nothing that it says."""
        code = main(list(arguments))
        out, err = self._capsys.readouterr()
        assert self._key not in out + err
        return Typed(code, out, err)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Type a command in a process of its own, which goes on."""
        return self.process([sys.executable, "-m", "hermes_ctl", *arguments])

    def process(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start any command in the same surroundings. It ends with the test at the latest."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Kill what still goes on."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str], seconds: float = 60.0) -> Typed:
    """What a started command left behind, once it has ended."""
    out, err = process.communicate(timeout=seconds)
    return Typed(process.returncode, out, err)
