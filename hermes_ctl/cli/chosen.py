"""From a run's name on the command line to the run, its node, and its place in the journal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl import config
from hermes_ctl.cli import nodes, suggestions
from hermes_ctl.config import Node, NodeOptions
from hermes_ctl.contexts import load_contexts
from hermes_ctl.errors import ConfigurationError, SubmissionUncertain, UsageError
from hermes_ctl.text import one_line

if TYPE_CHECKING:
    from hermes_ctl.api.client import Client
    from hermes_ctl.render.console import Screen
    from hermes_ctl.runs.journal import Entry, Journal, Submission

RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        autocompletion=suggestions.runs,
        show_default=False,
        help="A run's id or the beginning of it; by default the last one started here.",
    ),
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The run that is meant. `run_id` is empty where its submission was lost: see `located`."""

    run_id: str
    node: Node
    entry: Entry | None


@contextmanager
def journal(
    screen: Screen, *, enabled: bool = True, warn: Callable[[str], None] | None = None
) -> Iterator[Journal]:
    """This machine's journal; what is wrong with it is said by `warn`, or on `screen`."""
    from hermes_ctl.runs.journal import Journal, journal_path

    environment = config.environment()
    prompts = load_contexts(environment).journal_prompts
    path = journal_path(environment)
    with Journal(path, warn=warn or screen.warn, prompts=prompts, enabled=enabled) as opened:
        yield opened


def choose(name: str | None, options: NodeOptions, known: Journal) -> Chosen:
    """The run of that name, or the one that was started here last. Sends nothing.

    A run that is journalled on another node than the one that was typed is asked for there as one
    that this machine does not know: that it is not there says nothing of what was journalled.
    Raises `UsageError` for a name that several runs have, and where there is no run yet.
    """
    typed = _names_a_node(options)
    node = nodes.resolve(options) if typed else None
    url = node.url if node else None
    if name is None:
        entry = known.latest(url)
        if entry is None:
            where = f" on {url}" if url else ""
            raise UsageError(f"no run was started here{where} yet", hint="name a run by its id")
        return Chosen(entry.run_id or "", node or node_of(entry, options), entry)
    if not name.strip() or name != one_line(name):
        raise UsageError(f"{name!r} is no name of a run", hint="hermesctl runs -o name")
    if node is not None:
        entry = _named(name, known, node.url)
        if entry is None and (elsewhere := _named(name, known)):
            name = elsewhere.run_id or name
        return Chosen((entry and entry.run_id) or name, node, entry)
    entry = _named(name, known)
    if entry is None:
        return Chosen(name, nodes.resolve(options), None)
    return Chosen(entry.run_id or "", node_of(entry, options), entry)


def _named(name: str, known: Journal, url: str | None = None) -> Entry | None:
    """The journalled run of that id, or of the only id that begins so; with `url`, on that node."""
    exact = known.by_id(name, url)
    if exact is not None:
        return exact
    found = known.by_prefix(name, url)
    if len(found) > 1:
        ids = ", ".join(entry.run_id or "" for entry in found[:4])
        raise UsageError(
            f"{len(found)} runs begin with {name!r}: {ids}", hint="give more of the id"
        )
    return found[0] if found else None


def node_of(entry: Entry, options: NodeOptions) -> Node:
    """The node that a journalled run is on, with its key, as the run's own command reached it.

    `options` add what is no address: a timeout, certificates. Raises `ConfigurationError` where the
    node cannot be made out any more.
    """
    if options.key_file is None and entry.key_file is not None:
        options = replace(options, key_file=entry.key_file)
    if entry.context is not None:
        try:
            node = nodes.resolve(replace(options, context=entry.context, profile=entry.profile))
        except ConfigurationError:
            node = None
        if node is not None and node.url == entry.url:
            return node
    return nodes.resolve(replace(options, url=entry.url))


def context_of(node: Node, options: NodeOptions) -> str | None:
    """The context that a node came from, to be found again by it."""
    if node.name.startswith("lab/"):
        return "lab:" + node.name.split("/")[1]
    if node.sources.get("url", "").startswith("context "):
        return node.name
    return options.context


def foreign(chosen: Chosen, options: NodeOptions) -> Submission | None:
    """What is written down of a run that was started elsewhere; None for one that is known."""
    if chosen.entry is not None:
        return None
    from hermes_ctl.runs.journal import Submission

    node = chosen.node
    return Submission(
        url=node.url,
        node=node.name,
        prompt=None,
        context=context_of(node, options),
        profile=node.profile,
        key_file=kept_key_file(options),
    )


def kept_key_file(options: NodeOptions) -> str | None:
    """The path of the key file, to be found again from anywhere; standard input cannot be."""
    if options.key_file in (None, "-"):
        return None
    return str(Path(options.key_file).expanduser().absolute())


def typed_again(options: NodeOptions) -> str:
    """What a command for the same node has to end with, where the journal does not know it."""
    named = {"-u": options.url, "-c": options.context, "-p": options.profile}
    words = {**named, "--key-file": kept_key_file(options)}
    return "".join(f" {name} {shlex.quote(value)}" for name, value in words.items() if value)


def _names_a_node(options: NodeOptions) -> bool:
    return any((options.url, options.context, options.profile, options.key_file))


async def located(client: Client, known: Journal, chosen: Chosen) -> Chosen:
    """`chosen` with the id of its run; a submission that was lost is looked for at the node.

    Raises `SubmissionUncertain` where no such run is to be found.
    """
    if chosen.run_id or chosen.entry is None:
        return chosen
    from hermes_ctl.runs.survey import is_submitting, locate

    entry = await locate(client, known, chosen.entry)
    if entry is not None and entry.run_id is not None:
        return replace(chosen, run_id=entry.run_id, entry=entry)
    if is_submitting(chosen.entry):
        raise SubmissionUncertain(
            "this run is being submitted right now: its id is not known yet",
            hint="type the command again in a moment",
        )
    raise SubmissionUncertain(
        "the answer to this run's submission was lost, and the node shows no run of that prompt",
        hint="hermesctl health --detailed tells how many runs are active there",
        url=chosen.node.url,
    )
