"""`hermesctl check` and `hermesctl explain`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl import config
from hermes_ctl.cli import fleet as many
from hermes_ctl.cli import loop, nodes, suggestions
from hermes_ctl.cli.inventory import nodes_of
from hermes_ctl.cli.options import FleetOptions, NodeNames, NodeOptions, StreamView, View, duration
from hermes_ctl.cli.sides import with_lab
from hermes_ctl.errors import UsageError

if TYPE_CHECKING:
    from hermes_ctl.checks.checklist import Checklist
    from hermes_ctl.checks.fleet import Target
    from hermes_ctl.checks.model import FleetReport, Report
    from hermes_ctl.checks.runner import CheckEvent
    from hermes_ctl.checks.subject import CheckSettings

LEFT_RUNS = "runs of the check may go on: their sessions begin with hermesctl-check"
"""Said when a second signal ends the clean-up."""


def command(
    names: NodeNames = None,
    *,
    checklist: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            autocompletion=suggestions.checklists,
            help="A shipped checklist, or a file of yours.",
        ),
    ] = "bmas-node",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP",
            autocompletion=suggestions.steps,
            help="Check this step alone (repeatable).",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP",
            autocompletion=suggestions.steps,
            help="Leave this step out (repeatable).",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let nothing be skipped.")] = False,
    no_runs: Annotated[
        bool, typer.Option("--no-runs", "--dry-run", help="Only what costs nothing: no run.")
    ] = False,
    allow_busy: Annotated[
        bool, typer.Option("--allow-busy", help="Start runs on a node that already works.")
    ] = False,
    wait: Annotated[
        float, duration("--wait", help="Retry for so long what may pass in time.")
    ] = 0.0,
    deadline: Annotated[
        float | None, duration("--deadline", help="Longest time for the check of a node.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The reviewed release, such as ==0.20.4.*.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="A second model to ask for in step model.")
    ] = None,
    hermes_bin: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The node's hermes executable.")
    ] = None,
    hermes_home: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The node's HERMES_HOME.")
    ] = None,
    agent_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The bMAS adapter on this machine.")
    ] = None,
    agent_env: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The bMAS adapter's environment file.")
    ] = None,
    node_capacity: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs that the node can carry at once.")
    ] = None,
    probe_capacity: Annotated[
        bool, typer.Option("--probe-capacity", help="Measure the running limit by filling it.")
    ] = False,
    lab: Annotated[
        bool, typer.Option("--lab", help="Check a real Hermes in the lab, started if need be.")
    ] = False,
    report: Annotated[
        list[str] | None,
        typer.Option(metavar="FORM=FILE", help="Write the report, such as json=FILE (repeatable)."),
    ] = None,
    nagios: Annotated[
        bool, typer.Option("--nagios", help="Answer as a plugin of Nagios: its line, its codes.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the report's JSON Schema and do nothing else.")
    ] = False,
    node: NodeOptions,
    fleet: FleetOptions,
    view: StreamView,
) -> int:
    """Learn whether a node is ready: the contract's checklist, step by step.

    Exit code 0 says ready, 1 not ready, 3 that it could not be determined; of several nodes, 1 where
    one is not ready, else 3 where one could not be determined.

    Examples:

      hermesctl check                             the node that this machine is

      hermesctl check -u http://node1:8642 --key-file node1.key

      hermesctl check node1 node2                 two contexts, side by side

      hermesctl check --all --label site=lab      every context with this label

      ansible-inventory --list | hermesctl check --inventory - --group hermes

      hermesctl check --no-runs --wait 60s        what costs nothing, once up

      hermesctl check --report json=report.json   for machines
    """
    from hermes_ctl.checks.checklist import check_release, load_checklist
    from hermes_ctl.checks.model import schema as report_schema
    from hermes_ctl.checks.runner import select
    from hermes_ctl.checks.subject import CheckSettings
    from hermes_ctl.cli.reports import reports

    if schema:
        view.screen.document(report_schema())
        return 0
    many.require_usable(fleet, view, nagios=nagios)
    chosen = load_checklist(checklist)
    settings = CheckSettings(
        only=tuple(only or ()),
        skip=tuple(skip or ()),
        strict=strict,
        runs=not no_runs,
        allow_busy=allow_busy,
        wait=wait,
        deadline=deadline,
        release=check_release(release) if release else None,
        hermes_bin=hermes_bin,
        hermes_home=hermes_home,
        agent_url=agent_url,
        agent_env=agent_env,
        node_capacity=node_capacity,
        probe_capacity=probe_capacity,
        other_model=model,
        environment=config.environment(),
    )
    settings.require_usable()
    select(chosen, settings)
    with ExitStack() as stack:
        write_reports = stack.enter_context(reports(report or (), view.screen))
        if lab:
            targets = [_in_lab(names or (), node, fleet, settings, view, stack)]
        else:
            targets = _targets(names or (), node, fleet, settings, view)
        if fleet.interval is not None:
            many.watch(targets, chosen, fleet, view, write_reports)
        if fleet.of_many or len(targets) > 1:
            return _exit_code(
                many.check_many(targets, chosen, fleet.jobs, view, write_reports, silent=nagios),
                view,
                nagios=nagios,
            )
        result = _check(targets[0], chosen, view, write_reports, silent=nagios)
        return _exit_code(result, view, nagios=nagios)


def _exit_code(report: Report | FleetReport, view: StreamView, *, nagios: bool) -> int:
    if not nagios:
        return report.exit_code
    from hermes_ctl.report.nagios import plugin_code, text

    view.screen.line(text(report).rstrip("\n"))
    return int(plugin_code(report))


def _targets(
    names: Sequence[str],
    options: NodeOptions,
    fleet: FleetOptions,
    settings: CheckSettings,
    view: StreamView,
) -> list[Target]:
    from hermes_ctl.checks.fleet import Target

    found = nodes_of(names, fleet.choice, options, view.screen.note)
    return [Target(node, with_lab(settings, nodes.lab_of(node))) for node in found]


def _in_lab(
    names: Sequence[str],
    options: NodeOptions,
    fleet: FleetOptions,
    settings: CheckSettings,
    view: StreamView,
    stack: ExitStack,
) -> Target:
    """The lab's node: of the lab that is up, or of one that lives as long as this check."""
    from hermes_ctl.checks.fleet import Target
    from hermes_ctl.lab.gateway import running, start

    if names or options.url or options.context or fleet.of_many:
        raise UsageError(
            "--lab names the node already", hint="leave it out, or check lab:NAME instead"
        )
    environment = config.environment()
    kept = [lab for lab in running(environment) if lab.state.kept]
    if kept:
        return _targets(["lab"], options, fleet, settings, view)[0]
    lab = stack.enter_context(start(environment=environment, report=view.screen.note))
    return Target(lab.profile_node(options.profile), with_lab(settings, lab))


