"""What `top` does to runs. Each act asks the node anew first: the screen may be seconds old."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_ctl.api.client import Client
from hermes_ctl.errors import Refused, UsageError
from hermes_ctl.runs import control
from hermes_ctl.runs.happenings import Approval
from hermes_ctl.runs.journal import Entry, Journal
from hermes_ctl.runs.survey import NodeOf
from hermes_ctl.top.rows import short_id


@dataclass(frozen=True, slots=True)
class RunControl:
    """Acts on journalled runs; each gives a sentence on what came of it, or raises `HermesctlError`."""

    journal: Journal
    node_of: NodeOf

    async def answer(self, entry: Entry, approval: Approval, choice: str) -> str:
        """Answer the approval that was shown, and no other.

        Raises `Refused` where the run now waits for something else: up to 0.20.4 the node takes the
        oldest request, whatever id is sent (wire.md, 0.17).
        """
        run_id = _id_of(entry)
        async with Client(self.node_of(entry)) as client:
            known = await control.waiting(client, self.journal, entry, run_id)
            if not _is_shown(known, approval):
                raise Refused(
                    f"{run_id} waits for something else by now: look again",
                    status=409,
                    hint=f"hermesctl deny {run_id}",
                    url=client.node.url,
                )
            answered = await control.respond(
                *(client, self.journal, entry, run_id, choice), request_id=approval.request_id
            )
        return f"{short_id(run_id)}: {choice}, {answered.resolved} resolved"

    async def stop(self, entry: Entry) -> str:
        run_id = _id_of(entry)
        async with Client(self.node_of(entry)) as client:
            return f"{short_id(run_id)}: {await control.stop(client, run_id)}"

    async def steer(self, entry: Entry, text: str) -> str:
        run_id = _id_of(entry)
        async with Client(self.node_of(entry)) as client:
            await control.steer(client, run_id, text)
        return f"{short_id(run_id)}: accepted; it reaches the model with its next call, if there is one"


def _is_shown(known: control.Waiting, approval: Approval) -> bool:
    """Whether the answer would reach the approval that was shown. A server that obeys request ids
    sees to that itself."""
    if known.obeyed and approval.request_id is not None:
        return True
    if approval.command is None:
        return not known.approvals
    return not known.unseen and known.approvals[0] == approval


def _id_of(entry: Entry) -> str:
    if entry.run_id is None:
        raise UsageError("the id of this run is not known", hint="hermesctl runs")
    return entry.run_id
