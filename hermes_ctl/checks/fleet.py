"""Checks many nodes side by side, each by itself: none delays or spoils another.

So many checks are under way at once as there are slots. A node that says nothing at all when it is
spoken to gives its slot to the next one, so that a hundred dead nodes do not hold up the living.
"""

from __future__ import annotations

import asyncio
import hashlib
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from hermes_ctl import __version__, clock
from hermes_ctl.checks.checklist import Checklist
from hermes_ctl.checks.findings import crashed, settled_step, unreached
from hermes_ctl.checks.model import (
    EXIT_CODE_OF,
    ChecklistDescription,
    Contract,
    FleetReport,
    NodeDescription,
    Report,
    Status,
    Tool,
    count,
    decide,
)
from hermes_ctl.checks.probe import Finding
from hermes_ctl.checks.probes import load_probe
from hermes_ctl.checks.runner import (
    INTERRUPTED,
    CheckEvent,
    CheckFinished,
    NodeReached,
    check_node,
)
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.config import Node
from hermes_ctl.errors import HermesctlError
from hermes_ctl.secrets import redact

JOBS = 32
"""Nodes checked at once, unless -j says otherwise: measured, more are no quicker (tests/bench)."""

PATIENCE = 2.0
"""Seconds after which a node that has not answered at all gives its slot to another one."""

CONNECTIONS = 4
CONNECTIONS_WITH_RUNS = 12
"""To each node: with runs, several streams stay open beside the requests. More are no quicker."""

MOST_CONNECTIONS = 2000
"""To all nodes together."""

_ALWAYS = 4
_KEEPS_UP = 0.03
_LOOK = 0.01
"""Checks that are always let in; seconds that the loop may be late before it takes no more; how
long it is looked at."""

NOT_BEGUN = Finding(Status.UNKNOWN, INTERRUPTED)
_OTHER_DESCRIPTORS = 64
_DESCRIPTORS_BESIDE = 4
"""Descriptors of a check that are no connections: the pipes to a command, a file."""


@dataclass(frozen=True, slots=True)
class Target:
    """One node to check, with the settings that are its own."""

    node: Node
    settings: CheckSettings


@dataclass(frozen=True, slots=True)
class Room:
    """How much may happen at once: `jobs` checks that count, `open_checks` with those that wait for
    an answer that may never come, `connections` to each node."""

    jobs: int
    open_checks: int
    connections: int


def room_for(jobs: int, *, runs: bool, descriptors: int | None = None) -> Room:
    """Bounded by the connections that all nodes share, and by `descriptors`: those that this process
    may have, by default what the system allows it."""
    if descriptors is None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    connections = CONNECTIONS_WITH_RUNS if runs else CONNECTIONS
    for_checks = max(descriptors - _OTHER_DESCRIPTORS, 0)
    possible = min(
        MOST_CONNECTIONS // connections, for_checks // (connections + _DESCRIPTORS_BESIDE)
    )
    open_checks = max(possible, 1)
    return Room(min(jobs, open_checks), open_checks, connections)


Observer = Callable[[int, CheckEvent], None]
"""Is told what happens to the target of that number."""


class FleetCheck:
    """One check of all targets. `report` tells at any time what it has come to."""

    def __init__(
        self,
        targets: Sequence[Target],
        checklist: Checklist,
        observe: Observer,
        *,
        jobs: int = JOBS,
    ) -> None:
        self._targets = targets
        self._checklist = checklist
        self._observe = observe
        self._finished: dict[int, Report] = {}
        self._contracts = SharedContracts()
        room = room_for(jobs, runs=any(target.settings.runs for target in targets))
        self._room = room
        self._slots = asyncio.Semaphore(room.jobs)
        self._open = asyncio.Semaphore(room.open_checks)
        self._door = Door()

    async def run(self) -> None:
        """Check them all. Cancelled, every check that was begun cleans up after itself first."""
        async with asyncio.TaskGroup() as group:
            for index in range(len(self._targets)):
                group.create_task(self._check(index))

    def report(self) -> FleetReport:
        """All targets in their order. What is not finished is marked as interrupted."""
        reports = [
            self._finished.get(index)
            or unchecked(target, self._checklist, NOT_BEGUN, interrupted=True)
            for index, target in enumerate(self._targets)
        ]
        return FleetReport.of(reports)

    async def _check(self, index: int) -> None:
        async with self._open, _Slot(self._slots) as slot, self._door:
            slot.begin()
            await check_target(
                self._targets[index],
                self._checklist,
                self._room.connections,
                lambda event: self._see(index, event, slot),
            )

    def _see(self, index: int, event: CheckEvent, slot: _Slot) -> None:
        if isinstance(event, NodeReached):
            slot.keep()
        elif isinstance(event, CheckFinished):
            event.report.contract = self._contracts.shared(event.report.contract)
            self._finished[index] = event.report
        self._observe(index, event)


