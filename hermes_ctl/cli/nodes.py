"""From what was typed to the node that is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_ctl import config
from hermes_ctl.config import Node, NodeOptions, Resolver
from hermes_ctl.contexts import is_lab, load_contexts
from hermes_ctl.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from hermes_ctl.lab.gateway import Lab


def resolve(options: NodeOptions) -> Node:
    """The node that the options, the environment and the configuration mean together.

    A context named `lab` or `lab:NAME` is a running lab. Sends nothing; raises
    `ConfigurationError` where no node can be made of it.
    """
    return _resolve(options, Resolver(config.environment()))


def _resolve(options: NodeOptions, resolver: Resolver) -> Node:
    environment = resolver.environment
    context = options.context
    if context is None and options.url is None and not environment.get("HERMES_GATEWAY_URL"):
        context = environment.get("HERMESCTL_CONTEXT")
    if context is not None and is_lab(context):
        return _lab_node(context.partition(":")[2], options, environment)
    return resolver.resolve(options)


def resolve_all(names: Sequence[str], options: NodeOptions) -> list[Node]:
    """One node for each name (a context, `CONTEXT/PROFILE` for a profile that has a key of its own,
    `lab[:NAME]` or a URL), or the one that is meant without a name."""
    if not names:
        return [resolve(options)]
    if options.url or options.context:
        raise UsageError(
            "nodes are named on the command line and by --url or --context as well",
            hint="use one way or the other",
        )
    resolver = Resolver(config.environment())  # reads each file once, however many nodes there are
    return [_node_of(name, options, resolver) for name in names]


def _node_of(name: str, options: NodeOptions, resolver: Resolver) -> Node:
    context, slash, profile = name.partition("/")
    if slash and ":" not in name and options.profile is None:
        known = resolver.contexts.contexts.get(context)
        if known is not None and profile in known.profiles:
            meant = replace(options, context=context, profile=profile)
            return replace(resolver.resolve(meant), name=name)
        if known is not None:
            raise ConfigurationError(
                f"the context {context} has no key for the profile {profile}",
                hint=f"hermesctl config set-context {context} --for-profile {profile} --key-file FILE",
            )
    return _resolve(_named(name, options), resolver)


def complete(incomplete: str) -> list[str]:
    """The names of nodes that begin so: contexts of the configuration, and running labs."""
    labs = [f"lab:{name}" for name in complete_labs("")]
    return complete_contexts(incomplete) + [name for name in labs if name.startswith(incomplete)]


def complete_contexts(incomplete: str) -> list[str]:
    """The names of the configuration's contexts that begin so."""
    contexts = load_contexts(config.environment()).contexts
    return [name for name in contexts if name.startswith(incomplete)]


def complete_labs(incomplete: str) -> list[str]:
    """The names of the running labs that begin so, without those of a check at work."""
    from hermes_ctl.lab import gateway

    names = [lab.name for lab in gateway.running(config.environment()) if lab.state.kept]
    return [name for name in names if name.startswith(incomplete)]


def complete_groups(incomplete: str) -> list[str]:
    """The groups of the configuration's contexts that begin so."""
    contexts = load_contexts(config.environment()).contexts.values()
    groups = sorted({group for context in contexts for group in context.groups})
    return [group for group in groups if group.startswith(incomplete)]


def _named(name: str, options: NodeOptions) -> NodeOptions:
    # What has a port or a path is meant as an address, and refused as one where it has no scheme.
    if not is_lab(name) and (":" in name or "/" in name):
        return replace(options, url=name)
    return replace(options, context=name)


def _lab_node(name: str, options: NodeOptions, environment: Mapping[str, str]) -> Node:
    """A lab as a node. It has its own address and keys; the other options count as ever."""
    if options.url is not None:
        raise UsageError("a lab has its own address", hint="leave --url or the lab out")
    node = running_lab(name, environment).profile_node(options.profile)
    meant = config.resolve_node(
        replace(options, context=None, url=node.url, profile=None),
        environment={k: v for k, v in environment.items() if k != "HERMESCTL_CONTEXT"},
    )
    sources = {**meant.sources, **node.sources}
    if options.key_file:
        sources["key"] = meant.sources["key"]
    if options.profile:
        sources["profile"] = "--profile"
    return replace(
        node,
        key=meant.key if options.key_file else node.key,
        timeout=meant.timeout,
        ca_file=meant.ca_file,
        insecure=meant.insecure,
        use_proxy=meant.use_proxy,
        sources=sources,
    )


def lab_of(node: Node) -> Lab | None:
    """The running lab whose node this is, None for any other node."""
    if not node.name.startswith("lab/"):
        return None
    from hermes_ctl.lab import gateway

    return gateway.find(node.name.split("/")[1], config.environment())


def running_lab(name: str, environment: Mapping[str, str]) -> Lab:
    """The lab of that name; without one, `default`, or the only one that was brought up to stay."""
    from hermes_ctl.lab import gateway

    if name:
        lab = gateway.find(name, environment)
        if lab is not None:
            return lab
        raise ConfigurationError(
            f"no lab named {name!r} is running", hint=f"hermesctl lab up --name {name}"
        )
    kept = [lab for lab in gateway.running(environment) if lab.state.kept]
    if len(kept) > 1:
        kept = [lab for lab in kept if lab.name == "default"] or kept
    if len(kept) == 1:
        return kept[0]
    if not kept:
        raise ConfigurationError("no lab is running", hint="hermesctl lab up")
    names = ", ".join(f"lab:{lab.name}" for lab in kept)
    raise ConfigurationError(f"{len(kept)} labs are running", hint=f"name one of {names}")
