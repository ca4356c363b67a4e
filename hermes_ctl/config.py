"""Which node, which key: the value that every command that talks to a node starts from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermes_ctl.secrets import Secret

DEFAULT_URL = "http://127.0.0.1:8642"
DEFAULT_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Node:
    """One Hermes API server, one profile of it, and how to reach it.

    `url` has no trailing slash, no user information, and holds the `/p/<profile>` prefix already.
    `timeout` bounds one request, in seconds. `home` is the node's HERMES_HOME where this machine
    is the node. `sources` says for each field where its value came from.
    """

    name: str
    url: str = DEFAULT_URL
    key: Secret | None = None
    profile: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    ca_file: Path | None = None
    insecure: bool = False
    use_proxy: bool = False
    home: Path | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The node options as they were typed; what was not typed is None or False.

    `key_file` is a path, or `-` for standard input; `timeout` is in seconds.
    """

    url: str | None = None
    key_file: str | None = None
    profile: str | None = None
    context: str | None = None
    timeout: float | None = None
    ca_file: Path | None = None
    insecure: bool = False
    proxy: bool = False


def environment() -> Mapping[str, str]:
    """The process environment. The only reader of it: everything else is handed this mapping."""
    return os.environ
