"""The journal: every run that was submitted or followed from this machine, with how it ended.

It is written before a submission and again as soon as the id is known, so that no crash loses a
run. It holds no key, ever: what goes into it is redacted.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from hermes_ctl import clock
from hermes_ctl.api.models import TERMINAL_STATES, Run, Usage
from hermes_ctl.discovery import user_home
from hermes_ctl.runs.happenings import Approval
from hermes_ctl.runs.result import Result, Verdict
from hermes_ctl.runs.store import Store
from hermes_ctl.secrets import redact, without_known

SUBMITTING: Final = "submitting"
UNCERTAIN: Final = "uncertain"
STARTED: Final = "started"
LOCATED: Final = (
    "the answer to its submission was lost; it was found at the node by its prompt and its time"
)

_SHORT: Final = 300
"""Characters of the prompt that a listing reads."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is written down before a run is submitted. `prompt` is None where it is not to be kept;
    `context` and `key_file` say how the node was reached, so that it can be reached again."""

    url: str
    node: str
    prompt: str | None
    prompt_sha256: str | None = None
    context: str | None = None
    profile: str | None = None
    key_file: str | None = None
    session_id: str | None = None
    model: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One run in the journal. `state` is the last one that this machine saw, or `submitting` or
    `uncertain` where no id is known. `created_at` is the server's clock, the rest is ours."""

    number: int
    run_id: str | None
    url: str
    node: str
    context: str | None
    profile: str | None
    key_file: str | None
    started_here: bool
    pid: int | None
    submitted_at: datetime
    prompt: str | None
    prompt_sha256: str | None
    session_id: str | None
    model: str | None
    idempotency_key: str | None
    state: str
    seen_at: datetime
    created_at: float | None
    ended_at: datetime | None
    verdict: str | None
    reason: str | None

    @property
    def is_over(self) -> bool:
        return self.verdict is not None


@dataclass(frozen=True, slots=True)
class Asked:
    """An approval that this machine saw asked for; `asked_at` is our clock."""

    approval: Approval
    asked_at: datetime


