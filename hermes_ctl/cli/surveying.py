"""Asks the nodes for the journal's runs, and lists them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from hermes_ctl.cli import nodes
from hermes_ctl.cli.chosen import node_of
from hermes_ctl.config import Node, NodeOptions
from hermes_ctl.errors import ExitCode
from hermes_ctl.render.run_tables import APPROVALS, RUNS, Request
from hermes_ctl.render.selection import Selection
from hermes_ctl.render.tables import Sheet
from hermes_ctl.render.views import ListView
from hermes_ctl.runs.journal import Entry, Journal
from hermes_ctl.runs.survey import Live, survey


@dataclass(frozen=True, slots=True)
class Listing:
    """Which runs are wanted. `limit` None is all of them."""

    states: tuple[str, ...]
    active: bool
    since: datetime | None
    limit: int | None
    offline: bool


async def list_runs(
    journal: Journal, listing: Listing, selection: Selection, options: NodeOptions, view: ListView
) -> int:
    """Show the runs as they are now. The limit is applied to what is shown in the end."""
    by_state = bool(listing.states or selection.grep)
    entries = journal.entries(
        url=node_url(options),
        since=listing.since,
        active=listing.active,
        limit=None if by_state else listing.limit,
    )
    if listing.offline:
        found = [Live(entry, entry.state) for entry in entries]
    else:
        found = await survey(entries, journal, _Nodes(options))
    wanted = [
        live
        for live in found
        if (not listing.states or live.state in listing.states)
        and (not listing.active or live.is_active)
    ]
    view.rows(RUNS, selection.of(RUNS, wanted)[: listing.limit])
    return ExitCode.YES


async def list_approvals(journal: Journal, options: NodeOptions, view: ListView) -> int:
    """Show what waits for a human now."""
    found = await survey(_active(journal, options), journal, _Nodes(options))
    view.rows(APPROVALS, _requests(found))
    _say_unasked(found, view)
    return ExitCode.YES


async def watch_approvals(
    journal: Journal, options: NodeOptions, view: ListView, *, every: float
) -> int:
    """Show each request once, as it comes, until a signal ends it."""
    shown: set[tuple[int, str | None]] = set()
    told: set[str] = set()
    resolve = _Nodes(options)
    while True:
        found = await survey(_active(journal, options), journal, resolve)
        requests = _requests(found)
        keys = {_key(request) for request in requests}
        new = [request for request in requests if _key(request) not in shown]
        if new:
            sheet: Sheet[Request] = view.sheet(APPROVALS)
            for request in new:
                sheet.add(request)
            sheet.close()
        shown = keys
        problems = {live.problem for live in found if live.problem}
        for problem in problems - told:
            view.screen.note(problem or "")
        told = {problem for problem in problems if problem}
        await asyncio.sleep(every)


class _Nodes:
    """The node of an entry, each made out once."""

    def __init__(self, options: NodeOptions) -> None:
        self._options = options
        self._known: dict[str, Node] = {}

    def __call__(self, entry: Entry) -> Node:
        if entry.url not in self._known:
            options = self._options
            typed = options.url or options.context
            self._known[entry.url] = nodes.resolve(options) if typed else node_of(entry, options)
        return self._known[entry.url]


def node_url(options: NodeOptions) -> str | None:
    """The address of the node whose runs alone are wanted."""
    if options.url or options.context or options.profile:
        return nodes.resolve(options).url
    return None


def _active(journal: Journal, options: NodeOptions) -> list[Entry]:
    return journal.entries(url=node_url(options), active=True)


def _requests(found: Iterable[Live]) -> list[Request]:
    requests = [Request(live, waiting) for live in found for waiting in live.waiting]
    return sorted(requests, key=lambda request: request.waiting.since)


def _key(request: Request) -> tuple[int, str | None]:
    return request.live.entry.number, request.waiting.approval.request_id


def _say_unasked(found: Iterable[Live], view: ListView) -> None:
    problems = sorted({live.problem for live in found if live.problem})
    for problem in problems:
        view.screen.note(f"not asked: {problem}")
