"""The stand-in with all that the deep probes look at: chat, responses, jobs, forks, model locks.

    server.broken.add("steer lost")      one way of being wrong; `BREAKABLE` lists them all

Healthy it answers as 0.20.4.post1 does. What is broken on purpose is broken in the one place that
the name tells.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from hermes_ctl.lab import script
from tests.faults.answers import Answers
from tests.faults.runs import Run
from tests.faults.server import HermesServer
from tests.faults.wire import Reply, Request, error_reply, json_reply, not_found

BREAKABLE = frozenset(
    {
        "nobody asked",
        "approves itself",
        "denial ignored",
        "asked twice",
        "refused unasked",
        "deny not offered",
        "steer lost",
        "steer not accepted",
        "session forgets",
        "session stream without done",
        "session messages lost",
        "session title lost",
        "session not listed",
        "session not deleted",
        "session made twice",
        "fork without parent",
        "job pause ignored",
        "job not listed",
        "job not deleted",
        "job name lost",
        "chat without word",
        "chat without usage",
        "chat stream without end",
        "response forgets",
        "response not kept",
        "response stream without end",
        "dropped stream ends the run",
        "reopened stream is silent",
        "reopened stream of another run",
        "key makes a second run",
        "conflict accepted",
        "session key lost",
        "relay event missing",
        "relay events out of order",
    }
)


class DeepServer(HermesServer):
    """`broken` holds what is wrong. Use it as `HermesServer` is used."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()
        self.answers = DeepAnswers(self)

    def break_(self, name: str) -> None:
        """Break one thing. A name that is none of `BREAKABLE` is a mistake in the test."""
        assert name in BREAKABLE, name
        self.broken.add(name)


