"""The runs of the journal as they are now: each asked for at its node, briefly and side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import psutil

from hermes_ctl import clock
from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Run
from hermes_ctl.api.values import moment
from hermes_ctl.config import Node
from hermes_ctl.errors import HermesctlError, NotFound, Unreachable
from hermes_ctl.runs.happenings import Approval, approval_of
from hermes_ctl.runs.journal import SUBMITTING, UNCERTAIN, Entry, Journal
from hermes_ctl.runs.recovery import find_lost, recover
from hermes_ctl.runs.result import Verdict, judge
from hermes_ctl.text import one_line

AT_ONCE: Final = 8
"""Requests to one node at a time."""

LIMIT: Final = 3.0
"""Seconds that one node is given for one answer."""

_STILL_SUBMITTING: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An approval that a run waits for, and since when by our clock."""

    approval: Approval
    since: datetime


@dataclass(frozen=True, slots=True)
class Live:
    """One run of the journal. `state` is its state now, or the last one seen where `problem` says
    why it could not be asked; `waiting` are the approvals that it waits for."""

    entry: Entry
    state: str
    problem: str | None = None
    waiting: tuple[Waiting, ...] = ()

    @property
    def is_active(self) -> bool:
        return self.entry.verdict is None

    def document(self) -> dict[str, Any]:
        entry = self.entry
        return {
            "run_id": entry.run_id,
            "state": self.state,
            "verdict": entry.verdict,
            "reason": entry.reason,
            "problem": self.problem,
            "node": entry.node,
            "url": entry.url,
            "context": entry.context,
            "profile": entry.profile,
            "started_here": entry.started_here,
            "submitted_at": entry.submitted_at,
            "seen_at": entry.seen_at,
            "ended_at": entry.ended_at,
            "session_id": entry.session_id,
            "model": entry.model,
            "prompt": entry.prompt,
            "approvals": [approval_document(one) for one in self.waiting],
        }


def approval_document(waiting: Waiting) -> dict[str, Any]:
    approval = waiting.approval
    return {
        "request_id": approval.request_id,
        "command": approval.command,
        "description": approval.description,
        "choices": list(approval.choices),
        "since": waiting.since,
    }


NodeOf = Callable[[Entry], Node]
"""The node of an entry with its key. Raises `HermesctlError` where none can be made."""


async def survey(entries: Iterable[Entry], journal: Journal, node_of: NodeOf) -> list[Live]:
    """Every entry with its state now, in their order. What is learnt is journalled.

    Raises nothing for a node that cannot be reached: its runs say so.
    """
    entries = list(entries)
    by_url: dict[str, list[Entry]] = {}
    for entry in entries:
        if not entry.is_over:
            by_url.setdefault(entry.url, []).append(entry)
    groups = await asyncio.gather(*(_ask(group, journal, node_of) for group in by_url.values()))
    found = {live.entry.number: live for group in groups for live in group}
    return [found.get(entry.number) or Live(entry, entry.state) for entry in entries]


async def _ask(entries: list[Entry], journal: Journal, node_of: NodeOf) -> list[Live]:
    """The runs of one node."""
    try:
        node = replace(node_of(entries[0]), timeout=LIMIT)
    except HermesctlError as error:
        return [Live(entry, entry.state, one_line(error.message)) for entry in entries]
    gate = asyncio.Semaphore(AT_ONCE)
    unreachable: list[str] = []

    async def one(client: Client, entry: Entry) -> Live:
        async with gate:
            if unreachable:
                return Live(entry, entry.state, unreachable[0])
            try:
                return await _live(client, journal, entry)
            except Unreachable as error:
                unreachable.append(f"unreachable: {one_line(error.message)}")
                return Live(entry, entry.state, unreachable[0])
            except HermesctlError as error:
                return Live(entry, entry.state, one_line(error.message))

    async with Client(node, connections=AT_ONCE) as client:
        return list(await asyncio.gather(*(one(client, entry) for entry in entries)))


async def _live(client: Client, journal: Journal, entry: Entry) -> Live:
    if entry.run_id is None:
        located = await locate(client, journal, entry)
        if located is None or located.run_id is None:
            state = SUBMITTING if is_submitting(entry) else UNCERTAIN
            return Live(entry, state)
        entry = located
    assert entry.run_id is not None
    try:
        run = await client.run(entry.run_id)
    except NotFound:
        return await _forgotten(client, journal, entry, entry.run_id)
    if run.is_terminal:
        journal.ended(entry.number, judge(run))
        return Live(_again(journal, entry), run.status)
    journal.saw(entry.number, run)
    return Live(_again(journal, entry), run.status, waiting=waiting_of(journal, entry, run))


def waiting_of(journal: Journal, entry: Entry | None, run: Run) -> tuple[Waiting, ...]:
    """The approvals that a run waits for: what its status tells (0.22), else what was seen here."""
    seen = (
        [Waiting(one.approval, one.asked_at) for one in journal.pending(entry.number)]
        if entry
        else []
    )
    if run.approval is not None:
        current = approval_of(run.approval)
        if all(one.approval.request_id != current.request_id for one in seen):
            if entry is not None:
                journal.asked(entry.number, current)
            seen.append(Waiting(current, clock.now()))
        return tuple(seen)
    if run.status != "waiting_for_approval":
        return ()
    return tuple(seen) or (Waiting(Approval(), _asked_at(entry, run)),)


def _asked_at(entry: Entry | None, run: Run) -> datetime:
    """When the run last changed, which was by asking. That is the node's clock: never later than
    now, nor before the run was submitted."""
    changed = moment(run.updated_at) or clock.now()
    return min(clock.now(), max(changed, entry.submitted_at) if entry else changed)


async def _forgotten(client: Client, journal: Journal, entry: Entry, run_id: str) -> Live:
    result = await recover(client, run_id, last=None, journal=journal, entry=entry)
    if result is None or result.verdict is Verdict.UNKNOWN:
        reason = result.reason if result else "the node has no record of it"
        return Live(entry, "gone", one_line(reason or ""))
    journal.ended(entry.number, result)
    return Live(_again(journal, entry), result.state)


async def locate(client: Client, journal: Journal, entry: Entry) -> Entry | None:
    """The entry with the id of its run, found at the node and written down; None where it cannot be
    told. While any submission to that node is under way, its run could be taken for this one."""
    if any(is_submitting(other) for other in journal.nameless(entry.url)):
        return None
    run_id = await find_lost(client, journal, entry)
    if run_id is None:
        return None
    journal.located(entry.number, run_id)
    return journal.by_number(entry.number)


def is_submitting(entry: Entry) -> bool:
    """Whether the hermesctl that submits this run is still at it."""
    return (
        entry.state == SUBMITTING
        and entry.pid is not None
        and clock.now() - entry.submitted_at < _STILL_SUBMITTING
        and psutil.pid_exists(entry.pid)
    )


def _again(journal: Journal, entry: Entry) -> Entry:
    return journal.by_number(entry.number) or entry
