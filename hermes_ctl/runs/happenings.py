"""What can happen to a run, typed: what `follow` yields and what renderers show.

Every text in these values came from a server or a model: neutralise it before it is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from hermes_ctl.api.events import BrokenFrame, Event
from hermes_ctl.api.models import Run
from hermes_ctl.runs.result import STATE_OF_EVENT, Result, number

CHOICES: Final = ("once", "session", "always", "deny")
"""Every choice that an approval can offer (wire.md, 4), in the order in which they are shown."""


@dataclass(slots=True)
class Delta:
    """A piece of the streamed text. Joined, the pieces are not the output (wire.md, 0.4)."""

    event: Event
    text: str


@dataclass(slots=True)
class Interim:
    """Text beside a tool call (0.22); `streamed` says that it came as deltas already."""

    event: Event
    text: str
    streamed: bool


@dataclass(slots=True)
class Reasoning:
    """`reasoning.available`: on every known release it repeats the answer (wire.md, 0.3)."""

    event: Event
    text: str


@dataclass(slots=True)
class ToolStarted:
    event: Event
    tool: str
    preview: str


@dataclass(slots=True)
class ToolCompleted:
    """`seconds` is the server's measure, None where it gave none."""

    event: Event
    tool: str
    seconds: float | None
    failed: bool


@dataclass(frozen=True, slots=True)
class Approval:
    """A tool call that waits for a human. `command` is None where only its existence is known.

    `choices` are those that the server offers for this one, `requested_at` its own time of the
    request in seconds since 1970.
    """

    request_id: str | None = None
    command: str | None = None
    description: str | None = None
    choices: tuple[str, ...] = CHOICES
    requested_at: float | None = None

    @property
    def key(self) -> str:
        """What tells it from the run's other ones: its id, or what stands for it on 0.19."""
        return self.request_id or f"{self.requested_at} {self.command}"


@dataclass(slots=True)
class ApprovalRequested:
    """`honoured` is True where the server is known to obey the request id (0.22)."""

    event: Event | None
    approval: Approval
    honoured: bool = False


@dataclass(slots=True)
class ApprovalResponded:
    event: Event
    choice: str
    resolved: int
    request_id: str | None


@dataclass(slots=True)
class SubagentStarted:
    event: Event
    subagent_id: str
    goal: str
    depth: int
    index: int
    count: int


@dataclass(slots=True)
class SubagentCompleted:
    event: Event
    subagent_id: str
    goal: str
    depth: int
    status: str
    seconds: float | None
    tokens: int
    summary: str


@dataclass(slots=True)
class Steered:
    event: Event


@dataclass(slots=True)
class Closing:
    """A terminal event: the run is about to end; the status route is asked what it came to."""

    event: Event


@dataclass(slots=True)
class Told:
    """An event that says nothing a person has to see: only those who want every event get it."""

    event: Event


@dataclass(slots=True)
class UnknownEvent:
    """An event that this hermesctl does not know: shown, never dropped (field-notes 19)."""

    event: Event


@dataclass(slots=True)
class BrokenEvent:
    frame: BrokenFrame


@dataclass(slots=True)
class StateChanged:
    """The status route tells another state, or for the first time one."""

    run: Run
    previous: str | None


@dataclass(slots=True)
class Progress:
    """The status route tells another last event: all that polling alone can see of the work."""

    run: Run


NoticeKind = Literal[
    "stream",
    "broken",
    "unreachable",
    "reachable",
    "quiet",
    "approval",
    "stop",
    "contradiction",
    "recovered",
    "delegation",
]


@dataclass(slots=True)
class Notice:
    """A sentence that the one who waits should read. It is ours, what it quotes is not."""

    kind: NoticeKind
    text: str


@dataclass(slots=True)
class DeadlinePassed:
    """The time that was given is over; the run is as it was."""


@dataclass(slots=True)
class Ended:
    result: Result


