"""Step 1: the reviewed release runs, on disk and in the process."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.text import one_line

_VERSION = re.compile(r"\bv?(\d+(?:\.\d+)+\S*)")
_OWN_LINE = re.compile(r"(?im)^\s*hermes\b.*")
_COMMAND_LIMIT = 30.0
RESTART = "hermes gateway restart"


@dataclass(frozen=True, slots=True)
class CommandVersion:
    """What `hermes --version` says: `version`, or None and the `problem`."""

    executable: str
    version: str | None = None
    problem: str | None = None


async def probe(subject: Subject) -> Finding:
    """Both the CLI on the node and the running gateway, against the specifier.

    A CLI that cannot be seen from here is no failure (field-notes 6): the gateway alone is judged,
    with a warning.
    """
    command, running = await asyncio.gather(_command_version(subject), subject.version())
    trail = Trail()
    trail.add("GET /health", f"version {running}" if running else "no version")
    if command is not None:
        trail.add(f"{Path(command.executable).name} --version", command.version or command.problem)
    expected = f"gateway and CLI {subject.release}"
    observed = f"{running or 'no version'} from GET /health"
    if command is not None:
        observed += f", {command.version or command.problem} from hermes --version"
    gateway_fits = _fits(running, subject.release)
    finding = partial(Finding, expected=expected, observed=observed, evidence=trail())
    if gateway_fits is None:
        return finding(
            Status.UNKNOWN,
            f"the gateway says no version that can be judged ({one_line(str(running), 40)})",
            fix=(
                "look at GET /health yourself: hermesctl health; is this a Hermes of its own make?",
            ),
        )
    if command is not None and command.version and not _same(command.version, running):
        return _differ(command.version, str(running), subject.release, finding)
    if not gateway_fits:
        return finding(
            Status.FAIL,
            f"the gateway runs {running}, the reviewed release is {subject.release}",
            fix=(
                "install the reviewed release on the node, then: " + RESTART,
                "or review this one (hermesctl gate OLD NEW) and check with --release",
            ),
        )
    if command is None or command.version is None:
        why = f"did not tell its version: {command.problem}" if command else "was not seen"
        return finding(
            Status.WARN,
            f"the gateway runs {running}; the CLI on the node {why}",
            fix=("run hermesctl on the node, or name its executable: --hermes-bin PATH",),
        )
    return finding(Status.PASS, f"CLI and gateway both run {running}")


def _differ(cli: str, running: str, release: str, finding: Callable[..., Finding]) -> Finding:
    """Updated and never restarted: old code runs from new files (field-notes 5)."""
    if _is_older(cli, running):
        return finding(
            Status.FAIL,
            f"the gateway runs {running}, the CLI is {cli}: not the gateway's own, or taken back",
            fix=(f"name the gateway's own executable (--hermes-bin PATH), or: {RESTART}",),
        )
    return finding(
        Status.FAIL,
        f"gateway still runs {running}, the CLI is {cli}",
        fix=(RESTART,)
        if _fits(cli, release)
        else (f"install a release that is {release} on the node, then: {RESTART}",),
    )


def _is_older(one: str, other: str) -> bool:
    try:
        return Version(one) < Version(other)
    except InvalidVersion:
        return False


def _fits(version: str | None, specifier: str) -> bool | None:
    if version is None:
        return None
    try:
        return SpecifierSet(specifier).contains(
            Version(version.removeprefix("v")), prereleases=True
        )
    except InvalidVersion:
        return None


def _same(one: str, other: str | None) -> bool:
    try:
        return other is not None and Version(one) == Version(other)
    except InvalidVersion:
        return one == other


async def _command_version(subject: Subject) -> CommandVersion | None:
    """None where this machine is not the node or has no `hermes`."""
    chosen = subject.settings.hermes_bin
    if chosen is not None:
        return await ask_version(str(chosen.absolute()))
    found = shutil.which("hermes", path=subject.settings.environment.get("PATH"))
    if found is None or not await subject.is_here():
        return None
    return await ask_version(found)


async def ask_version(executable: str) -> CommandVersion:
    """Run `EXECUTABLE --version` in a scratch home: some releases write into theirs (wire.md, 10)."""
    with tempfile.TemporaryDirectory(prefix="hermesctl-") as scratch:
        environment = {"HOME": scratch, "HERMES_HOME": scratch, "PATH": "/usr/bin:/bin"}
        try:
            process = await asyncio.create_subprocess_exec(
                executable,
                "--version",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment,
                cwd=scratch,
            )
        except OSError as error:
            return CommandVersion(executable, problem=f"not startable: {error.strerror}")
        try:
            output, _ = await asyncio.wait_for(process.communicate(), _COMMAND_LIMIT)
        except TimeoutError:
            return CommandVersion(executable, problem=f"silent for {_COMMAND_LIMIT:g} s")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    text = output.decode("utf-8", "replace").strip()
    own_line = _OWN_LINE.search(text)  # warnings may stand before it
    first = text.partition("\n")[0]
    line = own_line[0] if own_line else first * ("hermes" in first.lower())
    found = _VERSION.search(line)  # any other program has a version, too
    if process.returncode == 0 and found:
        return CommandVersion(executable, version=one_line(found[1], 60))
    last = one_line(text.rpartition("\n")[2], 120) or "nothing"
    if process.returncode == 0:
        return CommandVersion(executable, problem=f"names no version of Hermes: {last}")
    return CommandVersion(executable, problem=f"ended with {process.returncode}: {last}")


PROBE = Probe(
    name="release",
    title="Hermes release",
    proves=(
        "The release that was reviewed is installed on the node and is the one that runs: "
        "`hermes --version` and the version in GET /health agree and fit the checklist's specifier."
    ),
    causes=(
        Cause("the gateway still runs an older release than the CLI", RESTART),
        Cause(
            "the gateway runs a newer release than the CLI",
            "the CLI on this machine is another installation: name the gateway's, --hermes-bin PATH",
        ),
        Cause(
            "both run another release than the reviewed one",
            "install the reviewed one, or review this one with hermesctl gate and say --release",
        ),
        Cause(
            "the CLI was not seen",
            "run hermesctl on the node, or name its hermes: --hermes-bin PATH",
        ),
        Cause("GET /health names no version", "it is a server before 0.19, or not Hermes"),
    ),
    settle=probe,
)
