"""`hermesctl tail`, `wait` and `status`: what a run does, and what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl.cli import loop, suggestions
from hermes_ctl.cli.chosen import RunArgument, choose, foreign, journal, located
from hermes_ctl.cli.options import DocumentView, ListView, NodeOptions, StreamView
from hermes_ctl.cli.run_options import (
    Deadline,
    FollowOptions,
    OnApproval,
    OnInterruptOption,
    Record,
    ShowReasoning,
)
from hermes_ctl.text import one_line

if TYPE_CHECKING:
    from hermes_ctl.cli.chosen import Chosen
    from hermes_ctl.cli.following import Following
    from hermes_ctl.runs.journal import Journal


def tail(
    run: RunArgument = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read the run's events too. Before 0.22 a run has one reader: another loses them.",
        ),
    ] = False,
    deadline: Deadline = None,
    on_approval: OnApproval = None,
    on_interrupt: OnInterruptOption = None,
    record: Record = None,
    show_reasoning: ShowReasoning = False,
    *,
    node: NodeOptions,
    view: StreamView,
) -> int:
    """Follow a run to its end; the exit code is the run's.

    Ctrl-C only detaches. By default the run's status is polled, which disturbs nobody. At --deadline the run goes on
    and the exit code is 8.

    Examples:

      hermesctl tail

      hermesctl tail 8c81 > answer.txt

      hermesctl tail run_8c8184 --stream -o jsonl
    """
    from hermes_ctl.cli.following import Following

    options = FollowOptions(
        stream=stream,
        deadline=deadline,
        on_approval=on_approval,
        on_interrupt=on_interrupt or "detach",
        record=record,
        show_reasoning=show_reasoning,
    )
    following = Following(view, options)
    with journal(view.screen) as known:
        chosen = choose(run, node, known)
        return loop.run(
            followed(following, known, chosen, node, deadline),
            on_interrupt=following.interrupt,
            leaving_hint=following.leaving_hint,
        )


async def followed(
    following: Following,
    known: Journal,
    chosen: Chosen,
    options: NodeOptions,
    deadline: float | None,
) -> int:
    """Follow a run that exists already, and journal it from now on."""
    from hermes_ctl.api.client import Client
    from hermes_ctl.runs.journal import LOCATED

    async with Client(chosen.node) as client:
        found = await located(client, known, chosen)
        if found.entry is not None and found.entry.reason == LOCATED:
            following.say(f"{found.run_id}: {LOCATED}")
        return await following.follow(
            client,
            known,
            found.run_id,
            number=found.entry.number if found.entry else None,
            accepted=False,
            deadline=deadline,
            about=one_line(found.entry.prompt or "", 80) if found.entry else "",
            foreign=foreign(found, options),
        )


def wait(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            autocompletion=suggestions.runs,
            show_default=False,
            help="Runs; by default the last one started here.",
        ),
    ] = None,
    any_of_them: Annotated[
        bool, typer.Option("--any", help="Wait for the first that ends, not for all.")
    ] = False,
    deadline: Deadline = None,
    *,
    node: NodeOptions,
    view: ListView,
) -> int:
    """Wait until runs have ended; exit with 0 if all succeeded.

    With --any the first one counts. A row is written for each run that ends. At --deadline the exit code is 8, and the runs go on.

    Examples:

      hermesctl wait

      hermesctl wait run_8c8184 run_57daf8 --deadline 10m

      hermesctl wait --any -o name run_8c8184 run_57daf8
    """
    from hermes_ctl.cli.waiting import Wait

    with journal(view.screen) as known:
        names: list[str | None] = list(runs) if runs else [None]
        chosen = [choose(name, node, known) for name in names]
        return Wait(known, view, node).run(chosen, any_of_them=any_of_them, deadline=deadline)


def status(run: RunArgument = None, *, node: NodeOptions, view: DocumentView) -> int:
    """Show a run's state and what it came to.

    The exit code is the run's: 0 if it succeeded, 1 if not, 8 while it goes on, 3 where that cannot
    be known.

    Examples:

      hermesctl status

      hermesctl status 8c81 -o json
    """
    from hermes_ctl.cli.reading_runs import read_status

    with journal(view.screen) as known:
        chosen = choose(run, node, known)
        return loop.run(read_status(known, chosen, view))