class DeepAnswers(Answers):
    def __init__(self, server: DeepServer) -> None:
        super().__init__(server)
        self.deep = server
        self.jobs: dict[str, dict[str, Any]] = {}
        self.responses: dict[str, dict[str, Any]] = {}
        self.said: dict[str, list[dict[str, str]]] = {}
        self.opened: set[str] = set()
        self.routes.update(
            {
                "POST /v1/chat/completions": self.chat,
                "POST /v1/responses": self.respond,
                "GET /v1/responses/{response_id}": self.response,
                "DELETE /v1/responses/{response_id}": self.delete_response,
                "GET /api/jobs": self.list_jobs,
                "POST /api/jobs": self.create_job,
                "GET /api/jobs/{job_id}": self.job,
                "PATCH /api/jobs/{job_id}": self.update_job,
                "DELETE /api/jobs/{job_id}": self.delete_job,
                "POST /api/jobs/{job_id}/pause": lambda r: self._switch(r, False),
                "POST /api/jobs/{job_id}/resume": lambda r: self._switch(r, True),
                "POST /api/sessions": self.create_session,
                "GET /api/sessions": self.list_sessions,
                "PATCH /api/sessions/{session_id}": self.update_session,
                "DELETE /api/sessions/{session_id}": self.delete_session,
                "POST /api/sessions/{session_id}/fork": self.fork,
                "POST /api/sessions/{session_id}/model": self.lock_model,
                "POST /api/sessions/{session_id}/chat": self.session_chat,
                "POST /api/sessions/{session_id}/chat/stream": self.session_stream,
                "GET /api/sessions/{session_id}/messages": self.session_messages,
            }
        )

    def is_broken(self, name: str) -> bool:
        assert name in BREAKABLE, name
        return name in self.deep.broken

    # Runs

    def _start(self, request: Request, body: dict[str, Any], echo: dict[str, str]) -> Reply:
        reply = super()._start(request, body, {} if self.is_broken("session key lost") else echo)
        self._bend(list(self.runs.values())[-1])
        return reply

    def _bend(self, run: Run) -> None:
        """The run's way of asking for an approval, bent as `broken` says."""
        ask: Callable[[str], Awaitable[str]] = run._ask

        async def bent(command: str) -> str:
            if self.is_broken("nobody asked"):
                return "once"
            if self.is_broken("refused unasked"):
                return "deny"
            if self.is_broken("asked twice"):
                await ask(command)
            waiting = asyncio.ensure_future(ask(command))
            await asyncio.sleep(0)
            if self.is_broken("approves itself"):
                await asyncio.sleep(0.1)
                if run.decision is not None:
                    run.decision.set_result("once")
            choice = await waiting
            return "once" if self.is_broken("denial ignored") else choice

        run._ask = bent  # type: ignore[method-assign]
        if self.is_broken("deny not offered"):
            put = run._put
            run._put = lambda event: put(  # type: ignore[method-assign]
                {**event, "choices": ["once"]} if "choices" in event else event
            )

    def steer_run(self, request: Request) -> Reply:
        reply = super().steer_run(request)
        run = self.runs.get(request.values["run_id"])
        if run is not None and self.is_broken("steer lost"):
            run.pending_steer.clear()
        if reply.status == 200 and self.is_broken("steer not accepted"):
            return json_reply({"object": "hermes.run.steer", "accepted": False})
        return reply

    def run_status(self, request: Request) -> Reply:
        run = self.runs.get(request.values["run_id"])
        left = run is not None and run.frames is None
        if run and left and run.is_active and self.is_broken("dropped stream ends the run"):
            run.finish()
        return super().run_status(request)

    def run_events(self, request: Request) -> Reply | Run:
        run = self.runs.get(request.values["run_id"])
        if run is not None and run.frames is None:
            if self.is_broken("reopened stream is silent"):
                run.frames = asyncio.Queue()
                run._put = lambda event: None  # type: ignore[method-assign]
            if self.is_broken("reopened stream of another run"):
                run.frames = asyncio.Queue()
                foreign = {"event": "message.delta", "run_id": "run_foreign", "delta": "x"}
                run.frames.put_nowait(f"data: {json.dumps(foreign)}\n\n".encode())
        return super().run_events(request)

    def create_run(self, request: Request) -> Reply:
        key = request.headers.get("idempotency-key", "")
        known = self.submissions.get(key)
        if key and known is not None:
            same = request.json() == known[0]
            forgotten = "key makes a second run" if same else "conflict accepted"
            if self.is_broken(forgotten):
                del self.submissions[key]
        return super().create_run(request)

    # Chat completions and responses

    def _say(self, messages: list[dict[str, Any]]) -> str:
        turn = script.answer({"messages": messages, "tools": []})
        return "".join(piece.text for piece in turn.pieces()).strip()

    def chat(self, request: Request) -> Reply:
        if not _is_json(request):
            return error_reply(400, "Invalid JSON")
        body = request.json()
        text = self._say(body["messages"])
        if self.is_broken("chat without word"):
            text = "no"
        usage = {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}
        if self.is_broken("chat without usage"):
            usage = {}
        whole: dict[str, Any] = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "model": "hermes-agent",
            "usage": usage,
        }
        headers = {"X-Hermes-Session-Id": f"api-{uuid.uuid4().hex[:12]}"}
        if not body.get("stream"):
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = {**whole, "object": "chat.completion", "choices": [choice]}
            return json_reply(whole, 200, headers)
        chunks: list[dict[str, Any]] = [
            {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in ({"role": "assistant"}, {"content": text[:4]}, {"content": text[4:]}, {})
        ]
        frames = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        end = "" if self.is_broken("chat stream without end") else "data: [DONE]\n\n"
        return _stream(frames + end, headers)

    def respond(self, request: Request) -> Reply:
        body = request.json()
        before = self.responses.get(str(body.get("previous_response_id")), {})
        earlier = [] if self.is_broken("response forgets") else before.get("messages", [])
        messages = [*earlier, {"role": "user", "content": body["input"]}]
        text = self._say(messages)
        name = f"resp_{uuid.uuid4().hex[:12]}"
        content = [{"type": "output_text", "text": text}]
        document = {
            "id": name,
            "object": "response",
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": content}],
            "usage": {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57},
        }
        kept = [*messages, {"role": "assistant", "content": text}]
        self.responses[name] = {"document": document, "messages": kept}
        if not body.get("stream"):
            return json_reply(document)
        events: list[tuple[str, dict[str, Any]]] = [
            ("response.created", {"response": {**document, "status": "in_progress"}}),
            ("response.output_text.delta", {"delta": text}),
            ("response.completed", {"response": document}),
        ]
        if self.is_broken("response stream without end"):
            events.pop()
        frames = (f"event: {n}\ndata: {json.dumps({'type': n, **d})}\n\n" for n, d in events)
        return _stream("".join(frames))

    def response(self, request: Request) -> Reply:
        kept = self.responses.get(request.values["response_id"])
        if kept is None or self.is_broken("response not kept"):
            return not_found("response", request.values["response_id"])
        return json_reply(kept["document"])

    def delete_response(self, request: Request) -> Reply:
        if self.responses.pop(request.values["response_id"], None) is None:
            return not_found("response", request.values["response_id"])
        return json_reply({"id": request.values["response_id"], "deleted": True})

    # Jobs

    def list_jobs(self, request: Request) -> Reply:
        hidden = self.is_broken("job not listed")
        shown = [] if hidden else [one for one in self.jobs.values() if one["enabled"]]
        return json_reply({"jobs": shown})

    def create_job(self, request: Request) -> Reply:
        job_id = uuid.uuid4().hex[:12]
        self.jobs[job_id] = {"id": job_id, "enabled": True, **request.json()}
        return json_reply({"job": self.jobs[job_id]})

    def job(self, request: Request) -> Reply:
        job = self.jobs.get(request.values["job_id"])
        return json_reply({"job": job}) if job else json_reply({"error": "Job not found"}, 404)

    def update_job(self, request: Request) -> Reply:
        if not self.is_broken("job name lost"):
            self.jobs[request.values["job_id"]].update(request.json())
        return self.job(request)

    def delete_job(self, request: Request) -> Reply:
        if not self.is_broken("job not deleted"):
            self.jobs.pop(request.values["job_id"], None)
        return json_reply({"ok": True})

    def _switch(self, request: Request, enabled: bool) -> Reply:
        if not self.is_broken("job pause ignored"):
            self.jobs[request.values["job_id"]]["enabled"] = enabled
        return self.job(request)

    # Sessions

    def create_session(self, request: Request) -> Reply:
        if not _is_json(request):
            return error_reply(400, "Invalid JSON")
        if self.is_broken("session made twice"):
            self.sessions.rows.pop(request.json().get("id"), None)
        return self.sessions.create(request)

    def list_sessions(self, request: Request) -> Reply:
        if self.is_broken("session not listed"):
            return json_reply({"object": "list", "data": [], "has_more": False})
        return self.sessions.list(request)

    def update_session(self, request: Request) -> Reply:
        row = dict(self.sessions.rows.get(request.values["session_id"], {}))
        reply = self.sessions.update(request)
        if self.is_broken("session title lost") and reply.status == 200:
            self.sessions.rows[request.values["session_id"]] = row
        return reply

    def delete_session(self, request: Request) -> Reply:
        row = self.sessions.rows.get(request.values["session_id"])
        reply = self.sessions.delete(request)
        if row is not None and self.is_broken("session not deleted"):
            self.sessions.rows[request.values["session_id"]] = row
        return reply

    def fork(self, request: Request) -> Reply:
        source = self.sessions.rows.get(request.values["session_id"])
        if source is None:
            return not_found("session", request.values["session_id"])
        parent = None if self.is_broken("fork without parent") else source["id"]
        name = f"api_{int(time.time())}_{uuid.uuid4().hex[:8]}"
        self.sessions.rows[name] = {**source, "id": name, "parent_session_id": parent}
        return json_reply({"object": "hermes.session", "session": self.sessions.rows[name]}, 201)

    def lock_model(self, request: Request) -> Reply:
        if request.values["session_id"] not in self.sessions.rows:
            return not_found("session", request.values["session_id"])
        return json_reply({"object": "hermes.session", "model": request.json().get("model")})

    def _turn(self, request: Request) -> str:
        body = request.json()
        told = self.said.setdefault(request.values["session_id"], [])
        if self.is_broken("session forgets"):
            told.clear()
        told.append({"role": "user", "content": str(body.get("input") or body.get("message"))})
        text = self._say(list(told)).removeprefix("I have no terminal tool. ")
        told.append({"role": "assistant", "content": text})
        return text

    def session_chat(self, request: Request) -> Reply:
        if request.values["session_id"] not in self.sessions.rows:
            return not_found("session", request.values["session_id"])
        message = {"role": "assistant", "content": self._turn(request)}
        usage = {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57}
        whole = {"object": "hermes.session.chat.completion", "message": message, "usage": usage}
        return json_reply(whole, 200, {"X-Hermes-Session-Id": request.values["session_id"]})

    def session_stream(self, request: Request) -> Reply:
        if request.values["session_id"] not in self.sessions.rows:
            return not_found("session", request.values["session_id"])
        text = self._turn(request)
        names = ["run.started", "message.started", "tool.started", "tool.completed"]
        names += ["assistant.delta", "assistant.completed", "run.completed", "done"]
        if self.is_broken("relay event missing"):
            names.remove("message.started")
        if self.is_broken("relay events out of order"):
            names[0], names[1] = names[1], names[0]
        if self.is_broken("session stream without done"):
            names.remove("done")
        numbers = itertools.count(1)
        frames = ""
        for name in names:
            data = {"session_id": request.values["session_id"], "seq": next(numbers)}
            if name == "assistant.delta":
                data["delta"] = text
            frames += f"event: {name}\ndata: {json.dumps(data)}\n\n"
        return _stream(frames)

    def session_messages(self, request: Request) -> Reply:
        told = self.said.get(request.values["session_id"])
        if not told or request.values["session_id"] not in self.sessions.rows:
            return self.sessions.messages(request)
        rows = told[:1] if self.is_broken("session messages lost") else told
        return json_reply({"object": "list", "data": rows})


def _is_json(request: Request) -> bool:
    try:
        request.json()
    except ValueError:
        return False
    return True


def _stream(frames: str, headers: dict[str, str] | None = None) -> Reply:
    return Reply(200, frames.encode(), "text/event-stream", headers or {}, hardened=False)
