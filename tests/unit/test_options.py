"""How a command gets the options that many share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from hermes_ctl.cli.grammar import Invocation, as_command, group
from hermes_ctl.cli.options import (
    DocumentView,
    ListView,
    NodeOptions,
    StreamView,
    View,
    duration,
    expand,
)
from hermes_ctl.errors import UsageError


def call(function: Callable[..., Any], *arguments: str) -> Invocation:
    """Type `try ARGUMENTS` where `try` is that function."""
    invocation = Invocation()
    command = as_command("try", function)
    command.main(list(arguments), prog_name="try", standalone_mode=False, obj=invocation)
    return invocation


def test_node_options_are_taken_together() -> None:
    seen: list[NodeOptions] = []

    def command(node: NodeOptions) -> None:
        """Try it."""
        seen.append(node)

    call(command)
    call(
        command,
        *("-u", "http://h:1", "--key-file", "-", "-p", "coder", "-c", "prod"),
        *("--timeout", "1m30s", "--ca-file", "ca.pem", "--insecure", "--proxy"),
    )
    assert seen == [
        NodeOptions(),
        NodeOptions(
            url="http://h:1",
            key_file="-",
            profile="coder",
            context="prod",
            timeout=90.0,
            ca_file=Path("ca.pem"),
            insecure=True,
            proxy=True,
        ),
    ]


def test_a_view_has_the_screen_and_the_format() -> None:
    seen: list[ListView] = []

    def command(view: ListView) -> None:
        """Try it."""
        seen.append(view)

    invocation = call(command, "-o", "wide", "--columns", "run, state,", "-v", "-q")
    (view,) = seen
    assert invocation.view is view
    assert (view.format, view.columns) == ("wide", ("run", "state"))
    assert (view.screen.verbose, view.screen.quiet) == (True, True)


@pytest.mark.parametrize(
    ("kind", "formats"),
    [
        (DocumentView, ["text", "json"]),
        (ListView, ["table", "wide", "json", "jsonl", "name"]),
        (StreamView, ["text", "json", "jsonl"]),
    ],
)
def test_each_view_has_its_formats(kind: type[View], formats: list[str]) -> None:
    seen: list[str] = []

    def command(view: View) -> None:
        """Try it."""
        seen.append(view.format)

    command.__annotations__["view"] = kind
    for format in formats:
        call(command, "-o", format)
    call(command)
    assert seen == [*formats, formats[0]]
    with pytest.raises(typer.BadParameter):
        call(command, "-o", "yaml")


def test_own_parameters_go_first_and_keep_their_defaults() -> None:
    seen: list[tuple[Any, ...]] = []

    def command(
        names: Annotated[list[str] | None, typer.Argument(metavar="NAME")] = None,
        *,
        limit: Annotated[int, typer.Option("--limit", help="How many.")] = 3,
        wait: Annotated[float | None, duration("--wait", help="How long.")] = None,
        view: View,
        node: NodeOptions,
    ) -> None:
        """Try it."""
        seen.append((names, limit, wait, node.url))

    call(command)
    call(command, "a", "b", "--limit", "5", "-u", "http://h", "--wait", "500ms")
    assert seen == [(None, 3, None, None), (["a", "b"], 5, 0.5, "http://h")]
    sections = as_command("try", command).get_help(typer.Context(as_command("try", command)))
    places = [sections.index(word) for word in ("Arguments:", "Options:", "Node:", "Output:")]
    assert places == sorted(places)


def test_commands_of_a_group_take_them_too() -> None:
    app = group("Try things.")
    seen: list[str | None] = []

    @app.command("one")
    def one(node: NodeOptions) -> None:
        """The first."""
        seen.append(node.context)

    @app.command("two")
    def two(view: View) -> None:
        """The second."""

    command = as_command("try", app)
    command.main(["one", "-c", "x"], prog_name="try", standalone_mode=False, obj=Invocation())
    assert seen == ["x"]


def test_an_option_exists_once() -> None:
    def command(url: str, node: NodeOptions) -> None:
        """Try it."""

    with pytest.raises(TypeError, match="url is a shared option"):
        expand(command)


@pytest.mark.parametrize("text", ["forever", "-1", "inf", "nan", "1 hour", ""])
def test_a_bad_duration_names_its_option(text: str) -> None:
    def command(node: NodeOptions) -> None:
        """Try it."""
        pytest.fail("it ran")

    with pytest.raises(UsageError, match=r"--timeout .* is not a duration"):
        call(command, "--timeout", text)
