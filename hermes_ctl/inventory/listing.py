"""A plain list of addresses, one a line."""

from __future__ import annotations

from pathlib import Path

from hermes_ctl.addresses import parse_address
from hermes_ctl.contexts import Context, Contexts
from hermes_ctl.errors import ConfigurationError


def listed(text: str, path: Path) -> Contexts:
    """Every address as a context of its own, named by what is different in it: `node1:8642`.

    Raises `ConfigurationError`, with the line, for what is no address, and for one that stands
    twice.
    """
    contexts: dict[str, Context] = {}
    for number, line in enumerate(text.splitlines(), 1):
        url = line.partition("#")[0].strip()
        if not url:
            continue
        place = f"{path}:{number}"
        address = parse_address(url, place)
        name = address.url.partition("://")[2]
        if name in contexts:
            raise ConfigurationError(
                f"{place}: the address {address.url} stands twice", hint="list each node once"
            )
        contexts[name] = Context(name=name, url=address.url, profile=address.profile)
    return Contexts(path, contexts=contexts)
