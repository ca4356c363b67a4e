"""What a node says of itself: `.env` and `config.yaml` in its HERMES_HOME, as Hermes reads them.

Paths and a mapping of variables in, a value out; nothing here sends, writes or raises.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_ctl.discovery.files import HomeReader, Settings, Sourced, hermes_home, user_home
from hermes_ctl.discovery.rules import (
    OF_HERMES,
    ServerRules,
    ignored_limits,
    limit,
    model,
    multiplex,
    notes,
)
from hermes_ctl.secrets import Secret

__all__ = ["NodeFiles", "Sourced", "hermes_home", "read_node_files", "user_home"]


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """What the files of one HERMES_HOME come to.

    `home` is that folder, `profile` the profile whose it is, None for the default one; `found`
    says that it exists. `enabled` says whether Hermes would open the API server
    by them, `multiplex` whether one gateway serves all profiles; a limit of 0 is none at all.
    `ignored_limits` are limits that stand where Hermes does not look. `problems` are sentences on
    what is broken, contradictory or without effect; `unreadable` those of them that kept a whole
    file from being read.
    """

    home: Path
    profile: str | None
    found: bool
    host: Sourced[str]
    port: Sourced[int]
    key: Secret | None
    enabled: Sourced[bool]
    multiplex: Sourced[bool]
    max_concurrent_runs: Sourced[int]
    ignored_limits: tuple[Sourced[object], ...]
    model: Sourced[str] | None
    problems: tuple[str, ...]
    unreadable: tuple[str, ...]

    @property
    def url(self) -> str:
        """Where a client on this machine reaches the API server. One that listens on every
        address is asked on loopback."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host.value, self.host.value)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port.value}"

    @property
    def has_own_port(self) -> bool:
        """Whether a port is stated, so that this profile may be served by a gateway of its own."""
        return self.port.source != OF_HERMES

    @property
    def url_source(self) -> str:
        """What made `url` what it is."""
        stated = [part.source for part in (self.host, self.port) if part.source != OF_HERMES]
        return " and ".join(stated) or (OF_HERMES if self.found else "default")


def read_node_files(environment: Mapping[str, str], profile: str | None = None) -> NodeFiles:
    """Read the files of the default profile, or of `profile`.

    Where HERMES_HOME is not set it is `.hermes` in the user's home. The process environment
    counts as a source for the default profile alone: a named profile has its own.
    """
    named = profile not in (None, "default")
    home = hermes_home(environment, profile)
    reader = HomeReader(home, environment)
    variables = reader.variables({} if named else environment)
    settings = Settings(reader.documents(), variables)
    server = ServerRules(settings, variables)
    host, port, key, enabled = server.host(), server.port(), server.key(), server.enabled()
    problems = [*reader.unreadable, *reader.problems, *server.problems]
    problems += notes(settings, variables, host=host, port=port, enabled=enabled)
    if not named:
        problems += _other_profile(home)
    return NodeFiles(
        home=home,
        profile=profile if named else None,
        found=reader.found or bool(reader.unreadable) or os.path.isdir(home),  # noqa: PTH112
        host=host,
        port=port,
        key=key,
        enabled=enabled,
        multiplex=multiplex(settings, variables),
        max_concurrent_runs=limit(settings),
        ignored_limits=ignored_limits(settings),
        model=model(settings),
        problems=tuple(problems),
        unreadable=tuple(reader.unreadable),
    )


def _other_profile(home: Path) -> list[str]:
    """`hermes` obeys `active_profile` wherever HERMES_HOME is not a profile's own folder."""
    path = home / "active_profile"
    if home.parent.name == "profiles":
        return []
    try:
        name = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return []
    if name in ("", "default"):
        return []
    return [
        f"{path} names {name}: a gateway that was started by hand serves that profile. "
        f"To reach it: --profile {name}"
    ]
