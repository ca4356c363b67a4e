"""Who consumes what of Hermes' API: the tables of the contract documents.

bMAS: hermes-integration-contract (Required API server routes, Event stream, Additional APIs that
bMAS uses) and what its adapter was seen to do (bmas.md). Hermes-Relay: the upstream contract (API
Server, Native session API, Session stream events). hermesctl: its own client.
"""

from __future__ import annotations

BMAS = "bMAS"
RELAY = "Hermes-Relay"
HERMESCTL = "hermesctl"

_RUN = "/v1/runs/{run_id}"
_SESSION = "/api/sessions/{session_id}"

_BMAS_ROUTES = frozenset(
    {
        "GET /health",
        "GET /health/detailed",
        "GET /v1/capabilities",
        "POST /v1/runs",
        f"GET {_RUN}",
        f"GET {_RUN}/events",
        f"POST {_RUN}/stop",
        f"POST {_RUN}/approval",
        f"POST {_RUN}/steer",
        "GET /v1/skills",
        "GET /v1/toolsets",
        "GET /api/sessions",
        f"GET {_SESSION}",
        f"GET {_SESSION}/messages",
        f"POST {_SESSION}/fork",
    }
)

RELAY_ROUTES = (
    "GET /health",
    "GET /v1/capabilities",
    "GET /v1/models",
    "GET /v1/skills",
    "GET /v1/toolsets",
    "POST /v1/chat/completions",
    "POST /v1/runs",
    f"GET {_RUN}/events",
    f"POST {_RUN}/approval",
    f"POST {_RUN}/stop",
    "GET /api/sessions",
    "POST /api/sessions",
    f"GET {_SESSION}",
    f"PATCH {_SESSION}",
    f"DELETE {_SESSION}",
    f"GET {_SESSION}/messages",
    f"POST {_SESSION}/fork",
    f"POST {_SESSION}/chat",
    f"POST {_SESSION}/chat/stream",
)
"""In the order of the Relay's own document."""

_HERMESCTL_ROUTES = (
    _BMAS_ROUTES
    | frozenset(RELAY_ROUTES) - {"POST /v1/chat/completions"}
    | {
        "GET /api/model/options",
        "GET /api/jobs",
        "POST /api/jobs",
        "GET /api/jobs/{job_id}",
        "PATCH /api/jobs/{job_id}",
        "DELETE /api/jobs/{job_id}",
        "POST /api/jobs/{job_id}/pause",
        "POST /api/jobs/{job_id}/resume",
        "POST /api/jobs/{job_id}/run",
    }
)

_FEATURES = {
    "run_submission": (BMAS, RELAY, HERMESCTL),
    "run_status": (BMAS, HERMESCTL),
    "run_events_sse": (BMAS, RELAY, HERMESCTL),
    "run_stop": (BMAS, RELAY, HERMESCTL),
    "run_steer": (BMAS, HERMESCTL),
    "run_approval_response": (BMAS, RELAY, HERMESCTL),
    "approval_events": (BMAS, RELAY, HERMESCTL),
    "tool_progress_events": (BMAS, RELAY),
    "runs_idempotency": (HERMESCTL,),
    "model_options": (HERMESCTL,),
    "skills_api": (BMAS, RELAY, HERMESCTL),
    "session_resources": (BMAS, RELAY, HERMESCTL),
    "session_chat": (RELAY, HERMESCTL),
    "session_chat_streaming": (RELAY, HERMESCTL),
    "session_fork": (BMAS, RELAY, HERMESCTL),
    "session_model_lock": (),
    "session_key_header": (BMAS,),
    "chat_completions": (RELAY,),
    "chat_completions_streaming": (RELAY,),
}

_BMAS_EVENTS = frozenset(
    {
        "message.delta",
        "reasoning.available",
        "tool.started",
        "tool.completed",
        "approval.request",
        "approval.responded",
        "subagent.start",
        "subagent.complete",
        "run.completed",
        "run.failed",
        "run.cancelled",
        "run.steered",
    }
)

SESSION_STREAM = "session-chat"
"""How events of `POST /api/sessions/{session_id}/chat/stream` are named in `contract.events`."""

RELAY_SESSION_EVENTS = frozenset(
    {
        "session.created",
        "run.started",
        "run.completed",
        "message.started",
        "assistant.delta",
        "assistant.completed",
        "tool.progress",
        "tool.pending",
        "tool.started",
        "tool.completed",
        "tool.failed",
        "error",
        "done",
    }
)


def of_route(route: str) -> list[str]:
    """Who calls `METHOD /path`."""
    tables = ((BMAS, _BMAS_ROUTES), (RELAY, RELAY_ROUTES), (HERMESCTL, _HERMESCTL_ROUTES))
    return [name for name, routes in tables if route in routes]


def of_feature(name: str) -> list[str]:
    return list(_FEATURES.get(name, ()))


def of_event(name: str) -> list[str]:
    """Who reads an event, named as in `contract.events`."""
    stream, _, event = name.rpartition(" ")
    if stream == SESSION_STREAM:
        return [RELAY, HERMESCTL] if event in RELAY_SESSION_EVENTS else [HERMESCTL]
    if stream:
        return [RELAY] if stream == "chat-completions" else []
    return [BMAS, RELAY, HERMESCTL] if event in _BMAS_EVENTS else [HERMESCTL]
