"""Runs as rows and as lines of a name and a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hermes_ctl.api.models import Run
from hermes_ctl.api.values import moment
from hermes_ctl.render.tables import Column, Table, Value
from hermes_ctl.runs.result import Result
from hermes_ctl.runs.survey import Live, Waiting, approval_document
from hermes_ctl.text import one_line

_STATES: Final = {
    "completed": "green",
    "running": "cyan",
    "waiting_for_approval": "bold yellow",
    "failed": "red",
    "cancelled": "yellow",
    "interrupted": "red",
    "gone": "red",
    "uncertain": "magenta",
}
_PROMPT: Final = 80


@dataclass(frozen=True, slots=True)
class Ended:
    """One run that was waited for."""

    result: Result
    node: str

    def document(self) -> dict[str, Any]:
        return {"node": self.node, **self.result.document()}


@dataclass(frozen=True, slots=True)
class Request:
    """One approval of one run."""

    live: Live
    waiting: Waiting

    def document(self) -> dict[str, Any]:
        entry = self.live.entry
        where = {"run_id": entry.run_id, "node": entry.node, "url": entry.url}
        return {**where, **approval_document(self.waiting)}


RUNS: Final[Table[Live]] = Table(
    columns=(
        Column("Run", lambda live: live.entry.run_id),
        Column("State", lambda live: shown_state(live), styles=_STATES),
        Column("Started", lambda live: live.entry.submitted_at),
        Column("Node", lambda live: live.entry.node),
        Column("Prompt", lambda live: one_line(live.entry.prompt or "", _PROMPT), free=True),
        Column("Problem", lambda live: live.problem, wide=True, free=True),
        Column("Verdict", lambda live: live.entry.verdict, wide=True),
        Column("Session", lambda live: live.entry.session_id, wide=True),
        Column("Model", lambda live: live.entry.model, wide=True),
        Column("Url", lambda live: live.entry.url, wide=True),
    ),
    name=lambda live: live.entry.run_id or "",
    raw=lambda live: live.document(),
    empty="no such run in the journal",
)
APPROVALS: Final[Table[Request]] = Table(
    columns=(
        Column("Run", lambda row: row.live.entry.run_id),
        Column("Command", lambda row: row.waiting.approval.command or "not seen here", free=True),
        Column("Reason", lambda row: row.waiting.approval.description, free=True),
        Column("Since", lambda row: row.waiting.since),
        Column("Node", lambda row: row.live.entry.node),
        Column("Request", lambda row: row.waiting.approval.request_id, wide=True),
        Column("Choices", lambda row: ",".join(row.waiting.approval.choices), wide=True),
    ),
    name=lambda row: row.live.entry.run_id or "",
    raw=lambda row: row.document(),
    empty="nothing waits for an approval",
)
ENDED: Final[Table[Ended]] = Table(
    columns=(
        Column("Run", lambda row: row.result.run_id),
        Column("State", lambda row: row.result.state, styles=_STATES),
        Column("Verdict", lambda row: row.result.verdict.value, styles={"success": "green"}),
        Column("Time", lambda row: _duration(row.result.seconds), right=True),
        Column("Tokens", lambda row: _tokens(row.result), right=True),
        Column("Reason", lambda row: row.result.reason, free=True),
        Column("Node", lambda row: row.node, wide=True),
        Column("Source", lambda row: row.result.source, wide=True),
        Column("Left over", lambda row: row.result.pending_steer, wide=True, free=True),
    ),
    name=lambda row: row.result.run_id,
    raw=lambda row: row.document(),
    empty="nothing was waited for",
)


def shown_state(live: Live) -> str:
    """The state, and `?` behind one that could not be asked for now."""
    return f"{live.state}?" if live.problem and live.state != "gone" else live.state


def result_fields(result: Result, node: str) -> Mapping[str, Value]:
    """A run that has ended, as lines."""
    usage = result.usage
    fields: dict[str, Value] = {
        "run": result.run_id,
        "state": result.state,
        "verdict": result.verdict.value,
        "reason": result.reason,
        "node": node,
        "session": result.session_id,
        "model": result.model,
        "started": _time(result.created_at),
        "time": _duration(result.seconds),
        "tokens": f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else None,
        "left over": result.pending_steer,
        "known from": result.source,
        "output": result.output,
    }
    return {name: value for name, value in fields.items() if value is not None}


def run_fields(run: Run, node: str, waiting: tuple[Waiting, ...]) -> Mapping[str, Value]:
    """A run that goes on, as lines."""
    fields: dict[str, Value] = {
        "run": run.run_id,
        "state": run.status,
        "node": node,
        "session": run.session_id,
        "started": _time(run.created_at),
        "last event": run.last_event,
        "last change": _time(run.updated_at),
    }
    for one in waiting:
        approval = one.approval
        fields["approval"] = approval.command or "not seen here: hermesctl tail --stream may tell"
        fields["reason"] = approval.description
        fields["request id"] = approval.request_id
    return {name: value for name, value in fields.items() if value is not None}


def _tokens(result: Result) -> int | None:
    return result.usage.total if result.usage else None


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=round(seconds, 3))


def _time(seconds: float | None) -> datetime | None:
    found = moment(seconds)
    return found.astimezone(UTC) if found else None