def journal_path(environment: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/hermesctl/journal.sqlite3`, by default below `~/.local/state`."""
    base = environment.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        base = str(user_home(environment) / ".local" / "state")
    return Path(base) / "hermesctl" / "journal.sqlite3"


class Journal:
    """The journal at `path`, opened when it is first needed. Use it as a context manager.

    `prompts` says whether prompts are kept, `enabled` False makes a journal that keeps nothing.
    What becomes of one that cannot be used is told in `Store`: no run is refused for that.
    """

    def __init__(
        self,
        path: Path,
        *,
        warn: Callable[[str], None],
        prompts: bool = True,
        enabled: bool = True,
    ) -> None:
        self._store = Store(path, warn, enabled=enabled)
        self._keeps_prompts = prompts

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    @property
    def is_lost(self) -> bool:
        """Whether something could not be read or written, which was said."""
        return self._store.is_lost

    # Writing

    def begin(self, submission: Submission) -> int | None:
        """Write down that a run is about to be submitted; its number, None without a journal."""
        return self._add(submission, state=SUBMITTING, started_here=True)

    def adopt(self, run_id: str, submission: Submission) -> int | None:
        """Write down a run that was started elsewhere and is followed from here."""
        found = self.by_id(run_id, submission.url)
        if found is not None:
            return found.number
        return self._add(submission, state="unknown", started_here=False, run_id=run_id)

    def known(self, number: int | None, run_id: str, submission: Submission) -> int | None:
        """Write down the id of a submitted run, the moment it is known; the run's number.

        It is written anew where the journal was moved aside since `begin`.
        """
        changed = self._store.write(
            "UPDATE OR IGNORE runs SET run_id = ?, state = ?, seen_at = ?, reason = NULL, pid = NULL"
            " WHERE number = ?",
            (run_id, STARTED, _now(), number),
        )
        if changed:
            return number
        found = self.by_id(run_id, submission.url)
        if found is not None:
            return found.number
        return self._add(submission, state=STARTED, started_here=True, run_id=run_id)

    def located(self, number: int, run_id: str) -> None:
        """Write down the id of a run that was found at the node after its submission was lost."""
        self._store.write(
            "UPDATE OR IGNORE runs SET run_id = ?, state = ?, seen_at = ?, reason = ?, pid = NULL"
            " WHERE number = ? AND run_id IS NULL",
            (run_id, STARTED, _now(), LOCATED, number),
        )

    def forget(self, number: int | None) -> None:
        """Take out a submission that the node did not accept: there is no such run."""
        self._store.write("DELETE FROM runs WHERE number = ?", (number,))

    def uncertain(self, number: int | None, reason: str) -> None:
        """Write down that the answer to a submission was lost."""
        self._store.write(
            "UPDATE runs SET state = ?, reason = ?, seen_at = ?, pid = NULL WHERE number = ?",
            (UNCERTAIN, redact(reason), _now(), number),
        )

    def saw(self, number: int | None, run: Run) -> None:
        """Write down a polled state. A run whose end is known already stays as it is."""
        self._store.write(
            "UPDATE runs SET state = ?, seen_at = ?, created_at = COALESCE(?, created_at),"
            " session_id = COALESCE(?, session_id) WHERE number = ? AND verdict IS NULL",
            (run.status, _now(), run.created_at, run.session_id, number),
        )

    def ended(self, number: int | None, result: Result) -> None:
        """Keep the end of a run for good: its output, its usage, its verdict."""
        usage = result.usage.model_dump_json() if result.usage else None
        ended = result.updated_at if result.state in TERMINAL_STATES else None
        self._store.write(
            "UPDATE runs SET state = ?, verdict = ?, reason = ?, output = ?, error = ?, usage = ?,"
            " pending_steer = ?, ended_at = ?, seen_at = ?, session_id = COALESCE(?, session_id),"
            " created_at = COALESCE(?, created_at) WHERE number = ?",
            (
                *(result.state, result.verdict.value, _redacted(result.reason)),
                *(_redacted(result.output), _redacted(result.error), usage),
                *(_redacted(result.pending_steer), ended or _now(), _now(), result.session_id),
                *(result.created_at, number),
            ),
        )
        self.answered(number)

    def asked(self, number: int | None, approval: Approval) -> None:
        """Write down an approval that a run waits for: its command is in no status before 0.22."""
        self._store.write(
            "INSERT OR IGNORE INTO approvals (number, request_id, approval, asked_at)"
            " SELECT number, ?, ?, ? FROM runs WHERE number = ?",
            (
                approval.key,
                redact(json.dumps(asdict(approval))),
                *(_now(), number),
            ),
        )

    def answered(self, number: int | None, key: str | None = None) -> None:
        """Write down that the approval of that key was answered, without a key all of them."""
        self._store.write(
            "UPDATE approvals SET answered_at = ? WHERE number = ? AND answered_at IS NULL"
            " AND request_id = COALESCE(?, request_id)",
            (_now(), number, key),
        )

    def prune(self, before: datetime, url: str | None = None) -> int:
        """Take out the runs that were submitted before then and whose end is known, with `url` those
        on that node; how many."""
        return self._store.write(
            "DELETE FROM runs WHERE submitted_at < ? AND verdict IS NOT NULL AND url = COALESCE(?, url)",
            (before.timestamp(), url),
        )

    # Reading

    def by_number(self, number: int) -> Entry | None:
        return next(iter(self._entries("WHERE number = ?", (number,))), None)

    def by_id(self, run_id: str, url: str | None = None) -> Entry | None:
        """The run of that id; with `url`, on that node."""
        where, values = "WHERE run_id = ?", [run_id]
        if url is not None:
            where, values = where + " AND url = ?", [run_id, url]
        return next(iter(self._entries(where + " ORDER BY number DESC", values)), None)

    def by_prefix(self, prefix: str, url: str | None = None) -> list[Entry]:
        """The runs whose id begins with `prefix`, with or without its `run_`; newest first."""
        pattern = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        where = "WHERE (run_id LIKE ? ESCAPE '\\' OR run_id LIKE ? ESCAPE '\\')"
        values = [pattern, "run\\_" + pattern]
        if url is not None:
            where, values = where + " AND url = ?", [*values, url]
        return self._entries(where + " ORDER BY number DESC", values)

    def latest(self, url: str | None = None) -> Entry | None:
        """The run that was started here last; with `url`, on that node."""
        where, values = "WHERE started_here = 1", []
        if url is not None:
            where, values = where + " AND url = ?", [url]
        return next(iter(self._entries(where + " ORDER BY number DESC LIMIT 1", values)), None)

    def nameless(self, url: str) -> list[Entry]:
        """The submissions to that node whose run has no known id."""
        return self._entries("WHERE run_id IS NULL AND url = ?", [url])

    def entries(
        self,
        *,
        url: str | None = None,
        since: datetime | None = None,
        active: bool = False,
        limit: int | None = None,
    ) -> list[Entry]:
        """Newest first. `active` leaves out those whose end is known; prompts are cut short."""
        where, values = ["1"], list[Any]()
        if url is not None:
            where.append("url = ?")
            values.append(url)
        if since is not None:
            where.append("submitted_at >= ?")
            values.append(since.timestamp())
        if active:
            where.append("verdict IS NULL")
        values.append(-1 if limit is None else limit)
        return self._entries(
            f"WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?",
            values,
            prompt=f"substr(prompt, 1, {_SHORT})",
        )

    def result(self, number: int) -> Result | None:
        """The end of a run as it was kept, None where it is not known."""
        rows = self._store.read(
            "SELECT run_id, state, verdict, reason, output, error, usage, pending_steer, session_id,"
            " model, created_at, ended_at FROM runs WHERE number = ? AND verdict IS NOT NULL",
            (number,),
        )
        for row in rows:
            return Result(
                run_id=row["run_id"] or "",
                state=row["state"],
                verdict=Verdict(row["verdict"]),
                reason=row["reason"],
                output=row["output"],
                error=row["error"],
                usage=Usage.model_validate_json(row["usage"]) if row["usage"] else None,
                pending_steer=row["pending_steer"],
                session_id=row["session_id"],
                created_at=row["created_at"],
                updated_at=row["ended_at"],
                source="journal",
            )
        return None

    def pending(self, number: int) -> list[Asked]:
        """The approvals of a run that were asked for and not answered, the oldest first."""
        rows = self._store.read(
            "SELECT approval, asked_at FROM approvals WHERE number = ? AND answered_at IS NULL"
            " ORDER BY asked_at, rowid",
            (number,),
        )
        found = [(json.loads(row["approval"]), row["asked_at"]) for row in rows]
        return [
            Asked(Approval(**{**fields, "choices": tuple(fields["choices"])}), _time(asked_at))
            for fields, asked_at in found
        ]

    # Rows

    def _add(
        self, submission: Submission, *, state: str, started_here: bool, run_id: str | None = None
    ) -> int | None:
        values = {
            **asdict(submission),
            "submission": uuid.uuid4().hex,
            "run_id": run_id,
            "started_here": started_here,
            "pid": os.getpid() if started_here else None,
            "submitted_at": _now(),
            "seen_at": _now(),
            "state": state,
        }
        values["prompt"] = _redacted(submission.prompt) if self._keeps_prompts else None
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))

        def insert(connection: sqlite3.Connection) -> int | None:
            cursor = connection.execute(
                f"INSERT INTO runs ({names}) VALUES ({marks})", tuple(values.values())
            )
            return cursor.lastrowid

        return self._store.transaction(insert, None)

    def _entries(
        self, rest: str, values: Sequence[object], *, prompt: str = "prompt"
    ) -> list[Entry]:
        rows = self._store.read(
            "SELECT number, run_id, url, node, context, profile, key_file, started_here, pid,"
            f" submitted_at, {prompt} AS prompt, prompt_sha256, session_id, model,"
            " idempotency_key, state, seen_at, created_at, ended_at, verdict, reason"
            f" FROM runs {rest}",
            values,
        )
        return [_entry(row) for row in rows]


def _redacted(text: str | None) -> str | None:
    """What people and models said, as they said it, but for the keys that are known here."""
    return None if text is None else without_known(text)


def _now() -> float:
    return clock.now().timestamp()


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _entry(row: sqlite3.Row) -> Entry:
    fields: dict[str, Any] = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a Row is no dict
    fields["started_here"] = bool(fields["started_here"])
    for name in ("submitted_at", "seen_at", "ended_at"):
        fields[name] = None if fields[name] is None else _time(fields[name])
    return Entry(**fields)
