"""The shape of JSON: which paths there are and of which types, merged over all that was seen.

Never a value. A path reads `$.data[].id`; what stands under ever new keys (a model's name, a URL)
reads `$.models{}.fast`, so that a map is not mistaken for an object with ever new fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ABSENT = "absent"
"""Stands among the types of a field that some of the objects seen did not have."""

_TYPE_NAME = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_DEPTH = 12
_MOST_FIELDS = 200
"""An object with more names than this is a map, whatever its keys look like."""


@dataclass(slots=True)
class Shape:
    """What was seen at one path. `seen` counts the values, `objects` those that were objects."""

    types: set[str] = field(default_factory=set)
    seen: int = 0
    objects: int = 0
    fields: dict[str, Shape] = field(default_factory=dict)
    items: Shape | None = None

    def learn(self, value: Any, depth: int = 0) -> None:
        """Merge one value."""
        self.seen += 1
        self.types.add(_TYPE_NAME.get(type(value), "unknown"))
        if depth >= _DEPTH:
            return
        if isinstance(value, dict):
            self.objects += 1
            for key, inner in value.items():
                self.fields.setdefault(str(key), Shape()).learn(inner, depth + 1)
        elif isinstance(value, list):
            for inner in value:
                self.items = self.items or Shape()
                self.items.learn(inner, depth + 1)

    def merge(self, other: Shape) -> None:
        self.types |= other.types
        self.seen += other.seen
        self.objects += other.objects
        for name, inner in other.fields.items():
            self.fields.setdefault(name, Shape()).merge(inner)
        if other.items is not None:
            self.items = self.items or Shape()
            self.items.merge(other.items)

    @property
    def is_map(self) -> bool:
        """Whether the keys are data rather than field names.

        They are when one of them is no field name, when there are very many, or when no key is in
        all of the objects seen and what stands under them is all alike.
        """
        if not self.fields:
            return False
        if any(not _FIELD_NAME.match(name) for name in self.fields):
            return True
        if len(self.fields) > _MOST_FIELDS:
            return True
        if self.objects < 2 or any(inner.seen == self.objects for inner in self.fields.values()):
            return False
        kinds = {
            (frozenset(inner.types), frozenset(inner.fields)) for inner in self.fields.values()
        }
        return len(kinds) == 1 and any(inner.fields for inner in self.fields.values())

    def paths(self, path: str = "$", *, optional: bool = False) -> Iterator[tuple[str, list[str]]]:
        """(path, its types, sorted) of everything in here; `absent` marks an optional field."""
        yield path, sorted(self.types | ({ABSENT} if optional else set()))
        if self.is_map:
            inside = Shape()
            for inner in self.fields.values():
                inside.merge(inner)
            yield from inside.paths(path + "{}")
        else:
            for name, inner in self.fields.items():
                missing = inner.seen < self.objects
                yield from inner.paths(f"{path}.{name}", optional=missing)
        if self.items is not None:
            yield from self.items.paths(path + "[]")
