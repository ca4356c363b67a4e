"""What `ansible-inventory --list` prints, as contexts.

A host is a node when it has the variable `hermes_url`; its groups and their parents are the node's.
Beside it count, all optional: `hermes_profile`, `hermes_timeout`, `hermes_ca_file`,
`hermes_insecure`, `hermes_proxy`, `hermes_labels`, one of `hermes_key_file`, `hermes_key_command`
and `hermes_key_environment`, and `hermes_profiles`, which has one of these (`key_file`, ...) for
each profile. Other variables are somebody else's.

ansible-inventory prints templates unfilled. `{{ NAME }}` of a plain variable of the same host,
`inventory_hostname` among them, is filled in here; anything more is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hermes_ctl.contexts.document import Document, contexts_of
from hermes_ctl.errors import ConfigurationError
from hermes_ctl.inventory import Inventory

_PREFIX = "hermes_"
_VARIABLES = tuple(
    _PREFIX + name
    for name in (
        "url",
        "profile",
        "key_file",
        "key_command",
        "key_environment",
        "timeout",
        "ca_file",
        "insecure",
        "proxy",
        "labels",
        "profiles",
    )
)
_ADDRESS = "hermes_url"
_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LIKE_A_TYPO = 0.9
_NOT_THAT = "an Ansible inventory is what `ansible-inventory -i INVENTORY --list` prints"


def ansible_inventory(text: str, path: Path) -> Inventory:
    """The nodes among the hosts. Raises `ConfigurationError` for what Ansible would not print, a
    template that cannot be filled in, and a variable that is not what it should be."""
    document = _document(text, path)
    variables = _hosts(document, path)
    groups = _groups_of_hosts(document, path)
    content = {
        name: {**_node(name, own, path), "groups": sorted(groups.get(name, ()))}
        for name, own in variables.items()
        if own.get(_ADDRESS) is not None
    }
    contexts = contexts_of(Document(path, "", {"contexts": content}))
    return Inventory(contexts, tuple(name for name in variables if name not in content))


def _document(text: str, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"the inventory {path} is not JSON: {error}", hint=_NOT_THAT
        ) from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"the inventory {path} is no JSON object", hint=_NOT_THAT)
    return document


def _hosts(document: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """Every host with its variables, those without any included."""
    meta = document.get("_meta")
    own = meta.get("hostvars") if isinstance(meta, dict) else None
    if not isinstance(own, dict) or not all(isinstance(value, dict) for value in own.values()):
        raise ConfigurationError(
            f"the inventory {path} has no variables of hosts (_meta.hostvars)", hint=_NOT_THAT
        )
    hosts: dict[str, dict[str, Any]] = dict(own)
    for name, group in _groups(document, path).items():
        if "vars" in group:
            raise ConfigurationError(
                f"the inventory {path} keeps the variables of the group {name!r} apart",
                hint="ansible-inventory --list without --export gives each host what is its own",
            )
        for host in _names(group, "hosts", name, path):
            hosts.setdefault(host, {})
    return hosts


def _groups(document: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    groups = {name: value for name, value in document.items() if name != "_meta"}
    for name, group in groups.items():
        if not isinstance(group, dict):
            raise ConfigurationError(
                f"the inventory {path}: the group {name!r} is no JSON object", hint=_NOT_THAT
            )
    return groups


def _names(group: Mapping[str, Any], what: str, name: str, path: Path) -> list[str]:
    names = group.get(what, [])
    if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
        raise ConfigurationError(
            f"the inventory {path}: the {what} of the group {name!r} are no list of names",
            hint=_NOT_THAT,
        )
    return names


def _groups_of_hosts(document: Mapping[str, Any], path: Path) -> dict[str, set[str]]:
    """Each host's groups, with all that contain them."""
    groups = _groups(document, path)
    parents: dict[str, set[str]] = {}
    for name, group in groups.items():
        for child in _names(group, "children", name, path):
            parents.setdefault(child, set()).add(name)
    of_host: dict[str, set[str]] = {}
    for name, group in groups.items():
        above = _with_parents(name, parents)
        for host in _names(group, "hosts", name, path):
            of_host.setdefault(host, set()).update(above)
    return of_host


def _with_parents(name: str, parents: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        group = waiting.pop()
        if group not in found:
            found.add(group)
            waiting.extend(parents.get(group, ()))
    return found


def _node(name: str, variables: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The host's variables as the keys of a context."""
    context: dict[str, Any] = {}
    for variable, value in variables.items():
        if variable not in _VARIABLES:
            _refuse_typo(name, variable, path)
            continue
        filled = _filled(
            value, {**variables, "inventory_hostname": name}, f"{name}: {variable}", path
        )
        context[variable.removeprefix(_PREFIX).replace("_", "-")] = filled
    profiles = context.get("profiles")
    if isinstance(profiles, dict):
        context["profiles"] = {
            profile: _dashed(key) if isinstance(key, dict) else key
            for profile, key in profiles.items()
        }
    if isinstance(context.get("labels"), dict):
        context["labels"] = {label: str(value) for label, value in context["labels"].items()}
    return context


def _dashed(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in table.items()}


def _refuse_typo(name: str, variable: str, path: Path) -> None:
    """`hermes_keyfile` is a mistake; `hermes_version` may be anybody's."""
    meant = get_close_matches(variable, _VARIABLES, n=1, cutoff=_LIKE_A_TYPO)
    if meant:
        raise ConfigurationError(
            f"the inventory {path}: {name}: there is no variable {variable}",
            hint=f"did you mean {meant[0]}?",
        )


def _filled(value: Any, variables: Mapping[str, Any], place: str, path: Path) -> Any:
    """`value` with the plain templates in it filled in."""
    if isinstance(value, list):
        return [_filled(item, variables, place, path) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, variables, place, path) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        known = variables.get(match[1])
        return str(known) if isinstance(known, str | int) else match[0]

    filled = _TEMPLATE.sub(fill, value)
    if "{{" in filled or "{%" in filled:
        raise ConfigurationError(
            f"the inventory {path}: {place} is a template that is not filled in: {filled}",
            hint="ansible-inventory leaves templates as they are; only {{ NAME }} of a plain "
            "variable of the same host is filled in here",
        )
    return filled
