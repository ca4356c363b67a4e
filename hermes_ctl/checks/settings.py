"""What the operator chose for a check, and what is known of the node beside its API."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_ctl.checks.agent import agent_port, read_agent_file
from hermes_ctl.config import Node
from hermes_ctl.errors import UsageError

CONNECTIONS = 60
"""At most so many to one node: every advertised route is asked at once, beside the streams."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What the operator chose, and what is known of the node beside its API.

    `provider_requests` gives what the model provider received (model names, prompts): only a lab
    knows that. `wait` is in seconds, `deadline` too, for the whole check. `connections` to the node
    are open at most at one time. `environment` is the process environment.
    """

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    strict: bool = False
    runs: bool = True
    allow_busy: bool = False
    wait: float = 0.0
    deadline: float | None = None
    connections: int = CONNECTIONS
    release: str | None = None
    hermes_bin: Path | None = None
    hermes_home: Path | None = None
    agent_url: str | None = None
    agent_env: Path | None = None
    node_capacity: int | None = None
    probe_capacity: bool = False
    other_model: str | None = None
    profiles: tuple[Node, ...] = ()
    provider_requests: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def require_usable(self) -> None:
        """Raises `UsageError` where something that was named is not there. Asks nobody."""
        if self.deadline is not None and self.deadline <= 0:
            raise UsageError("--deadline leaves no time for a check", hint="--deadline 60s")
        if self.hermes_bin is not None and not _is_executable(self.hermes_bin):
            raise UsageError(
                f"--hermes-bin {self.hermes_bin} is no executable file",
                hint="it takes the path of the node's hermes: which hermes",
            )
        if self.hermes_home is not None and not self.hermes_home.is_dir():
            raise UsageError(
                f"--hermes-home {self.hermes_home} is no folder",
                hint="it takes the node's HERMES_HOME, ~/.hermes by default",
            )
        if self.agent_url is not None:
            agent_port(self.agent_url)
        if self.agent_env is not None:
            read_agent_file(self.agent_env)


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
