"""The bMAS adapter beside the node, as far as it can be seen from here: its real environment.

Its own health routes say nothing of cache, traces or limits (bmas.md, 2), so its process is looked
at where it runs on this machine, and its environment file where one is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hermes_ctl.errors import ConfigurationError, UsageError

DEFAULT_SPOOL = "/tmp/bmas-trace-spool"
DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
DEFAULT_CACHE_TTL = 3600
DEFAULT_ENDPOINT_CONCURRENCY = 4
"""The adapter's and the daemon's own defaults (bmas.md, 5 to 7)."""


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
        return self._number("ACTIVATION_CACHE_MAX_BYTES") or DEFAULT_CACHE_BYTES

    @property
    def cache_ttl(self) -> int:
        return self._number("ACTIVATION_CACHE_TTL_SECONDS") or DEFAULT_CACHE_TTL

    @property
    def trace_event_bytes(self) -> int | None:
        return self._number("TRACE_EVENT_MAX_BYTES")

    @property
    def endpoint_concurrency(self) -> int | None:
        return self._number("BMAS_AGENT_ENDPOINT_MAX_CONCURRENCY")

    @property
    def sends_traces(self) -> bool:
        names = ("DAEMON_INGEST_URL", "BMAS_NODE_KEY")
        return all(self.environment.get(name) for name in names)

    def _number(self, name: str) -> int | None:
        """An integer setting, None where it is not set. Raises `ConfigurationError` for anything
        else: the adapter would not start with it."""
        value = self.environment.get(name, "").strip()
        if not value:
            return None
        try:
            return int(value)
        except ValueError:
            raise ConfigurationError(
                f"{name} in {self.source} is not a whole number: the adapter does not start with it"
            ) from None


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


def find_agent_process(agent_url: str) -> AgentSettings | None:
    """The adapter's process, found by the port that `agent_url` names.

    None where that address is another machine's, nothing listens there, or its environment is not
    ours to read. Raises `UsageError` for an address without a host or port.
    """
    parts = urlsplit(agent_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"--agent-url {agent_url!r} is not an address", hint="for example http://127.0.0.1:8090"
        )
    if parts.hostname != "localhost" and not parts.hostname.startswith("127."):
        return None
    return _listener(parts.port or (443 if parts.scheme == "https" else 80))


def _listener(port: int) -> AgentSettings | None:
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return None
    pids = {
        item.pid
        for item in connections
        if item.status == psutil.CONN_LISTEN and item.laddr and item.laddr.port == port and item.pid
    }
    for pid in sorted(pids):
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                return AgentSettings(
                    source=f"process {process.name()}, environment",
                    environment=process.environ(),
                    pid=pid,
                    uid=process.uids().effective,
                    gids=(process.gids().effective,),
                )
        except (psutil.Error, OSError):
            continue
    return None
