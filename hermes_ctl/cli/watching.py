"""From what was typed to the nodes that `exporter` and `top` watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hermes_ctl import config
from hermes_ctl.cli import nodes
from hermes_ctl.cli.inventory import nodes_of
from hermes_ctl.cli.sides import with_lab
from hermes_ctl.config import Node, NodeOptions
from hermes_ctl.inventory import STANDARD_INPUT
from hermes_ctl.inventory.choice import Choice

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


def watched(
    names: Sequence[str],
    choice: Choice,
    options: NodeOptions,
    settings: CheckSettings,
    note: Callable[[str], None],
) -> list[Watched]:
    """The nodes that were chosen, as `check` chooses them; without a choice, the node that is meant.

    Their configuration can be read again while they are watched, but not what came by standard
    input. Sends nothing; raises what `nodes_of` raises.
    """
    from hermes_ctl.monitor.watch import Watched

    once = options.key_file == "-" or choice.inventory == STANDARD_INPUT

    def resolver(name: str) -> Callable[[], Node | None]:
        def resolve() -> Node | None:
            found = nodes_of(names, choice, options, lambda _: None)
            return next((node for node in found if node.name == name), None)

        return resolve

    return [
        Watched(node, with_lab(settings, nodes.lab_of(node)), None if once else resolver(node.name))
        for node in nodes_of(names, choice, options, note)
    ]


def survey_of(board: Board, known: Journal) -> Surveyor:
    """Surveys the runs of the journal that are on the nodes of `board` and have not ended."""
    from hermes_ctl.runs.survey import survey

    async def look() -> list[Live]:
        watched = {state.node.url: state.node for state in board.states()}
        entries = [one for url in watched for one in known.entries(url=url, active=True)]
        return await survey(entries, known, lambda entry: watched[entry.url])

    return look
