"""Rows: an aligned table on a terminal, tab-separated in a pipe, JSON, JSON lines, or names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from hermes_ctl.clock import now
from hermes_ctl.durations import format_duration
from hermes_ctl.errors import UsageError
from hermes_ctl.render.console import Screen, cell

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A moment that people plan by: the clock on the wall here, RFC 3339 in a pipe."""

    moment: datetime

    def __str__(self) -> str:
        try:
            return f"{self.moment.astimezone():%Y-%m-%d %H:%M}"
        except (OverflowError, ValueError):
            return self.moment.isoformat()


Value = str | int | float | bool | datetime | timedelta | LocalTime | None
Format = Literal["table", "wide", "json", "jsonl", "name"]

_NARROWEST = 12
_GAP = 2


# No slots in the generic ones: Python 3.11 cannot make a `Table[Run](...)` of them then.
@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column. `value` reads it from a row; times and durations are given as such.

    `wide` columns are shown with `-o wide` or when `--columns` names them. `free` is for prose,
    which is cut where a terminal is too narrow; everything else stays whole. `styles` maps the
    shown value to a rich style, for terminals.
    """

    title: str
    value: Callable[[Row], Value]
    wide: bool = False
    right: bool = False
    free: bool = False
    styles: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The title as `--columns` has it."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class Table(Generic[Row]):
    """How one kind of row is shown: `name` gives its id, `raw` its JSON object; `empty` is said
    on a terminal where there is no row."""

    columns: tuple[Column[Row], ...]
    name: Callable[[Row], str]
    raw: Callable[[Row], object]
    empty: str = "nothing to show"

    def chosen(self, format: Format, names: tuple[str, ...]) -> tuple[Column[Row], ...]:
        """The columns to show. Raises `UsageError` for a name that no column has."""
        if not names:
            return tuple(c for c in self.columns if format == "wide" or not c.wide)
        if format not in ("table", "wide"):
            raise UsageError(
                f"--columns does not go with -o {format}", hint="leave one of them out"
            )
        by_name = {column.name: column for column in self.columns}
        for name in names:
            if name.lower() not in by_name:
                known = ", ".join(by_name)
                raise UsageError(f"there is no column {name!r}", hint=f"the columns are {known}")
        return tuple(by_name[name.lower()] for name in names)


class Sheet(Generic[Row]):
    """Takes rows one by one. In a pipe, and as JSON lines or names, each is written at once."""

    def __init__(
        self, screen: Screen, table: Table[Row], format: Format, columns: tuple[str, ...] = ()
    ) -> None:
        self._screen = screen
        self._table = table
        self._format = format
        self._columns = table.chosen(format, columns)
        self._kept: list[Row] = []
        self._write = self._writer()

    def add(self, row: Row) -> None:
        self._write(row)

    def close(self) -> None:
        """Write what had to wait for the last row."""
        if self._format == "json":
            self._screen.document([self._table.raw(row) for row in self._kept])
        elif self._write == self._kept.append and self._kept:
            self._print()
        elif self._write == self._kept.append:
            self._screen.note(self._table.empty)

    def _print(self) -> None:
        console = self._screen.out
        console.print(_rich_table(self._columns, self._kept, console.width), crop=False)

    def _writer(self) -> Callable[[Row], None]:
        screen, table = self._screen, self._table
        if self._format == "jsonl":
            return lambda row: screen.json_line(table.raw(row))
        if self._format == "name":
            return lambda row: screen.line(cell(table.name(row)))
        if self._format == "json" or screen.is_terminal:
            return self._kept.append
        return lambda row: screen.line("\t".join(plain(c.value(row)) for c in self._columns))


def show(
    screen: Screen,
    table: Table[Row],
    rows: Iterable[Row],
    format: Format = "table",
    columns: tuple[str, ...] = (),
) -> None:
    """All of `rows`, as `format` has it."""
    sheet = Sheet(screen, table, format, columns)
    for row in rows:
        sheet.add(row)
    sheet.close()


def plain(value: Value) -> str:
    """A value for a pipe: whole, times in RFC 3339, durations in seconds, nothing for None.

    Tabs, newlines and backslashes are escaped, so that a row is always one line of its cells.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, LocalTime):
        value = value.moment
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}"
    text = str(value).replace("\\", "\\\\").replace("\t", "\\t")
    return text.replace("\r", "\\r").replace("\n", "\\n")


def readable(value: Value) -> str:
    """A value for a terminal: one line, times as how long ago, a dash for None."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return ago(value)
    if isinstance(value, timedelta):
        return format_duration(value.total_seconds())
    return cell(str(value))


_UNITS = ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h"))


def ago(moment: datetime) -> str:
    """`just now`, `3 min ago`, `2 h ago`, `5 d ago`, `in 4 min`."""
    seconds = round((now() - moment).total_seconds())
    size = abs(seconds)
    if size < 10:
        return "just now"
    unit, word = next(((unit, word) for limit, unit, word in _UNITS if size < limit), (86400, "d"))
    amount = f"{size // unit} {word}"
    return f"{amount} ago" if seconds > 0 else f"in {amount}"


def _rich_table(columns: tuple[Column[Row], ...], rows: list[Row], width: int) -> RichTable:
    from rich.cells import cell_len
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = [[readable(column.value(row)) for column in columns] for row in rows]
    needed = [
        max(cell_len(text) for text in (column.title, *(line[place] for line in shown)))
        for place, column in enumerate(columns)
    ]
    widths = _fitted(needed, [column.free for column in columns], width)
    whole = sum(widths) + _GAP * (len(widths) - 1)
    table = RichTable(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="bold",
        width=whole if whole > width else None,
    )
    for column, most in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.title.upper()),
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=most,
        )
    for line in shown:
        cells = zip(columns, line, strict=True)
        table.add_row(*(Text(text, style=column.styles.get(text, "")) for column, text in cells))
    return table


def _fitted(needed: list[int], free: list[bool], width: int) -> list[int]:
    """The widths of columns that need `needed` cells: the widest free ones give way until the row
    fits, or each of them is as narrow as may be."""
    widths = [min(cells, width) if may else cells for cells, may in zip(needed, free, strict=True)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while excess > 0:
        giving = [place for place, may in enumerate(free) if may and widths[place] > _NARROWEST]
        if not giving:
            break
        widest = max(giving, key=lambda place: widths[place])
        widths[widest] -= 1
        excess -= 1
    return widths
