"""What is known of the watched nodes at this moment.

One task writes, others and other threads read: every value is immutable, and is put in place whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from hermes_ctl.checks.model import Report, Verdict
from hermes_ctl.config import Node
from hermes_ctl.errors import UsageError
from hermes_ctl.monitor.pulse import Pulse
from hermes_ctl.runs.survey import Live

KEPT_LATENCIES = 60
KEPT_WARNINGS = 5
_NONE_YET: Mapping[Verdict, int] = MappingProxyType(dict.fromkeys(Verdict, 0))


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node: the last look at it, its last check, and what came of all of them.

    `latencies` are those of the last looks in seconds, the newest last, None where nothing
    answered. `checks` counts the checks by their verdict; `last_ready` is when a check last began
    that found the node ready.
    """

    node: Node
    pulse: Pulse | None = None
    latencies: tuple[float | None, ...] = ()
    report: Report | None = None
    is_checking: bool = False
    checks: Mapping[Verdict, int] = field(default_factory=lambda: _NONE_YET)
    last_ready: datetime | None = None


class Board:
    """The states of nodes, in the order given, and the runs of the journal.

    `on_change` is called after each change, in the task that made it. Raises `UsageError` for two
    nodes of one name: nobody could tell them apart.
    """

    def __init__(self, nodes: Sequence[Node], on_change: Callable[[], None] | None = None) -> None:
        self._states = {node.name: NodeState(node) for node in nodes}
        self.runs: tuple[Live, ...] | None = None
        self._warnings: tuple[str, ...] = ()
        self.on_change = on_change
        if len(self._states) < len(nodes):
            names = [node.name for node in nodes]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise UsageError(
                f"two nodes have the name {', '.join(twice)}",
                hint="give each (node, profile) a context: hermesctl config set-context",
            )

    def states(self) -> list[NodeState]:
        return list(self._states.values())

    def state(self, name: str) -> NodeState:
        """Raises KeyError for a node that is not watched."""
        return self._states[name]

    def looked(self, name: str, pulse: Pulse) -> None:
        latencies = (*self._states[name].latencies, pulse.latency_s)[-KEPT_LATENCIES:]
        self._change(name, pulse=pulse, latencies=latencies)

    def checking(self, name: str) -> None:
        self._change(name, is_checking=True)

    def checked(self, name: str, report: Report | None) -> None:
        """A check has ended; without a report, it came to nothing."""
        if report is None:
            self._change(name, is_checking=False)
            return
        state, verdict = self._states[name], report.verdict
        self._change(
            name,
            report=report,
            is_checking=False,
            checks=MappingProxyType({**state.checks, verdict: state.checks[verdict] + 1}),
            last_ready=report.started_at if verdict is Verdict.READY else state.last_ready,
        )

    def warn(self, text: str) -> None:
        """Keep a sentence for whoever shows this board."""
        self._warnings = (*self._warnings, text)[-KEPT_WARNINGS:]
        self._tell()

    def take_warnings(self) -> tuple[str, ...]:
        """The sentences that were kept, each given once."""
        taken, self._warnings = self._warnings, ()
        return taken

    def resolved(self, node: Node) -> None:
        """The configuration now says something else of a node."""
        self._change(node.name, node=node)

    def surveyed(self, runs: Sequence[Live]) -> None:
        self.runs = tuple(runs)
        self._tell()

    def _change(self, name: str, **fields: Any) -> None:
        self._states[name] = replace(self._states[name], **fields)
        self._tell()

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()
