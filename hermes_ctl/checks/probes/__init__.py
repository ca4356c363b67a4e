"""The probes, registered by name. One file each, loaded when a check needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_ctl.checks.probe import Probe

_MODULE_OF = {
    name: f"hermes_ctl.checks.probes.{name.replace('-', '_')}"
    for name in (
        "release",
        "routes",
        "readiness",
        "auth",
        "run-id",
        "events",
        "polling",
        "stop",
        "model",
        "traces",
        "cache",
        "capacity",
        "wire",
        "approval",
        "steer",
        "continuity",
        "sessions",
        "jobs",
        "reopen",
        "readers",
        "idempotency",
        "chat",
        "responses",
        "memory-scope",
        "profiles",
        "limit",
        "relay-routes",
        "relay-events",
        "keys",
        "exposure",
        "cors",
        "headers",
        "encryption",
        "key-strength",
        "leaks",
        "pinned",
    )
}


def probe_names() -> tuple[str, ...]:
    """The names of all probes: the twelve in the order of the contract's checklist, then the deep
    ones."""
    return tuple(_MODULE_OF)


def load_probe(name: str) -> Probe:
    """The probe of that name. Raises KeyError for a name that `probe_names` does not give."""
    probe: Probe = import_module(_MODULE_OF[name]).PROBE
    return probe
