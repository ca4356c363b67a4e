"""`hermesctl checklist`: checklists as TOML data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hermes_ctl.cli import nodes, suggestions
from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.options import ListView, NodeOptions, View
from hermes_ctl.text import how_many

app = group("List, show, validate and freeze checklists.")


@dataclass(frozen=True, slots=True)
class Shipped:
    name: str
    release: str
    steps: int
    title: str


@app.command("list")
def list_checklists(*, view: ListView) -> None:
    """List the shipped checklists.

    A file of your own is as good as a shipped one: hermesctl check --checklist FILE.
    """
    from hermes_ctl.checks.checklist import load_checklist, shipped_names
    from hermes_ctl.render.tables import Column, Table

    loaded = [load_checklist(name) for name in shipped_names()]
    table = Table[Shipped](
        columns=(
            Column("Name", lambda row: row.name),
            Column("Release", lambda row: row.release),
            Column("Steps", lambda row: row.steps, right=True),
            Column("Title", lambda row: row.title),
        ),
        name=lambda row: row.name,
        raw=lambda row: {
            "name": row.name,
            "release": row.release,
            "steps": row.steps,
            "title": row.title,
        },
    )
    view.rows(table, (Shipped(c.name, c.release, len(c.step), c.title) for c in loaded))


@app.command("show")
def show_checklist(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", autocompletion=suggestions.checklists)
    ] = "bmas-node",
    *,
    view: View,
) -> None:
    """Print a checklist's TOML: a start for one of your own.

    Example: hermesctl checklist show bmas-node > mine.toml
    """
    from hermes_ctl.checks.checklist import checklist_path, load_checklist

    load_checklist(name)
    view.screen.line(checklist_path(name).read_text(encoding="utf-8").rstrip("\n"))


@app.command("validate")
def validate_checklist(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")], *, view: View
) -> None:
    """Say whether checklists are right; a mistake is told with file, line and key.

    Example: hermesctl checklist validate mine.toml
    """
    from hermes_ctl.checks.checklist import read_checklist

    for file in files:
        checklist = read_checklist(file)
        steps = how_many(len(checklist.step), "step")
        view.screen.line(f"{file}: ok, {steps}, release {checklist.release}")


@app.command("freeze")
def freeze_checklist(
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="NODE",
            autocompletion=nodes.complete,
            help="A context, a URL or lab[:NAME].",
        ),
    ] = None,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="The checklist's name.")] = "frozen",
    node: NodeOptions,
    view: View,
) -> None:
    """Print what a node does today as a checklist that fails when it changes.

    It pins the release, features, routes, the shapes of the read routes, the enabled toolsets and,
    on the node itself, the limit of concurrent runs. It makes no run.

    Example:

      hermesctl checklist freeze --from node1 > checklists/node1.toml

      hermesctl check node1 --checklist checklists/node1.toml
    """
    import tomli_w

    from hermes_ctl import config
    from hermes_ctl.api.client import Client
    from hermes_ctl.checks.freeze import Survey, files_in, frozen_checklist, survey
    from hermes_ctl.cli import loop, nodes

    chosen = nodes.resolve_all([source] if source else [], node)[0]
    lab = nodes.lab_of(chosen)
    files = files_in(lab.home if lab else chosen.home, config.environment())

    async def look() -> Survey:
        async with Client(chosen) as client:
            return await survey(lambda route: client.request("GET", route), files)

    document = frozen_checklist(loop.run(look()), name)
    view.screen.line(tomli_w.dumps(document, multiline_strings=False).rstrip("\n"))
