"""The events of a session's stream that Hermes-Relay handles."""

from __future__ import annotations

from hermes_ctl.checks.deep import ask, deep, odd, offered, read_stream, wrong
from hermes_ctl.checks.drift.consumers import RELAY_SESSION_EVENTS, SESSION_STREAM
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

NEEDED = (
    "run.started",
    "message.started",
    "assistant.delta",
    "assistant.completed",
    "run.completed",
    "done",
)
"""Of the families in the Relay contract, those that every successful turn has, in their order."""

TOOLS = ("tool.started", "tool.completed")
_REVIEW = "review Hermes-Relay against this release: its families are in the Relay contract"


async def work(subject: Subject, trail: Trail) -> str:
    """One persisted turn with a tool call, over the native session stream."""
    await offered(subject, "session_resources", "session_chat_streaming")
    session_id = subject.session("relay")
    subject.ledger.session(session_id)
    token = subject.token()
    prompt = subject.checklist.canary.prompt.replace("{token}", token)
    async with subject.lanes:
        await ask(subject, trail, "POST", "/api/sessions", 201, json={"id": session_id})
        stream = await read_stream(
            subject,
            trail,
            SESSION_STREAM,
            "/api/sessions/{session_id}/chat/stream",
            values={"session_id": session_id},
            json={"input": prompt},
        )
        subject.ledger.turn(None)
    names = [event.name for event in stream.events]
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise wrong(f"the stream lacks {', '.join(missing)}")
    first_seen = [names.index(name) for name in NEEDED]
    if first_seen != sorted(first_seen) or names[-1] != "done":
        raise wrong("the events come in another order than Relay expects")
    said = "".join(
        str(e.data.get("delta", "")) for e in stream.events if e.name == "assistant.delta"
    )
    if token not in said:
        raise wrong("the streamed text does not hold the word that was asked for")
    unknown = sorted({*names} - RELAY_SESSION_EVENTS)
    trail.add("events that Relay ignores", ", ".join(unknown) or "none")
    if not all(name in names for name in TOOLS):
        raise odd("the model made no tool call, so the tool events were not seen")
    return f"{len({*names})} kinds of event in {len(names)}, all families of a turn with a tool"


PROBE = Probe(
    name="relay-events",
    title="Events of Hermes-Relay",
    proves=(
        "A persisted turn with a tool call sends the event families that Hermes-Relay handles, in "
        "their order, up to done. Events beyond them are named: Relay has to ignore those."
    ),
    causes=(Cause("a family is missing or out of order", _REVIEW),),
    settle=deep("the families of the Relay contract, in order, up to done", work, _REVIEW),
    needs_runs=True,
    deep=True,
)
