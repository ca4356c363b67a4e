"""What kept steps from being settled, each thing told once.

One broken submission is no six problems: the first step that it befell tells it, the others point
there. Where a step that has its own words for it is not well, that one tells it: a refused key is
for step 4 to tell, whoever meets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hermes_ctl.checks.checklist import StepEntry
from hermes_ctl.checks.findings import told_elsewhere, unsettled
from hermes_ctl.checks.model import Status, Step
from hermes_ctl.checks.probe import Blocked, Finding
from hermes_ctl.errors import AuthenticationFailed, HermesctlError


@dataclass(frozen=True, slots=True)
class Trouble:
    """A step that could not be settled, and what kept it from that."""

    number: int
    entry: StepEntry
    error: HermesctlError | Blocked
    seconds: float

    @property
    def kind(self) -> tuple[str, ...]:
        """The same for all steps that the same thing befell."""
        if isinstance(self.error, Blocked):
            return (self.error.step_id, self.error.reason)
        if isinstance(self.error, AuthenticationFailed):
            return (self.error.kind, str(self.error.status))
        return (self.error.kind, self.error.message)

    @property
    def blocker(self) -> str | None:
        """The step whose matter it is."""
        if isinstance(self.error, Blocked):
            return self.error.step_id
        return "auth" if isinstance(self.error, AuthenticationFailed) else None


class Troubles:
    """Collects them while a round of steps is under way, and makes findings of them at its end."""

    def __init__(self) -> None:
        self._waiting: list[Trouble] = []
        self._told: dict[tuple[str, ...], str] = {}

    def add(self, trouble: Trouble) -> None:
        self._waiting.append(trouble)

    def findings(self, settled: Mapping[str, Step]) -> Iterator[tuple[Trouble, Finding]]:
        """One finding for each, in the order of the steps; `settled` may grow meanwhile."""
        waiting, self._waiting = sorted(self._waiting, key=lambda one: one.number), []
        for trouble in waiting:
            teller = _teller(settled.get(trouble.blocker or "")) or self._told.get(trouble.kind)
            if teller is not None:
                yield trouble, told_elsewhere(trouble.error, teller)
                continue
            self._told[trouble.kind] = trouble.entry.id
            yield trouble, unsettled(trouble.error)


def _teller(step: Step | None) -> str | None:
    """The step that tells what is wrong there: itself, or the one that it points to."""
    if step is None:
        return None
    return step.id if step.status in (Status.FAIL, Status.UNKNOWN) else step.blocked_by
