"""`hermesctl exporter`."""

from __future__ import annotations

from typing import Annotated

import typer

from hermes_ctl.cli import loop
from hermes_ctl.cli.chosen import journal
from hermes_ctl.cli.options import Choice, NodeNames, NodeOptions, View, duration
from hermes_ctl.cli.watching import check_settings, survey_of, watched
from hermes_ctl.errors import UsageError

_LONGEST_LOOK_S = 10.0


def command(
    names: NodeNames = None,
    *,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where Prometheus scrapes.")
    ] = "127.0.0.1:9464",
    interval: Annotated[
        float, duration("--interval", help="Time from one check of a node to the next (60s).")
    ] = 60.0,
    checklist: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="A shipped checklist, or a file of yours.")
    ] = "bmas-node",
    skip: Annotated[
        list[str] | None, typer.Option(metavar="STEP", help="Leave this step out (repeatable).")
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The reviewed release, such as ==0.20.4.*.")
    ] = None,
    runs: Annotated[
        bool, typer.Option("--runs", help="Make runs in each check, which cost tokens.")
    ] = False,
    choice: Choice,
    node: NodeOptions,
    view: View,
) -> None:
    """Watch nodes, and tell Prometheus how they are: readiness, latency, runs.

    Nodes are checked by the clock; a scrape reads what is known and asks no node anything. It runs
    until it is ended (SIGTERM, Ctrl-C).

    Examples:

      hermesctl exporter                               this machine's node

      hermesctl exporter node1 node2 --skip capacity   from afar

      curl http://127.0.0.1:9464/metrics               what Prometheus sees
    """
    from hermes_ctl.checks.checklist import load_checklist
    from hermes_ctl.monitor.board import Board
    from hermes_ctl.monitor.listener import listening, parse_place
    from hermes_ctl.monitor.metrics import registry
    from hermes_ctl.monitor.watch import Rhythm, Watch

    if interval < 1:
        raise UsageError("--interval is at least 1s", hint="--interval 60s")
    place = parse_place(listen)
    chosen = load_checklist(checklist)
    settings = check_settings(chosen, skip=skip or (), release=release, runs=runs)
    targets = watched(names or (), choice, node, settings, view.screen.note)
    board = Board([one.node for one in targets])
    look = min(interval, _LONGEST_LOOK_S)
    with (
        journal(view.screen) as known,
        listening(place, registry(board, interval)) as bound,
    ):
        if not bound.is_loopback:
            view.screen.warn(f"whoever reaches {bound} can read the names and states of the nodes")
        view.screen.note(f"http://{bound}/metrics  {', '.join(one.node.name for one in targets)}")
        rhythm = Rhythm(check_s=interval, look_s=look, survey_s=look)
        survey = survey_of(board, known)
        loop.run(Watch(targets, board, chosen, rhythm, survey, view.screen.warn).run())
