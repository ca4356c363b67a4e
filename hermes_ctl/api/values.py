"""Field types for what is only shown: a value of an unexpected type is no reason to refuse an answer.

Fields that something is decided by are typed strictly in `models`. With `-o json` an operator sees
the server's own value in any case.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

_MILLISECONDS: Final = 1e11
"""Numbers from here on are milliseconds since 1970: as seconds they would be the year 5138."""


def text(value: object) -> str | None:
    """A string as it is; anything else but None as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def moment(value: object) -> datetime | None:
    """A time in UTC from seconds or milliseconds since 1970 or from ISO 8601 (a time without an
    offset is UTC); None for anything else."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        return _from_iso(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    seconds = value / 1000 if abs(value) >= _MILLISECONDS else value
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _from_iso(value: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        return None
    try:
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except OverflowError:
        return None


def _count(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _names(value: object) -> list[str]:
    """Names given as strings, or as objects with a `name`."""
    if not isinstance(value, list):
        return []
    named = [item.get("name") if isinstance(item, dict) else item for item in value]
    return [name for item in named if (name := text(item)) is not None]


def _before(function: Callable[[Any], Any]) -> BeforeValidator:
    return BeforeValidator(function)


Text = Annotated[str | None, _before(text)]
Moment = Annotated[datetime | None, _before(moment)]
Count = Annotated[int | None, _before(_count)]
Amount = Annotated[float | None, _before(_amount)]
Flag = Annotated[bool | None, _before(_flag)]
Names = Annotated[list[str], _before(_names)]