def _check(
    target: Target,
    checklist: Checklist,
    view: StreamView,
    publish: Callable[[Report | FleetReport], None],
    *,
    silent: bool,
) -> Report:
    """Check one node. What was settled is told and published on every way out, Ctrl-C included."""
    from hermes_ctl.checks.runner import CheckFinished, check_node
    from hermes_ctl.render.progress import CheckProgress

    progress = CheckProgress(view.screen)
    finished: list[Report] = []

    def observe(event: CheckEvent) -> None:
        if isinstance(event, CheckFinished):
            finished.append(event.report)
        if view.format == "text" and not silent:
            progress.observe(event)

    for finding in target.node.key_findings:
        view.screen.warn(f"{target.node.name}: {finding}")
    try:
        loop.run(
            check_node(target.node, checklist, target.settings, observe),
            leaving_hint=lambda: LEFT_RUNS,
        )
    finally:
        progress.close()
        for report in finished:
            publish(report)
            if view.format != "text" and not silent:
                show = view.screen.document if view.format == "json" else view.screen.json_line
                show(report.document())
    return finished[-1]


def explain(
    step: Annotated[
        str | None,
        typer.Argument(
            metavar="STEP", autocompletion=suggestions.steps, help="A step, by id or number."
        ),
    ] = None,
    *,
    view: View,
) -> None:
    """Explain what a step proves, how it can fail and how to mend it.

    Works offline.

    Examples:

      hermesctl explain            the steps

      hermesctl explain stop       one of them, by id or number
    """
    from hermes_ctl.checks.probes import load_probe, probe_names

    known = probe_names()
    if step is None:
        for number, name in enumerate(known, 1):
            view.screen.line(f"{number:>3}  {name:<12}  {load_probe(name).title}")
        return
    name = known[int(step) - 1] if step.isdigit() and 0 < int(step) <= len(known) else step
    if name not in known:
        raise UsageError(f"there is no step {step!r}", hint=f"steps: {', '.join(known)}")
    from hermes_ctl.render.explanation import write_explanation

    write_explanation(view.screen, known.index(name) + 1, load_probe(name))
