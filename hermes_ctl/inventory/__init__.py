"""Inventories: the nodes that a check of many means, and how they are chosen.

An inventory is one of

- hermesctl's own TOML, of the same form as the configuration file (`contexts`);
- what `ansible-inventory --list` prints (`ansible`);
- a plain list of addresses, one a line, `#` before a remark (`listing`).

All three become contexts, so that an address, a key's place, labels and groups mean the same
whichever they came from. Paths in an inventory are relative to its folder.
"""

from __future__ import annotations

import stat
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_ctl.contexts import Context, Contexts
from hermes_ctl.errors import ConfigurationError, UsageError
from hermes_ctl.text import one_line

STANDARD_INPUT = "-"

_LARGEST = 32 * 1024 * 1024
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Inventory:
    """The nodes of an inventory. `left_out` are the names of hosts that state no address."""

    contexts: Contexts
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One node to check: a context, or (`profile`) one of its profiles that has a key of its own."""

    context: str
    profile: str | None = None

    @property
    def name(self) -> str:
        return self.context if self.profile is None else f"{self.context}/{self.profile}"


def load_inventory(source: str) -> Inventory:
    """The inventory in a file, or on standard input for `-`.

    Raises `ConfigurationError` for a file that cannot be read, that others can write (it may name
    commands), that is none of the three, or that says what nobody understands.
    """
    if source == STANDARD_INPUT:
        return parse_inventory(_standard_input(), Path("standard input"))
    return parse_inventory(_read(Path(source)), Path(source))


def parse_inventory(content: bytes, path: Path) -> Inventory:
    """The same, of what was read; `path` is said in errors, and paths are relative to its folder."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"the inventory {path} is not UTF-8 text", hint="save it as UTF-8"
        ) from None
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.startswith("{"):
        from hermes_ctl.inventory.ansible import ansible_inventory

        return ansible_inventory(text, path)
    if first.startswith("[") or "=" in first.partition("://")[0]:
        return Inventory(_own(text, path))
    from hermes_ctl.inventory.listing import listed

    return Inventory(listed(text, path))


def _own(text: str, path: Path) -> Contexts:
    from hermes_ctl.contexts.document import Document, contexts_of

    try:
        return contexts_of(Document(path, text, tomllib.loads(text)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(
            f"the inventory {path} is not TOML: {error}",
            hint="an inventory is TOML as the configuration file is, the JSON of "
            "ansible-inventory --list, or a list of addresses",
        ) from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
                raise ConfigurationError(
                    f"others can write the inventory {path}, and it may name commands to run",
                    hint=f"chmod o-w {path}",
                )
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            f"the inventory {path} cannot be read: {reason}",
            hint="--inventory FILE, or - for stdin",
        ) from None
    return _bounded(content, str(path))


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise ConfigurationError(
            "there is no standard input to read the inventory from", hint="--inventory FILE"
        )
    return _bounded(sys.stdin.buffer.read(_LARGEST + 1), "on standard input")


def _bounded(content: bytes, place: str) -> bytes:
    if len(content) > _LARGEST:
        raise ConfigurationError(
            f"the inventory {place} is larger than {_LARGEST // 1024 // 1024} MiB",
            hint="is this the right file?",
        )
    return content


# Choosing


def entries_of(contexts: Iterable[Context]) -> list[Entry]:
    """Every (node, profile): each context, and behind it each of its profiles that has its own key."""
    return [
        Entry(context.name, profile)
        for context in contexts
        for profile in (None, *(name for name in context.profiles if name != context.profile))
    ]


def named(contexts: Contexts, names: Sequence[str]) -> list[Entry]:
    """The entries of these names, `NODE` or `NODE/PROFILE`, in their order. Raises
    `ConfigurationError` for names that the contexts do not have: all of them at once."""
    known = {entry.name: entry for entry in entries_of(contexts.contexts.values())}
    unknown = [name for name in names if name not in known]
    if unknown:
        from difflib import get_close_matches

        meant = get_close_matches(unknown[0], known, n=1)
        raise ConfigurationError(
            f"{listing_of(unknown)} {'is' if len(unknown) == 1 else 'are'} not in {contexts.path}",
            hint=f"did you mean {meant[0]!r}?" if meant else f"it has {listing_of(list(known))}",
        )
    return [known[name] for name in names]


def chosen(
    contexts: Contexts, groups: Sequence[str] = (), labels: Mapping[str, str] | None = None
) -> list[Entry]:
    """Every entry in one of `groups` (all without one) that has every one of `labels`.

    Raises `ConfigurationError` for a group that there is not, and where nothing is left.
    """
    known = sorted({group for one in contexts.contexts.values() for group in one.groups})
    for group in groups:
        if group not in known:
            raise ConfigurationError(
                f"no node in {contexts.path} is in the group {group!r}",
                hint=f"its groups: {listing_of(known)}"
                if known
                else "hermesctl config set-context NAME --group GROUP puts one into it",
            )
    wanted = (labels or {}).items()
    fitting = [one for one in contexts.chosen(groups) if wanted <= dict(one.labels).items()]
    if not fitting:
        among = f" in {listing_of(groups)}" if groups else ""
        having = f" with {listing_of([f'{name}={value}' for name, value in wanted])}"
        raise ConfigurationError(
            f"no node{among}{having if wanted else ''} in {contexts.path}",
            hint="hermesctl config get-contexts"
            if contexts.contexts
            else "hermesctl config set-context NAME --url URL, or --inventory FILE",
        )
    return entries_of(fitting)


def refuse_twice(names: Iterable[str]) -> None:
    """Raises `UsageError` where a name stands twice."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise UsageError(
            f"{listing_of(twice)} {'is' if len(twice) == 1 else 'are'} named twice",
            hint="name each node once",
        )


def listing_of(names: Sequence[str]) -> str:
    """`a, b and 7 more`, safe to show."""
    shown = ", ".join(one_line(name, 60) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
