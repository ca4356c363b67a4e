"""How one command's results are to be shown: what its output options came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from hermes_ctl.render.console import Screen, cell
from hermes_ctl.render.tables import Format, Sheet, Table, Value, plain, readable, show

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class View:
    """The screen. Of a command that has no `-o`, also the whole view."""

    screen: Screen
    format: str = "text"


@dataclass(frozen=True, slots=True)
class ListView(View):
    """For a command that lists: `-o table|wide|json|jsonl|name` and `--columns`."""

    format: Format = "table"
    columns: tuple[str, ...] = ()

    def rows(self, table: Table[Row], rows: Iterable[Row]) -> None:
        """Show all of `rows`."""
        show(self.screen, table, rows, self.format, self.columns)

    def sheet(self, table: Table[Row]) -> Sheet[Row]:
        """For rows that arrive one by one: `add` each, then `close`."""
        return Sheet(self.screen, table, self.format, self.columns)


@dataclass(frozen=True, slots=True)
class DocumentView(View):
    """For a command that shows one thing: `-o text|json`."""

    def show(self, raw: object, fields: Mapping[str, Value]) -> None:
        """`raw` as the JSON document, or `fields` as lines of a name and a value."""
        if self.format == "json":
            self.screen.document(raw)
        elif self.screen.is_terminal:
            width = max((len(name) for name in fields), default=0) + 2
            for name, value in fields.items():
                self.screen.line(f"{name:{width}}{readable(value)}")
        else:
            for name, value in fields.items():
                self.screen.line(f"{name}\t{plain(value)}")


@dataclass(frozen=True, slots=True)
class ResourceView(DocumentView):
    """For a command that shows one thing that has an id or a name: `-o text|json|name`."""

    def resource(self, name: str, raw: object, fields: Mapping[str, Value]) -> None:
        """As `show` does, and for `-o name` the name alone."""
        if self.format == "name":
            self.screen.line(cell(name))
        else:
            self.show(raw, fields)


@dataclass(frozen=True, slots=True)
class StreamView(View):
    """For a command that shows what happens while it happens: `-o text|json|jsonl`."""
