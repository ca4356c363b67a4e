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
from hermes_ctl.checks.model import Report
from hermes_ctl.checks.runner import CheckEvent, CheckFinished, check_node
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.config import Node
from hermes_ctl.errors import HermesctlError
from hermes_ctl.monitor.board import Board
from hermes_ctl.monitor.pulse import look
from hermes_ctl.runs.survey import Live

CHECKS_AT_ONCE = 4
_JITTER = 0.1
_SPACING = 2.0
_SPACING_WITH_RUNS = 60.0
_SHORTEST_LIMIT = 30.0
_SHORTEST_LIMIT_WITH_RUNS = 600.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A node, what its checks are to do, and how its configuration is read again (None: never).

    `resolve` raises `HermesctlError` where no node can be made of it any more.
    """

    node: Node
    settings: CheckSettings
    resolve: Callable[[], Node] | None = None


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
        self._gate = asyncio.Semaphore(CHECKS_AT_ONCE)
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
        node: Node | None = one.node
        while node is not None:
            async with Client(node, connections=2) as client:
                node = await self._look_until_changed(one, client)

    async def _look_until_changed(self, one: Watched, client: Client) -> Node:
        """Look again and again, until the configuration tells another node, which is returned."""
        name = one.node.name
        while True:
            began = time.monotonic()
            before = self._board.state(name).pulse
            pulse = await look(client)
            self._board.looked(name, pulse)
            if before is not None and before.is_up != pulse.is_up:
                self.check_now(name)
            if pulse.trouble is not None and pulse.trouble.kind == "AuthenticationFailed":
                node = self._resolved_anew(one)
                if node != client.node:
                    self._board.resolved(node)
                    self.check_now(name)
                    return node
            await _until(began + self._rhythm.look_s)

    def _resolved_anew(self, one: Watched) -> Node:
        """The node as the configuration has it now: its key may have been changed for a new one."""
        node = self._board.state(one.node.name).node
        if one.resolve is not None:
            with suppress(HermesctlError):
                found = one.resolve()
                return found if found.name == node.name else node
        return node

    async def _keep_checking(self, one: Watched) -> None:
        due = self._due[one.node.name]
        while True:
            async with self._gate:
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
            settings = replace(one.settings, deadline=limit)
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
