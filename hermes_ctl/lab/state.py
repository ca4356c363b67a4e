"""What is on disk of a lab: its folder, `lab.json`, and which processes are its own.

<cache>/hermesctl/lab/releases/<slug>-<hash>/    one environment for each Hermes release
<cache>/hermesctl/lab/labs/<name>/               one lab, 0700
    lab.json        what runs here (0600, no key)
    hermes/         HERMES_HOME of the gateway; its `.env` (0600) holds the key
    home/           HOME of the gateway, and where its commands run
    gateway.log     what the gateway wrote
    requests.jsonl  what the model received
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs
import psutil

from hermes_ctl.errors import ConfigurationError, UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def lab_folder(environment: Mapping[str, str]) -> Path:
    """Where the lab keeps everything: `lab` in the user's cache folder for hermesctl."""
    chosen = Path(environment.get("XDG_CACHE_HOME", ""))
    cache = (
        chosen / "hermesctl" if chosen.is_absolute() else platformdirs.user_cache_path("hermesctl")
    )
    return cache / "lab"


def folder_of(name: str, environment: Mapping[str, str]) -> Path:
    """The folder of the lab `name`; raises `UsageError` for a name that is none."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a lab",
            hint="a lab's name has lower-case letters, digits, dots, dashes and underscores",
        )
    return lab_folder(environment) / "labs" / name


@dataclass(frozen=True, slots=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> Identity:
        return cls(pid, psutil.Process(pid).create_time())

    def process(self) -> psutil.Process | None:
        """The process, or None when it has ended (a zombie has)."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < 0.01
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for. Two labs of one name and an equal plan are the same lab.

    `settings` is merged into the gateway's `config.yaml`; `port` is the one to try first.
    """

    spec: str
    executable: str
    version: str
    profiles: tuple[str, ...] = ()
    max_concurrent_runs: int = 10
    approvals: str = "manual"
    settings: Mapping[str, object] | None = None
    port: int | None = None

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Plan:
        """The plan in what `asdict` made of it and JSON gave back."""
        return cls(**{**data, "profiles": tuple(data["profiles"])})


@dataclass(frozen=True, slots=True)
class Order:
    """What a supervisor is told to start; `start_timeout` is in seconds."""

    name: str
    plan: Plan
    start_timeout: float

    @classmethod
    def parse(cls, line: bytes) -> Order:
        data = json.loads(line)
        return cls(data["name"], Plan.parse(data["plan"]), data["start_timeout"])


@dataclass(frozen=True, slots=True)
class State:
    """`lab.json`. `kept` says that the lab outlives the process that started it."""

    name: str
    plan: Plan
    kept: bool
    started_at: str
    url: str
    model_url: str
    supervisor: Identity
    gateway: Identity

    def write(self, folder: Path) -> None:
        """Write `lab.json` whole or not at all, for the owner alone."""
        document = {"schema": "hermesctl.lab/1", **asdict(self)}
        write_private(folder / "lab.json", json.dumps(document, indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> State | None:
        """The state in `folder`; None where there is none, or none that can be read."""
        try:
            data = json.loads((folder / "lab.json").read_text("utf-8"))
            del data["schema"]
            return cls(
                plan=Plan.parse(data.pop("plan")),
                supervisor=Identity(**data.pop("supervisor")),
                gateway=Identity(**data.pop("gateway")),
                **data,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(f"{path.name}.new")
    draft.touch(mode=0o600)
    draft.write_text(text, "utf-8")
    draft.replace(path)


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the lock file `path`; `waiting` is called once when somebody else holds it.

    Yields the descriptor: a child that inherits it keeps the lock even when we are killed. Raises
    `ConfigurationError` where the lab's folder cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of the labs, {path.parent}, cannot be written: {error.strerror}",
            hint="name a cache folder of yours in XDG_CACHE_HOME",
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
