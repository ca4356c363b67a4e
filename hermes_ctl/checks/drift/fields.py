"""What became of the fields of one JSON shape: vanished, of another type, maybe missing, added.

What depends on the data rather than on the release is left out: an empty list says nothing of its
items, a field that was optional need not be there, and whether a value is null is judged only where
the same question always has the same kind of answer (`steady`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hermes_ctl.checks.drift.difference import Level
from hermes_ctl.checks.shapes import ABSENT

Paths = Mapping[str, list[str]]

_NUMBERS = frozenset({"integer", "number"})


@dataclass(frozen=True, slots=True)
class FieldChange:
    """`old` and `new` are the types as text, None for nothing."""

    path: str
    level: Level
    what: str
    old: str | None
    new: str | None


def field_changes(old: Paths, new: Paths, *, steady: bool) -> Iterator[FieldChange]:
    """The changes from one shape to the other, each at its topmost path."""
    for path, types in old.items():
        if path not in new:
            if ABSENT not in types and _was_to_be_seen(path, old, new):
                yield FieldChange(path, Level.BREAKING, "vanished", _text(types), None)
            continue
        change = _type_change(path, types, new[path], steady=steady)
        if change is not None:
            yield change
    for path, types in new.items():
        if path not in old and _was_to_be_seen(path, new, old):
            yield FieldChange(path, Level.COMPATIBLE, "added", None, _text(types))


def _was_to_be_seen(path: str, here: Paths, there: Paths) -> bool:
    """Whether the other side would have shown `path` if it had it: it had the object around it,
    and that is no map with data as its keys."""
    parent = _parent(path)
    if parent is None or path.endswith(("[]", "{}")):
        return False
    if parent + "{}" in here or parent + "{}" in there:
        return False
    return "object" in there.get(parent, ())


def _parent(path: str) -> str | None:
    if path == "$":
        return None
    return path[:-2] if path.endswith(("[]", "{}")) else path.rpartition(".")[0]


def _type_change(path: str, old: list[str], new: list[str], *, steady: bool) -> FieldChange | None:
    before, after = _kinds(old), _kinds(new)
    level_and_words: tuple[Level, str] | None = None
    if before and after and before != after and not before >= after:
        level_and_words = _changed_kinds(before, after)
    elif steady and _in_the_open(path):
        if "null" in new and "null" not in old:
            level_and_words = (Level.RISKY, "may be null now" if after else "is null now")
        elif ABSENT in new and ABSENT not in old:
            level_and_words = (Level.RISKY, "may be missing now")
    if level_and_words is None:
        return None
    return FieldChange(path, *level_and_words, _text(old), _text(new))


def _changed_kinds(before: frozenset[str], after: frozenset[str]) -> tuple[Level, str] | None:
    if (before | after) <= _NUMBERS:
        whole = before == {"integer"}
        return (Level.RISKY, "is no longer always a whole number") if whole else None
    if before & after:
        return Level.RISKY, "may be of another type now"
    return Level.BREAKING, "changed type"


def _kinds(types: list[str]) -> frozenset[str]:
    return frozenset(types) - {"null", ABSENT}


def _in_the_open(path: str) -> bool:
    """Not inside a list or a map, where each row has its own data."""
    return "[]" not in path and "{}" not in path


def _text(types: list[str]) -> str:
    return " or ".join(types)
