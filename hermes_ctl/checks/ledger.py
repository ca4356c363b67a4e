"""The runs and sessions that a check made, so that none of them outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import TERMINAL_STATES, Run, Usage
from hermes_ctl.checks.model import Cost
from hermes_ctl.errors import HermesctlError, NotFound

CLEAN_UP_LIMIT = 10.0
"""Seconds that the clean-up as a whole may take."""


class RunLedger:
    """Every run that was started here, until it is known to have ended."""

    def __init__(self) -> None:
        self.cost = Cost()
        self._active: set[str] = set()
        self._sessions: set[str] = set()
        self._ended = asyncio.Event()

    @property
    def active(self) -> int:
        """Our own runs that are not known to have ended."""
        return len(self._active)

    def started(self, run_id: str, session_id: str | None) -> None:
        self.cost.runs += 1
        self._active.add(run_id)
        self._sessions.add(session_id or run_id)

    def settled(self, run: Run) -> None:
        """Take note of a polled state; a terminal one ends the run and books its tokens."""
        if run.run_id in self._active and run.status in TERMINAL_STATES:
            self._book(run.usage)
            self.gone(run.run_id)

    def gone(self, run_id: str) -> None:
        self._active.discard(run_id)
        self._ended.set()

    async def one_ended(self) -> None:
        """Wait until one more of our runs has ended."""
        self._ended.clear()
        await self._ended.wait()

    def _book(self, usage: Usage | None) -> None:
        if usage:
            self.cost.input_tokens += usage.input_tokens
            self.cost.output_tokens += usage.output_tokens

    async def clean_up(self, client: Client) -> list[str]:
        """Stop what still runs, wait for its end, delete the sessions. Returns the ids of runs that
        could not be seen to end; raises nothing."""
        await self.stop_all(client)
        await _bounded([_delete(client, session) for session in self._sessions], CLEAN_UP_LIMIT)
        return sorted(self._active)

    async def stop_all(self, client: Client) -> None:
        """Stop every run of ours that is not known to have ended, and wait for its end."""
        await _bounded([self._stop(client, run_id) for run_id in self._active], CLEAN_UP_LIMIT)

    async def _stop(self, client: Client, run_id: str) -> None:
        try:
            await client.stop_run(run_id)
            while run_id in self._active:
                self.settled(await client.run(run_id))
                await asyncio.sleep(0.1)
        except NotFound:
            self.gone(run_id)
        except HermesctlError:
            return


async def _bounded(work: Iterable[Coroutine[Any, Any, None]], limit: float) -> None:
    tasks = [asyncio.create_task(item) for item in work]
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=limit)
    for task in late:
        task.cancel()


async def _delete(client: Client, session_id: str) -> None:
    try:
        await client.delete_session(session_id)
    except HermesctlError:
        return  # a session that stays behind does no harm; its title tells what it was
