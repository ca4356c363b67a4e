"""The runs and sessions that a check made, so that none of them outlives it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import TERMINAL_STATES, Run, Usage
from hermes_ctl.checks.model import Cost
from hermes_ctl.errors import ConnectionLost, HermesctlError, NoAnswer, RunNotFound

Result = TypeVar("Result")
Again = Callable[[], Coroutine[Any, Any, Any]]

CLEAN_UP_LIMIT = 10.0
"""Seconds that each part of the clean-up may take."""

SUBMISSION_LIMIT = 30.0
"""Seconds for which the clean-up waits for the answer to a submission: a cold node takes long, and
without the answer nobody could stop the run."""

_POLL = 0.05


@dataclass(frozen=True, slots=True)
class LeftOver:
    """What a check could not see to its end: ids of runs, and how many submissions got no answer.
    A node that hung may take those up later."""

    runs: tuple[str, ...] = ()
    submissions: int = 0

    def __bool__(self) -> bool:
        return bool(self.runs or self.submissions)


class RunLedger:
    """Every run that was started here, until it is known to have ended."""

    def __init__(self) -> None:
        self.cost = Cost()
        self._active: set[str] = set()
        self._given_up: set[str] = set()
        self._sessions: set[str] = set()
        self._submissions: set[asyncio.Task[Any]] = set()
        self._lost: list[Again | None] = []
        self._ended = asyncio.Event()

    @property
    def active(self) -> frozenset[str]:
        """Our own runs that are under way: not known to have ended, and not given up."""
        return frozenset(self._active - self._given_up)

    @property
    def unended(self) -> frozenset[str]:
        """All our runs that are not known to have ended."""
        return frozenset(self._active)

    async def submission(
        self, work: Coroutine[Any, Any, Result], again: Again | None = None
    ) -> Result:
        """The result of `work`, which submits a run and enters it here. It goes on to its end even
        when the caller is cancelled meanwhile: a run whose id got lost could not be stopped.

        `again` is the same once more, where an idempotency key makes no second run of it.
        """
        task = asyncio.ensure_future(work)
        self._submissions.add(task)
        task.add_done_callback(partial(self._submitted, again))
        return await asyncio.shield(task)

    def _submitted(self, again: Again | None, task: asyncio.Task[Any]) -> None:
        """Whoever waited for it may be gone by now, so that its failure is seen to here, too."""
        self._submissions.discard(task)
        if task.cancelled() or isinstance(task.exception(), NoAnswer | ConnectionLost):
            self._lost.append(again)

    def started(self, run_id: str, session_id: str | None) -> None:
        self.cost.runs += 1
        self._active.add(run_id)
        self._sessions.add(session_id or run_id)

    def settled(self, run_id: str, run: Run) -> None:
        """Take note of a polled state of our run; a terminal one ends it and books its tokens.

        `run_id` is the one that was accepted: a node may answer with another.
        """
        if run_id in self._active and run.status in TERMINAL_STATES:
            self._book(run.usage)
            self.gone(run_id)

    def session(self, session_id: str) -> None:
        """Take note of a session that was made here, so that it is deleted."""
        self._sessions.add(session_id)

    def turn(self, usage: Usage | None) -> None:
        """Book one turn of the model that was no run: a chat, a response."""
        self.cost.runs += 1
        self._book(usage)

    def gone(self, run_id: str) -> None:
        self._active.discard(run_id)
        self._ended.set()

    async def one_ended(self) -> None:
        """Wait until one more of our runs has ended, or was given up."""
        self._ended.clear()
        await self._ended.wait()

    def _book(self, usage: Usage | None) -> None:
        if usage:
            self.cost.input_tokens += usage.input_tokens
            self.cost.output_tokens += usage.output_tokens

    async def clean_up(self, client: Client) -> LeftOver:
        """Stop what still runs, wait for its end, delete the sessions. Raises nothing.

        The known runs go first: where they are all that a node can carry, they hold up the answer
        to the submission that came last.
        """
        known = set(self._active)
        await self.stop_all(client)
        if self._submissions:
            await asyncio.wait(self._submissions, timeout=SUBMISSION_LIMIT)
        await _bounded([self._find(again) for again in self._lost if again], CLEAN_UP_LIMIT)
        await self._stop_these(client, self._active - known)
        await _bounded([_delete(client, session) for session in self._sessions], CLEAN_UP_LIMIT)
        lost = len(self._lost) + len(self._submissions)
        return LeftOver(tuple(sorted(self._active)), lost)

    async def _find(self, again: Again) -> None:
        """Learn of the run that a node made of a submission without an answer."""
        with contextlib.suppress(HermesctlError):
            await again()
            self._lost.remove(again)

    async def stop_all(self, client: Client) -> None:
        """Stop every run of ours that is not known to have ended, and wait for its end."""
        await self._stop_these(client, self._active)

    async def _stop_these(self, client: Client, run_ids: Iterable[str]) -> None:
        await _bounded([self._stop(client, run_id) for run_id in run_ids], CLEAN_UP_LIMIT)

    async def give_up(self, client: Client, run_id: str) -> None:
        """Stop a run that did not end in time or cannot be followed; nobody waits for it further."""
        await _bounded([self._stop(client, run_id)], CLEAN_UP_LIMIT)
        self.given_up(run_id)

    def given_up(self, run_id: str) -> None:
        """Nobody follows this run any longer; the clean-up will try to stop it once more."""
        self._given_up.add(run_id)
        self._ended.set()

    async def _stop(self, client: Client, run_id: str) -> None:
        try:
            with contextlib.suppress(RunNotFound):  # it has ended meanwhile, up to 0.20.4
                await client.stop_run(run_id)
            self.settled(run_id, await client.run(run_id))
            while run_id in self._active:
                await asyncio.sleep(_POLL)
                self.settled(run_id, await client.run(run_id))
        except RunNotFound:
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
    await asyncio.gather(*late, return_exceptions=True)


async def _delete(client: Client, session_id: str) -> None:
    try:
        await client.delete_session(session_id)
    except HermesctlError:
        return  # a session that stays behind does no harm; its id tells what it was
