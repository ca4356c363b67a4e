"""The healthy answers of the stand-in: those of 0.20.4.post1, shape for shape."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.faults import Faults
from tests.faults.runs import DEFAULT_MODEL, Run, new_run_id
from tests.faults.sessions import Sessions
from tests.faults.wire import (
    BODY_LIMIT,
    Reply,
    Request,
    error_reply,
    json_reply,
    not_found,
    text_reply,
)

if TYPE_CHECKING:
    from tests.faults.server import HermesServer

OPEN_ROUTES = frozenset({"GET /health", "GET /v1/health"})
IDEMPOTENCY = {"supported": True, "durable": True, "retention_seconds": 86400}
NO_ROUTE = text_reply(404, "404: Not Found")


@cache
def document(name: str) -> str:
    """A measured answer from `documents/`."""
    return (Path(__file__).parent / "documents" / f"{name}.json").read_text().strip()


class Answers:
    """What the node knows, and what it says to each request."""

    def __init__(self, server: HermesServer) -> None:
        self.server = server
        self.runs: dict[str, Run] = {}
        self.profiles: dict[str, str] = {}
        self.submissions: dict[str, tuple[Any, Run]] = {}
        self.sessions = Sessions()
        self.started = datetime.now(UTC).isoformat()
        self.start_time = time.monotonic_ns() // 1000
        self.routes: dict[str, Callable[[Request], Reply | Run]] = {
            "GET /health": self.health,
            "GET /v1/health": self.health,
            "GET /health/detailed": self.detailed_health,
            "GET /v1/capabilities": self.capabilities,
            "GET /v1/models": self.models,
            "GET /v1/skills": lambda request: json_reply(json.loads(document("skills"))),
            "GET /v1/toolsets": lambda request: json_reply(json.loads(document("toolsets"))),
            "GET /api/model/options": self.model_options,
            "POST /v1/runs": self.create_run,
            "GET /v1/runs/{run_id}": self.run_status,
            "GET /v1/runs/{run_id}/events": self.run_events,
            "POST /v1/runs/{run_id}/stop": self.stop_run,
            "POST /v1/runs/{run_id}/steer": self.steer_run,
            "POST /v1/runs/{run_id}/approval": self.answer_approval,
            **self.sessions.routes,
        }

    @property
    def faults(self) -> Faults:
        return self.server.faults

    def locate(self, request: Request) -> None:
        """Sets the request's `route` and `values`, its profile prefix taken off."""
        segments = request.segments
        if len(segments) > 3 and segments[1] == "p":
            request.values["profile"] = segments[2]
            segments = ["", *segments[3:]]
        request.route = f"{request.method} {'/'.join(segments)}"
        for route in self.routes:
            method, _, template = route.partition(" ")
            values = _match(template.split("/"), segments)
            if method == request.method and values is not None:
                request.route = route
                request.values.update(values)

    def answer(self, request: Request) -> Reply | Run:
        """What Hermes would say; a `Run` where its stream is to follow."""
        if "origin" in request.headers:
            return Reply(403, b"", None, hardened=False)
        if len(request.body) > BODY_LIMIT:
            reply = error_reply(413, "Request body too large.", "body_too_large")
            reply.hardened = False
            return reply
        if request.route in self.faults.dropped_routes:
            return NO_ROUTE
        handler = self.routes.get(request.route)
        if handler is None:
            return self._no_handler(request)
        refused = self._refuse_profile(request) or self._refuse_key(request)
        return refused or handler(request)

    def _no_handler(self, request: Request) -> Reply:
        segments = request.route.partition(" ")[2].split("/")
        allowed = [
            route.partition(" ")[0]
            for route in self.routes
            if _match(route.partition(" ")[2].split("/"), segments) is not None
        ]
        if not allowed:
            return NO_ROUTE
        return text_reply(405, "405: Method Not Allowed", {"Allow": ",".join(allowed)})

    def _refuse_profile(self, request: Request) -> Reply | None:
        """Without multiplexing every prefix serves the default profile (wire.md, 7)."""
        profile = request.values.get("profile", "default")
        if not self.profiles or profile == "default" or profile in self.profiles:
            return None
        reply = json_reply({"error": "Unknown or unconfigured profile"}, 404)
        reply.hardened = False
        return reply

    def _refuse_key(self, request: Request) -> Reply | None:
        if request.route in OPEN_ROUTES or self.faults.accept_no_key:
            return None
        wanted = self.profiles.get(request.values.get("profile", ""), self.server.key)
        if request.bearer == wanted or (self.faults.accept_any_key and request.bearer):
            return None
        said = f" (got {request.bearer})" if self.faults.echo_key else ""
        error = {
            "message": f"Invalid gateway API key (API_SERVER_KEY){said}",
            "type": "gateway_auth_error",
            "code": "gateway_auth_failed",
        }
        return json_reply({"error": error}, 401)

    # The node about itself

    def health(self, request: Request) -> Reply:
        version = self.faults.version
        return json_reply({"status": "ok", "platform": "hermes-agent", "version": version})

    def active_runs(self) -> int:
        ours = sum(run.is_active or self.faults.keep_slot for run in self.runs.values())
        return ours + self.faults.foreign_runs

    def detailed_health(self, request: Request) -> Reply:
        state = "draining" if self.faults.draining else "running"
        checks: dict[str, dict[str, Any]] = {
            "state_db": {"status": "ok"},
            "config": {"status": "ok"},
            "model": {"status": "ok"},
            "disk": {"status": "ok", "used_percent": 11.0, "free_bytes": 79308705792},
            "gateway": {"status": "ok", "state": state, "connected_platforms": 1, "platforms": 1},
            "background_queues": {
                "status": "ok",
                "active_api_runs": self.active_runs(),
                "process_completions": 0,
                "active_delegations": 0,
            },
        }
        if self.faults.probe_pending > 0:
            self.faults.probe_pending -= 1
            checks["state_db"] = {"status": "degraded", "detail": "probe pending"}
        for name, check in self.faults.degraded.items():
            checks[name] = {**checks.get(name, {}), **check}
        status = "ok" if all(check["status"] == "ok" for check in checks.values()) else "degraded"
        platform = {
            "state": "connected",
            "error_code": None,
            "error_message": None,
            "updated_at": self.started,
            "writer_pid": os.getpid(),
            "writer_start_time": self.start_time,
        }
        return json_reply(
            {
                "status": status,
                "readiness": {"status": status, "checks": checks},
                "platform": "hermes-agent",
                "version": self.faults.version,
                "gateway_state": state,
                "platforms": {"api_server": platform},
                "active_agents": 0,
                "gateway_busy": False,
                "gateway_drainable": True,
                "exit_reason": None,
                "updated_at": self.started,
                "pid": os.getpid(),
            }
        )

    def capabilities(self, request: Request) -> Reply:
        told = json.loads(document("capabilities"))
        for kind in ("features", "endpoints"):
            kept = told[kind].items()
            told[kind] = {k: v for k, v in kept if k not in self.faults.dropped_features}
        if self.faults.idempotent:
            told["features"]["runs_idempotency"] = IDEMPOTENCY
        told["features"].update(self.faults.extra_features)
        return json_reply(told)

    def models(self, request: Request) -> Reply:
        profile = request.values.get("profile", "")
        name = profile if profile in self.profiles else "hermes-agent"
        entry = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "hermes"}
        return json_reply(
            {"object": "list", "data": [{**entry, "permission": [], "root": name, "parent": None}]}
        )

    def model_options(self, request: Request) -> Reply:
        return json_reply(json.loads(document("model_options")))

    # Runs

    def create_run(self, request: Request) -> Reply:
        if self.faults.draining:
            message = "Gateway is draining existing work; retry shortly."
            return error_reply(503, message, "gateway_draining", headers={"Retry-After": "1"})
        session_key = request.headers.get("x-hermes-session-key", "")
        if len(session_key) > 256:
            error = {"message": "Session key too long", "type": "invalid_request_error"}
            return json_reply({"error": error}, 400)
        if replayed := self._replay(request):
            return replayed
        if 0 < self.faults.limit <= self.active_runs():
            return self._at_capacity()
        try:
            body = request.json()
        except ValueError:
            return error_reply(400, "Invalid JSON")
        if not body.get("input"):
            return error_reply(400, "Missing 'input' field")
        return self._start(
            request, body, {"X-Hermes-Session-Key": session_key} if session_key else {}
        )

    def _replay(self, request: Request) -> Reply | None:
        """The run that this idempotency key has made already, where the node remembers it."""
        key = request.headers.get("idempotency-key", "")
        if not self.faults.idempotent or not key or key not in self.submissions:
            return None
        body, run = self.submissions[key]
        if request.json() != body:
            message = "Idempotency-Key was already used with a different request payload"
            return error_reply(409, message, "idempotency_key_conflict")
        told = {"run_id": run.run_id, "status": run.status, "replayed": True}
        return json_reply(told, 202, {"Idempotency-Replayed": "true"})

    def _at_capacity(self) -> Reply:
        return error_reply(
            429,
            f"Too many concurrent runs (max {self.faults.limit})",
            "rate_limit_exceeded",
            kind="rate_limit_error",
            headers={"Retry-After": "1"},
        )

    def _start(self, request: Request, body: dict[str, Any], echo: dict[str, str]) -> Reply:
        run_id = new_run_id()
        asked = body.get("model")
        used = asked if isinstance(asked, str) and asked != "hermes-agent" else DEFAULT_MODEL
        run = Run(
            run_id=run_id,
            body=body,
            faults=self.faults,
            pace=self.server.pace,
            tool_seconds=self.server.tool_seconds,
            session_id=str(body.get("session_id") or run_id),
            requested_model=body.get("model", "hermes-agent"),
            model=DEFAULT_MODEL if self.faults.ignore_model else used,
        )
        self.runs[run_id] = run
        self.submissions[request.headers.get("idempotency-key", "")] = (body, run)
        self.sessions.record(run)
        self.server.start_run(run)
        told = new_run_id() if self.faults.change_run_id == "answer" else run_id
        name = "id" if self.faults.answer_with_id else "run_id"
        return json_reply({name: told, "status": "started"}, 202, echo)

    def _run(self, request: Request) -> Run | None:
        run = self.runs.get(request.values["run_id"])
        limit = self.faults.forget_runs_after
        return None if run and limit is not None and run.polls >= limit else run

    def run_status(self, request: Request) -> Reply:
        run = self._run(request)
        if run is None:
            return not_found("run", request.values["run_id"])
        run.polls += 1
        return json_reply(run.document())

    def run_events(self, request: Request) -> Reply | Run:
        run = self._run(request)
        if run is None or run.frames is None:
            return not_found("run", request.values["run_id"])
        return run

    def stop_run(self, request: Request) -> Reply:
        run = self._run(request)
        if run and run.is_active and self.faults.finish_before_stop:
            run.finish()
        if run is None or not run.is_active:
            return not_found("run", request.values["run_id"])
        if run.status != "stopping":
            run.stop()
        return json_reply({"run_id": run.run_id, "status": "stopping"})

    def steer_run(self, request: Request) -> Reply:
        run = self._run(request)
        if run is None:
            return not_found("run", request.values["run_id"])
        if run.status != "running":
            message = f"Run is not currently accepting steer input: {run.run_id}"
            return error_reply(409, message, "run_not_accepting_steer")
        body = request.json()
        text = body.get("input") or body.get("message") or body.get("text")
        if not text:
            return error_reply(400, "Missing steer input", "invalid_steer_input")
        run.pending_steer.append(str(text))
        run.emit("run.steered", accepted=True)
        return json_reply({"object": "hermes.run.steer", "run_id": run.run_id, "accepted": True})

    def answer_approval(self, request: Request) -> Reply:
        run = self._run(request)
        if run is None:
            return not_found("run", request.values["run_id"])
        choice = str(request.json().get("choice", "")).lower()
        choice = "once" if choice in ("approve", "approved", "allow") else choice
        if choice not in ("once", "session", "always", "deny"):
            message = "Invalid approval choice; expected one of: once, session, always, deny"
            return error_reply(400, message, "invalid_approval_choice")
        if not run.is_active:
            message = f"Run has no active approval session: {run.run_id}"
            return error_reply(409, message, "approval_not_active")
        if run.decision is None or run.decision.done():
            message = f"Run has no pending approval: {run.run_id}"
            return error_reply(409, message, "approval_not_pending")
        run.decision.set_result(choice)
        answer = {"object": "hermes.run.approval_response", "run_id": run.run_id}
        return json_reply({**answer, "choice": choice, "resolved": 1})


def _match(template: list[str], segments: list[str]) -> dict[str, str] | None:
    """The values of a route template's `{...}` in a path, None where it does not match."""
    if len(template) != len(segments):
        return None
    values: dict[str, str] = {}
    for pattern, segment in zip(template, segments, strict=True):
        if pattern.startswith("{") and segment:
            values[pattern[1:-1]] = segment
        elif pattern != segment:
            return None
    return values
