"""A followed run for programs: every event as a JSON line, or the result as one document."""

from __future__ import annotations

import json
from typing import Any

from hermes_ctl.api.models import Run
from hermes_ctl.render.console import Screen
from hermes_ctl.runs.happenings import (
    ApprovalRequested,
    BrokenEvent,
    Ended,
    Happening,
    Notice,
    Progress,
    StateChanged,
)
from hermes_ctl.secrets import redact, redact_values

OWN = "hermesctl."
"""What the names of our own lines begin with, among those of the server's events."""

_BUFFERED = 256


class JsonLinesRunView:
    """Passes every event whole, those that hermesctl does not know too.

    Between them stand lines of our own: `hermesctl.status` for what polling told, `hermesctl.broken`
    for a frame that is no JSON, `hermesctl.approval` for a request that no event told, and at last
    `hermesctl.result`.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines: list[str] = []

    def begin(self, run_id: str, _about: str, /, *, started: bool) -> None:
        """A run that was submitted here is named before its first event."""
        if started:
            self._own("submitted", {"run_id": run_id})
            self.flush()

    def show(self, happening: Happening) -> None:
        event = getattr(happening, "event", None)
        if event is not None:
            self._lines.append(json.dumps(event.data))
            if len(self._lines) >= _BUFFERED:
                self.flush()
        else:
            self._told(happening)

    def flush(self) -> None:
        if not self._lines:
            return
        text = "\n".join(self._lines).replace("\x7f", "\\u007f") + "\n"
        if redact(text) != text:
            values = (redact_values(json.loads(line)) for line in self._lines)
            text = "".join(json.dumps(value) + "\n" for value in values)
        self._lines.clear()
        self._screen.write(text)

    def close(self) -> None:
        self.flush()

    def _told(self, happening: Happening) -> None:
        if isinstance(happening, (StateChanged, Progress)):
            self._own("status", _status(happening.run))
        elif isinstance(happening, BrokenEvent):
            frame = happening.frame
            self._own("broken", {"problem": frame.problem, "raw": frame.raw})
        elif isinstance(happening, ApprovalRequested):
            approval = happening.approval
            self._own("approval", {"request_id": approval.request_id, "command": approval.command})
        elif isinstance(happening, Notice):
            self._screen.note(happening.text)
        elif isinstance(happening, Ended):
            self._own("result", happening.result.document())

    def _own(self, name: str, fields: dict[str, Any]) -> None:
        self._lines.append(json.dumps({"event": OWN + name, **fields}))


class JsonRunView:
    """The result as one document; what has to be known before goes to standard error."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def begin(self, run_id: str, _about: str, /, *, started: bool) -> None:
        if started:
            self._screen.note(run_id)

    def show(self, happening: Happening) -> None:
        if isinstance(happening, Notice):
            self._screen.note(happening.text)
        elif isinstance(happening, Ended):
            self._screen.document(happening.result.document())

    def flush(self) -> None:
        """There is nothing but the result."""

    def close(self) -> None:
        """Nothing is held back."""


def _status(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "status": run.status,
        "last_event": run.last_event,
        "updated_at": run.updated_at,
    }
