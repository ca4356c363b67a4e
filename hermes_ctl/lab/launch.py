"""Starting the supervisor of a lab, and clearing away what a dead one left."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

import hermes_ctl
from hermes_ctl.errors import LabFailure
from hermes_ctl.lab.home import key_of
from hermes_ctl.lab.state import Order, State, lab_folder
from hermes_ctl.secrets import redact
from hermes_ctl.text import visible

LOG_LINES = 20
"""How much of a log is shown when a lab failed."""

_supervisors: dict[Path, subprocess.Popen[str]] = {}
"""The labs of this process by their folder: they live as long as we hold their pipe."""


def launch(folder: Path, order: Order, environment: Mapping[str, str], *, keep: bool) -> None:
    """Start a supervisor on an empty `folder` and wait until its gateway answers.

    Raises `LabFailure` when it does not come up; nothing runs and no folder is left then.
    """
    left = State.read(folder)
    if left is not None:
        remove(left, folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    process = _supervisor(folder, environment)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asdict(order)) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or "{}")
        if not answer.get("ready"):
            raise _start_failure(folder, order.name, answer)
        if keep:
            process.stdin.write("keep\n")
            process.stdin.flush()
            process.stdout.readline()
        _supervisors[folder] = process
    except BaseException:
        process.stdin.close()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        process.stdout.close()


def _supervisor(folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """The process, in a session of its own, so that Ctrl-C reaches it through us alone."""
    package = str(Path(hermes_ctl.__file__).parents[1])
    with (folder / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "hermes_ctl.lab.supervisor", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env={**environment, "PYTHONPATH": package},
            text=True,
            start_new_session=True,
        )


def _start_failure(folder: Path, name: str, answer: Mapping[str, Any]) -> LabFailure:
    why = answer.get("failed") or "its supervisor ended without an answer"
    shown = log_tail(folder) or log_tail(folder, "supervisor.log")
    return LabFailure(f"the lab {name} did not start: {why}", hint=shown)


def log_tail(folder: Path, log: str = "gateway.log") -> str | None:
    """The last lines of a lab's log, fit to be shown; None when it is empty or gone."""
    try:
        lines = (folder / log).read_text("utf-8", errors="replace").splitlines()[-LOG_LINES:]
    except OSError:
        return None
    for home in (folder / "hermes", *(folder / "hermes" / "profiles").glob("*/")):
        with contextlib.suppress(LabFailure):
            key_of(home)  # a key that was read is one that `redact` knows
    text = visible(redact("\n".join(lines))).strip()
    return f"the last lines of {log} were\n{text}" if text else None


def clear_away_the_dead(environment: Mapping[str, str]) -> None:
    """Remove what labs left behind whose supervisor was killed: their processes, their folders."""
    for folder in (lab_folder(environment) / "labs").glob("*/"):
        state = State.read(folder)
        if state is not None and not state.kept and state.supervisor.process() is None:
            remove(state, folder)


def remove(state: State, folder: Path) -> None:
    """Kill what is left of a lab and remove its folder."""
    left = [state.supervisor.process(), state.gateway.process()]
    with contextlib.suppress(psutil.NoSuchProcess):
        left += [child for parent in left if parent for child in parent.children(recursive=True)]
    processes = [process for process in left if process is not None]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=5.0)
    held = _supervisors.pop(folder, None)
    if held is not None:
        held.wait()
        if held.stdin is not None:
            held.stdin.close()
    shutil.rmtree(folder, ignore_errors=True)
