"""Finding a Python that Hermes supports; hermesctl itself may run on a newer one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from hermes_ctl.errors import LabFailure

SUPPORTED = ((3, 13), (3, 12), (3, 11))
"""The versions that Hermes runs on, best first (its `Requires-Python` is >=3.11,<3.14)."""

_QUESTION = "import sys, ensurepip, venv; print(*sys.version_info[:2])"


def supported_python(environment: Mapping[str, str]) -> Path:
    """The interpreter to make environments with: ours if it will do, else the first on PATH or of
    pyenv that really runs; raises `LabFailure`, saying which are needed, when there is none."""
    for candidate in _candidates(environment):
        if version_of_python(candidate, environment) in SUPPORTED:
            return candidate
    names = ", ".join(f"{major}.{minor}" for major, minor in reversed(SUPPORTED))
    raise LabFailure(
        f"Hermes needs Python {names}, and none of them is here with its venv module",
        hint="install one (`apt install python3.12-venv`, `pyenv install 3.12`), "
        "or give the path of an installed hermes: `--hermes /path/to/bin/hermes`",
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    yield Path(sys.executable)
    names = [f"python{major}.{minor}" for major, minor in SUPPORTED]
    for name in names:
        found = shutil.which(name, path=environment.get("PATH"))
        if found:
            yield Path(found)
    pyenv = Path(environment.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for name in names:
        yield from sorted(pyenv.glob(f"versions/*/bin/{name}"))


def version_of_python(path: Path, environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Major and minor of an interpreter that can make environments; None for any other file.

    Asked, not read from the name: a pyenv shim exists for versions that are not switched on.
    """
    try:
        answer = subprocess.run(
            [path, "-c", _QUESTION],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        major, minor = answer.stdout.split()
        return int(major), int(minor)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
