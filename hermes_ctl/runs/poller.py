"""Asks for a run's status, again and again: quickly at first, then at ease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Run
from hermes_ctl.errors import HermesctlError, NoAnswer

_QUICKEST: Final = 0.1
_GROWTH: Final = 1.5
_WITH_STREAM: Final = 2.0
_WITHOUT_STREAM: Final = 1.0
_WITHOUT_NODE: Final = 3.0
_LONGEST_ANSWER: Final = 120.0


@dataclass(frozen=True, slots=True)
class Polled:
    run: Run


@dataclass(frozen=True, slots=True)
class PollFailed:
    error: HermesctlError


PollItem = Polled | PollFailed


class Poller:
    """Puts the status of a run until it is terminal; `streaming` says that events come beside it.

    A poll that failed is put as such and tried again. An answer that does not come in time gets
    more time, for a run with a large output takes long to tell.
    """

    def __init__(
        self, client: Client, run_id: str, put: Callable[[PollItem], Awaitable[None]]
    ) -> None:
        self.streaming = False
        self._client = client
        self._run_id = run_id
        self._put = put
        self._interval = _QUICKEST
        self._timeout = client.node.timeout
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """Ask now, and often again: something is about to change."""
        self._interval = _QUICKEST
        self._hurry.set()

    async def poll(self) -> None:
        while True:
            try:
                run = await self._client.run(self._run_id, timeout=self._timeout)
            except HermesctlError as error:
                await self._failed(error)
                continue
            await self._put(Polled(run))
            if run.is_terminal:
                return
            await self._pause(_WITH_STREAM if self.streaming else _WITHOUT_STREAM)

    async def _failed(self, error: HermesctlError) -> None:
        if isinstance(error, NoAnswer):
            self._timeout = min(2 * self._timeout, max(_LONGEST_ANSWER, self._timeout))
        await self._put(PollFailed(error))
        await self._pause(_WITHOUT_NODE)

    async def _pause(self, longest: float) -> None:
        interval = min(self._interval, longest)
        self._interval = interval * _GROWTH
        try:
            async with asyncio.timeout(interval):
                await self._hurry.wait()
        except TimeoutError:
            return
        self._hurry.clear()
