"""`hermesctl runs` and `hermesctl approvals`: this machine's runs, and what waits for a human."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl import clock
from hermes_ctl.cli import loop
from hermes_ctl.cli.chosen import journal
from hermes_ctl.cli.options import ListView, NodeOptions, Selection, duration
from hermes_ctl.errors import ExitCode, UsageError
from hermes_ctl.text import how_many

if TYPE_CHECKING:
    from datetime import datetime

MONTH = 30 * 86400.0


def runs(
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only this state, such as failed (repeatable)."),
    ] = None,
    active: Annotated[
        bool, typer.Option("--active", help="Only runs that have not ended.")
    ] = False,
    since: Annotated[float | None, duration("--since", help="Only runs this young.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="At most so many; 0 is all.")] = 20,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no node; show what the journal knows.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Forget runs that have ended, and show nothing.")
    ] = False,
    older_than: Annotated[
        float | None, duration("--older-than", help="With --prune: only runs this old (30d).")
    ] = None,
    *,
    selection: Selection,
    node: NodeOptions,
    view: ListView,
) -> int:
    """List this machine's runs, with their state now.

    These are the ones that were started or followed here. Each one that has not ended is asked for at its node, briefly; a `?` behind a state says that
    this failed, and -o wide why. With --url or --context only that node's runs are shown, or forgotten.

    Examples:

      hermesctl runs

      hermesctl runs --active -o name

      hermesctl runs --state failed --since 1d -o json

      hermesctl runs --prune --older-than 7d
    """
    from hermes_ctl.cli.surveying import Listing, list_runs, node_url

    if older_than is not None and not prune:
        raise UsageError("--older-than goes with --prune", hint="--since chooses by age")
    if prune and (state or active or since is not None or selection.grep):
        raise UsageError(
            "--prune chooses by age and by node alone",
            hint="hermesctl runs --prune --older-than 7d",
        )
    with journal(view.screen) as known:
        if prune:
            before = _before(MONTH if older_than is None else older_than)
            count = known.prune(before, node_url(node))
            view.screen.note(f"{how_many(count, 'run')} forgotten")
            return ExitCode.NO if known.is_lost else ExitCode.YES
        listing = Listing(
            states=tuple(state or ()),
            active=active,
            since=None if since is None else _before(since),
            limit=limit or None,
            offline=offline,
        )
        return loop.run(list_runs(known, listing, selection, node, view))


def approvals(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on: show each request as it comes.")
    ] = False,
    every: Annotated[
        float | None, duration("--every", help="With --watch: how often the nodes are asked (5s).")
    ] = None,
    *,
    node: NodeOptions,
    view: ListView,
) -> int:
    """List the runs known here that wait for a human.

    On all nodes, with the command, the reason, and since when. Before 0.22 only the one who reads a run's events learns the command: it is known here if that
    was a hermesctl of this machine.

    Examples:

      hermesctl approvals

      hermesctl approvals --watch

      hermesctl approvals -o name | xargs -n 1 hermesctl deny
    """
    from hermes_ctl.cli.surveying import list_approvals, watch_approvals

    if every is not None and not watch:
        raise UsageError("--every goes with --watch", hint="add --watch")
    if watch and view.format == "json":
        raise UsageError("--watch has no end, and -o json is one document", hint="-o jsonl")
    with journal(view.screen) as known:
        if watch:
            return loop.run(
                watch_approvals(known, node, view, every=5.0 if every is None else every)
            )
        return loop.run(list_approvals(known, node, view))


def _before(seconds: float) -> datetime:
    from datetime import timedelta

    return clock.now() - timedelta(seconds=seconds)
