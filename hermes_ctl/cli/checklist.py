"""`hermesctl checklist`: checklists as TOML data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.options import ListView, View

app = group("List, show and validate checklists.")


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
    name: Annotated[str, typer.Argument(metavar="NAME|FILE")] = "bmas-node", *, view: View
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
        view.screen.line(f"{file}: ok, {len(checklist.step)} steps, release {checklist.release}")
