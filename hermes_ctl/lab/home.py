"""The scratch home of a lab's gateway: `config.yaml`, `.env`, and the same for each profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import yaml
from dotenv import dotenv_values

from hermes_ctl.errors import LabFailure
from hermes_ctl.lab.model import DEFAULT_MODEL
from hermes_ctl.lab.state import Plan, write_private
from hermes_ctl.secrets import Secret


def write_home(home: Path, plan: Plan, port: int, model_url: str) -> None:
    """Write what the gateway reads at its start. Keys are made once and kept when called again.

    The limit goes to `gateway.api_server.max_concurrent_runs`, the only place that every release
    reads (wire.md, 0.15); a profile is a folder under `profiles/` with its own key (wire.md, 7).
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_yaml(home / "config.yaml", _merged(_settings(plan, model_url), plan.settings or {}))
    address = {"API_SERVER_HOST": "127.0.0.1", "API_SERVER_PORT": str(port)}
    _write_env(home / ".env", address)
    for profile in plan.profiles:
        folder = home / "profiles" / profile
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_yaml(folder / "config.yaml", _profile_settings(plan, model_url))
        _write_env(folder / ".env", {})


def _model(model_url: str) -> dict[str, Any]:
    """A stated context length spares the provider a dozen probing requests before the first run."""
    return {
        "default": DEFAULT_MODEL,
        "provider": "custom",
        "base_url": model_url,
        "api_key": "lab-needs-no-key",
        "context_length": 131_072,
    }


def _profile_settings(plan: Plan, model_url: str) -> dict[str, Any]:
    """No download, no installation at run time: a lab needs no network beyond loopback."""
    return {
        "model": _model(model_url),
        "approvals": {"mode": plan.approvals},
        "security": {"tirith_enabled": False, "allow_lazy_installs": False},
    }


def _settings(plan: Plan, model_url: str) -> dict[str, Any]:
    gateway: dict[str, Any] = {"api_server": {"max_concurrent_runs": plan.max_concurrent_runs}}
    if plan.profiles:
        gateway["multiplex_profiles"] = True
    return {**_profile_settings(plan, model_url), "gateway": gateway}


def _merged(base: Mapping[str, Any], change: Mapping[str, object]) -> dict[str, Any]:
    """`base` with `change` laid over it, mapping by mapping."""
    merged = dict(base)
    for name, value in change.items():
        inner = merged.get(name)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            value = _merged(inner, value)
        merged[name] = value
    return merged


def _write_yaml(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(dict(value), sort_keys=False), "utf-8")


def _write_env(path: Path, values: Mapping[str, str]) -> None:
    """`values` and an API_SERVER_KEY, the one that the file has already or a new one."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if line.startswith("API_SERVER_KEY=")]
    key = kept or [f"API_SERVER_KEY={token_hex(32)}"]
    lines = [*key, *(f"{name}={value}" for name, value in values.items())]
    write_private(path, "\n".join(lines) + "\n")


def key_of(home: Path) -> Secret:
    """The API_SERVER_KEY in a home's `.env`; raises `LabFailure` where there is none."""
    path = home / ".env"
    key = dotenv_values(path).get("API_SERVER_KEY") if path.exists() else None
    if not key:
        raise LabFailure(f"the lab has no key in {path}")
    return Secret(key, str(path))