async def check_target(
    target: Target,
    checklist: Checklist,
    connections: int,
    observe: Callable[[CheckEvent], None],
) -> None:
    """Check one node among many: whatever befalls it is its own report, and never an exception."""
    settings = replace(target.settings, connections=connections)
    try:
        await check_node(target.node, checklist, settings, observe)
    except HermesctlError as error:  # the CA file is none, the proxy's address neither
        first = checklist.step[0].id
        observe(CheckFinished(unchecked(target, checklist, unreached(first, first, error, 0))))
    except Exception as error:
        observe(CheckFinished(unchecked(target, checklist, crashed(error))))


def unchecked(
    target: Target, checklist: Checklist, finding: Finding, *, interrupted: bool = False
) -> Report:
    """The report of a node that was not checked at all: `finding` says why, at its first step."""
    first, *others = checklist.numbered()
    missing = Finding(Status.SKIP, "the node was not checked", blocked_by=first[1].id)
    steps = [
        settled_step(number, entry, entry.title or load_probe(entry.probe_name).title, one, 0.0)
        for (number, entry), one in zip(
            [first, *others], [finding, *[missing] * len(others)], strict=True
        )
    ]
    verdict = decide(steps, strict=target.settings.strict)
    return Report(
        tool=Tool(version=__version__),
        node=NodeDescription(
            name=target.node.name, url=redact(target.node.url), profile=target.node.profile
        ),
        checklist=ChecklistDescription(
            name=checklist.name,
            release=target.settings.release or checklist.release,
            sha256=checklist.sha256,
        ),
        started_at=clock.now(),
        duration_s=0.0,
        verdict=verdict,
        exit_code=int(EXIT_CODE_OF[verdict]),
        interrupted=interrupted,
        counts=count(steps),
        steps=steps,
    )


class SharedContracts:
    """Nodes of one release have one and the same contract: it is kept once for all of them, and for
    as long as one of their reports is."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Contract] = WeakValueDictionary()

    def shared(self, contract: Contract) -> Contract:
        return self._known.setdefault(self.digest(contract), contract)

    @staticmethod
    def digest(contract: Contract) -> bytes:
        """The same for contracts that are the same."""
        return hashlib.sha256(contract.model_dump_json().encode()).digest()


class Door:
    """Lets checks in as long as this process keeps up with them; a few always.

    Answers that wait because we are slow would be taken for answers of a slow node, and a deadline
    would pass that the node would have kept.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._queue = asyncio.Lock()

    async def __aenter__(self) -> None:
        async with self._queue:
            while self._inside >= _ALWAYS and await _lag() > _KEEPS_UP:
                pass
            self._inside += 1

    async def __aexit__(self, *_: object) -> None:
        self._inside -= 1


async def _lag() -> float:
    """Seconds by which the loop is late with what is due."""
    due = time.monotonic() + _LOOK
    await asyncio.sleep(_LOOK)
    return time.monotonic() - due


class _Slot:
    """One of the checks that are counted. Given back at the end, or when its node stays silent."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> _Slot:
        await self._slots.acquire()
        self._held = True
        return self

    def begin(self) -> None:
        """The node is spoken to from now on."""
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._give_back)

    async def __aexit__(self, *_: object) -> None:
        self.keep()
        self._give_back()

    def keep(self) -> None:
        """The node has answered: it counts until its check is done."""
        if self._timer is not None:
            self._timer.cancel()

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._slots.release()
