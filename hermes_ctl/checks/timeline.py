"""What happened to each run of a check, and when: read off the answers and events as they come."""

from __future__ import annotations

import re
import time
from typing import Any

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.events import Event
from hermes_ctl.api.models import TERMINAL_STATES
from hermes_ctl.checks.model import Mark, RunTrace
from hermes_ctl.text import one_line

MOST_MARKS = 60
"""Marks kept of one run; streamed text counts once for each stretch."""

_ONE_RUN = re.compile(r"/v1/runs/([^/]+)(?:/(\w+))?\Z")
_OWN_SESSION = re.compile(r"hermesctl-check-[0-9a-f]+-(.+)\Z")
_DETAILS = ("tool", "choice", "command", "goal", "error")


class Timeline:
    """Times are seconds since `began`, a monotonic time."""

    def __init__(self, began: float) -> None:
        self.began = began
        self._runs: dict[str, RunTrace] = {}

    @property
    def runs(self) -> list[RunTrace]:
        """The runs in the order of their start."""
        return sorted(self._runs.values(), key=lambda run: run.started_s)

    def answer(self, answer: Answer, document: Any, path: str) -> None:
        """A submission begins a run, a control request marks it, a terminal state ends it."""
        now = self._now()
        if not isinstance(document, dict):
            return
        if (answer.method, answer.route, answer.status) == ("POST", "/v1/runs", 202):
            run_id = document.get("run_id") or document.get("id")
            if isinstance(run_id, str) and run_id not in self._runs:
                started = max(0.0, round(now - answer.elapsed, 3))
                self._runs[run_id] = RunTrace(purpose="", run_id=run_id, started_s=started)
            return
        found = _ONE_RUN.search(path)
        run = self._runs.get(found[1]) if found else None
        if found is None or run is None or answer.status >= 400:
            return
        if answer.method == "POST" and found[2] in ("stop", "steer", "approval"):
            self._mark(run, now, found[2], str(document.get("choice") or ""))
        elif answer.method == "GET" and found[2] is None:
            self._status(run, document, now)

    def event(self, event: Event) -> None:
        """Events of a run that was started here; a stretch of streamed text is one mark."""
        run = self._runs.get(event.run_id or "")
        if run is None:
            return
        at = round(event.arrived - self.began, 3)
        if run.first_event_s is None:
            run.first_event_s = round(at - run.started_s, 3)
        if run.marks and run.marks[-1].name == event.name == "message.delta":
            run.marks[-1].until_s = at
            return
        detail = next((event.data[name] for name in _DETAILS if event.data.get(name)), "")
        self._mark(run, at, event.name, detail if isinstance(detail, str) else "")

    def stream_ended(self, run_id: str) -> None:
        """The run's event stream ended by itself, with or without an event that says how."""
        run = self._runs.get(run_id)
        if run is not None:
            run.read_to_end = True

    def _status(self, run: RunTrace, document: dict[str, Any], now: float) -> None:
        session = _OWN_SESSION.match(str(document.get("session_id") or ""))
        run.purpose = session[1] if session else run.purpose
        state = document.get("status")
        if state in TERMINAL_STATES and run.ended_s is None:
            run.status, run.ended_s = str(state), now

    def _mark(self, run: RunTrace, at: float, name: str, detail: str) -> None:
        if len(run.marks) < MOST_MARKS:
            run.marks.append(Mark(at_s=at, name=one_line(name, 60), detail=one_line(detail, 80)))

    def _now(self) -> float:
        return round(time.monotonic() - self.began, 3)
