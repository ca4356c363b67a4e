"""`hermesctl profiles`: which profiles of a node answer, and to which key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl import config
from hermes_ctl.cli import loop, nodes
from hermes_ctl.cli.options import ListView, NodeOptions
from hermes_ctl.config import Node
from hermes_ctl.contexts import load_contexts
from hermes_ctl.errors import UsageError
from hermes_ctl.render.tables import Column, Table

if TYPE_CHECKING:
    from hermes_ctl.api.profiles import ProfileState


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROFILE]...", help="Profiles to ask; by default all that are known here."
        ),
    ] = None,
    *,
    node: NodeOptions,
    view: ListView,
) -> int:
    """Show which profiles a node serves, and whether each is kept to its own key.

    Known are the profiles of the context, of a lab, and of the Hermes on this machine. The exit
    code is 1 where something is not as it should be: a profile that takes the default key, one
    that is not served, or a node that ignores prefixes.

    Examples:

      hermesctl profiles

      hermesctl profiles planner coder -c node1 -o json
    """
    from hermes_ctl.api.profiles import profiles

    if node.profile is not None:
        raise UsageError("profiles asks all of them", hint="hermesctl profiles NAME, without -p")
    default = nodes.resolve(node)
    if default.profile not in (None, "default"):
        raise UsageError(
            f"{default.url} is the profile {default.profile} alone",
            hint="give the address of the node itself, without /p/NAME",
        )
    wanted = names or _known(default)
    named = [nodes.resolve(replace(node, profile=name)) for name in wanted]
    states = loop.run(profiles(default, named))
    _show(states, view)
    if not wanted:
        view.screen.note("no other profile is known here; name one: hermesctl profiles NAME")
    return 1 if any(state.findings for state in states) else 0


def _known(default: Node) -> list[str]:
    """The profiles that the lab, the context or the node's own files name."""
    lab = nodes.lab_of(default)
    if lab is not None:
        return list(lab.profiles)
    context = load_contexts(config.environment()).contexts.get(default.name)
    found = dict.fromkeys(context.profiles if context is not None else ())
    if default.home is not None:
        found |= dict.fromkeys(
            folder.name
            for folder in sorted((default.home / "profiles").glob("*/"))
            if (folder / ".env").exists() or (folder / "config.yaml").exists()
        )
    return list(found)


def _show(states: list[ProfileState], view: ListView) -> None:
    """On a terminal what is wrong stands below the table, whole, and not cut in its last column."""
    if view.format != "table" or view.columns or not view.screen.is_terminal:
        view.rows(_TABLE, states)
        return
    view.rows(replace(_TABLE, columns=_TABLE.columns[:-1]), states)
    for state in states:
        for finding in state.findings:
            view.screen.line(f"{view.screen.marks.failed} {state.name}: {finding}")


_YES_NO = {"no": "yellow"}
_TABLE: Table[ProfileState] = Table(
    columns=(
        Column("Profile", lambda state: state.name),
        Column("Served", lambda state: state.served, styles=_YES_NO),
        Column("Own key", lambda state: _taken(state.own_key), styles={"refused": "red"}),
        Column("Default key", lambda state: _taken(state.default_key), styles={"taken": "red"}),
        Column("Answers as", lambda state: state.answers_as),
        Column("URL", lambda state: state.url, wide=True),
        Column("Finding", lambda state: "; ".join(state.findings), free=True),
    ),
    name=lambda state: state.name,
    raw=lambda state: state.document(),
)


def _taken(value: bool | None) -> str | None:
    if value is None:
        return None
    return "taken" if value else "refused"
