"""Durations as people type and read them: `500ms`, `90s`, `5m`, `1h`, or plain seconds."""

from __future__ import annotations

import math
import re

from hermes_ctl.errors import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: str, what: str = "duration") -> float:
    """Seconds for `500ms`, `90s`, `5m`, `1h`, `1h30m` or a plain number.

    Raises `UsageError`, naming `what`, for anything else, a negative or an endless one included.
    """
    stripped = text.strip().lower()
    try:
        seconds = float(stripped)
    except ValueError:
        if not stripped or _PART.sub("", stripped):
            raise _bad(text, what) from None
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(stripped))
    if not math.isfinite(seconds) or seconds < 0:
        raise _bad(text, what)
    return seconds


def _bad(text: str, what: str) -> UsageError:
    return UsageError(
        f"{what} {text!r} is not a duration",
        hint="durations read 500ms, 90s, 5m, 1h, or a plain number of seconds",
    )


def format_duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 4 min`: what a person reads at a glance."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
