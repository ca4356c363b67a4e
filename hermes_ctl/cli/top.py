"""`hermesctl top`."""

from __future__ import annotations

import importlib.util
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl import clock
from hermes_ctl.cli import loop
from hermes_ctl.cli.asking import can_be_typed
from hermes_ctl.cli.chosen import journal, node_of
from hermes_ctl.cli.options import Choice, NodeNames, NodeOptions, View, duration
from hermes_ctl.cli.watching import check_settings, watched
from hermes_ctl.errors import UsageError

if TYPE_CHECKING:
    from hermes_ctl.runs.journal import Entry, Journal
    from hermes_ctl.runs.survey import Live

CHECK_S = 60.0
ENDED_SHOWN = timedelta(hours=1)
RUNS_SHOWN = 100


def command(
    names: NodeNames = None,
    *,
    interval: Annotated[
        float, duration("--interval", help="Time from one look at a node to the next (2s).")
    ] = 2.0,
    checklist: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="A shipped checklist, or a file of yours.")
    ] = "bmas-node",
    skip: Annotated[
        list[str] | None, typer.Option(metavar="STEP", help="Leave this step out (repeatable).")
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The reviewed release, such as ==0.20.4.*.")
    ] = None,
    choice: Choice,
    node: NodeOptions,
    view: View,
) -> None:
    """Watch nodes and runs on one screen; answer approvals, stop and steer from there.

    Nodes are checked without runs, so it costs nothing. The runs are those of this machine's
    journal; with nodes named, those on them.

    Examples:

      hermesctl top                     the node that this machine is

      hermesctl top node1 node2         two contexts
    """
    if interval < 0.5:
        raise UsageError("--interval is at least 500ms", hint="--interval 2s")
    if importlib.util.find_spec("textual") is None:
        # With its Python, so that it lands beside this hermesctl, in whatever environment that is.
        raise UsageError(
            "top needs textual, which is not installed",
            hint=f"{sys.executable} -m pip install 'hermesctl[top]'",
        )
    if not (can_be_typed() and view.screen.is_terminal and view.screen.error_is_terminal):
        raise UsageError("top needs a terminal", hint="in a pipe: hermesctl check, hermesctl runs")
    from hermes_ctl.checks.checklist import load_checklist
    from hermes_ctl.monitor.board import Board
    from hermes_ctl.monitor.watch import Rhythm, Watch
    from hermes_ctl.runs.survey import survey
    from hermes_ctl.top.app import run_top
    from hermes_ctl.top.control import RunControl

    chosen = load_checklist(checklist)
    settings = check_settings(chosen, skip=skip or (), release=release, runs=False)
    targets = watched(names or (), choice, node, settings, view.screen.note)
    board = Board([one.node for one in targets])
    with journal(view.screen, warn=board.warn) as known:
        urls = (
            {one.node.url for one in targets}
            if names or choice.by_kind or choice.inventory
            else None
        )
        control = RunControl(known, lambda entry: node_of(entry, node))

        async def look() -> list[Live]:
            return await survey(_shown(known, urls), known, control.node_of)

        rhythm = Rhythm(check_s=CHECK_S, look_s=interval, survey_s=interval)
        watch = Watch(targets, board, chosen, rhythm, look, board.warn)
        loop.run(run_top(board, control, watch, color=not view.screen.out.no_color))


def _shown(known: Journal, urls: set[str] | None) -> list[Entry]:
    """The runs that go on, and those that ended a while ago; of those nodes alone, if given."""
    going_on = known.entries(active=True, limit=RUNS_SHOWN)
    lately = known.entries(since=clock.now() - ENDED_SHOWN, limit=RUNS_SHOWN)
    found = {entry.number: entry for entry in (*going_on, *lately)}
    return [entry for entry in found.values() if urls is None or entry.url in urls]
