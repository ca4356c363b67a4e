"""The options that many commands share, and how a command takes them.

A command function says what it needs by the type of a parameter, and gets it made:

    def command(step: StepArgument, node: NodeOptions, view: ListView) -> int | None: ...

`node: NodeOptions` stands for `--url`, `--key-file`, ... (hand it to `nodes.resolve`);
`choice: Choice` for the choice of many nodes, `fleet: FleetOptions` with how they are checked;
`view: View`, `DocumentView`, `ResourceView`, `ListView` or `StreamView` for `-o` and what every
command has; `selection: Selection` for `--grep` and `--sort` of a list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from hermes_ctl import config
from hermes_ctl.cli import nodes
from hermes_ctl.config import NodeOptions
from hermes_ctl.durations import parse_duration
from hermes_ctl.inventory.choice import Choice, FleetOptions, parse_labels
from hermes_ctl.render.console import ColorPolicy, Screen
from hermes_ctl.render.selection import Selection
from hermes_ctl.render.tables import Format
from hermes_ctl.render.views import DocumentView, ListView, ResourceView, StreamView, View

__all__ = [
    "Choice",
    "DocumentView",
    "FleetOptions",
    "ListView",
    "NodeNames",
    "NodeOptions",
    "ResourceView",
    "Selection",
    "StreamView",
    "View",
    "duration",
    "expand",
]

NODE = "Node"
OUTPUT = "Output"
MANY = "Many nodes"


def duration(*names: str, help: str, panel: str | None = None) -> Any:
    """A typer option that takes a duration and gives seconds; `names[0]` is said in errors."""
    return typer.Option(
        *names,
        metavar="DURATION",
        help=help,
        parser=lambda text: parse_duration(str(text), names[0]),
        show_default=False,
        rich_help_panel=panel,
    )


def _node_option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=NODE, **settings)


def _output_option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=OUTPUT, show_default=False, **settings)


NodeNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NODE",
        autocompletion=nodes.complete,
        help="Contexts, URLs or lab[:NAME]; without one, the node meant.",
    ),
]
NodeUrl = Annotated[
    str | None, _node_option("--url", "-u", metavar="URL", help="Address of the node's API server.")
]
KeyFile = Annotated[
    str | None,
    _node_option("--key-file", metavar="FILE", help="Read the API key from FILE, - for stdin."),
]
Profile = Annotated[
    str | None,
    _node_option("--profile", "-p", metavar="NAME", help="Profile of the node (adds /p/NAME)."),
]
Context = Annotated[
    str | None,
    _node_option(
        "--context",
        "-c",
        metavar="NAME",
        help="Context from the configuration, or lab[:NAME].",
        autocompletion=nodes.complete,
    ),
]
Timeout = Annotated[
    float | None, duration("--timeout", help="Longest wait for one answer (10s).", panel=NODE)
]
CaFile = Annotated[
    Path | None,
    _node_option("--ca-file", metavar="FILE", help="Trust the certificates in FILE."),
]
Insecure = Annotated[
    bool, _node_option("--insecure", help="Do not verify the server's certificate.")
]
Proxy = Annotated[
    bool, _node_option("--proxy", help="Obey proxy variables for private addresses too.")
]

Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP",
        rich_help_panel=MANY,
        autocompletion=nodes.complete_groups,
        help="The nodes of this group (repeatable).",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        "-l",
        metavar="K=V",
        rich_help_panel=MANY,
        help="Only nodes with this label (repeatable).",
    ),
]
Everything = Annotated[
    bool, typer.Option("--all", rich_help_panel=MANY, help="All nodes there are.")
]
InventoryFile = Annotated[
    str | None,
    typer.Option(
        "--inventory",
        metavar="FILE|-",
        rich_help_panel=MANY,
        help="Nodes from FILE: TOML, Ansible's JSON, or addresses.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", metavar="N", min=1, rich_help_panel=MANY, help="Nodes at once (32)."
    ),
]
Watch = Annotated[
    float | None,
    duration("--watch", help="Check again and again, show only what changes.", panel=MANY),
]
Execute = Annotated[
    str | None,
    typer.Option(
        "--exec",
        metavar="COMMAND",
        rich_help_panel=MANY,
        help="With --watch: run it when a verdict changes, the report on its input.",
    ),
]

Grep = Annotated[
    str | None,
    typer.Option("--grep", metavar="PATTERN", help="Only rows that match this expression."),
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", metavar="COLUMN", help="Order by this column; -COLUMN is descending."),
]

Verbose = Annotated[bool, _output_option("--verbose", "-v", help="Say more.")]
Quiet = Annotated[bool, _output_option("--quiet", "-q", help="Say only results and errors.")]
Color = Annotated[
    ColorPolicy, _output_option("--color", metavar="WHEN", help="auto, always or never.")
]
Columns = Annotated[
    str | None,
    _output_option("--columns", metavar="A,B", help="Show these columns, in this order."),
]
ListFormat = Annotated[
    Format,
    _output_option("--output", "-o", metavar="FORMAT", help="table, wide, json, jsonl or name."),
]
DocumentFormat = Annotated[
    Literal["text", "json"],
    _output_option("--output", "-o", metavar="FORMAT", help="text or json."),
]
ResourceFormat = Annotated[
    Literal["text", "json", "name"],
    _output_option("--output", "-o", metavar="FORMAT", help="text, json or name."),
]
StreamFormat = Annotated[
    Literal["text", "json", "jsonl"],
    _output_option("--output", "-o", metavar="FORMAT", help="text, json or jsonl."),
]


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options that are taken together: `options` maps a parameter's name to its annotation and
    its default, `make` turns their values into the one value that the command gets."""

    options: Mapping[str, tuple[Any, Any]]
    make: Callable[[dict[str, Any]], Any]


