"""What became of a run: judged here, and nowhere else.

The status route decides (contract, Run states). Where it cannot be asked any more, the terminal
event, the journal and the session's messages speak, in this order, and the result says which.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import ValidationError

from hermes_ctl.api.events import Event
from hermes_ctl.api.models import Run, Usage
from hermes_ctl.errors import ExitCode
from hermes_ctl.text import one_line

STATE_OF_EVENT: Final = {
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
    "run.interrupted": "interrupted",
}
"""The events that end a run (wire.md, 2), and the state that the status route then tells."""

_LARGEST: Final = 1e15

ResultSource = Literal["status", "event", "journal", "session", "nothing"]


class Verdict(StrEnum):
    """What a run came to. `suspect` is `completed` without an answer or without a token spent."""

    SUCCESS = "success"
    SUSPECT = "suspect"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    GONE = "gone"
    UNKNOWN = "unknown"


EXIT_CODES: Final = {
    Verdict.SUCCESS: ExitCode.YES,
    Verdict.SUSPECT: ExitCode.NO,
    Verdict.FAILED: ExitCode.NO,
    Verdict.CANCELLED: ExitCode.NO,
    Verdict.INTERRUPTED: ExitCode.NO,
    Verdict.GONE: ExitCode.NO,
    Verdict.UNKNOWN: ExitCode.UNDETERMINED,
}


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a run.

    `state` is Hermes' own word where one is known. `reason` is one sentence wherever the verdict is
    not `success`. `error` and `output` are as the server sent them, hostile. `source` says where
    all this is from. Times are seconds since 1970 on the server's clock.
    """

    run_id: str
    state: str
    verdict: Verdict
    reason: str | None = None
    output: str | None = None
    error: str | None = None
    usage: Usage | None = None
    pending_steer: str | None = None
    session_id: str | None = None
    model: str | None = None
    created_at: float | None = None
    updated_at: float | None = None
    source: ResultSource = "status"
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> ExitCode:
        return EXIT_CODES[self.verdict]

    @property
    def seconds(self) -> float | None:
        """How long the run took by the server's clock; None where it did not tell."""
        began, ended = number(self.created_at), number(self.updated_at)
        return None if began is None or ended is None else max(0.0, ended - began)

    def document(self) -> dict[str, Any]:
        """The result as one JSON object."""
        return {
            "run_id": self.run_id,
            "state": self.state,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "exit_code": int(self.exit_code),
            "output": self.output,
            "error": self.error,
            "usage": self.usage.model_dump() if self.usage else None,
            "pending_steer": self.pending_steer,
            "session_id": self.session_id,
            "model": self.model,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "duration_s": self.seconds,
            "source": self.source,
            "notes": list(self.notes),
        }


def number(value: object) -> float | None:
    """A number that can be reckoned with; None for anything else, the endless ones included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _LARGEST else None


def text_or_json(value: object) -> str | None:
    """A field that should be a string, as text whatever it is; None for None and nothing."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value, default=str)


def judge(run: Run, source: ResultSource = "status") -> Result:
    """The result of a run whose `status` is terminal."""
    verdict, reason = _verdict(run)
    return Result(
        run_id=run.run_id,
        state=run.status,
        verdict=verdict,
        reason=reason,
        output=run.output,
        error=text_or_json(run.error),
        usage=run.usage,
        pending_steer=text_or_json(run.pending_steer),
        session_id=run.session_id,
        model=_model(run),
        created_at=run.created_at,
        updated_at=run.updated_at,
        source=source,
    )


def judge_event(event: Event, run_id: str, last: Run | None) -> Result:
    """The result that a terminal event tells, with what the last poll knew beside it."""
    known = last.model_dump() if last else {}
    status = STATE_OF_EVENT[event.name]
    document = {**known, **event.data, "run_id": run_id, "status": status}
    document["updated_at"] = number(event.data.get("timestamp")) or known.get("updated_at")
    try:
        run = Run.model_validate(document)
    except ValidationError:
        run = Run.model_validate({"run_id": run_id, "status": status})
    return judge(run, "event")


def no_record(run_id: str, reason: str) -> Result:
    """The result of a run that neither the node, nor the journal, nor its session knows."""
    return Result(run_id, "gone", Verdict.GONE, reason, source="nothing")


def _model(run: Run) -> str | None:
    """The model that ran, where the server tells it (0.22); otherwise nothing: `model` is an echo."""
    return text_or_json((run.runtime or {}).get("model"))


def _verdict(run: Run) -> tuple[Verdict, str | None]:
    if run.status == "completed":
        return _completed(run)
    if run.status == "cancelled":
        return Verdict.CANCELLED, "the run was cancelled"
    if run.status == "interrupted":
        why = text_or_json(run.error) or "the gateway was shut down"
        return Verdict.INTERRUPTED, f"the run was interrupted: {one_line(why, 300)}"
    return Verdict.FAILED, _failure(run)


def _completed(run: Run) -> tuple[Verdict, str | None]:
    """`completed` is no success by itself (wire.md, 0.5 and 0.6; field-notes 2)."""
    if not (run.output or "").strip():
        return Verdict.SUSPECT, "reported as completed, but it has no output"
    if run.tokens == 0:
        return Verdict.SUSPECT, (
            "reported as completed, but without a token spent: the output may be cut off, or may be "
            "an error's text (a gateway that is shut down does this)"
        )
    if run.usage is not None and run.usage.output_tokens == 0:
        return Verdict.SUSPECT, (
            "reported as completed, but the model gave no token: the output is the server's own text"
        )
    return Verdict.SUCCESS, None


def _failure(run: Run) -> str:
    why = text_or_json(run.error) or text_or_json((run.model_extra or {}).get("turn_exit_reason"))
    if why is None:
        return "the run failed; the server gives no reason"
    return f"the run failed: {one_line(why, 600)}{_whose(why)}"


def _whose(error: str) -> str:
    """A 401 or 429 inside a run's error is the model provider's, not the node's (field-notes 21, 29)."""
    if any(sign in error for sign in ("HTTP 401", "HTTP 403", "Provider authentication")):
        return " (this is the node's key to its model provider, not your key to the node)"
    if "HTTP 429" in error:
        return " (this is the model provider's limit, not the node's)"
    return ""
