"""Session resources: create, read, rename, list, fork, lock a model, delete."""

from __future__ import annotations

from hermes_ctl.checks.deep import ask, deep, field_of, offered, text_field, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_LIST = "/api/sessions"
_ONE = "/api/sessions/{session_id}"
_KEPT = "look at the node's log: its state.db may be broken or read-only"


async def work(subject: Subject, trail: Trail) -> str:
    """One session through its whole life. What is made here is deleted on every way out."""
    await offered(subject, "session_resources", "session_fork")
    session_id = subject.session("sessions")
    subject.ledger.session(session_id)
    title = f"hermesctl {subject.nonce}"
    values = {"session_id": session_id}
    made = await ask(subject, trail, "POST", _LIST, 201, json={"id": session_id, "title": title})
    if field_of(made, "session", "id") != session_id:
        raise wrong("the session was made under another id than the one that was asked for")
    twice = await ask(subject, trail, "POST", _LIST, 409, json={"id": session_id})
    subject.recorder.error("a session made twice", twice)
    await _rename(subject, trail, values, f"{title} renamed")
    await _listed(subject, trail, session_id)
    messages = await ask(subject, trail, "GET", _ONE + "/messages", 200, values=values)
    if field_of(messages, "data") != []:
        raise wrong("a new session has messages")
    forked = await ask(subject, trail, "POST", _ONE + "/fork", 201, values=values, json={})
    fork_id = text_field(forked, "session", "id")
    subject.ledger.session(fork_id)
    if fork_id == session_id or field_of(forked, "session", "parent_session_id") != session_id:
        raise wrong("the fork does not name its parent")
    locked = await _lock(subject, trail, values)
    for each in (fork_id, session_id):
        await _delete(subject, trail, each)
    return f"created, renamed, listed, forked, {locked}deleted"


async def _rename(subject: Subject, trail: Trail, values: dict[str, str], title: str) -> None:
    await ask(subject, trail, "PATCH", _ONE, 200, values=values, json={"title": title})
    read = await ask(subject, trail, "GET", _ONE, 200, values=values)
    if field_of(read, "session", "title") != title:
        raise wrong("the session was renamed, and still has its old title")
    refused = await ask(subject, trail, "PATCH", _ONE, 400, values=values, json={"no_field": 1})
    subject.recorder.error("a session field that there is not", refused)


async def _listed(subject: Subject, trail: Trail, session_id: str) -> None:
    answer = await ask(subject, trail, "GET", _LIST, 200)
    rows = field_of(answer, "data")
    ids = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if session_id not in ids:
        raise wrong("the session that was just made is not in the list")


async def _lock(subject: Subject, trail: Trail, values: dict[str, str]) -> str:
    """Pin a model to the session where the node advertises that; only another name can tell."""
    name = subject.settings.other_model
    if not (await subject.capabilities()).supports("session_model_lock") or name is None:
        return ""
    await ask(subject, trail, "POST", _ONE + "/model", 200, values=values, json={"model": name})
    return "its model locked, "


async def _delete(subject: Subject, trail: Trail, session_id: str) -> None:
    values = {"session_id": session_id}
    gone = await ask(subject, trail, "DELETE", _ONE, 200, values=values)
    if field_of(gone, "deleted") is not True:
        raise wrong("the session was not deleted")
    await ask(subject, trail, "GET", _ONE, 404, values=values)


PROBE = Probe(
    name="sessions",
    title="Session resources",
    proves=(
        "A session can be created under an id of our own, is refused a second time, can be renamed "
        "and read, is in the list, can be forked, can have its model locked where that is "
        "advertised, and is gone after it was deleted."
    ),
    causes=(
        Cause("made, and not in the list", _KEPT),
        Cause("refused with 500", _KEPT),
    ),
    settle=deep("each step of a session's life answers as documented", work, _KEPT),
    deep=True,
)
