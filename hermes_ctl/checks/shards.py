"""Checks a large fleet in several processes, one for each processor: what costs is to talk HTTP.

The processes are forked before any event loop runs, so that keys need not be handed over: a `Secret`
refuses to be pickled. Each checks its share as `FleetCheck` does and tells what happens. When this
process ends them, or ends itself, however that is, each of them sees its own pipe close and cleans up
after its checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

from hermes_ctl.checks.checklist import Checklist
from hermes_ctl.checks.fleet import (
    NOT_BEGUN,
    FleetCheck,
    Observer,
    SharedContracts,
    Target,
    unchecked,
)
from hermes_ctl.checks.model import Contract, FleetReport, Report, Status
from hermes_ctl.checks.probe import Finding
from hermes_ctl.checks.runner import CheckEvent, CheckFinished, CheckStarted

SMALLEST_SHARE = 50
"""Nodes for which a process of their own is worth its start."""

_CONTRACT = "contract"
_LOST = Finding(
    Status.UNKNOWN,
    "the process that checked this node has ended",
    fix=("check again; was this machine out of memory?",),
)


def processes_for(nodes: int) -> int:
    """In how many processes so many nodes are checked. Elsewhere than on Linux in this one alone:
    forking is not safe there once the system's libraries are in use."""
    if sys.platform != "linux":
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), nodes // SMALLEST_SHARE))


@dataclass(slots=True)
class _Worker:
    """One of the processes. `events` is where it tells what happens; it ends when `leash` closes."""

    process: ForkProcess
    events: Connection
    leash: Connection


class ShardedFleetCheck:
    """One check of all targets, in `processes` processes. To be made before any event loop runs, and
    used as a `FleetCheck` is. Without `steps`, only the end of each check is told."""

    def __init__(
        self,
        targets: Sequence[Target],
        checklist: Checklist,
        observe: Observer,
        *,
        jobs: int,
        processes: int,
        steps: bool = True,
    ) -> None:
        self._targets = targets
        self._checklist = checklist
        self._observe = observe
        self._finished: dict[int, Report] = {}
        self._contracts = SharedContracts()
        self._steps = steps
        self._ended = False
        self._workers = self._forked(processes, max(1, jobs // processes))

    async def run(self) -> None:
        """Check them all. Cancelled, every check that was begun cleans up after itself first."""
        listening = [asyncio.create_task(self._listen(worker)) for worker in self._workers]
        try:
            await asyncio.wait(listening, return_when=asyncio.FIRST_EXCEPTION)
            self._ended = all(task.done() and not task.exception() for task in listening)
        finally:
            for worker in self._workers:
                worker.leash.close()
            await asyncio.wait(listening)
            for worker in self._workers:
                worker.process.join()
        for task in listening:
            task.result()

    def report(self) -> FleetReport:
        """All targets in their order. What is not finished is marked as interrupted."""
        reports = [
            self._finished.get(index)
            or unchecked(
                target,
                self._checklist,
                _LOST if self._ended else NOT_BEGUN,
                interrupted=not self._ended,
            )
            for index, target in enumerate(self._targets)
        ]
        return FleetReport.of(reports)

    def _forked(self, processes: int, jobs: int) -> list[_Worker]:
        context = multiprocessing.get_context("fork")
        pipes = [(context.Pipe(duplex=False), context.Pipe(duplex=False)) for _ in range(processes)]
        workers = []
        for place, (events, leash) in enumerate(pipes):
            own = (events[1], leash[0])
            others = [end for pair in pipes for pipe in pair for end in pipe if end not in own]
            share = range(place, len(self._targets), processes)
            process = context.Process(
                target=_work,
                args=(self._targets, share, self._checklist, jobs, self._steps, *own, others),
                daemon=True,
            )
            process.start()
            workers.append(_Worker(process, events[0], leash[1]))
        for events, leash in pipes:
            events[1].close()
            leash[0].close()
        return workers

    async def _listen(self, worker: _Worker) -> None:
        """Until the process has closed its end, which it does when it is done."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(worker.events.fileno(), readable.set)
        contracts: dict[bytes, Contract] = {}
        try:
            while True:
                await readable.wait()
                readable.clear()
                while worker.events.poll():
                    self._take(pickle.loads(worker.events.recv_bytes()), contracts)
        except (EOFError, ConnectionError):
            return
        finally:
            loop.remove_reader(worker.events.fileno())
            worker.events.close()

    def _take(self, message: tuple[int, Any], contracts: dict[bytes, Contract]) -> None:
        index, said = message
        if isinstance(said, _Finished):
            if said.contract is not None:
                contracts[said.digest] = Contract.model_validate_json(said.contract)
            report = Report.model_validate_json(said.report)
            report.contract = self._contracts.shared(contracts[said.digest])
            self._finished[index] = report
            self._observe(index, CheckFinished(report))
        elif isinstance(said, _Started):
            node = self._targets[index].node
            self._observe(index, CheckStarted(node, self._checklist, said.release, said.steps))
        else:
            self._observe(index, said)


@dataclass(frozen=True, slots=True)
class _Started:
    """`CheckStarted` without the node, which holds the key."""

    release: str
    steps: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class _Finished:
    """A report as JSON; its contract, the largest part of it, the first time alone."""

    report: str
    digest: bytes
    contract: str | None


# In the forked process


def _work(
    targets: Sequence[Target],
    share: range,
    checklist: Checklist,
    jobs: int,
    steps: bool,
    events: Connection,
    leash: Connection,
    others: Sequence[Connection],
) -> None:
    """Check the targets of `share`. Signals are for the process that forked this one: it lets go."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for end in others:
        end.close()
    gc.enable()  # the process edge put it off for the start-up
    teller = _Teller(events, share, steps)
    fleet = FleetCheck([targets[index] for index in share], checklist, teller.tell, jobs=jobs)
    asyncio.run(_until_let_go(fleet, leash))


async def _until_let_go(fleet: FleetCheck, leash: Connection) -> None:
    loop = asyncio.get_running_loop()
    checking = asyncio.ensure_future(fleet.run())

    def let_go() -> None:
        loop.remove_reader(leash.fileno())
        checking.cancel()

    loop.add_reader(leash.fileno(), let_go)
    with contextlib.suppress(asyncio.CancelledError, BrokenPipeError):
        await checking


class _Teller:
    """Tells the process that forked this one what happens."""

    def __init__(self, events: Connection, share: range, steps: bool) -> None:
        self._events = events
        self._steps = steps
        self._share = share
        self._told: set[bytes] = set()

    def tell(self, index: int, event: CheckEvent) -> None:
        said: object = event
        if isinstance(event, CheckFinished):
            said = self._finished(event.report)
        elif not self._steps:
            return
        elif isinstance(event, CheckStarted):
            said = _Started(event.release, event.steps)
        with contextlib.suppress(BrokenPipeError):  # nobody listens: it will let go of us, too
            self._events.send_bytes(pickle.dumps((self._share[index], said)))

    def _finished(self, report: Report) -> _Finished:
        digest = SharedContracts.digest(report.contract)
        contract = None
        if digest not in self._told:
            self._told.add(digest)
            contract = report.contract.model_dump_json(by_alias=True)
        text = report.model_dump_json(by_alias=True, exclude={_CONTRACT})
        return _Finished(text, digest, contract)