def _view(kind: type[View], **options: tuple[Any, Any]) -> OptionGroup:
    def make(values: dict[str, Any]) -> View:
        screen = Screen(
            environment=config.environment(),
            color=values.pop("color"),
            quiet=values.pop("quiet"),
            verbose=values.pop("verbose"),
        )
        if "columns" in values:
            names = (values["columns"] or "").split(",")
            values["columns"] = tuple(name.strip() for name in names if name.strip())
        return kind(screen=screen, **values)

    common = {"verbose": (Verbose, False), "quiet": (Quiet, False), "color": (Color, "auto")}
    return OptionGroup({**options, **common}, make)


def _choice(values: dict[str, Any]) -> Choice:
    return Choice(
        groups=tuple(values["groups"] or ()),
        labels=parse_labels(values["labels"] or ()),
        everything=values["everything"],
        inventory=values["inventory"],
    )


def _fleet(values: dict[str, Any]) -> FleetOptions:
    return FleetOptions(_choice(values), values["jobs"], values["watch"], values["execute"])


_CHOICE: dict[str, tuple[Any, Any]] = {
    "groups": (Groups, None),
    "labels": (Labels, None),
    "everything": (Everything, False),
    "inventory": (InventoryFile, None),
}


_GROUPS: dict[type, OptionGroup] = {
    Choice: OptionGroup(_CHOICE, _choice),
    FleetOptions: OptionGroup(
        {
            **_CHOICE,
            "jobs": (Jobs, None),
            "watch": (Watch, None),
            "execute": (Execute, None),
        },
        _fleet,
    ),
    NodeOptions: OptionGroup(
        {
            "url": (NodeUrl, None),
            "key_file": (KeyFile, None),
            "profile": (Profile, None),
            "context": (Context, None),
            "timeout": (Timeout, None),
            "ca_file": (CaFile, None),
            "insecure": (Insecure, False),
            "proxy": (Proxy, False),
        },
        lambda values: NodeOptions(**values),
    ),
    Selection: OptionGroup(
        {"grep": (Grep, None), "sort": (Sort, None)}, lambda values: Selection(**values)
    ),
    View: _view(View),
    DocumentView: _view(DocumentView, format=(DocumentFormat, "text")),
    ResourceView: _view(ResourceView, format=(ResourceFormat, "text")),
    ListView: _view(ListView, format=(ListFormat, "table"), columns=(Columns, None)),
    StreamView: _view(StreamView, format=(StreamFormat, "text")),
}
_CONTEXT = "typer_context"


def expand(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """`function` with each parameter of a group's type replaced by that group's options.

    Its own parameters come first, then the node's options, then those of the output. Raises
    `TypeError` where an option would exist twice.
    """
    hints = get_type_hints(function, include_extras=True)
    own: list[inspect.Parameter] = []
    groups: dict[str, OptionGroup] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        group = _GROUPS.get(hints[name])
        if group is not None:
            groups[name] = group
        else:
            own.append(parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY))
    shared = _parameters(groups)
    twice = {p.name for p in own} & {p.name for p in shared}
    if twice:
        raise TypeError(f"{function.__module__}: {', '.join(sorted(twice))} is a shared option")

    def call(**values: Any) -> int | None:
        context: typer.Context = values.pop(_CONTEXT)
        for name, group in groups.items():
            made = group.make({option: values.pop(option) for option in group.options})
            if isinstance(made, View):
                context.obj.view = made
            values[name] = made
        return function(**values)

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    call.__module__ = function.__module__
    context = inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [*own, *shared, context]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameters(groups: Mapping[str, OptionGroup]) -> list[inspect.Parameter]:
    """The options of `groups`, in the order of `_GROUPS`."""
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for group in _GROUPS.values()
        if group in groups.values()
        for name, (annotation, default) in group.options.items()
    ]
