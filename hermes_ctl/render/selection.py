"""Which rows of a list are shown, and in which order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from hermes_ctl.errors import UsageError
from hermes_ctl.render.tables import Column, LocalTime, Table, Value, plain

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Selection:
    """`grep` is a regular expression that any column has to match, letters of either case; `sort`
    the name of a column, with a minus in front for the other direction."""

    grep: str | None = None
    sort: str | None = None

    def of(self, table: Table[Row], rows: Iterable[Row]) -> list[Row]:
        """The rows that match, in the order that was asked for, else as they come.

        Raises `UsageError` for an expression that is none and a column that the table has not.
        """
        matches = self.matcher(table)
        return self.ordered(table, (row for row in rows if matches(row)))

    def matcher(self, table: Table[Row]) -> Callable[[Row], bool]:
        """What says of one row whether it is wanted. Raises as `of` does."""
        pattern = self._pattern()
        self._column(table)
        if pattern is None:
            return lambda row: True  # noqa: ARG005
        return lambda row: _matches(pattern, table, row)

    def ordered(self, table: Table[Row], rows: Iterable[Row]) -> list[Row]:
        """All of `rows`, those last that have no value to order by."""
        column = self._column(table)
        collected = list(rows)
        if column is None:
            return collected
        value, reverse = column.value, (self.sort or "").startswith("-")
        known = [row for row in collected if value(row) is not None]
        known.sort(key=lambda row: _key(value(row)), reverse=reverse)
        return [*known, *(row for row in collected if value(row) is None)]

    def _pattern(self) -> re.Pattern[str] | None:
        if self.grep is None:
            return None
        try:
            return re.compile(self.grep, re.IGNORECASE)
        except re.error as error:
            raise UsageError(
                f"--grep {self.grep!r} is no regular expression: {error}",
                hint="put a backslash before each of ( ) [ ] { } . * + ? | that is meant as it is",
            ) from None

    def _column(self, table: Table[Row]) -> Column[Row] | None:
        if self.sort is None:
            return None
        name = self.sort.removeprefix("-").lower()
        column = next((column for column in table.columns if column.name == name), None)
        if column is None:
            known = ", ".join(column.name for column in table.columns)
            raise UsageError(
                f"--sort: there is no column {name!r}", hint=f"the columns are {known}"
            )
        return column


def _matches(pattern: re.Pattern[str], table: Table[Row], row: Row) -> bool:
    return any(pattern.search(plain(column.value(row))) for column in table.columns)


def _key(value: Value) -> tuple[int, float, str]:
    """Sortable against the key of any other value but None."""
    if isinstance(value, LocalTime):
        value = value.moment
    if isinstance(value, datetime):
        return 0, value.timestamp(), ""
    if isinstance(value, timedelta):
        return 1, value.total_seconds(), ""
    if isinstance(value, (int, float)):
        return 2, float(value), ""
    return 3, 0.0, str(value).casefold()
