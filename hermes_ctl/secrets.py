"""Keys: where they come from, whether Hermes would take them, and the one redactor.

A `Secret` never shows its value by accident: not in `repr`, not in `str`, not in a format string,
not in a pickle. Making one teaches `redact` its value, so that no text that went through
`redact` can hold it.
"""

from __future__ import annotations

import re
from typing import NoReturn

MASK = "***"

_known: set[str] = set()
_PATTERNS = re.compile(
    r"(?i)(?P<scheme>\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}"
    r"|(?P<userinfo>://)[^/@\s]+@"
    r"|\bsk-[A-Za-z0-9_-]{8,}"
)


class Secret:
    """A key. `reveal()` is the only way to its value; `source` says where it came from."""

    __slots__ = ("_value", "source")

    def __init__(self, value: str, source: str) -> None:
        self._value = value
        self.source = source
        if len(value) >= 4:
            _known.add(value)

    def reveal(self) -> str:
        """The key itself, to be handed to the transport and to nothing else."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK}, source={self.source!r})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not to be pickled")


def redact(text: str) -> str:
    """`text` without any known key, bearer, URL password or `sk-` token."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, MASK)
    return _PATTERNS.sub(
        lambda match: (
            match["scheme"] + MASK
            if match["scheme"]
            else f"://{MASK}@"
            if match["userinfo"]
            else MASK
        ),
        text,
    )
