"""The table of commands, and the root that loads a command's module only when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer
import typer.core
import typer.main

from hermes_ctl.cli.grammar import PROGRAM, Group, Invocation, as_command, group, option_section
from hermes_ctl.errors import Negative, UsageError
from hermes_ctl.render.errors import ClosedPipe

if TYPE_CHECKING:
    from typer._click import Command as AnyCommand
    from typer._click import Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem

HELP = "Learn whether a Hermes Agent node may take work, put work on it, and gate its upgrades."
EPILOG = (
    "Exit codes: 0 yes, 1 no, 2 usage, 3 undetermined, 4 authentication, 5 not found, 6 refused, "
    "7 at capacity, 8 pending, 9 submission uncertain, 70 a bug."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its section and one line in `hermesctl --help`, and where its code is.

    `target` is `module:attribute` below `hermes_ctl.cli`: a typer app for a group, a function for
    a command. `help` equals the first line of the real help: a test compares them.
    """

    section: str
    name: str
    target: str
    help: str


# The sections, in their order: Readiness, Runs, Inspect, Gate and lab, Configuration.
ENTRIES: tuple[Entry, ...] = (
    Entry(
        "Readiness",
        "check",
        "check:command",
        "Learn whether a node is ready: the contract's checklist, step by step.",
    ),
    Entry(
        "Readiness",
        "explain",
        "check:explain",
        "Explain what a step proves, how it can fail and how to mend it.",
    ),
    Entry("Readiness", "checklist", "checklist:app", "List, show and validate checklists."),
    Entry(
        "Gate and lab", "lab", "lab:app", "A real Hermes with a scripted model: no key, no cost."
    ),
    Entry(
        "Configuration", "completion", "completion:app", "Print the completion script of a shell."
    ),
)

_BY_NAME = {entry.name: entry for entry in ENTRIES}


def load(entry: Entry) -> AnyCommand:
    """Import the module of `entry` and make its command."""
    module, attribute = entry.target.split(":")
    return as_command(entry.name, getattr(import_module(f"hermes_ctl.cli.{module}"), attribute))


class Root(Group):
    """`hermesctl` itself: knows its commands by the table alone until one of them is called."""

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002
        return list(_BY_NAME)

    def get_command(self, ctx: Context, cmd_name: str) -> AnyCommand | None:  # noqa: ARG002
        if cmd_name not in self.commands and cmd_name in _BY_NAME:
            self.commands[cmd_name] = load(_BY_NAME[cmd_name])
        return self.commands.get(cmd_name)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """The names and helps of the table: a name is completed without loading its module."""
        for entry in ENTRIES:
            listed = typer.core.TyperCommand(entry.name, short_help=entry.help)
            self.commands.setdefault(entry.name, listed)
        return super().shell_complete(ctx, incomplete)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        width = max((len(name) for name in _BY_NAME), default=0)
        for section in dict.fromkeys(entry.section for entry in ENTRIES):
            rows = [(e.name.ljust(width), e.help) for e in ENTRIES if e.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)
        option_section(self.get_params(ctx), ctx, formatter)


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
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root_options)
    # Makes typer able to answer the completion scripts; the options that it returns are not ours.
    typer.main.get_install_completion_arguments()
    return typer.main.get_command(app)


def _root_options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """`--version` is listed here and answered in `main`, before anything is imported."""
