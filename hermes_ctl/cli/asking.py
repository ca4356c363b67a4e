"""Asking: a node, by one call, and the person at the terminal, by one question."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from hermes_ctl.cli import loop, nodes
from hermes_ctl.config import NodeOptions
from hermes_ctl.errors import Negative, UsageError
from hermes_ctl.render.console import Screen, cell

if TYPE_CHECKING:
    from hermes_ctl.api.client import Client

T = TypeVar("T")


class Declined(Negative):
    """The question was answered with no."""


def ask(options: NodeOptions, call: Callable[[Client], Awaitable[T]]) -> T:
    """What `call` makes of a client of the node that is meant; it is closed on every way out."""
    from hermes_ctl.api.client import Client

    node = nodes.resolve(options)

    async def asked() -> T:
        async with Client(node) as client:
            return await call(client)

    return loop.run(asked())


def can_be_typed() -> bool:
    """Whether standard input is a terminal; it may have been closed before we started."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirm(screen: Screen, question: str, *, yes: bool) -> None:
    """Return if the person at the terminal agrees, or agreed already by `--yes`.

    Raises `Declined` for any other answer than y or yes, and `UsageError` where nobody can be asked.
    """
    if yes:
        return
    if not can_be_typed() or not screen.error_is_terminal:
        raise UsageError(
            "this has to be confirmed, and there is no terminal to ask at",
            hint="--yes says that it is meant",
        )
    screen.stderr.write(f"{cell(question)} [y/N] ")
    screen.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Declined("not confirmed; nothing was done")
