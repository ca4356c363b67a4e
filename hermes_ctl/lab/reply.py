"""One turn of the scripted model in the shapes of OpenAI's chat completions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hermes_ctl.clock import now
from hermes_ctl.lab.turns import Turn


class Reply:
    """One turn in OpenAI's shapes, whole or in chunks."""

    def __init__(self, request: Mapping[str, Any], turn: Turn, *, with_usage: bool) -> None:
        self._turn = turn
        self._with_usage = with_usage and turn.usage
        self._prompt = len(json.dumps(request.get("messages") or [])) // 4 + 1
        self._spoken = 0
        self._head = {
            "id": f"chatcmpl-lab-{time.monotonic_ns()}",
            "created": int(now().timestamp()),
            "model": request.get("model"),
        }

    def chunks(self, wait: Callable[[float], None]) -> Iterator[dict[str, Any]]:
        yield self._chunk({"role": "assistant", "content": ""})
        for piece in self._turn.pieces():
            wait(piece.pause)
            self._spoken += len(piece.text)
            if piece.text:
                name = "reasoning_content" if piece.reasoning else "content"
                yield self._chunk({name: piece.text})
        for index, call in enumerate(self._tool_calls()):
            yield self._chunk({"tool_calls": [{"index": index, **call}]})
        yield self._chunk({}, finish_reason=self._finish_reason)
        if self._with_usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], **self._usage()}

    def whole(self, wait: Callable[[float], None]) -> dict[str, Any]:
        said: list[str] = []
        thought: list[str] = []
        for piece in self._turn.pieces():
            wait(piece.pause if piece.pause > 0.1 else 0.0)
            self._spoken += len(piece.text)
            (thought if piece.reasoning else said).append(piece.text)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(said) or None}
        if thought:
            message["reasoning_content"] = "".join(thought)
        if calls := self._tool_calls():
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        usage = self._usage() if self._with_usage else {}
        return {**self._head, "object": "chat.completion", "choices": [choice], **usage}

    @property
    def _finish_reason(self) -> str:
        return "tool_calls" if self._turn.calls else "stop"

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}

    def _tool_calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{self._head['id']}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for index, call in enumerate(self._turn.calls)
        ]

    def _usage(self) -> dict[str, Any]:
        """A quarter of the characters as tokens, and ten for a tool call."""
        completion = -(-self._spoken // 4) + 10 * len(self._turn.calls)
        counts = {"prompt_tokens": self._prompt, "completion_tokens": completion}
        return {"usage": {**counts, "total_tokens": self._prompt + completion}}
