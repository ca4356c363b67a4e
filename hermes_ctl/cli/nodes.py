"""From what was typed to the node that is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hermes_ctl import config
from hermes_ctl.config import Node, NodeOptions

LAB = "lab"


def resolve(options: NodeOptions) -> Node:
    """The node that the options, the environment and the configuration mean together.

    A context named `lab` or `lab:NAME` is a running lab. Sends nothing; raises
    `ConfigurationError` where no node can be made of it.
    """
    environment = config.environment()
    return config.resolve_node(options, environment=environment)


def resolve_all(names: Sequence[str], options: NodeOptions) -> list[Node]:
    """One node for each name (a context, `lab[:NAME]` or a URL), or the one that is meant
    without a name."""
    if not names:
        return [resolve(options)]
    return [resolve(_named(name, options)) for name in names]


def _named(name: str, options: NodeOptions) -> NodeOptions:
    if "://" in name:
        return replace(options, url=name)
    return replace(options, context=name)
