"""The stand-in's sessions: one for each run that named none, and those that a client makes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.faults.faults import HOSTILE
from tests.faults.runs import Run
from tests.faults.wire import Reply, Request, error_reply, json_reply, not_found

FIELDS = frozenset({"title", "end_reason", "pinned", "archived", "hidden", "unread"})


class Sessions:
    """Session rows by id, newest last, and the runs whose messages they hold."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, list[Run]] = {}
        self.routes: dict[str, Callable[[Request], Reply | Run]] = {
            "GET /api/sessions": self.list,
            "POST /api/sessions": self.create,
            "GET /api/sessions/{session_id}": self.get,
            "PATCH /api/sessions/{session_id}": self.update,
            "DELETE /api/sessions/{session_id}": self.delete,
            "GET /api/sessions/{session_id}/messages": self.messages,
            **{
                f"POST /api/sessions/{{session_id}}/{name}": self.not_scripted
                for name in ("fork", "chat", "chat/stream", "model")
            },
        }

    def record(self, run: Run) -> None:
        """A run's session: made by its first run, whose model it keeps. A run whose provider
        cannot be resolved leaves none."""
        if run.body.get("provider") not in (None, "custom") and not run.faults.ignore_model:
            return
        title = f"Stub title #{len(self.rows)}" + (HOSTILE if run.faults.hostile else "")
        self.rows.setdefault(run.session_id, _row(run.session_id, run.model, title))
        self.runs.setdefault(run.session_id, []).append(run)

    def list(self, request: Request) -> Reply:
        limit = min(int(request.query.get("limit", 50)), 200)
        offset = int(request.query.get("offset", 0))
        rows = [self._extended(row) for row in reversed(self.rows.values())]
        page = rows[offset : offset + limit]
        more = len(rows) > offset + limit
        listing = {"limit": limit, "offset": offset, "has_more": more}
        return json_reply({"object": "list", "data": page, **listing})

    def create(self, request: Request) -> Reply:
        body = request.json()
        session_id = body.get("id") or f"api_{int(time.time())}_{uuid.uuid4().hex[:8]}"
        if session_id in self.rows:
            return error_reply(409, f"Session already exists: {session_id}", "session_exists")
        if "/" in session_id or len(session_id) > 256:
            return error_reply(400, "Invalid session ID", "invalid_session_id")
        self.rows[session_id] = _row(session_id, body.get("model"), body.get("title"))
        return json_reply({"object": "hermes.session", "session": self.rows[session_id]}, 201)

    def get(self, request: Request) -> Reply:
        row = self.rows.get(request.values["session_id"])
        if row is None:
            return not_found("session", request.values["session_id"])
        return json_reply({"object": "hermes.session", "session": self._grown(row)})

    def update(self, request: Request) -> Reply:
        row = self.rows.get(request.values["session_id"])
        if row is None:
            return not_found("session", request.values["session_id"])
        if unknown := set(request.json()) - FIELDS:
            message = f"Unsupported session field: {min(unknown)}"
            return error_reply(400, message, "unsupported_session_field")
        row.update(request.json())
        return json_reply({"object": "hermes.session", "session": row})

    def delete(self, request: Request) -> Reply:
        session_id = request.values["session_id"]
        if self.rows.pop(session_id, None) is None:
            return not_found("session", session_id)
        gone = {"object": "hermes.session.deleted", "id": session_id, "deleted": True}
        return json_reply(gone)

    def messages(self, request: Request) -> Reply:
        session_id = request.values["session_id"]
        if session_id not in self.rows:
            return not_found("session", session_id)
        told: list[dict[str, Any]] = []
        for run in self.runs.get(session_id, []):
            told.append(_message(session_id, len(told) + 1, "user", run.body["input"]))
            if run.output:
                told.append(_message(session_id, len(told) + 1, "assistant", run.output, "stop"))
        return json_reply(_window(session_id, told, request.query))

    def not_scripted(self, request: Request) -> Reply:
        """A route that is there, and that the stand-in does nothing for but know its sessions."""
        if request.values["session_id"] not in self.rows:
            return not_found("session", request.values["session_id"])
        return error_reply(400, "the stand-in does not do this")

    def _extended(self, row: dict[str, Any]) -> dict[str, Any]:
        runs = self.runs.get(row["id"], [])
        preview = str(runs[0].body["input"])[:60] if runs else ""
        return {**self._grown(row), "last_active": row["started_at"], "preview": preview}

    def _grown(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with what its runs have spent until now."""
        spent = [run.usage for run in self.runs.get(row["id"], []) if run.usage]
        if not spent:
            return row
        tokens = {name: sum(usage[name] for usage in spent) for name in spent[0] if name in row}
        counts = {"message_count": 2 * len(spent), "api_call_count": len(spent)}
        return {**row, **tokens, **counts, "estimated_cost_usd": 0.0}


def _window(session_id: str, told: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    """A page of messages in ascending order: without a limit the latest 500, else the oldest first."""
    order = query.get("order", "oldest" if "limit" in query else "latest")
    limit = min(int(query.get("limit", 500)), 500)
    offset = int(query.get("offset", 0))
    end = max(0, len(told) - offset)
    latest = order == "latest"
    page = told[max(0, end - limit) : end] if latest else told[offset : offset + limit]
    pagination = {"limit": limit, "offset": offset, "order": order, "returned": len(page)}
    return {"object": "list", "session_id": session_id, "data": page, "pagination": pagination}


def _row(session_id: str, model: str | None, title: str | None) -> dict[str, Any]:
    counts = ("message_count", "tool_call_count", "input_tokens", "output_tokens")
    more_counts = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return {
        "id": session_id,
        "source": "api_server",
        "user_id": None,
        "model": model,
        "title": title,
        "started_at": time.time(),
        "ended_at": None,
        "end_reason": None,
        **dict.fromkeys(counts + more_counts, 0),
        "estimated_cost_usd": None,
        "actual_cost_usd": None,
        "api_call_count": 0,
        "parent_session_id": None,
        "pinned": False,
        "archived": False,
        "hidden": False,
        "has_system_prompt": True,
        "has_model_config": True,
    }


def _message(
    session_id: str, number: int, role: str, content: Any, finish_reason: str | None = None
) -> dict[str, Any]:
    empty = ("tool_call_id", "tool_calls", "tool_name")
    more_empty = ("reasoning", "reasoning_content")
    return {
        "id": number,
        "session_id": session_id,
        "role": role,
        "content": content,
        **dict.fromkeys(empty),
        "timestamp": time.time(),
        "token_count": None,
        "finish_reason": finish_reason,
        **dict.fromkeys(more_empty),
    }
