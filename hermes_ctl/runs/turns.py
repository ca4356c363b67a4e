"""One turn of a session's chat, streamed by the session's own events or answered in one piece.

The families of events are those of the Relay contract (session, run, message, assistant, tool,
error, done) and what 0.22 adds (assistant.commentary, approval.request, run.failed, run.cancelled);
the shapes are measured (wire.md, 9). From 0.20 on the turn is a run by its id, too: its status can
be read and it can be stopped, and it is interrupted when its stream is dropped. On 0.19 it is not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hermes_ctl.api.events import BrokenFrame, Event
from hermes_ctl.api.models import Run
from hermes_ctl.api.offers import Offers
from hermes_ctl.api.routes import SESSION_CHAT_STREAM, SESSION_MODEL
from hermes_ctl.api.sessions import chat
from hermes_ctl.errors import HermesctlError, MalformedAnswer, NoAnswer, NotFound, StreamCut
from hermes_ctl.runs.approvals import OpenApprovals
from hermes_ctl.runs.happenings import (
    ApprovalRequested,
    ApprovalResponded,
    BrokenEvent,
    Closing,
    Delta,
    Ended,
    Happening,
    Interim,
    Notice,
    Reasoning,
    StateChanged,
    Told,
    ToolCompleted,
    ToolStarted,
    UnknownEvent,
    translate,
)
from hermes_ctl.runs.result import STATE_OF_EVENT, Result, Verdict, judge, text_or_json
from hermes_ctl.text import one_line

LONGEST: Final = 3600.0
"""Seconds that a turn in one piece is waited for, where no deadline was given."""

_SETTLE: Final = 30.0
_POLL: Final = 0.5
_THINKING: Final = "_thinking"
_SILENT: Final = frozenset(
    {"session.created", "message.started", "assistant.completed", "tool.pending", "done", "error"}
)


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One turn: the message and what is asked of it. None fields are not sent."""

    session_id: str
    message: str
    model: str | None = None
    provider: str | None = None
    model_options: Mapping[str, Any] | None = None
    instructions: str | None = None
    session_key: str | None = None

    def body(self) -> dict[str, Any]:
        given = {
            "message": self.message,
            "model": self.model,
            "provider": self.provider,
            "model_options": self.model_options,
            "instructions": self.instructions,
        }
        return {name: value for name, value in given.items() if value is not None}

    def headers(self) -> dict[str, str]:
        return {"X-Hermes-Session-Key": self.session_key} if self.session_key else {}


