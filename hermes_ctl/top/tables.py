"""The lists on the screen of `top`: rows that are told again and again, under a cursor that stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text
from textual.widgets import DataTable

Row = tuple[str, tuple[Text, ...]]
"""A key that stays the same for as long as the row means the same thing, and its cells."""

_PADDING = 2
_SCROLLBAR = 1


@dataclass(frozen=True, slots=True)
class Column:
    """`width` is the least that it takes; what is left over is dealt out by `share`."""

    title: str
    width: int
    share: int = 0


Layout = tuple[Column, ...]

NODES: Layout = (
    Column("NODE", 16, 1),
    Column("VERDICT", 20, 3),
    Column("HERMES", 12),
    Column("RUNS", 4),
    Column("LATENCY", 17, 1),
)
APPROVALS: Layout = (
    Column("RUN", 14),
    Column("NODE", 14, 1),
    Column("WAITS", 5),
    Column("COMMAND", 20, 4),
)
RUNS: Layout = (
    Column("RUN", 12),
    Column("NODE", 14, 1),
    Column("STATE", 13, 1),
    Column("TIME", 4),
    Column("PROMPT", 20, 4),
)


def widths(layout: Layout, total: int) -> list[int]:
    """The width of each column where the screen has `total` in all."""
    left = total - _SCROLLBAR - sum(column.width + _PADDING for column in layout)
    shares = sum(column.share for column in layout)
    return [column.width + max(0, left) * column.share // shares for column in layout]


class Listing(DataTable[Text]):
    """Rows under a cursor that stays on its row, whatever comes before it or goes."""

    def __init__(self, layout: Layout, *, id: str) -> None:
        super().__init__(id=id, cursor_type="row")
        self._plan = layout
        self._planned = widths(layout, 0)
        self._told: list[Row] = []

    def on_mount(self) -> None:
        for column in self._plan:
            self.add_column(column.title, width=column.width, key=column.title)

    @property
    def chosen(self) -> str | None:
        """The key of the row under the cursor."""
        return self._told[self.cursor_row][0] if self._told else None

    def fit(self, total: int) -> None:
        """Take the width of the screen."""
        self._planned = widths(self._plan, total)
        for column, width in zip(self.ordered_columns, self._planned, strict=True):
            column.width = width
        self.refresh(layout=True)

    def width_of(self, title: str) -> int:
        return next(w for c, w in zip(self._plan, self._planned, strict=True) if c.title == title)

    def tell(self, rows: Sequence[Row]) -> None:
        """Show `rows`, changing no more than what changed."""
        if [key for key, _ in rows] != [key for key, _ in self._told]:
            self._tell_all(rows)
        else:
            self._tell_changes(rows)

    def _tell_all(self, rows: Sequence[Row]) -> None:
        chosen, at = self.chosen, self.cursor_row
        self.clear()
        self._told = list(rows)
        for key, cells in rows:
            self.add_row(*cells, key=key)
        keys = [key for key, _ in rows]
        if keys:
            at = keys.index(chosen) if chosen in keys else min(at, len(keys) - 1)
            self.move_cursor(row=at, animate=False)

    def _tell_changes(self, rows: Sequence[Row]) -> None:
        for (key, cells), (_, before) in zip(rows, self._told, strict=True):
            for column, now, old in zip(self._plan, cells, before, strict=True):
                if (now.plain, now.style) != (old.plain, old.style):
                    self.update_cell(key, column.title, now)
        self._told = list(rows)


def uncolored(text: Text) -> Text:
    """`text` as it is without colour: bold and dim stay."""
    plain = text.copy()
    plain.style = _without_color(text.style)
    plain.spans = [span._replace(style=_without_color(span.style)) for span in text.spans]
    return plain


def _without_color(style: str | Style) -> Style:
    return (Style.parse(style) if isinstance(style, str) else style).without_color