Happening = (
    Delta
    | Interim
    | Reasoning
    | ToolStarted
    | ToolCompleted
    | ApprovalRequested
    | ApprovalResponded
    | SubagentStarted
    | SubagentCompleted
    | Steered
    | Closing
    | Told
    | UnknownEvent
    | BrokenEvent
    | StateChanged
    | Progress
    | Notice
    | DeadlinePassed
    | Ended
)


def translate(event: Event) -> Happening:
    """The typed form of an event. Fields of a wrong type are taken as absent; nothing is raised."""
    make = _TRANSLATIONS.get(event.name)
    return make(event) if make else UnknownEvent(event)


def approval_of(data: dict[str, Any]) -> Approval:
    """The approval in an `approval.request` event, or in the status of 0.22 and later."""
    offered = data.get("choices")
    names = [str(choice).lower() for choice in offered] if isinstance(offered, list) else []
    choices = tuple(choice for choice in CHOICES if choice in names) or ("once", "deny")
    return Approval(
        request_id=_text(data, "request_id") or None,
        command=_text(data, "command"),
        description=_text(data, "description") or _text(data, "pattern_key") or None,
        choices=choices,
        requested_at=_number(data, "timestamp"),
    )


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    if isinstance(value, str):
        return value
    return "" if value is None else str(value)


def _number(data: dict[str, Any], name: str) -> float | None:
    return number(data.get(name))


def _count(data: dict[str, Any], name: str) -> int:
    return int(_number(data, name) or 0)


def _delta(event: Event) -> Happening:
    text = event.data.get("delta")
    return Delta(event, text) if isinstance(text, str) else UnknownEvent(event)


def _interim(event: Event) -> Happening:
    streamed = event.data.get("already_streamed") is True
    return Interim(event, _text(event.data, "text"), streamed)


def _tool_started(event: Event) -> Happening:
    return ToolStarted(event, _text(event.data, "tool"), _text(event.data, "preview"))


def _tool_completed(event: Event) -> Happening:
    data = event.data
    failed = bool(data.get("error"))
    return ToolCompleted(event, _text(data, "tool"), _number(data, "duration"), failed)


def _approval_requested(event: Event) -> Happening:
    return ApprovalRequested(event, approval_of(event.data))


def _approval_responded(event: Event) -> Happening:
    data = event.data
    resolved = _count(data, "resolved") if "resolved" in data else 1
    request_id = _text(data, "request_id") or None
    return ApprovalResponded(event, _text(data, "choice"), resolved, request_id)


def _subagent_started(event: Event) -> Happening:
    data = event.data
    return SubagentStarted(
        event,
        subagent_id=_text(data, "subagent_id"),
        goal=_text(data, "goal") or _text(data, "preview"),
        depth=_count(data, "depth"),
        index=_count(data, "task_index"),
        count=_count(data, "task_count"),
    )


def _subagent_completed(event: Event) -> Happening:
    data = event.data
    return SubagentCompleted(
        event,
        subagent_id=_text(data, "subagent_id"),
        goal=_text(data, "goal") or _text(data, "preview"),
        depth=_count(data, "depth"),
        status=_text(data, "status"),
        seconds=_number(data, "duration_seconds"),
        tokens=_count(data, "input_tokens") + _count(data, "output_tokens"),
        summary=_text(data, "summary"),
    )


_TRANSLATIONS: Final[dict[str, Callable[[Event], Happening]]] = {
    "message.delta": _delta,
    "message.interim": _interim,
    "reasoning.available": lambda event: Reasoning(event, _text(event.data, "text")),
    "tool.started": _tool_started,
    "tool.completed": _tool_completed,
    "approval.request": _approval_requested,
    "approval.responded": _approval_responded,
    "subagent.start": _subagent_started,
    "subagent.complete": _subagent_completed,
    "run.steered": Steered,
    **dict.fromkeys(STATE_OF_EVENT, Closing),
}
