"""The bMAS adapter beside the node, as far as it can be seen from here: its real environment.

Its own health routes say nothing of cache, traces or limits (bmas.md, 2), so its process is looked
at where it runs on this machine, and its environment file where one is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_ctl.addresses import parse_address
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Finding
from hermes_ctl.checks.processes import groups_of, listeners
from hermes_ctl.errors import ConfigurationError

DEFAULT_SPOOL = "/tmp/bmas-trace-spool"
DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
DEFAULT_CACHE_TTL = 3600
DEFAULT_EVENT_BYTES = 65536
DEFAULT_ENDPOINT_CONCURRENCY = 4
"""The adapter's and the daemon's own defaults (bmas.md, 5 to 7)."""

SMALLEST_EVENT_BYTES = 512
"""The adapter never uses less than this (bmas.md, 5)."""

_NUMBERS = (
    "ACTIVATION_CACHE_MAX_BYTES",
    "ACTIVATION_CACHE_MAX_ENTRIES",
    "ACTIVATION_CACHE_TTL_SECONDS",
    "ACTIVATION_RUNNING_TTL_SECONDS",
    "ACTIVATION_UNCERTAIN_TTL_SECONDS",
    "TRACE_EVENT_MAX_BYTES",
    "TRACE_MEMORY_MAX_EVENTS",
    "TRACE_BATCH_SIZE",
    "TRACE_SPOOL_MAX_FILES",
    "TRACE_SPOOL_MAX_BYTES",
    "LOG_RECORD_MAX_BYTES",
)
"""Read by `int()` while the adapter is imported (bmas.md, 5)."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The adapter's environment. `pid` is its process where it was found on this machine, `uid` and
    `gids` are that process's own."""

    source: str
    environment: Mapping[str, str]
    pid: int | None = None
    uid: int | None = None
    gids: tuple[int, ...] = ()

    @property
    def cache_directory(self) -> str:
        spool = self.environment.get("TRACE_SPOOL_DIR") or DEFAULT_SPOOL
        return self.environment.get("ACTIVATION_CACHE_DIR") or f"{spool.rstrip('/')}/activations"

    @property
    def cache_bytes(self) -> int:
        return self._number("ACTIVATION_CACHE_MAX_BYTES", DEFAULT_CACHE_BYTES)

    @property
    def cache_ttl(self) -> int:
        return self._number("ACTIVATION_CACHE_TTL_SECONDS", DEFAULT_CACHE_TTL)

    @property
    def trace_event_bytes(self) -> int:
        return max(SMALLEST_EVENT_BYTES, self._number("TRACE_EVENT_MAX_BYTES", DEFAULT_EVENT_BYTES))

    @property
    def states_event_bytes(self) -> bool:
        return bool(self.environment.get("TRACE_EVENT_MAX_BYTES", "").strip())

    @property
    def endpoint_concurrency(self) -> int:
        """The daemon's limit for each adapter, where this environment is also the daemon's; its
        default otherwise."""
        name = "BMAS_AGENT_ENDPOINT_MAX_CONCURRENCY"
        return max(1, self._number(name, DEFAULT_ENDPOINT_CONCURRENCY))

    @property
    def sends_traces(self) -> bool:
        names = ("DAEMON_INGEST_URL", "BMAS_NODE_KEY")
        return all(self.environment.get(name) for name in names)

    @property
    def problem(self) -> str | None:
        """Why the adapter does not start with this environment, where that can be told."""
        for name in _NUMBERS:
            value = self.environment.get(name, "").strip()
            if value and _number(value) is None:
                return f"{name} in {self.source} is not a whole number: the adapter does not start"
        return None

    def _number(self, name: str, default: int) -> int:
        number = _number(self.environment.get(name, "").strip())
        return default if number is None else number


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def does_not_start(problem: str) -> Finding:
    """The finding of a step that looks at an adapter which cannot start."""
    return Finding(
        Status.FAIL,
        problem,
        expected="settings that the adapter can read",
        observed=problem,
        fix=("correct it, and start the adapter",),
    )


def read_agent_file(path: Path) -> AgentSettings:
    """The adapter's environment file, as systemd and docker read it.

    Raises `ConfigurationError` when it cannot be read.
    """
    from dotenv import dotenv_values

    try:
        with path.open(encoding="utf-8") as stream:
            values = dotenv_values(stream=stream, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigurationError(
            f"the adapter's environment file {path} cannot be read: {reason}",
            hint="--agent-env takes the file that the adapter is started with",
        ) from None
    return AgentSettings(
        source=f"file {path.name}",
        environment={name: value for name, value in values.items() if value is not None},
    )


def agent_port(agent_url: str) -> int | None:
    """The port of the adapter at that address, None where the address is another machine's.

    Raises `ConfigurationError` for what is no address.
    """
    address = parse_address(agent_url, "--agent-url")
    if not address.is_loopback:
        return None
    return address.port or (443 if address.scheme == "https" else 80)


def find_agent_process(port: int) -> AgentSettings | None:
    """The adapter's own process, which listens on that port of this machine.

    None where nothing listens there, or its environment is not ours to read.
    """
    import psutil

    for process in listeners(port):
        try:
            return AgentSettings(
                source=f"process {process.name()}, environment",
                environment=process.environ(),
                pid=process.pid,
                uid=process.uids().effective,
                gids=groups_of(process),
            )
        except (psutil.Error, OSError):
            continue
    return None
