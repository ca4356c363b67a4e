"""A part of the check that others let go first, so that the node is not asked everything at once.

A gateway works in one thread. Its first run after a start keeps it from answering anything for
seconds (wire.md, 1), on a small machine for many; what was asked before is answered before, and
what is asked only then does not wait for all of that. It costs no time: the node's own work is
what a check waits for.
"""

from __future__ import annotations

import asyncio
import contextlib


class Stage:
    """Waited for as far as it has begun, and never longer than `limit` seconds."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._begun = False
        self._over = asyncio.Event()

    def begin(self) -> None:
        self._begun = True

    def end(self) -> None:
        self._over.set()

    async def wait(self) -> None:
        """Returns at once where nobody has begun it."""
        if self._begun:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self.limit)
