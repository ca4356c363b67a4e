"""`hermesctl report`: a report that was written as JSON, in another form; several as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.options import View

app = group("Show a written report in another form, or several as one.")


@app.command("show")
def show_report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A report written as JSON.")],
    *,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="junit, markdown, html, tap and so on.")
    ] = "markdown",
    view: View,
) -> int:
    """Print a report in another form. The exit code is the one that the report holds.

    Examples:

      hermesctl report show gate.json > comment.md

      hermesctl report show gate.json --as html > gate.html
    """
    from hermes_ctl.report.forms import writer
    from hermes_ctl.report.reading import read_report
    from hermes_ctl.secrets import redact

    write = writer(form)
    report = read_report(file)
    view.screen.write(redact(write(report)))
    return report.exit_code


@app.command("merge")
def merge_reports(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Check reports as JSON.")],
    *,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="json, junit, markdown, html and so on.")
    ] = "json",
    view: View,
) -> int:
    """Print the reports of several checks as one. The exit code is that of the worst.

    Nodes that share a name, as those that checked themselves do, get the names of their files.

    Example: hermesctl report merge node1.json node2.json --as html > fleet.html
    """
    from hermes_ctl.report.forms import writer
    from hermes_ctl.report.merging import merged
    from hermes_ctl.secrets import redact

    write = writer(form)
    fleet = merged(files)
    view.screen.write(redact(write(fleet)))
    return fleet.exit_code
