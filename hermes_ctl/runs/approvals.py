"""Which approvals of a run wait for a human, as far as its events and its status tell."""

from __future__ import annotations

from typing import Final

from hermes_ctl.api.models import Run
from hermes_ctl.runs.happenings import (
    Approval,
    ApprovalRequested,
    ApprovalResponded,
    approval_of,
)

_UNSEEN: Final = 2.0
_KEPT: Final = 1000


class OpenApprovals:
    """The approvals that were asked for and not answered, the oldest first.

    Nothing tells that a request timed out on the node (wire.md, 0.17): its tool just ends.
    """

    def __init__(self) -> None:
        self._open: dict[str, Approval] = {}
        self._announced: dict[str, None] = {}
        self._waiting_since: float | None = None

    def __len__(self) -> int:
        return len(self._open)

    def all(self) -> list[Approval]:
        return list(self._open.values())

    def requested(self, approval: Approval) -> None:
        self._announced[approval.key] = None
        self._open[approval.key] = approval
        for known in (self._announced, self._open):
            if len(known) > _KEPT:
                known.pop(next(iter(known)))

    def responded(self, answer: ApprovalResponded) -> None:
        if answer.request_id is not None:
            self._open.pop(answer.request_id, None)
            return
        for key in list(self._open)[: max(1, answer.resolved)]:
            del self._open[key]

    def answered(self, approval: Approval) -> None:
        """This one was answered from here: it is not to be asked about again."""
        self._open.pop(approval.key, None)

    def tool_ended(self) -> None:
        """A tool of the run itself has ended: it is not waiting any more, whoever answered."""
        self._open.clear()

    def from_status(self, run: Run, now: float, *, streaming: bool) -> ApprovalRequested | None:
        """What a polled status tells that no event did: from 0.22 on the whole request, before only
        that there is one. With a stream beside it, the event is given time to come."""
        if run.status != "waiting_for_approval":
            self._waiting_since = None
            return None
        if run.approval is not None:
            approval = approval_of(run.approval)
            if approval.key in self._announced:
                return None
            self.requested(approval)
            return ApprovalRequested(None, approval, honoured=True)
        self._waiting_since = self._waiting_since or now
        patience = _UNSEEN if streaming else 0.0
        if self._open or now - self._waiting_since < patience:
            return None
        unseen = Approval()
        self.requested(unseen)
        return ApprovalRequested(None, unseen)