class Turn:
    """One turn under way. Iterate over `happenings` once; the last one is `Ended`.

    `run_id` is empty until the node told it; `approvals` are those that wait.
    """

    def __init__(self, offered: Offers, request: TurnRequest, *, stream: bool = True) -> None:
        self.run_id = ""
        self.approvals = OpenApprovals()
        self._offered = offered
        self._client = offered.client
        self._request = request
        self._streamed = stream and offered.may_have(SESSION_CHAT_STREAM)
        self._content: str | None = None
        self._end: Event | None = None
        self._error: str | None = None
        self._over = False
        self._tools_ended = 0

    @property
    def can_be_stopped(self) -> bool:
        """Whether this release knows the turn as a run: since 0.20, as the lock of models."""
        return bool(self.run_id) and self._offered.advertises(SESSION_MODEL)

    async def stop(self) -> bool:
        """Ask the node to stop the turn; whether it could be asked."""
        if not self.can_be_stopped:
            return False
        try:
            await self._client.stop_run(self.run_id, timeout=5.0)
        except NotFound:
            return self._over
        return True

    async def happenings(self, timeout: float) -> AsyncIterator[Happening]:
        """What happens, as it happens; `timeout` in seconds is for a turn in one piece."""
        if not self._streamed:
            yield Ended(await self._in_one_piece(timeout))
            return
        lost: HermesctlError | None = None
        try:
            async with self._offered.using(SESSION_CHAT_STREAM):
                async for happening in self._events():
                    yield happening
        except (StreamCut, NoAnswer) as error:
            lost = error
            if not self.run_id:
                raise
        for notice in self._blocked_commands():
            yield notice
        if self._over or self._end is not None:
            yield Ended(self._result())
            return
        why = lost.message if lost else "the stream ended in the middle"
        yield Notice("stream", f"{why}; what became of the turn is asked for")
        yield Ended(await self._recovered())

    async def _events(self) -> AsyncIterator[Happening]:
        request = self._request
        async with self._client.stream(
            "POST",
            SESSION_CHAT_STREAM.path,
            values={"session_id": request.session_id},
            json=request.body(),
            headers=request.headers(),
        ) as stream:
            async for item in stream:
                if isinstance(item, BrokenFrame):
                    yield BrokenEvent(item)
                elif isinstance(item, Event):
                    event = replace(item, data={"event": item.name, **item.data})
                    started = not self.run_id and event.run_id is not None
                    self.run_id = self.run_id or event.run_id or ""
                    if started:
                        yield StateChanged(self._run("running", event), None)
                    yield self._happening(event)
                    if self._over:
                        return

    def _happening(self, event: Event) -> Happening:
        self._remember(event)
        make = _TRANSLATIONS.get(event.name)
        if make is not None:
            return make(event)
        if event.name in STATE_OF_EVENT:
            return Closing(event)
        if event.name == "run.started" or event.name in _SILENT:
            return Told(event)
        if event.name in ("approval.request", "approval.responded"):
            return self._approval(event)
        return UnknownEvent(event)

    def _approval(self, event: Event) -> Happening:
        told = translate(event)
        if isinstance(told, ApprovalRequested):
            told.honoured = True  # these events came with 0.22, which obeys the request id
            self.approvals.requested(told.approval)
        elif isinstance(told, ApprovalResponded):
            self.approvals.responded(told)
        return told

    def _remember(self, event: Event) -> None:
        if event.name == "assistant.completed":
            self._content = text_or_json(event.data.get("content"))
        elif event.name in STATE_OF_EVENT:
            self._end = event
        elif event.name == "error":
            said = event.data.get("message", event.data.get("error"))
            self._error = text_or_json(said) or "the node told an error without a reason"
        elif event.name == "done":
            self._over = True
        elif event.name in ("tool.completed", "tool.failed"):
            self._tools_ended += 1
            self.approvals.tool_ended()

    # The end

    def _run(self, status: str, event: Event | None) -> Run:
        data = event.data if event is not None else {}
        return Run.model_validate(
            {
                "run_id": self.run_id,
                "status": status,
                "session_id": text_or_json(data.get("session_id")) or self._request.session_id,
                "runtime": data.get("runtime") if isinstance(data.get("runtime"), dict) else None,
                "usage": data.get("usage") if isinstance(data.get("usage"), dict) else None,
                "output": self._content,
                "error": self._error or data.get("error"),
                "turn_exit_reason": data.get("turn_exit_reason"),
                "pending_steer": data.get("pending_steer"),
            }
        )

    def _result(self) -> Result:
        """What the events told. An `error` is a failure whatever else was said."""
        if self._error is not None or self._end is None:
            if self._error is None:
                self._error = "the turn ended without a word on how"
            return judge(self._run("failed", self._end), "event")
        return judge(self._run(STATE_OF_EVENT[self._end.name], self._end), "event")

    def _blocked_commands(self) -> list[Notice]:
        """Commands that wanted an approval and were not run, because nobody could be asked: so it is
        in the chat of a session up to 0.20.4.

        Of the messages that come with the end, only the last are this turn's: after a turn that was
        broken off, 0.19 tells those of the whole session.
        """
        messages = self._end.data.get("messages") if self._end is not None else None
        results = [
            message.get("content")
            for message in (messages if isinstance(messages, list) else [])
            if isinstance(message, dict) and message.get("role") == "tool"
        ]
        found = []
        for content in results[max(0, len(results) - self._tools_ended) :]:
            result = _parsed(content) if isinstance(content, str) else None
            if isinstance(result, dict) and result.get("approval_pending") is True:
                command = one_line(str(result.get("command", "a command")), 200)
                found.append(
                    Notice(
                        "approval",
                        f"not run, because it wants an approval and this release asks nobody in a "
                        f"session's chat: {command}. `hermesctl run --follow --session` asks",
                    )
                )
        return found

    async def _recovered(self) -> Result:
        """What the status route tells of a turn whose stream was lost; it knows it since 0.20."""
        deadline = asyncio.get_running_loop().time() + _SETTLE
        while self.can_be_stopped and asyncio.get_running_loop().time() < deadline:
            try:
                run = await self._client.run(self.run_id)
            except HermesctlError:
                break
            if run.is_terminal:
                output = run.output if run.output is not None else self._content
                return judge(run.model_copy(update={"output": output}))
            await asyncio.sleep(_POLL)
        return Result(
            self.run_id,
            "unknown",
            Verdict.UNKNOWN,
            "the stream was lost, and the node does not tell how the turn ended",
            session_id=self._request.session_id,
            output=self._content,
            source="nothing",
        )

    async def _in_one_piece(self, timeout: float) -> Result:
        request = self._request
        answer = await chat(
            self._offered, request.session_id, request.body(), request.headers(), timeout
        )
        document = answer.json()
        message = document.get("message") if isinstance(document, dict) else None
        if not isinstance(message, dict):
            raise MalformedAnswer(
                f"{answer.method} {answer.route} answered without a message",
                hint=f"what it did: hermesctl sessions messages {request.session_id} --tail 2",
                url=answer.url,
            )
        self._content = text_or_json(message.get("content"))
        event = Event("run.completed", document, len(answer.body), 0.0)
        return judge(self._run("completed", event), "event")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _string(event: Event, name: str) -> str:
    return text_or_json(event.data.get(name)) or ""


def _tool_started(event: Event) -> Happening:
    return ToolStarted(event, _string(event, "tool_name"), _string(event, "preview"))


def _tool_ended(event: Event) -> Happening:
    failed = event.name == "tool.failed" or bool(event.data.get("error"))
    return ToolCompleted(event, _string(event, "tool_name"), None, failed)


def _tool_progress(event: Event) -> Happening:
    """Of `_thinking` it repeats the answer, as `reasoning.available` does."""
    if event.data.get("tool_name") == _THINKING:
        return Reasoning(event, _string(event, "delta"))
    return Told(event)


_TRANSLATIONS: Final[dict[str, Callable[[Event], Happening]]] = {
    "assistant.delta": lambda event: Delta(event, _string(event, "delta")),
    "assistant.commentary": lambda event: Interim(
        event, _string(event, "text"), event.data.get("already_streamed") is True
    ),
    "tool.started": _tool_started,
    "tool.completed": _tool_ended,
    "tool.failed": _tool_ended,
    "tool.progress": _tool_progress,
}
