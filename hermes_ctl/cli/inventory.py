"""From what was typed to the nodes of a check of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hermes_ctl import config
from hermes_ctl.cli import nodes
from hermes_ctl.config import Node, NodeOptions, Resolver
from hermes_ctl.contexts import Contexts, load_contexts
from hermes_ctl.errors import ConfigurationError, UsageError
from hermes_ctl.inventory import (
    STANDARD_INPUT,
    Entry,
    chosen,
    listing_of,
    load_inventory,
    named,
    refuse_twice,
)
from hermes_ctl.inventory.choice import Choice

_KEY_COMMANDS_AT_ONCE = 8
_PROBLEMS_SHOWN = 5


def nodes_of(
    names: Sequence[str], choice: Choice, options: NodeOptions, note: Callable[[str], None]
) -> list[Node]:
    """The nodes that `names` or `choice` mean, with their keys; without either, the one that is
    meant. `note` gets a remark on hosts of the inventory that are no nodes.

    Sends nothing. Raises `UsageError` or `ConfigurationError` for names that are unknown or stand
    twice, for an empty choice, and where a node cannot be made of one of them.
    """
    refuse_twice(names)
    if not choice.by_kind and choice.inventory is None:
        return _distinct(nodes.resolve_all(names, options))
    _check_usage(names, choice, options)
    environment = config.environment()
    contexts = _contexts(choice, environment, note)
    entries = named(contexts, names) if names else chosen(contexts, choice.groups, choice.labels)
    if options.profile is not None:
        entries = [Entry(name) for name in dict.fromkeys(entry.context for entry in entries)]
    return _resolved(entries, Resolver(environment, contexts), options)


def _check_usage(names: Sequence[str], choice: Choice, options: NodeOptions) -> None:
    if names and choice.by_kind:
        raise UsageError(
            "nodes are named, and chosen by --group, --label or --all as well",
            hint="use one way or the other",
        )
    if options.url or options.context:
        raise UsageError(
            "one node is named by --url or --context, and several are chosen as well",
            hint="use one way or the other",
        )
    if choice.inventory == options.key_file == STANDARD_INPUT:
        raise UsageError(
            "standard input cannot be both the inventory and the key", hint="--key-file FILE"
        )


def _contexts(
    choice: Choice, environment: Mapping[str, str], note: Callable[[str], None]
) -> Contexts:
    if choice.inventory is None:
        return load_contexts(environment)
    inventory = load_inventory(choice.inventory)
    if inventory.left_out:
        number = len(inventory.left_out)
        note(
            f"{number} host{'s have' if number > 1 else ' has'} no hermes_url and "
            f"{'are' if number > 1 else 'is'} left out: {listing_of(inventory.left_out)}"
        )
    return inventory.contexts


def _resolved(entries: Sequence[Entry], resolver: Resolver, options: NodeOptions) -> list[Node]:
    """Every entry as a node. Key commands run side by side; all that is wrong is told at once."""

    def resolve(entry: Entry) -> Node | ConfigurationError | UsageError:
        given = replace(options, context=entry.context, profile=entry.profile or options.profile)
        try:
            return replace(resolver.resolve(given), name=entry.name)
        except UsageError as error:
            return error

    contexts = resolver.contexts.contexts.values()
    commands = any(
        source is not None and source.kind == "command"
        for context in contexts
        for source in (context.key, *context.profiles.values())
    )
    if commands:
        with ThreadPoolExecutor(_KEY_COMMANDS_AT_ONCE) as pool:
            results = list(pool.map(resolve, entries))
    else:
        results = [resolve(entry) for entry in entries]
    problems = [result for result in results if isinstance(result, UsageError)]
    if problems:
        raise _together(problems, len(results))
    return [result for result in results if isinstance(result, Node)]


def _together(problems: Sequence[UsageError], nodes_in_all: int) -> UsageError:
    if len(problems) == 1:
        return problems[0]
    told = "; ".join(problem.message for problem in problems[:_PROBLEMS_SHOWN])
    more = len(problems) - _PROBLEMS_SHOWN
    return ConfigurationError(
        f"{len(problems)} of {nodes_in_all} nodes cannot be checked: {told}"
        + (f"; and {more} more" if more > 0 else ""),
        hint=problems[0].hint,
    )


def _distinct(found: list[Node]) -> list[Node]:
    """Nodes by names of their own: two addresses at one host are told apart by the rest of them."""
    times = Counter(node.name for node in found)
    told_apart = [
        replace(node, name=node.url.partition("://")[2]) if times[node.name] > 1 else node
        for node in found
    ]
    refuse_twice(node.name for node in told_apart)
    return told_apart
