"""The Responses API: plain, kept, chained, streamed, deleted."""

from __future__ import annotations

from typing import Any

from hermes_ctl.api.answers import Answer
from hermes_ctl.checks.deep import (
    TURN_LIMIT,
    ask,
    book_turn,
    deep,
    field_of,
    offered,
    read_stream,
    text_field,
    wrong,
)
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_ROUTE = "/v1/responses"
_ONE = "/v1/responses/{response_id}"
_KEPT = "look at the node's log: responses are kept in its own store"


async def work(subject: Subject, trail: Trail) -> str:
    """A first turn that is kept, a second that names it, the same streamed, and both deleted."""
    await offered(subject, "responses_api", "responses_streaming")
    word = subject.token()
    async with subject.lanes:
        first = await _turn(subject, trail, {"input": f"Remember this word: {word}"})
        first_id = text_field(first, "id")
        kept = await ask(subject, trail, "GET", _ONE, 200, values={"response_id": first_id})
        if field_of(kept, "id") != first_id:
            raise wrong("a response was asked for, and another one came")
        second = {
            "input": "Which word did I ask you to remember?",
            "previous_response_id": first_id,
        }
        chained = await _turn(subject, trail, second)
        if word not in _said(field_of(chained, "output")):
            raise wrong("the second response does not know the one that it follows")
        streamed_id = await _streamed(subject, trail)
        for response_id in (first_id, text_field(chained, "id"), streamed_id):
            await ask(subject, trail, "DELETE", _ONE, 200, values={"response_id": response_id})
        gone = await ask(subject, trail, "GET", _ONE, 404, values={"response_id": first_id})
    subject.recorder.error("a response that there is not", gone)
    return "kept, chained, streamed and deleted; the second knew the first"


async def _turn(subject: Subject, trail: Trail, body: dict[str, Any]) -> Answer:
    given = {"model": "hermes-agent", "store": True, **body}
    answer = await ask(subject, trail, "POST", _ROUTE, 200, json=given, timeout=TURN_LIMIT)
    book_turn(subject, answer)
    return answer


async def _streamed(subject: Subject, trail: Trail) -> str:
    token = subject.token()
    prompt = subject.checklist.model_run.prompt.replace("{token}", token)
    body = {"model": "hermes-agent", "input": prompt, "stream": True, "store": True}
    stream = await read_stream(subject, trail, "responses", _ROUTE, json=body)
    subject.ledger.turn(None)
    session = stream.headers.get("x-hermes-session-id")
    if session:
        subject.ledger.session(session)
    last = stream.events[-1] if stream.events else None
    if last is None or last.name != "response.completed":
        raise wrong("the streamed response does not end with response.completed")
    response = last.data.get("response")
    whole = response if isinstance(response, dict) else {}
    if token not in _said(whole.get("output")):
        raise wrong("the streamed response does not hold the word that was asked for")
    return str(whole.get("id"))


def _said(output: Any) -> str:
    """The text of all message items."""
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    parts = [part for item in items for part in item.get("content") or [] if isinstance(part, dict)]
    return "\n".join(str(part.get("text") or "") for part in parts)


PROBE = Probe(
    name="responses",
    title="Responses API",
    proves=(
        "POST /v1/responses answers, plain and streamed up to response.completed; a response is "
        "kept under its id, a second one that names it knows what was said, and both can be deleted."
    ),
    causes=(
        Cause("the second does not know the first", _KEPT),
        Cause("404 for an id that was just given", _KEPT),
    ),
    settle=deep("kept, chained, streamed, deleted", work, _KEPT),
    needs_runs=True,
    deep=True,
)
