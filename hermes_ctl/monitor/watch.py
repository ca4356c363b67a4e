"""Keeps a board true: looks at every node, checks it, and surveys the journal, again and again.

Each node has tasks of its own, so that one that hangs holds up nothing but itself. No task ever has
two checks of one node under way.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn

from hermes_ctl.api.client import Client
from hermes_ctl.checks.checklist import Checklist
from hermes_ctl.checks.fleet import JOBS, room_for
from hermes_ctl.checks.model import Report
from hermes_ctl.checks.runner import CheckEvent, CheckFinished, check_node
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.config import Node
from hermes_ctl.errors import HermesctlError
from hermes_ctl.monitor.board import Board
from hermes_ctl.monitor.pulse import look
from hermes_ctl.runs.survey import Live

LOOKS_AT_ONCE = 32
CONNECTIONS_KEPT = 100
"""With more nodes than these, no connection stays open from one look to the next."""

_JITTER = 0.1
_SPACING = 2.0
_SPACING_WITH_RUNS = 60.0
_SHORTEST_LIMIT = 30.0
_SHORTEST_LIMIT_WITH_RUNS = 600.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A node, what its checks are to do, and how its configuration is read again (None: never).

    `resolve` may take its time; it gives None, or raises `HermesctlError`, where there is no such
    node any more.
    """

    node: Node
    settings: CheckSettings
    resolve: Callable[[], Node | None] | None = None


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds from the beginning of a check, a look or a survey to that of the next."""

    check_s: float
    look_s: float
    survey_s: float


Surveyor = Callable[[], Awaitable[Sequence[Live]]]


class Watch:
    """Tends `board` for as long as `run` lasts. `warn` gets a sentence on what is not as it should.

    A node that goes or comes is checked at once: its last verdict does not hold any more. With
    runs, which cost, that is no sooner than a minute after its last check began.
    """

    def __init__(
        self,
        watched: Sequence[Watched],
        board: Board,
        checklist: Checklist,
        rhythm: Rhythm,
        survey: Surveyor,
        warn: Callable[[str], None],
    ) -> None:
        self._watched = watched
        self._board = board
        self._checklist = checklist
        self._rhythm = rhythm
        self._survey = survey
        self._warn = warn
        runs = any(one.settings.runs for one in watched)
        self._room = room_for(JOBS, runs=runs)
        self._checking = asyncio.Semaphore(self._room.jobs)
        self._looking = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._resolved: dict[str, float] = {}
        self._due = {one.node.name: asyncio.Event() for one in watched}
        self._survey_due = asyncio.Event()

    async def run(self) -> NoReturn:
        """Until it is cancelled; checks that are under way then clean up after themselves."""
        async with asyncio.TaskGroup() as group:
            for one in self._watched:
                group.create_task(self._keep_looking(one))
                group.create_task(self._keep_checking(one))
            group.create_task(self._keep_surveying())
        raise AssertionError("watching ends by cancelling alone")

    def check_now(self, name: str) -> None:
        """Let the next check of a node begin as soon as may be."""
        self._due[name].set()

    def survey_now(self) -> None:
        """Let the next survey of the runs begin as soon as may be."""
        self._survey_due.set()

    async def _keep_looking(self, one: Watched) -> None:
        name = one.node.name
        while True:
            node = self._board.state(name).node
            async with Client(node, connections=1) as client:
                while await self._look(one, client):
                    if len(self._watched) > CONNECTIONS_KEPT:
                        break

    async def _look(self, one: Watched, client: Client) -> bool:
        """Look once, and wait for the next time; whether the node is still the same then."""
        name, began = one.node.name, time.monotonic()
        before = self._board.state(name).pulse
        async with self._looking:
            pulse = await look(client)
        self._board.looked(name, pulse)
        if before is not None and before.is_up != pulse.is_up:
            self.check_now(name)
        if pulse.trouble is not None and pulse.trouble.kind == "AuthenticationFailed":
            await self._resolve_anew(one)
        await _until(began + self._rhythm.look_s)
        return self._board.state(name).node == client.node

    async def _resolve_anew(self, one: Watched) -> None:
        """Read the node's configuration again, once for each check: its key may be a new one."""
        now, last = time.monotonic(), self._resolved.get(one.node.name)
        if one.resolve is None or (last is not None and now - last < self._rhythm.check_s):
            return
        self._resolved[one.node.name] = now
        try:
            node = await asyncio.to_thread(one.resolve)
        except HermesctlError:
            return
        if node is not None and node != self._board.state(one.node.name).node:
            self._board.resolved(node)
            self.check_now(node.name)

    async def _keep_checking(self, one: Watched) -> None:
        due = self._due[one.node.name]
        while True:
            async with self._checking:
                due.clear()
                began = time.monotonic()
                await self._check(one)
            pause = self._rhythm.check_s * random.uniform(1 - _JITTER, 1 + _JITTER)
            await _event_or(due, began + pause)
            spacing = _SPACING_WITH_RUNS if one.settings.runs else _SPACING
            await _until(began + min(spacing, self._rhythm.check_s))

    async def _check(self, one: Watched) -> None:
        name = one.node.name
        node = self._board.state(name).node
        finished: list[Report] = []

        def observe(event: CheckEvent) -> None:
            if isinstance(event, CheckFinished):
                finished.append(event.report)

        self._board.checking(name)
        shortest = _SHORTEST_LIMIT_WITH_RUNS if one.settings.runs else _SHORTEST_LIMIT
        limit = max(self._rhythm.check_s, shortest)
        try:
            settings = replace(one.settings, deadline=limit, connections=self._room.connections)
            await check_node(node, self._checklist, settings, observe)
        except Exception as error:  # one check that crashed is not the end of the watch
            self._warn(f"{name}: the check crashed: {type(error).__name__}: {error}")
        finally:
            self._board.checked(name, finished[-1] if finished else None)

    async def _keep_surveying(self) -> None:
        pause = self._rhythm.survey_s
        while True:
            self._survey_due.clear()
            began = time.monotonic()
            self._board.surveyed(await self._survey())
            next_one = max(began + pause, time.monotonic() + pause / 2)
            await _event_or(self._survey_due, next_one)


async def _event_or(event: asyncio.Event, moment: float) -> None:
    """Wait for `event`, but no longer than until `moment` of `time.monotonic`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, moment - time.monotonic())):
            await event.wait()


async def _until(moment: float) -> None:
    """Sleep until `moment` of `time.monotonic`."""
    await asyncio.sleep(max(0.0, moment - time.monotonic()))
