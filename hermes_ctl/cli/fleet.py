"""`hermesctl check` of many nodes: once, or again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hermes_ctl import config
from hermes_ctl.cli import loop
from hermes_ctl.cli.options import FleetOptions, StreamView
from hermes_ctl.errors import UsageError
from hermes_ctl.secrets import redact_values

if TYPE_CHECKING:
    from hermes_ctl.checks.changes import Change, FleetWatch
    from hermes_ctl.checks.checklist import Checklist
    from hermes_ctl.checks.fleet import FleetCheck, Observer, Target
    from hermes_ctl.checks.model import FleetReport
    from hermes_ctl.checks.reaction import Reaction
    from hermes_ctl.checks.runner import CheckEvent
    from hermes_ctl.checks.shards import ShardedFleetCheck
    from hermes_ctl.report.forms import AnyReport

SHORTEST_INTERVAL = 1.0

Publish = Callable[["AnyReport"], None]


def require_usable(options: FleetOptions, view: StreamView, *, nagios: bool) -> None:
    """Raises `UsageError` for options that do not go together."""
    if options.command is not None and options.interval is None:
        raise UsageError("--exec runs on changes, which --watch sees", hint="--watch 60s")
    if options.interval is None:
        return
    if options.interval < SHORTEST_INTERVAL:
        raise UsageError("--watch is at least 1s", hint="--watch 60s")
    if view.format == "json" or nagios:
        raise UsageError(
            "--watch never ends, so there is no one document to print",
            hint="-o jsonl prints each change as one line",
        )


def check_many(
    targets: Sequence[Target],
    checklist: Checklist,
    jobs: int | None,
    view: StreamView,
    publish: Publish,
    *,
    silent: bool,
) -> FleetReport:
    """Check all targets side by side, and tell what they came to. What was settled is told and
    published on every way out, Ctrl-C included."""
    from hermes_ctl.checks.runner import CheckFinished
    from hermes_ctl.render.fleet import FleetProgress

    progress = FleetProgress(view.screen, [target.node.name for target in targets])
    observers = [progress.observer(index) for index in range(len(targets))]

    def observe(index: int, event: CheckEvent) -> None:
        if view.format == "text" and not silent:
            observers[index](event)
        elif view.format == "jsonl" and isinstance(event, CheckFinished):
            view.screen.json_line(event.report.document())

    steps = view.format == "text" and not silent and progress.shows_steps
    fleet = _fleet(targets, checklist, observe, jobs, steps=steps)
    try:
        loop.run(fleet.run())
    finally:
        progress.close()
        report = fleet.report()
        publish(report)
        if view.format == "text" and not silent:
            progress.finish(report)
        elif view.format == "json" and not silent:
            _write_document(report, view)
    return report


def _fleet(
    targets: Sequence[Target],
    checklist: Checklist,
    observe: Observer,
    jobs: int | None,
    *,
    steps: bool,
) -> FleetCheck | ShardedFleetCheck:
    from hermes_ctl.checks.fleet import JOBS, FleetCheck
    from hermes_ctl.checks.shards import ShardedFleetCheck, processes_for

    jobs = jobs or JOBS
    processes = min(processes_for(len(targets)), jobs)
    if processes == 1:
        return FleetCheck(targets, checklist, observe, jobs=jobs)
    return ShardedFleetCheck(
        targets, checklist, observe, jobs=jobs, processes=processes, steps=steps
    )


def _write_document(report: FleetReport, view: StreamView) -> None:
    from hermes_ctl.report import json

    screen = view.screen
    for piece in json.pieces(report, lambda value: screen.json(value, indent=2)):
        screen.write(piece)
    screen.document_written = True


def watch(
    targets: Sequence[Target],
    checklist: Checklist,
    options: FleetOptions,
    view: StreamView,
    publish: Publish,
) -> None:
    """Check all targets again and again and tell only what changes, until a signal ends it.

    The reports are written anew with each change, and once in each interval.
    """
    from hermes_ctl.checks.changes import FleetWatch
    from hermes_ctl.checks.fleet import JOBS

    reaction = _reaction(options.command)
    interval = options.interval or SHORTEST_INTERVAL

    async def changed(change: Change) -> None:
        _tell(change, view)
        if reaction is not None and change.of_verdict:
            problem = await reaction.run(_document(change), _facts(change))
            if problem:
                view.screen.warn(f"{change.report.node.name}: {problem}")

    watching = FleetWatch(targets, checklist, interval, changed, jobs=options.jobs or JOBS)
    loop.run(_watch(watching, interval, publish))


async def _watch(watching: FleetWatch, interval: float, publish: Publish) -> None:
    def write() -> None:
        report = watching.report()
        if report is not None:
            publish(report)

    async def keep_writing() -> None:
        while True:
            await asyncio.sleep(interval)
            write()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(watching.run())
            group.create_task(keep_writing())
    finally:
        write()


def _document(change: Change) -> object:
    """The report, as it may leave this process."""
    return redact_values(change.report.document())


def _facts(change: Change) -> dict[str, str]:
    return {
        "HERMESCTL_NODE": change.report.node.name,
        "HERMESCTL_VERDICT": change.report.verdict.value,
        "HERMESCTL_WAS": change.was.value if change.was else "",
    }


def _reaction(command: str | None) -> Reaction | None:
    if command is None:
        return None
    from hermes_ctl.checks.reaction import Reaction, parse_command

    return Reaction(parse_command(command), config.environment())


def _tell(change: Change, view: StreamView) -> None:
    if view.format == "jsonl":
        view.screen.json_line(change.document())
        return
    from hermes_ctl.render.changes import write_change

    write_change(view.screen, change)
