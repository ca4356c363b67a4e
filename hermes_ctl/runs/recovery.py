"""What is left of a run when the node has no record of it: the journal, then its session.

Hermes forgets a run one hour after its end and all runs at a restart, but keeps the messages of
their sessions (wire.md, 3; field-notes 22; contract, Reconciliation, step 4).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Message, Run, Session
from hermes_ctl.api.values import moment
from hermes_ctl.errors import HermesctlError, NotFound
from hermes_ctl.runs.journal import Entry, Journal
from hermes_ctl.runs.result import Result, Verdict, no_record

_CLOCKS_DIFFER: Final = timedelta(minutes=2)
"""How far the node's clock may be away from ours."""

_RUN_PREFIX: Final = "run_"
_LISTED_SESSIONS: Final = 200
_LOOKED_AT: Final = 20


async def recover(
    client: Client, run_id: str, *, last: Run | None, journal: Journal, entry: Entry | None
) -> Result | None:
    """The end of a run that the node does not know any more.

    None where neither the node nor this machine ever knew such a run. Raises nothing: a session
    that cannot be asked makes the result `unknown`.
    """
    kept = from_journal(journal, entry, "the node has forgotten this run")
    if kept is not None:
        return kept
    session_id = (last and last.session_id) or (entry and entry.session_id) or run_id
    try:
        messages = await client.session_messages(session_id)
    except NotFound:
        messages = []
    except HermesctlError as error:
        reason = f"the node has forgotten the run, and its session cannot be asked: {error.message}"
        return Result(run_id, "gone", Verdict.UNKNOWN, reason, source="nothing")
    if not messages and last is None and entry is None:
        return None
    own = _own_turn(messages, entry, last, whole=session_id == run_id)
    return _from_messages(run_id, session_id, own)


def from_journal(journal: Journal, entry: Entry | None, why: str) -> Result | None:
    """The end of a run as it was seen from here, with `why` the node does not tell it; None where
    its end was not seen."""
    kept = journal.result(entry.number) if entry else None
    return kept and replace(kept, notes=(f"{why}; this is from the journal",))


def _from_messages(run_id: str, session_id: str, turn: Sequence[Message]) -> Result:
    final = turn[-1] if turn else None
    text = message_text(final) if final and final.role == "assistant" else ""
    if final is None or not text.strip() or _calls_tools(final):
        return no_record(
            run_id,
            "the node has no record of the run any more, and its session holds no answer: "
            "it was lost before it ended, by a restart of the gateway",
        )
    if (final.model_extra or {}).get("finish_reason") == "stop":
        return Result(
            run_id,
            "completed",
            Verdict.SUCCESS,
            output=text.strip(),
            session_id=session_id,
            source="session",
            notes=("the node has forgotten this run; this answer is from its session",),
        )
    return Result(
        run_id,
        "gone",
        Verdict.UNKNOWN,
        "the node has forgotten the run; its session holds this answer, but whether it is whole "
        "cannot be known",
        output=text.strip(),
        session_id=session_id,
        source="session",
    )


def _own_turn(
    messages: Sequence[Message], entry: Entry | None, last: Run | None, *, whole: bool
) -> Sequence[Message]:
    """The messages of this run's turn in a session that may hold others' too: from the user's
    message on that is the run's, up to the next one."""
    if whole:
        return messages
    since = _beginning(entry, last)
    if since is None:
        return ()
    digest = entry.prompt_sha256 if entry else None
    for index, message in enumerate(messages):
        if message.role != "user" or message.timestamp is None or message.timestamp < since:
            continue
        if digest is not None and prompt_digest(message_text(message)) != digest:
            continue
        after = messages[index + 1 :]
        end = next((i for i, later in enumerate(after) if later.role == "user"), len(after))
        return after[:end]
    return ()


def _beginning(entry: Entry | None, last: Run | None) -> datetime | None:
    """When the run began, by the node's clock where that was seen, a little early."""
    created = (last and last.created_at) or (entry and entry.created_at)
    if created:
        return moment(created - 1.0)
    return entry.submitted_at - _CLOCKS_DIFFER if entry else None


async def find_lost(client: Client, journal: Journal, entry: Entry) -> str | None:
    """The id of a run whose submission is in the journal without one, None where it cannot be told.

    A run without a session of its own makes a session named after the run, before its model
    answers (wire.md, 1): the one that began then with the same prompt, and belongs to no other
    entry, is this run's. Nothing is submitted for this. Raises what the node's answer means.
    """
    if entry.session_id is not None or entry.prompt_sha256 is None:
        return None
    found = [
        session.id
        for session in await client.sessions(limit=_LISTED_SESSIONS)
        if _could_be(session, entry) and journal.by_id(session.id, entry.url) is None
    ]
    matching = []
    for run_id in found[:_LOOKED_AT]:
        messages = await client.session_messages(run_id)
        first = next((message for message in messages if message.role == "user"), None)
        if first and prompt_digest(message_text(first)) == entry.prompt_sha256:
            matching.append(run_id)
    return matching[0] if len(matching) == 1 else None


def _could_be(session: Session, entry: Entry) -> bool:
    if not session.id.startswith(_RUN_PREFIX) or session.started_at is None:
        return False
    return abs(session.started_at - entry.submitted_at) <= _CLOCKS_DIFFER


def prompt_digest(prompt: str) -> str:
    """What tells a prompt from another without keeping it."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


def message_text(message: Message) -> str:
    """The text of a message: a string, or the texts of its parts."""
    return content_text(message.content)


def content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _calls_tools(message: Message) -> bool:
    return bool(message.tool_calls)
