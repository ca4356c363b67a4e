"""Watching nodes for long: what is told, how often they are asked, and what is kept."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from hermes_ctl import secrets
from hermes_ctl.checks.changes import Change, FleetWatch
from hermes_ctl.checks.fleet import Target
from hermes_ctl.checks.model import Report, Step, Verdict
from hermes_ctl.checks.subject import CheckSettings
from tests.faults.checking import quick_checklist
from tests.faults.server import HermesServer

SETTINGS = CheckSettings(runs=False, skip=("capacity", "release", "routes"))


class EnoughSeen(Exception):
    pass


def watch(server: HermesServer, told: list[Change], interval: float, until: int) -> FleetWatch:
    """Watch the node until it was asked for its health so often; only then is it ended."""

    async def changed(change: Change) -> None:
        told.append(change)

    watching = FleetWatch([Target(server.node(), SETTINGS)], quick_checklist(), interval, changed)

    async def run() -> None:
        task = asyncio.create_task(watching.run())
        await asyncio.to_thread(
            server.wait_until, lambda: len(server.received("GET /health")) >= until, 60
        )
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    return watching


def test_nothing_is_told_twice_and_nothing_is_gathered(server: HermesServer) -> None:
    told: list[Change] = []
    watch(server, told, 0.01, until=4)
    known = set(secrets._known.values)
    gc.collect()
    reports = sum(isinstance(one, Report) for one in gc.get_objects())
    before = sum(isinstance(one, Step) for one in gc.get_objects())
    told.clear()
    watching = watch(server, told, 0.01, until=20)
    gc.collect()
    assert [change.was for change in told] == [None]
    assert secrets._known.values == known
    assert sum(isinstance(one, Report) for one in gc.get_objects()) <= reports + 3
    assert sum(isinstance(one, Step) for one in gc.get_objects()) <= before + 3 * 12
    report = watching.report()
    assert report is not None
    assert report.verdict is Verdict.READY


def test_a_change_is_told_with_what_was_before(server: HermesServer) -> None:
    told: list[Change] = []

    async def changed(change: Change) -> None:
        told.append(change)
        server.faults.degrade("config", "degraded")
        if len(told) == 2:
            raise EnoughSeen

    watching = FleetWatch([Target(server.node(), SETTINGS)], quick_checklist(), 0.01, changed)
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(watching.run())
    assert caught.group_contains(EnoughSeen)
    assert [(change.was, change.report.verdict) for change in told] == [
        (None, Verdict.READY),
        (Verdict.READY, Verdict.NOT_READY),
    ]
    assert [step.id for step in told[1].steps] == ["readiness"]


def test_nodes_do_not_stay_together(server: HermesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is the interval, up to a fifth shorter or longer, from beginning to beginning."""
    asked: list[tuple[float, float]] = []

    def lowest(low: float, high: float) -> float:
        asked.append((low, high))
        return low

    monkeypatch.setattr("random.uniform", lowest)
    began = time.monotonic()
    watch(server, [], 0.5, until=4)
    assert set(asked) == {(0.8, 1.2)}
    assert time.monotonic() - began >= 3 * 0.8 * 0.5
