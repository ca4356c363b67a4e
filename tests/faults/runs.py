"""A run of the stand-in: what the scripted model does with a prompt, told as Hermes tells it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from hermes_ctl.errors import UsageError
from hermes_ctl.lab import script
from hermes_ctl.lab.turns import ToolCall, Turn
from tests.faults.faults import HOSTILE, Faults

DEFAULT_MODEL = "lab-model"
KNOWN_MODELS = ("lab-model", "lab-other")
ENDED = frozenset({"completed", "failed", "cancelled"})
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("terminal", "delegate_task")]


class ModelFailure(Exception):
    """The provider or the agent gave up: the run's `error`."""


@dataclass
class Run:
    """One run. `frames` is the buffer that its one reader empties; None once that reader left.

    `requested_model` is what the status echoes, `model` what the provider got.
    """

    run_id: str
    body: dict[str, Any]
    faults: Faults
    pace: float
    tool_seconds: float
    session_id: str
    requested_model: Any
    model: str
    status: str = "running"
    created_at: float = field(default_factory=time.time)
    updated_at: float = field(default_factory=time.time)
    last_event: str | None = None
    output: str | None = None
    error: str | None = None
    usage: dict[str, int] | None = None
    pending_steer: list[str] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    frames: asyncio.Queue[bytes | None] | None = field(default_factory=asyncio.Queue)
    approval: dict[str, Any] | None = None
    decision: asyncio.Future[str] | None = None
    polls: int = 0
    task: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        return self.status not in ENDED

    # What is told

    def emit(self, event: str, **fields: Any) -> None:
        self._put({"event": event, "run_id": self._event_id(), "timestamp": time.time(), **fields})

    def document(self) -> dict[str, Any]:
        """The body of `GET /v1/runs/{run_id}`, keys in Hermes' order."""
        changed = self.faults.change_run_id == "status"
        status = self.status if not self.is_active else self.faults.unknown_state or self.status
        document: dict[str, Any] = {
            "object": "hermes.run",
            "run_id": new_run_id() if changed else self.run_id,
            "status": status,
            "updated_at": self.updated_at,
            "created_at": self.created_at,
            "session_id": self.session_id,
            "model": self.requested_model,
        }
        if self.last_event:
            document["last_event"] = self.last_event
        if self.status == "completed":
            polled = self.faults.polled_output
            document["output"] = self.output if polled is None else polled
            document["usage"] = self.usage
        if self.status == "failed":
            document["error"] = self.error
        if self.pending_steer and self.status == "completed":
            document["pending_steer"] = "\n".join(self.pending_steer)
        return document

    async def told(self, keepalive: float) -> AsyncIterator[bytes]:
        """The stream's frames as they come, keepalives in between, the closing comment at the end."""
        frames = self.frames
        while frames is not None:
            try:
                frame = await asyncio.wait_for(frames.get(), keepalive)
            except TimeoutError:
                yield b": keepalive\n\n"
                continue
            if frame is None:
                break
            yield frame
        if not self.faults.no_closing_comment:
            yield b": stream closed\n\n"

    # What is done

    async def perform(self) -> None:
        """The whole run. Cancelling this is what a stop does."""
        try:
            await self._converse()
        except (ModelFailure, UsageError) as failure:
            self.fail(str(failure))
        except asyncio.CancelledError:
            await self._settle_stop()

    async def _converse(self) -> None:
        if self.faults.stuck:
            await asyncio.Event().wait()
        self._refuse_unknown_names()
        self.messages = conversation(self.body)
        tools = [] if self.faults.no_tool_call else TOOLS
        calls = tokens = 0
        while True:
            turn = script.answer({"messages": self.messages, "tools": tools})
            calls += 1
            if turn.status != 200:
                raise ModelFailure(f"HTTP {turn.status}: scripted {turn.status}")
            said, pieces = await self._speak(turn, after_tool=calls > 1)
            tokens += pieces
            if not turn.calls:
                break
            await self._use_tools(turn.calls)
        usage = {"input_tokens": 50 * calls, "output_tokens": tokens}
        self.complete(said.strip(), {**usage, "total_tokens": 50 * calls + tokens})

    def _refuse_unknown_names(self) -> None:
        provider = self.body.get("provider")
        if self.faults.run_error:
            raise ModelFailure(self.faults.run_error)
        if provider not in (None, "custom") and not self.faults.ignore_model:
            raise ModelFailure(
                f"⚠️ Provider authentication failed: Unknown provider '{provider}'. Check 'hermes model'"
                " for available providers, or run 'hermes doctor' to diagnose config issues."
            )
        if self.model not in KNOWN_MODELS and not self.faults.accept_unknown_model:
            raise ModelFailure(f"HTTP 400: The model `{self.model}` does not exist")

    async def _speak(self, turn: Turn, *, after_tool: bool) -> tuple[str, int]:
        said, count = "", 0
        for piece in turn.pieces():
            await asyncio.sleep(piece.pause * self.pace)
            if piece.reasoning or not piece.text:
                continue
            text = piece.text + (HOSTILE if self.faults.hostile else "")
            self.emit("message.delta", delta=f"\n\n{text}" if after_tool and not said else text)
            said += text
            count += 1
        if not turn.calls and said:
            self.emit("reasoning.available", text=said.strip()[:500])
        return said, count

    async def _use_tools(self, calls: tuple[ToolCall, ...]) -> None:
        named = [{"id": f"call_{n}", "function": {"name": c.name}} for n, c in enumerate(calls)]
        self.messages.append({"role": "assistant", "content": "", "tool_calls": named})
        for number, call in enumerate(calls):
            result = await self._use_tool(call)
            result += "".join(
                f"\n[OUT-OF-BAND USER MESSAGE]\n{text}\n[/OUT-OF-BAND USER MESSAGE]"
                for text in self.pending_steer
            )
            self.pending_steer.clear()
            self.messages.append(
                {"role": "tool", "tool_call_id": f"call_{number}", "content": result}
            )

    async def _use_tool(self, call: ToolCall) -> str:
        began = time.monotonic()
        preview = str(next(iter(call.arguments.values()), ""))
        if self.faults.oversized_frame:
            preview += " " + "x" * self.faults.oversized_frame
        if self.faults.hostile:
            preview += HOSTILE
        self.emit("tool.started", tool=call.name, preview=preview)
        denied = preview.startswith("rm -rf") and await self._ask(preview) == "deny"
        if call.name == "delegate_task":
            await self._delegate(preview)
        elif not denied:
            await asyncio.sleep(self.tool_seconds * self.pace)
        duration = round(time.monotonic() - began, 3)
        self.emit("tool.completed", tool=call.name, duration=duration, error=denied)
        return "denied by the user" if denied else "ok"

    async def _ask(self, command: str) -> str:
        self.decision = asyncio.get_running_loop().create_future()
        self.approval = {
            "command": command,
            "pattern_key": "recursive delete",
            "pattern_keys": ["recursive delete"],
            "description": "recursive delete",
            "allow_permanent": True,
            "allow_session": True,
            "request_id": uuid.uuid4().hex,
            "event": "approval.request",
            "run_id": self._event_id(),
            "timestamp": time.time(),
            "choices": ["once", "session", "always", "deny"],
        }
        self.status = "waiting_for_approval"
        self._put(self.approval)
        choice = await self.decision
        self.approval, self.status = None, "running"
        self.emit("approval.responded", choice=choice, resolved=1)
        return choice

    async def _delegate(self, goal: str) -> None:
        child = {
            "preview": goal,
            "goal": goal,
            "task_count": 1,
            "task_index": 0,
            "subagent_id": f"sa-0-{uuid.uuid4().hex[:8]}",
            "child_session_id": time.strftime("%Y%m%d_%H%M%S_") + uuid.uuid4().hex[:6],
            "depth": 0,
            "model": self.model,
            "tool_count": 0,
        }
        self.emit("subagent.start", **child)
        await asyncio.sleep(self.tool_seconds * self.pace)
        spent = {"input_tokens": 50, "output_tokens": 7, "reasoning_tokens": 0, "api_calls": 1}
        files = {"cost_usd": 0.0, "files_read": [], "files_written": [], "output_tail": []}
        end = {"status": "completed", "summary": "Done.", "duration_seconds": self.tool_seconds}
        self.emit("subagent.complete", **{**child, "preview": "Done."}, **end, **spent, **files)

    # How it ends

    def complete(self, output: str, usage: dict[str, int]) -> None:
        faults = self.faults
        self.output = "" if faults.empty_output else faults.final_output or output
        nothing = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        self.usage = nothing if faults.zero_tokens else usage
        steer = {"pending_steer": "\n".join(self.pending_steer)} if self.pending_steer else {}
        self._end("completed", output=self.output, usage=self.usage, **steer)

    def fail(self, error: str) -> None:
        self.error = error + (HOSTILE if self.faults.hostile else "")
        self._end("failed", error=self.error)

    def stop(self) -> None:
        """What `POST .../stop` sets going; the answer is `stopping` whatever comes of it."""
        self.status, self.last_event = "stopping", "run.stopping"
        self.updated_at = time.time()
        if self.task and not self.faults.never_stop:
            self.task.cancel()

    def finish(self) -> None:
        """The run is over this moment, as if the model had just said its last word."""
        self.complete("done", {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57})
        if self.task:
            self.task.cancel()

    async def _settle_stop(self) -> None:
        if not self.is_active:
            return
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)
        if self.faults.late_stop:
            self.complete("finished", {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57})
        else:
            self._end("cancelled")

    def _end(self, status: str, **fields: Any) -> None:
        if not self.faults.no_terminal_event:
            self.emit(f"run.{status}", **fields)
        self.status = status
        self.last_event = f"run.{status}"
        self.updated_at = time.time()
        if self.frames is not None:
            self.frames.put_nowait(None)

    def _put(self, event: dict[str, Any]) -> None:
        """Into the stream, and into the status, which takes no notice of text."""
        if event["event"] != "message.delta":
            self.last_event = event["event"]
            self.updated_at = time.time()
        if self.frames is not None:
            self.frames.put_nowait(f"data: {json.dumps(event)}\n\n".encode())

    def _event_id(self) -> str:
        return new_run_id() if self.faults.change_run_id == "events" else self.run_id


def new_run_id() -> str:
    return f"run_{uuid.uuid4().hex}"


def conversation(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that the model gets for a run request."""
    history = list(body.get("conversation_history") or [])
    if isinstance(body["input"], str):
        return [*history, {"role": "user", "content": body["input"]}]
    *earlier, last = body["input"]
    return [*history, *earlier, {"role": "user", "content": last["content"]}]
