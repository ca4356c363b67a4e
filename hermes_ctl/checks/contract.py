"""The node's wire contract as the check saw it: shapes, never values.

For each route answered: its status, media type and the JSON paths with their types. For each event
name: the same. `diff` compares two of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.events import Event
from hermes_ctl.checks.model import Contract, Shape

_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_TYPE_NAME = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_DEPTH = 12


class ContractRecorder:
    """Learns from every answer and event it is shown; `contract` is what it has seen so far."""

    def __init__(self) -> None:
        self.contract = Contract()

    def answer(self, answer: Answer) -> None:
        """Merge one answer: optional fields and unions show as several types of one path."""
        key = f"{answer.method} {answer.route} {answer.status}"
        shape = self.contract.shapes.setdefault(
            key, Shape(status=answer.status, content_type=answer.content_type)
        )
        if answer.content_type != "application/json" or not answer.body:
            return
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            _merge(shape.paths, "$", "broken")
            return
        for path, kind in paths_of(document):
            _merge(shape.paths, path, kind)

    def event(self, event: Event) -> None:
        seen = self.contract.events.setdefault(event.name, {})
        for path, kind in paths_of(event.data):
            _merge(seen, path, kind)


def _merge(seen: dict[str, list[str]], path: str, kind: str) -> None:
    kinds = seen.setdefault(path, [])
    if kind not in kinds:
        kinds.append(kind)
        kinds.sort()


def paths_of(value: Any, path: str = "$", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(path, type) of everything in a JSON value: `$.data[].id` is `string`.

    A key that is data rather than a field name, such as a session id or a URL, shows as `{}`, so
    that a map is not mistaken for an object with ever new fields.
    """
    yield path, _TYPE_NAME.get(type(value), "unknown")
    if depth >= _DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            name = f".{key}" if _FIELD_NAME.match(key) else "{}"
            yield from paths_of(inner, path + name, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from paths_of(inner, path + "[]", depth + 1)
