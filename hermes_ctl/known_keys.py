"""All keys that this process knows, and where in a text they stand."""

from __future__ import annotations

_BLOCK = 8
_FEW = 16


class KnownKeys:
    """All that `redact` masks. Looking for it costs the same however many there are: of hundreds of
    nodes, each has a key of its own.

    Wherever a key of 15 characters or more stands, it covers a whole block of 8 characters that
    begins at a multiple of 8, so that only those blocks of a text have to be looked up.
    """

    def __init__(self) -> None:
        self.values: set[str] = set()
        self._short: set[str] = set()
        self._with_block: dict[str, tuple[str, ...]] = {}

    def add(self, values: set[str]) -> None:
        for value in values - self.values:
            self.values.add(value)
            if len(value) < 2 * _BLOCK - 1:
                self._short.add(value)
                continue
            for block in {value[at : at + _BLOCK] for at in range(len(value) - _BLOCK + 1)}:
                self._with_block[block] = (*self._with_block.get(block, ()), value)

    def found_in(self, text: str) -> list[str]:
        if len(self.values) <= _FEW:
            return [value for value in self.values if value in text]
        found = {value for value in self._short if value in text}
        for at in range(0, len(text), _BLOCK):
            candidates = self._with_block.get(text[at : at + _BLOCK], ())
            found.update(value for value in candidates if value in text)
        return list(found)
