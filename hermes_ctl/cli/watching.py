"""From what was typed to the nodes that `exporter` and `top` watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hermes_ctl import config
from hermes_ctl.cli import nodes
from hermes_ctl.cli.sides import with_lab
from hermes_ctl.config import Node, NodeOptions

if TYPE_CHECKING:
    from hermes_ctl.checks.checklist import Checklist
    from hermes_ctl.checks.subject import CheckSettings
    from hermes_ctl.monitor.board import Board
    from hermes_ctl.monitor.watch import Surveyor, Watched
    from hermes_ctl.runs.journal import Journal
    from hermes_ctl.runs.survey import Live


def check_settings(
    checklist: Checklist, *, skip: Sequence[str] = (), release: str | None = None, runs: bool
) -> CheckSettings:
    """What each check is to do. Raises `UsageError` for a step that the checklist does not have, and
    for a release that is none."""
    from hermes_ctl.checks.checklist import check_release
    from hermes_ctl.checks.runner import select
    from hermes_ctl.checks.subject import CheckSettings

    settings = CheckSettings(
        skip=tuple(skip),
        runs=runs,
        release=check_release(release) if release else None,
        environment=config.environment(),
    )
    select(checklist, settings)
    return settings


def watched(names: Sequence[str], options: NodeOptions, settings: CheckSettings) -> list[Watched]:
    """The nodes of `names`; without one, the node that is meant.

    Their configuration can be read again while they are watched, but not a key that came by
    standard input. Sends nothing; raises what `nodes.resolve_all` raises.
    """
    from hermes_ctl.monitor.watch import Watched

    return [
        Watched(
            node,
            with_lab(settings, nodes.lab_of(node)),
            resolve=None if options.key_file == "-" else _resolver(names[at : at + 1], options),
        )
        for at, node in enumerate(nodes.resolve_all(names, options))
    ]


def _resolver(name: Sequence[str], options: NodeOptions) -> Callable[[], Node]:
    return lambda: nodes.resolve_all(name, options)[0]


def survey_of(board: Board, known: Journal) -> Surveyor:
    """Surveys the runs of the journal that are on the nodes of `board` and have not ended."""
    from hermes_ctl.runs.survey import survey

    async def look() -> list[Live]:
        watched = {state.node.url: state.node for state in board.states()}
        entries = [one for url in watched for one in known.entries(url=url, active=True)]
        return await survey(entries, known, lambda entry: watched[entry.url])

    return look
