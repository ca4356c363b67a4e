"""A session remembers: two turns, plain and streamed, and two runs."""

from __future__ import annotations

from hermes_ctl.checks.deep import (
    TURN_LIMIT,
    ask,
    book_turn,
    deep,
    field_of,
    offered,
    read_stream,
    submit,
    until_terminal,
    wrong,
)
from hermes_ctl.checks.drift.consumers import SESSION_STREAM
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_CHAT = "/api/sessions/{session_id}/chat"
_REMEMBER = "Remember this word: {token}"
_RECALL = "Which word did I ask you to remember?"
_SESSION = "ask the node's operator whether sessions are kept: state.db in HERMES_HOME"


async def work(subject: Subject, trail: Trail) -> str:
    """A word is told in one turn and asked for in the next, which is streamed. Whether runs on one
    session continue each other differs from release to release, and is only noted."""
    await offered(subject, "session_chat", "session_chat_streaming")
    async with subject.lanes:
        told = await _chats(subject, trail)
        continued = await _runs(subject, trail)
    return f"{told}; runs on one session are {continued}"


async def _chats(subject: Subject, trail: Trail) -> str:
    word = subject.token()
    session_id = subject.session("continuity")
    values = {"session_id": session_id}
    subject.ledger.session(session_id)
    await ask(subject, trail, "POST", "/api/sessions", 201, json={"id": session_id})
    first = await ask(
        subject,
        trail,
        "POST",
        _CHAT,
        200,
        values=values,
        json={"input": _REMEMBER.replace("{token}", word)},
        timeout=TURN_LIMIT,
    )
    book_turn(subject, first)
    stream = await read_stream(
        subject, trail, SESSION_STREAM, _CHAT + "/stream", values=values, json={"input": _RECALL}
    )
    subject.ledger.turn(None)
    names = [event.name for event in stream.events]
    if not names or names[-1] != "done" or "run.completed" not in names:
        raise wrong(
            f"the session's stream ended with {names[-1] if names else 'nothing'}, not done"
        )
    said = "".join(
        str(event.data.get("delta", ""))
        for event in stream.events
        if event.name == "assistant.delta"
    )
    if word not in said:
        raise wrong("the second turn of a session does not know the first")
    messages = await ask(
        subject, trail, "GET", "/api/sessions/{session_id}/messages", 200, values=values
    )
    rows = field_of(messages, "data")
    if not isinstance(rows, list) or len(rows) < 4:
        raise wrong("the session's messages do not hold both turns")
    return "the second turn knew the first, plain and streamed, and all four messages are kept"


async def _runs(subject: Subject, trail: Trail) -> str:
    word = subject.token()
    session_id = subject.session("continued-runs")
    output = ""
    for prompt in (_REMEMBER.replace("{token}", word), _RECALL):
        run_id = await submit(subject, "", prompt, session_id=session_id)
        run = await until_terminal(subject, run_id, TURN_LIMIT)
        output = run.output or ""
    continued = "continued" if word in output else "not continued"
    subject.recorder.behaviour("conversation of runs on one session", continued)
    trail.add("two runs on one session", continued)
    return continued


PROBE = Probe(
    name="continuity",
    title="Session continuity",
    proves=(
        "The second turn of a session, streamed, knows a word that was told in the first, and the "
        "session's messages hold both. Whether runs on one session continue each other is noted."
    ),
    causes=(
        Cause("the second turn knows nothing of the first", _SESSION),
        Cause("the stream does not end with done", "a proxy cut it: ask the node directly"),
    ),
    settle=deep("a word told in one turn is known in the next", work, _SESSION),
    needs_runs=True,
    deep=True,
)
