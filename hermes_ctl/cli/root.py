"""The root of the command line: loads a command's module only when that command is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer
import typer.core
import typer.main

from hermes_ctl.cli.app import ENTRIES, HELP, HELP_OPTIONS, PROGRAM, Entry, help_text
from hermes_ctl.cli.grammar import Group, Invocation, as_command, group
from hermes_ctl.errors import ClosedPipe, Negative, UsageError

if TYPE_CHECKING:
    from typer._click import Command as AnyCommand
    from typer._click import Context
    from typer._click.shell_completion import CompletionItem


def load(entry: Entry) -> AnyCommand:
    """Import the module of `entry` and make its command."""
    module, attribute = entry.target.split(":")
    return as_command(entry.name, getattr(import_module(f"hermes_ctl.cli.{module}"), attribute))


class Root(Group):
    """`hermesctl` itself: knows its commands by the table alone until one of them is called."""

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002
        return [entry.name for entry in ENTRIES]

    def get_command(self, ctx: Context, cmd_name: str) -> AnyCommand | None:  # noqa: ARG002
        if cmd_name not in self.commands:
            self.commands.update({e.name: load(e) for e in ENTRIES if e.name == cmd_name})
        return self.commands.get(cmd_name)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """The names and helps of the table: a name is completed without loading its module."""
        for entry in ENTRIES:
            listed = typer.core.TyperCommand(entry.name, short_help=entry.help)
            self.commands.setdefault(entry.name, listed)
        return super().shell_complete(ctx, incomplete)

    def get_help(self, ctx: Context) -> str:  # noqa: ARG002
        return help_text().rstrip("\n")


class Aborted(Negative):
    """A question of ours was answered with no, or not at all."""


def run(arguments: Sequence[str], invocation: Invocation) -> int:
    """Read the command line `arguments`, run its command, and return the exit code.

    Raises `UsageError` for what cannot be read, `Aborted`, and whatever the command raises.
    Notes in `invocation` what was understood, and how results are to be shown, once known.
    """
    try:
        code = root().main(
            list(arguments), prog_name=PROGRAM, standalone_mode=False, obj=invocation
        )
    except SystemExit as left:  # typer's own ways out: shell completion, and a pipe that closed
        if isinstance(left.__context__, BrokenPipeError):
            raise ClosedPipe from left
        code = left.code
    except typer.Abort as abort:
        raise Aborted("aborted, nothing was done") from abort
    except typer.TyperException as error:
        raise UsageError(_sentence(error), hint=f"{invocation.command} --help") from error
    return code if isinstance(code, int) else 0


def _sentence(error: typer.TyperException) -> str:
    sentence = " ".join(error.format_message().split())
    sentence = sentence.removeprefix("Invalid value: ").replace(": Value error, ", ": ")
    return sentence.rstrip(".")


def root() -> AnyCommand:
    """The whole command line, ready for `.main(arguments, standalone_mode=False)`."""
    app = group(
        HELP,
        cls=Root,
        context_settings={"help_option_names": list(HELP_OPTIONS), "max_content_width": 100},
    )
    app.callback()(_root_options)
    # Makes typer able to answer the completion scripts; the options that it returns are not ours.
    typer.main.get_install_completion_arguments()
    return typer.main.get_command(app)


def _root_options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """`--version` is listed here and answered in `main`, before anything is imported."""
