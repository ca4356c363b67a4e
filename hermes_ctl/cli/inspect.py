"""`hermesctl skills`, `toolsets` and `models`: what a node has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl.cli import suggestions
from hermes_ctl.cli.asking import ask
from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.options import ListView, NodeOptions, ResourceView, Selection
from hermes_ctl.errors import UsageError
from hermes_ctl.render.tables import Column, Table

if TYPE_CHECKING:
    from hermes_ctl.api.inventory import ModelChoice
    from hermes_ctl.api.models import ModelEntry, ModelOptions, Skill, Toolset

skills = group("The skills that a node's agent knows.")
toolsets = group("The toolsets of a node: what its agent may use.")
models = group("The models that a node offers.")


@skills.command("list")
def list_skills(
    category: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only skills of this category.")
    ] = None,
    *,
    selection: Selection,
    node: NodeOptions,
    view: ListView,
) -> None:
    """List the skills of the node, or of one of its profiles.

    Examples:

      hermesctl skills list --category ops

      hermesctl skills list --grep deploy -o name

      hermesctl skills list -p planner -o json
    """
    from hermes_ctl.api import inventory

    found = ask(node, inventory.skills)
    rows = [row for row in found if category is None or row.category == category]
    view.rows(_SKILLS, selection.of(_SKILLS, rows))


@toolsets.command("list")
def list_toolsets(
    enabled: Annotated[bool, typer.Option("--enabled", help="Only enabled toolsets.")] = False,
    configured: Annotated[
        bool, typer.Option("--configured", help="Only toolsets that have what they need.")
    ] = False,
    *,
    selection: Selection,
    node: NodeOptions,
    view: ListView,
) -> None:
    """List the toolsets: which are enabled, which have the keys that they need.

    Examples:

      hermesctl toolsets list --enabled

      hermesctl toolsets list --grep browser --columns name,tools

      hermesctl toolsets list -o name > baseline.txt
    """
    from hermes_ctl.api import inventory

    rows = [
        row
        for row in ask(node, inventory.toolsets)
        if (not enabled or row.enabled) and (not configured or row.configured)
    ]
    view.rows(_TOOLSETS, selection.of(_TOOLSETS, rows))


@toolsets.command("show")
def show_toolset(
    name: Annotated[
        str, typer.Argument(metavar="NAME", autocompletion=suggestions.toolsets, help="A toolset.")
    ],
    *,
    node: NodeOptions,
    view: ResourceView,
) -> None:
    """Show one toolset with its tools.

    Example: hermesctl toolsets show terminal
    """
    from hermes_ctl.api import inventory

    toolset = ask(node, lambda client: inventory.toolset(client, name))
    fields = {
        "name": toolset.name,
        "label": toolset.label,
        "description": toolset.description,
        "enabled": toolset.enabled,
        "configured": toolset.configured,
        "tools": ", ".join(toolset.tools),
    }
    view.resource(toolset.name, toolset.raw, fields)


@models.command("list")
def list_models(
    options: Annotated[
        bool, typer.Option("--options", help="The inventory: providers, prices, abilities.")
    ] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="With --options: let the node ask its providers anew.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="With --options: also providers that are not set up.")
    ] = False,
    *,
    selection: Selection,
    node: NodeOptions,
    view: ListView,
) -> None:
    """List the models: the names that a client may send, or the whole inventory.

    With --options -o json the answer is the server's own document, nothing left out.

    Examples:

      hermesctl models list

      hermesctl models list --options --sort provider

      hermesctl models list --options --all --grep openrouter
    """
    from hermes_ctl.api import inventory

    if not options:
        if refresh or every:
            raise UsageError("--refresh and --all go with --options", hint="add --options")
        found = ask(node, inventory.models)
        view.rows(_MODELS, selection.of(_MODELS, found))
        return
    known = ask(node, lambda client: inventory.model_options(client, refresh=refresh))
    if view.format == "json":
        view.screen.document(known.raw)
        return
    _show_options(known, every, selection, view)


def _show_options(known: ModelOptions, every: bool, selection: Selection, view: ListView) -> None:
    from hermes_ctl.api.inventory import choices

    rows = [row for row in choices(known) if every or row.provider.authenticated is not False]
    view.rows(_CHOICES, selection.of(_CHOICES, rows))
    hidden = len({row.provider.slug for row in choices(known)} - {r.provider.slug for r in rows})
    if hidden:
        view.screen.note(f"{hidden} providers are not set up on this node; --all shows them")


_SKILLS: Table[Skill] = Table(
    columns=(
        Column("Name", lambda skill: skill.name),
        Column("Category", lambda skill: skill.category),
        Column("Description", lambda skill: skill.description, free=True),
    ),
    name=lambda skill: skill.name,
    raw=lambda skill: skill.raw,
    empty="the node has no such skill",
)
_TOOLSETS: Table[Toolset] = Table(
    columns=(
        Column("Name", lambda toolset: toolset.name),
        Column("Enabled", lambda toolset: toolset.enabled, styles={"no": "dim"}),
        Column("Configured", lambda toolset: toolset.configured, styles={"no": "yellow"}),
        Column("Tools", lambda toolset: len(toolset.tools), right=True),
        Column("Description", lambda toolset: toolset.description, free=True),
        Column("Label", lambda toolset: toolset.label, wide=True),
        Column("Tool names", lambda toolset: ",".join(toolset.tools), wide=True, free=True),
    ),
    name=lambda toolset: toolset.name,
    raw=lambda toolset: toolset.raw,
    empty="the node has no such toolset",
)
_MODELS: Table[ModelEntry] = Table(
    columns=(
        Column("Id", lambda model: model.id),
        Column("Owned by", lambda model: model.owned_by),
    ),
    name=lambda model: model.id,
    raw=lambda model: model.raw,
    empty="the node lists no such model",
)
_CHOICES: Table[ModelChoice] = Table(
    columns=(
        Column("Provider", lambda choice: choice.provider.slug),
        Column("Model", lambda choice: choice.model),
        Column("Default", lambda choice: choice.is_default, styles={"yes": "bold"}),
        Column("Abilities", lambda choice: choice.hints),
        Column("Input", lambda choice: choice.price("input"), right=True),
        Column("Output", lambda choice: choice.price("output"), right=True),
        Column("Authenticated", lambda choice: choice.provider.authenticated, wide=True),
        Column("Warning", lambda choice: choice.provider.warning, wide=True, free=True),
    ),
    name=lambda choice: f"{choice.provider.slug}/{choice.model or ''}",
    raw=lambda choice: choice.document(),
    empty="the node has no such model",
)
