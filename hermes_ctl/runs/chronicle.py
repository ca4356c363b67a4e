"""Writes down what happens to a followed run: in the journal, and event by event in a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from hermes_ctl import clock
from hermes_ctl.errors import UsageError
from hermes_ctl.runs.happenings import (
    ApprovalRequested,
    ApprovalResponded,
    BrokenEvent,
    Ended,
    Happening,
    StateChanged,
    SubagentCompleted,
    SubagentStarted,
    ToolCompleted,
)
from hermes_ctl.runs.journal import Journal, Submission
from hermes_ctl.runs.result import Verdict
from hermes_ctl.secrets import without_known


class Chronicle:
    """Keeps the journal's entry `number` up to date. Without a number nothing is kept, unless the
    run is `foreign`: started elsewhere, and written down once it is known to exist."""

    def __init__(
        self, journal: Journal, number: int | None, *, foreign: Submission | None = None
    ) -> None:
        self._journal = journal
        self._number = number
        self._foreign = foreign
        self._asked: list[str] = []
        self._subagents = 0

    def observe(self, happening: Happening) -> None:
        """Takes every happening; the frequent ones cost nothing."""
        if isinstance(happening, StateChanged):
            if self._number is None and self._foreign is not None:
                self._number = self._journal.adopt(happening.run.run_id, self._foreign)
            if not happening.run.is_terminal:
                self._journal.saw(self._number, happening.run)
        elif isinstance(happening, ApprovalRequested):
            self._asked.append(happening.approval.key)
            self._journal.asked(self._number, happening.approval)
        elif isinstance(happening, ApprovalResponded):
            self._responded(happening)
        elif isinstance(happening, ToolCompleted):
            if self._asked and not self._subagents:
                self._asked.clear()  # nothing tells that a request timed out: its tool just ends
                self._journal.answered(self._number)
        elif isinstance(happening, SubagentStarted):
            self._subagents += 1
        elif isinstance(happening, SubagentCompleted):
            self._subagents = max(0, self._subagents - 1)
        elif isinstance(happening, Ended) and happening.result.verdict is not Verdict.UNKNOWN:
            self._journal.ended(self._number, happening.result)

    def _responded(self, happening: ApprovalResponded) -> None:
        """Mark what was answered: by its id, or as many of the oldest as were resolved. By key, so
        that an answer that another hermesctl wrote down already is not written down twice."""
        keys = [happening.request_id] if happening.request_id else self._asked[: happening.resolved]
        for key in keys:
            self._journal.answered(self._number, key)
        self._asked = [key for key in self._asked if key not in keys]


class Recorder:
    """Writes every event with its time of arrival, one JSON object a line, into `path`.

    The file is opened at once. Raises `UsageError` where it cannot be. Where it cannot be written
    any more, `warn` says so once and the run goes on.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._began = clock.now() - timedelta(seconds=time.monotonic())
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise UsageError(
                f"--record {path} cannot be written: {error.strerror}", hint="nothing was sent"
            ) from None
        self._file: IO[str] | None = os.fdopen(descriptor, "w", encoding="utf-8")

    def observe(self, happening: Happening) -> None:
        if self._file is None:
            return
        event = getattr(happening, "event", None)
        if event is not None:
            self._write({"arrived": self._at(event.arrived), "event": event.data})
        elif isinstance(happening, BrokenEvent):
            frame = happening.frame
            self._write(
                {"arrived": self._at(frame.arrived), "problem": frame.problem, "broken": frame.raw}
            )

    def close(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._lost(error)
            self._file = None

    def _write(self, record: dict[str, object]) -> None:
        assert self._file is not None
        try:
            self._file.write(without_known(json.dumps(record)) + "\n")
        except OSError as error:
            self._lost(error)
            self._file = None

    def _at(self, arrived: float) -> str:
        moment: datetime = self._began + timedelta(seconds=arrived)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _lost(self, error: OSError) -> None:
        self._warn(f"--record {self._path}: {error.strerror}; the record is not complete")
