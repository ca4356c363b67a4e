"""Every route of the API server that the contract documents name, and with which release it came.

The one table of it: commands ask it before they send, `capabilities` and `api` show it, and
the README's table and the live test that calls every route are held against it. Releases are those
of wire.md, 8 and 13; routes that Hermes has and does not advertise are marked so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_RUN = "/v1/runs/{run_id}"
_SESSION = "/api/sessions/{session_id}"
_JOB = "/api/jobs/{job_id}"
_RESPONSE = "/v1/responses/{response_id}"


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    `title` is what it offers, as it stands in a sentence; `command` what reaches it. `feature` is
    the flag of it in the capabilities of a server that lists no endpoints. `since` is the first
    release known to have it. `turn` says that the answer is an agent's work, which takes its time.
    """

    method: str
    path: str
    title: str
    command: str
    feature: str | None = None
    since: str = "0.19"
    advertised: bool = True
    turn: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def matches(self, method: str, path: str) -> bool:
        """Whether a request goes here; `path` is without profile prefix and query."""
        ours, theirs = self.path.split("/"), path.split("/")
        return (
            self.method == method.upper()
            and len(ours) == len(theirs)
            and all(
                part == given or (part.startswith("{") and given)
                for part, given in zip(ours, theirs, strict=True)
            )
        )


HEALTH: Final = Route("GET", "/health", "health", "health")
V1_HEALTH: Final = Route(
    "GET", "/v1/health", "health below /v1", "api GET /v1/health", advertised=False
)
DETAILED_HEALTH: Final = Route("GET", "/health/detailed", "detailed health", "health --detailed")
CAPABILITIES: Final = Route(
    "GET", "/v1/capabilities", "capabilities", "capabilities", advertised=False
)
MODELS: Final = Route("GET", "/v1/models", "a list of models", "models list")
MODEL_OPTIONS: Final = Route(
    "GET",
    "/api/model/options",
    "the inventory of providers and models",
    "models list --options",
    "model_options",
    since="0.20",
)
SKILLS: Final = Route("GET", "/v1/skills", "a list of skills", "skills list", "skills_api")
TOOLSETS: Final = Route("GET", "/v1/toolsets", "a list of toolsets", "toolsets list", "skills_api")

CHAT_COMPLETIONS: Final = Route(
    "POST",
    "/v1/chat/completions",
    "chat completions",
    "api POST /v1/chat/completions",
    "chat_completions",
    turn=True,
)
RESPONSES: Final = Route(
    "POST", "/v1/responses", "responses", "api POST /v1/responses", "responses_api", turn=True
)
RESPONSE: Final = Route(
    "GET", _RESPONSE, "stored responses", f"api GET {_RESPONSE}", advertised=False
)
RESPONSE_DELETE: Final = Route(
    "DELETE", _RESPONSE, "deleting a response", f"api DELETE {_RESPONSE}", advertised=False
)

RUNS: Final = Route("POST", "/v1/runs", "runs", "run", "run_submission")
RUN: Final = Route("GET", _RUN, "the status of runs", "status", "run_status")
RUN_EVENTS: Final = Route(
    "GET", _RUN + "/events", "the events of runs", "tail", "run_events_sse", turn=True
)
RUN_STOP: Final = Route("POST", _RUN + "/stop", "stopping a run", "stop", "run_stop")
RUN_STEER: Final = Route(
    "POST", _RUN + "/steer", "steering a run", "steer", "run_steer", since="0.20"
)
RUN_APPROVAL: Final = Route(
    "POST", _RUN + "/approval", "answering approvals", "approve, deny", "run_approval_response"
)

SESSIONS: Final = Route(
    "GET", "/api/sessions", "a list of sessions", "sessions list", "session_resources"
)
SESSION_CREATE: Final = Route(
    "POST", "/api/sessions", "creating a session", "sessions create", "session_resources"
)
SESSION: Final = Route("GET", _SESSION, "reading a session", "sessions show", "session_resources")
SESSION_UPDATE: Final = Route(
    "PATCH", _SESSION, "changing a session", "sessions rename", "session_resources"
)
SESSION_DELETE: Final = Route(
    "DELETE", _SESSION, "deleting a session", "sessions delete", "session_resources"
)
SESSION_MESSAGES: Final = Route(
    "GET",
    _SESSION + "/messages",
    "the messages of sessions",
    "sessions messages",
    "session_resources",
)
SESSION_FORK: Final = Route(
    "POST", _SESSION + "/fork", "forking a session", "sessions fork", "session_fork"
)
SESSION_CHAT: Final = Route(
    "POST",
    _SESSION + "/chat",
    "a turn in a session",
    "sessions chat --no-stream",
    "session_chat",
    turn=True,
)
SESSION_CHAT_STREAM: Final = Route(
    "POST",
    _SESSION + "/chat/stream",
    "a streamed turn in a session",
    "sessions chat",
    "session_chat_streaming",
    turn=True,
)
SESSION_MODEL: Final = Route(
    "POST",
    _SESSION + "/model",
    "locking the model of a session",
    "sessions model",
    "session_model_lock",
    since="0.20",
)

JOBS: Final = Route("GET", "/api/jobs", "scheduled jobs", "jobs list", advertised=False)
JOB_CREATE: Final = Route("POST", "/api/jobs", "creating a job", "jobs create", advertised=False)
JOB: Final = Route("GET", _JOB, "reading a job", "jobs show", advertised=False)
JOB_UPDATE: Final = Route("PATCH", _JOB, "changing a job", "jobs update", advertised=False)
JOB_DELETE: Final = Route("DELETE", _JOB, "deleting a job", "jobs delete", advertised=False)
JOB_PAUSE: Final = Route("POST", _JOB + "/pause", "pausing a job", "jobs pause", advertised=False)
JOB_RESUME: Final = Route(
    "POST", _JOB + "/resume", "resuming a job", "jobs resume", advertised=False
)
JOB_RUN: Final = Route("POST", _JOB + "/run", "running a job", "jobs run", advertised=False)

ROUTES: Final = (
    HEALTH,
    V1_HEALTH,
    DETAILED_HEALTH,
    CAPABILITIES,
    MODELS,
    MODEL_OPTIONS,
    SKILLS,
    TOOLSETS,
    CHAT_COMPLETIONS,
    RESPONSES,
    RESPONSE,
    RESPONSE_DELETE,
    RUNS,
    RUN,
    RUN_EVENTS,
    RUN_STOP,
    RUN_STEER,
    RUN_APPROVAL,
    SESSIONS,
    SESSION_CREATE,
    SESSION,
    SESSION_UPDATE,
    SESSION_DELETE,
    SESSION_MESSAGES,
    SESSION_FORK,
    SESSION_CHAT,
    SESSION_CHAT_STREAM,
    SESSION_MODEL,
    JOBS,
    JOB_CREATE,
    JOB,
    JOB_UPDATE,
    JOB_DELETE,
    JOB_PAUSE,
    JOB_RESUME,
    JOB_RUN,
)

FEATURES_SINCE: Final = {
    "run_steer": "0.20",
    "model_options": "0.20",
    "session_model_lock": "0.20",
    "runs_idempotency": "0.22",
    "reasoning_streaming": "0.22",
    "browser_extension_control": "0.22",
}
"""Features that came after 0.19, by their names in the capabilities (wire.md, 8)."""


def route_of(method: str, path: str) -> Route | None:
    """The route that a request goes to; None for one that the documents do not name."""
    return next((route for route in ROUTES if route.matches(method, path)), None)
