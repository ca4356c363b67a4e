"""Chat completions, plain and streamed, as any OpenAI client asks for them."""

from __future__ import annotations

from hermes_ctl.checks.deep import (
    TURN_LIMIT,
    ask,
    book_turn,
    deep,
    field_of,
    offered,
    read_stream,
    wrong,
)
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_ROUTE = "/v1/chat/completions"
_STREAM = "chat-completions"
_PROXY = "ask the node directly: a proxy may change or cut what it answers"


async def work(subject: Subject, trail: Trail) -> str:
    """The same question twice; both answers hold the word, the stream ends as OpenAI's do."""
    await offered(subject, "chat_completions", "chat_completions_streaming")
    async with subject.lanes:
        await _plain(subject, trail)
        await _streamed(subject, trail)
    return "plain and streamed, the word returned, usage told, ended by [DONE]"


def _body(subject: Subject, token: str, **more: object) -> dict[str, object]:
    prompt = subject.checklist.model_run.prompt.replace("{token}", token)
    return {"model": "hermes-agent", "messages": [{"role": "user", "content": prompt}], **more}


async def _plain(subject: Subject, trail: Trail) -> None:
    token = subject.token()
    answer = await ask(
        subject, trail, "POST", _ROUTE, 200, json=_body(subject, token), timeout=TURN_LIMIT
    )
    book_turn(subject, answer)
    choices = field_of(answer, "choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    message = first.get("message") if isinstance(first, dict) else None
    said = message.get("content") if isinstance(message, dict) else None
    if token not in str(said):
        raise wrong("the completion does not hold the word that was asked for")
    if not field_of(answer, "usage", "total_tokens"):
        raise wrong("the completion tells no usage")


async def _streamed(subject: Subject, trail: Trail) -> None:
    token = subject.token()
    stream = await read_stream(
        subject, trail, _STREAM, _ROUTE, json=_body(subject, token, stream=True)
    )
    subject.ledger.turn(None)
    session = stream.headers.get("x-hermes-session-id")
    if session:
        subject.ledger.session(session)
    said = ""
    for event in stream.events:
        choices = event.data.get("choices")
        delta = choices[0].get("delta") if isinstance(choices, list) and choices else None
        said += str(delta.get("content") or "") if isinstance(delta, dict) else ""
    if token not in said:
        raise wrong("the streamed completion does not hold the word that was asked for")
    if [text.strip() for text in stream.rest] != ["[DONE]"]:
        raise wrong("the streamed completion does not end with [DONE]")


PROBE = Probe(
    name="chat",
    title="Chat completions",
    proves=(
        "POST /v1/chat/completions answers a question, plain with its usage and streamed in chunks "
        "that end with [DONE], as OpenAI's clients expect it."
    ),
    causes=(
        Cause("the stream does not end with [DONE]", _PROXY),
        Cause("the word is missing", "step polling tells whether the model answers at all"),
    ),
    settle=deep("the word comes back, plain and streamed", work, _PROXY),
    needs_runs=True,
    deep=True,
)
