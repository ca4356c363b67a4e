"""How the command line is read: the classes behind every command and group.

The one place that reaches under typer's public surface, and only for type names.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import typer
import typer.core
import typer.main

from hermes_ctl.cli.app import PROGRAM

if TYPE_CHECKING:
    from typer._click import Command as AnyCommand
    from typer._click import Context, HelpFormatter

    from hermes_ctl.render.views import View

    Function = Callable[..., int | None]

OWN_OPTIONS = "Options"


class Invocation:
    """What one call of `hermesctl` turned out to be: the context object of typer.

    `command` is as much of it as was understood (`hermesctl skills list`), `view` how its results
    are to be shown, None as long as the arguments are not parsed.
    """

    __slots__ = ("command", "view")

    def __init__(self) -> None:
        self.command = PROGRAM
        self.view: View | None = None

    @classmethod
    def note(cls, context: Context) -> None:
        """Remember that the command of `context` was recognised."""
        if isinstance(context.obj, cls):
            context.obj.command = context.command_path


def option_section(options: list[Any], context: Context, formatter: HelpFormatter) -> None:
    """Write the options in sections, one per `rich_help_panel`, the command's own ones first."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], OWN_OPTIONS: []}
    for option in options:
        record = option.get_help_record(context)
        if record is None:
            continue
        if option.param_type_name == "argument":
            sections["Arguments"].append((record[0].partition(" <")[0], record[1]))
            continue
        panel = getattr(option, "rich_help_panel", None) or OWN_OPTIONS
        sections.setdefault(panel, []).append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def ordered_help_names(command: AnyCommand, context: Context) -> list[str]:
    """The names of the help option in the order in which they were given: typer's are in a set."""
    taken = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return [name for name in context.help_option_names if name not in taken]


class Command(typer.core.TyperCommand):
    """A command whose help shows its options in sections."""

    def get_help_option_names(self, ctx: Context) -> list[str]:
        return ordered_help_names(self, ctx)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        Invocation.note(ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        option_section(self.get_params(ctx), ctx, formatter)


class Group(typer.core.TyperGroup):
    """A group of commands: alone it shows its help, and it knows what was probably meant."""

    def get_help_option_names(self, ctx: Context) -> list[str]:
        return ordered_help_names(self, ctx)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        Invocation.note(ctx)
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(0)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, AnyCommand | None, list[str]]:
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        meant = get_close_matches(name, self.list_commands(ctx), n=1)
        guess = f", did you mean {meant[0]!r}?" if meant else ""
        raise typer.BadParameter(f"unknown command {name!r}{guess}", ctx=ctx)


class CommandGroup(typer.Typer):
    """A typer app whose commands may take the option groups of `cli.options` as parameters."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        register = super().command(name, **{"cls": Command, **settings})

        def decorate(function: Function) -> Function:
            from hermes_ctl.cli.options import expand

            register(expand(function))
            return function

        return decorate


def group(help: str, **settings: Any) -> CommandGroup:
    """A new command group; `help` is its text, the first line also shown in the list above it."""
    return CommandGroup(
        **{
            "help": help,
            "cls": Group,
            "add_completion": False,
            "rich_markup_mode": None,
            "pretty_exceptions_enable": False,
            **settings,
        }
    )


def as_command(name: str, target: Any) -> AnyCommand:
    """The command named `name` for a typer app or for a plain command function."""
    if isinstance(target, typer.Typer):
        command: AnyCommand = typer.main.get_group(target)
    else:
        app = group("")
        app.command(name)(target)
        command = typer.main.get_command(app)
    command.name = name
    return command
