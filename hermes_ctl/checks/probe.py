"""What a probe is: a name, what it proves, and the coroutine that settles its step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_ctl.checks.model import Evidence, Status
from hermes_ctl.errors import ConnectionLost, NoAnswer, Unreachable

if TYPE_CHECKING:
    from hermes_ctl.checks.subject import Subject

NOT_ANSWERED = (Unreachable, ConnectionLost, NoAnswer)
"""What says nothing of how the node would have answered: such a step is unknown, not failed."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One way for a step to fail: what is seen, and the command or sentence that mends it."""

    seen: str
    mend: str


@dataclass(frozen=True, slots=True)
class Finding:
    """How a step came out, in the words that the report will hold.

    Texts may quote the server; whoever renders them neutralises them.
    """

    status: Status
    summary: str
    expected: str | None = None
    observed: str | None = None
    evidence: tuple[Evidence, ...] = ()
    fix: tuple[str, ...] = ()
    blocked_by: str | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Probe:
    """A step's code. `needs_runs`: it cannot be settled without work for the model.

    `offline`: it does not need the node's API to be reachable. `deep`: it waits until the others,
    which tell whether the node may take work at all, have settled. `last`: it wants the node for
    itself, after all others.
    """

    name: str
    title: str
    proves: str
    causes: tuple[Cause, ...]
    settle: Callable[[Subject], Awaitable[Finding]]
    needs_runs: bool = False
    offline: bool = False
    deep: bool = False
    last: bool = False

    @property
    def turn(self) -> int:
        """When it is settled: those with the lowest number first, side by side."""
        return 2 if self.last else int(self.deep)


class Blocked(Exception):
    """Raised by what several steps share when another step's trouble prevents it."""

    def __init__(self, step_id: str, reason: str) -> None:
        super().__init__(reason)
        self.step_id = step_id
        self.reason = reason


@dataclass(slots=True)
class Trail:
    """Collects evidence while a probe works."""

    entries: list[Evidence] = field(default_factory=list)

    def add(self, source: str, value: object) -> None:
        self.entries.append(Evidence(source=source, value=str(value)))

    def __call__(self) -> tuple[Evidence, ...]:
        return tuple(self.entries)
