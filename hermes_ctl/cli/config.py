"""`hermesctl config`: contexts, and where each value comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_ctl import config
from hermes_ctl.cli import nodes
from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.options import DocumentView, ListView, NodeOptions, View, duration
from hermes_ctl.contexts import (
    Context,
    Contexts,
    KeySource,
    configuration_file,
    load_contexts,
)
from hermes_ctl.errors import UsageError
from hermes_ctl.render.tables import Column, Table, show
from hermes_ctl.secrets import MASK

if TYPE_CHECKING:
    from hermes_ctl.config import Node

app = group("Contexts: the nodes you work with, and where each value comes from.")

ContextName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        autocompletion=nodes.complete_contexts,
        help="A context of the configuration.",
    ),
]


@app.command("view")
def view_file(view: DocumentView) -> None:
    """Show the configuration file, which holds no key."""
    from hermes_ctl.contexts.document import contexts_of, read_document

    path = configuration_file(config.environment())
    if not path.exists():
        view.screen.note(f"there is no configuration file {path}")
        content: dict[str, Any] = {}
        text = ""
    else:
        document = read_document(path)
        contexts_of(document)
        content, text = document.content, document.text
    if view.format == "json":
        view.screen.document(content)
    elif text:
        view.screen.line(text.rstrip("\n"))


_Row = tuple[str, str, str]
_SETTINGS: Table[_Row] = Table(
    columns=(
        Column("setting", lambda row: row[0]),
        Column("value", lambda row: row[1]),
        Column("source", lambda row: row[2]),
    ),
    name=lambda row: row[0],
    raw=lambda row: dict(zip(("setting", "value", "source"), row, strict=True)),
)


@app.command("explain")
def explain(node: NodeOptions, view: DocumentView) -> None:
    """Show every value with its source, keys masked.

    Says which node a command with the same options would talk to. Sends nothing.
    """
    from hermes_ctl.discovery import read_node_files

    environment = config.environment()
    meant = nodes.resolve(node)
    rows = _node_rows(meant)
    findings = list(meant.key_findings)
    if meant.home is not None:
        profile = None if meant.home.parent.name == "profiles" else meant.profile
        files = read_node_files({**environment, "HERMES_HOME": str(meant.home)}, profile)
        model = files.model
        rows += [
            ("hermes enabled", _word(files.enabled.value), files.enabled.source),
            (
                "hermes limit",
                str(files.max_concurrent_runs.value),
                files.max_concurrent_runs.source,
            ),
            ("hermes model", model.value if model else "none", model.source if model else "none"),
        ]
        findings += files.problems
    elif environment.get("HERMES_HOME") and meant.sources.get("url") == config.DEFAULT:
        findings.append(
            f"HERMES_HOME is {environment['HERMES_HOME']}, and there is no such folder."
        )
    path = configuration_file(environment)
    rows.append(("configuration", str(path), "file" if path.exists() else "no such file"))
    if view.format == "json":
        settings = {name: {"value": value, "source": source} for name, value, source in rows}
        view.screen.document({"name": meant.name, "settings": settings, "findings": findings})
        return
    show(view.screen, _SETTINGS, rows)
    for finding in findings:
        view.screen.warn(finding)


def _node_rows(node: Node) -> list[_Row]:
    values = {
        "name": node.name,
        "url": node.url,
        "key": MASK if node.key is not None else "none",
        "profile": node.profile or "none",
        "timeout": f"{node.timeout:g} s",
        "ca_file": str(node.ca_file or "none"),
        "insecure": _word(node.insecure),
        "proxy": _word(node.use_proxy),
        "home": str(node.home or "none"),
    }
    return [
        (name.replace("_", "-"), value, node.sources.get(name, node.name))
        for name, value in values.items()
    ]


def _word(value: bool) -> str:
    return "yes" if value else "no"


@app.command("set-context")
def set_context(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=nodes.complete_contexts,
            help="The context to make or change.",
        ),
    ],
    *,
    url: Annotated[
        str | None, typer.Option("--url", "-u", metavar="URL", help="Address of the node.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", "-p", metavar="NAME", help="The profile that is meant."),
    ] = None,
    key_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The key is in FILE (mode 0600).")
    ] = None,
    key_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="The key is what COMMAND prints.")
    ] = None,
    key_environment: Annotated[
        str | None, typer.Option(metavar="NAME", help="The key is in that environment variable.")
    ] = None,
    for_profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="The key named here is that profile's own.")
    ] = None,
    timeout: Annotated[
        float | None, duration("--timeout", help="Longest wait for one answer.")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Trust the certificates in FILE.")
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure/--no-insecure", help="Do not verify the server's certificate."),
    ] = None,
    proxy: Annotated[
        bool | None,
        typer.Option("--proxy/--no-proxy", help="Obey proxy variables for private addresses."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Put a label on it, NAME- takes it off."),
    ] = None,
    group_name: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", help="Put it into a group, GROUP- takes it out."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Take a key of the file out, such as timeout."),
    ] = None,
    view: View,
) -> None:
    """Make a context, or change one.

    What is not named stays as it is. The key itself is never stored, only where it is to be had.
    Comments are not kept: a file that has some is kept beside it, as config.toml~.

    Examples:

      hermesctl config set-context n1 -u http://n1:8642 --key-file n1.key

      hermesctl config set-context n1 --timeout 30s --label site=lab

      hermesctl config set-context n1 --for-profile ops --key-file ops.key
    """
    from hermes_ctl.addresses import check_profile, parse_address
    from hermes_ctl.contexts import store

    values: dict[str, str | float | bool | None] = {
        "url": None if url is None else parse_address(url, "--url").url,
        "profile": None if profile is None else check_profile(profile),
        "timeout": _in_seconds(timeout),
        "ca-file": _absolute(ca_file),
        "insecure": insecure,
        "proxy": proxy,
    }
    change = store.ContextChange(
        values={name: value for name, value in values.items() if value is not None},
        unset=tuple(unset or ()),
        key=_key_source(key_file, key_command, key_environment),
        for_profile=None if for_profile is None else check_profile(for_profile),
        labels=dict(_label(text) for text in label or ()),
        groups={text.removesuffix("-"): not text.endswith("-") for text in group_name or ()},
    )
    if for_profile is not None and change.key is None:
        raise UsageError(
            "--for-profile says whose key it is, and there is no key",
            hint="give --key-file, --key-command or --key-environment beside it",
        )
    made = store.set_context(config.environment(), name, change)
    view.screen.note(
        f"context {name} {'made' if made else 'changed'}; to mean it from now on: "
        f"hermesctl config use-context {name}"
    )


def _in_seconds(timeout: float | None) -> str | None:
    return None if timeout is None else f"{timeout:.3f}".rstrip("0").rstrip(".") + "s"


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def _key_source(file: str | None, command: str | None, environment: str | None) -> KeySource | None:
    from shlex import split

    if sum(source is not None for source in (file, command, environment)) > 1:
        raise UsageError(
            "a key has one source",
            hint="give one of --key-file, --key-command and --key-environment",
        )
    if file == "-":
        raise UsageError(
            "standard input cannot be remembered", hint="--key-file FILE, or --key-command COMMAND"
        )
    if file is not None:
        return KeySource("file", str(_absolute(file)))
    if environment is not None:
        return KeySource("environment", environment)
    if command is None:
        return None
    try:
        return KeySource("command", tuple(split(command)))
    except ValueError as error:
        raise UsageError(f"--key-command cannot be read: {error}") from None


def _label(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if name.endswith("-") and not equals:
        return name[:-1], None
    if not name or not value:
        raise UsageError(f"{text!r} is no label", hint="--label site=lab, or --label site-")
    return name, value


@app.command("use-context")
def use_context(name: ContextName, view: View) -> None:
    """Make a context the one that is meant."""
    from hermes_ctl.contexts import store

    store.use_context(config.environment(), name)
    view.screen.note(f"the context is now {name}")


@app.command("delete-context")
def delete_context(name: ContextName, view: View) -> None:
    """Take a context out of the file.

    Its key stays where it is.
    """
    from hermes_ctl.contexts import store

    was_current = store.delete_context(config.environment(), name)
    rest = ", and no context is the current one now" if was_current else ""
    view.screen.note(f"context {name} deleted{rest}")


@app.command("get-contexts")
def get_contexts(
    *,
    group_name: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", help="Only those of this group (repeatable)."),
    ] = None,
    view: ListView,
) -> None:
    """List the contexts; the current one is marked."""
    contexts = load_contexts(config.environment())
    view.rows(_context_table(contexts), contexts.chosen(group_name or ()))


def _context_table(contexts: Contexts) -> Table[Context]:
    def labels(context: Context) -> str:
        return ",".join(f"{name}={value}" for name, value in context.labels.items())

    return Table(
        columns=(
            Column("current", lambda context: "*" if context.name == contexts.current else ""),
            Column("name", lambda context: context.name),
            Column("url", lambda context: context.url),
            Column("profile", lambda context: context.profile),
            Column("key", lambda context: str(context.key or "")),
            Column("groups", lambda context: ",".join(context.groups)),
            Column("labels", labels, wide=True),
            Column("timeout", lambda context: context.timeout, wide=True),
            Column("profiles", lambda context: ",".join(context.profiles), wide=True),
        ),
        name=lambda context: context.name,
        raw=lambda context: {
            "name": context.name,
            "current": context.name == contexts.current,
            "url": context.url,
            "profile": context.profile,
            "key": context.key and str(context.key),
            "timeout": context.timeout,
            "ca_file": context.ca_file,
            "insecure": context.insecure,
            "proxy": context.proxy,
            "groups": list(context.groups),
            "labels": dict(context.labels),
            "profiles": {name: str(key) for name, key in context.profiles.items()},
        },
        empty="there are no contexts; make one: hermesctl config set-context NAME --url URL",
    )
