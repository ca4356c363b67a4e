"""The node's wire contract as the check saw it: shapes, never values.

The recorder is shown every answer and every event. For each route answered it keeps status, media
type and the merged JSON shape; for each event name the same; and the timeline of each run. `diff`
compares two of these.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.events import Comment, Event
from hermes_ctl.checks import model
from hermes_ctl.checks.shapes import Shape
from hermes_ctl.checks.timeline import Timeline
from hermes_ctl.text import one_line

CAPABILITIES = "/v1/capabilities"
WATCHED_HEADERS = frozenset(
    {
        "content-security-policy",
        "permissions-policy",
        "strict-transport-security",
        "x-content-type-options",
        "x-frame-options",
        "x-xss-protection",
        "referrer-policy",
        "cache-control",
        "retry-after",
        "allow",
        "www-authenticate",
        "access-control-allow-origin",
        "x-hermes-session-id",
        "x-hermes-session-key",
        "idempotency-replayed",
        "x-accel-buffering",
    }
)
"""The headers whose presence is part of the contract: security, flow control, sessions."""

_LONGEST_NAME = 100

_LARGEST = 8 * 1024 * 1024
"""Bytes of an answer beyond which its shape is not looked at."""


@dataclass(slots=True)
class _Route:
    status: int
    content_type: str
    shape: Shape = field(default_factory=Shape)
    broken: bool = False
    codes: set[str] = field(default_factory=set)
    headers: set[str] | None = None


class ContractRecorder:
    """Learns from every answer and event it is shown; `contract` is what it has seen so far.

    An answer that tells of a run is kept apart by the run's state, since what it holds depends on
    that alone: `GET /v1/runs/{run_id} 200 completed`.
    """

    def __init__(self) -> None:
        self.timeline = Timeline(time.monotonic())
        self._features: dict[str, Any] = {}
        self._endpoints: dict[str, str] = {}
        self._routes: dict[str, _Route] = {}
        self._events: dict[str, Shape] = {}
        self._states: set[str] = set()
        self._comments: set[str] = set()
        self._errors: dict[str, str] = {}
        self._behaviours: dict[str, str] = {}

    @property
    def contract(self) -> model.Contract:
        return model.Contract(
            features=self._features,
            endpoints=self._endpoints,
            shapes={key: _published(route) for key, route in sorted(self._routes.items())},
            events={name: dict(shape.paths()) for name, shape in sorted(self._events.items())},
            states=sorted(self._states),
            comments=sorted(self._comments),
            errors=dict(sorted(self._errors.items())),
            behaviours=dict(sorted(self._behaviours.items())),
        )

    def answer(self, answer: Answer) -> None:
        """Learn one answer: merged with all others of its route, status and run state."""
        document, broken = _document(answer)
        state = _run_state(document)
        if state is not None:
            self._states.add(state)
        self.timeline.answer(answer, document, urlsplit(answer.url).path)
        key = f"{answer.method} {answer.route} {answer.status}" + (f" {state}" if state else "")
        route = self._routes.setdefault(key, _Route(answer.status, answer.content_type))
        present = set(WATCHED_HEADERS.intersection(answer.headers))
        route.headers = present if route.headers is None else route.headers & present
        route.broken = route.broken or broken
        if answer.status >= 400:
            route.codes.add(error_code(answer))
        if document is None:
            return
        if answer.route == CAPABILITIES and answer.status == 200 and isinstance(document, dict):
            document = self._capabilities(document)
        route.shape.learn(document)

    def event(self, event: Event, stream: str = "") -> None:
        """Learn one event. `stream` names the kind of stream it came from where that is not a
        run's own: the same event name has other fields there."""
        name = one_line(f"{stream} {event.name}".strip(), _LONGEST_NAME)
        self._events.setdefault(name, Shape()).learn(event.data)
        if not stream:
            self.timeline.event(event)

    def comment(self, comment: Comment) -> None:
        """Learn one comment of a run's stream: the keepalive, the closing one."""
        self._comments.add(one_line(comment.text, 40))

    def stream_ended(self, run_id: str) -> None:
        """Remember that a run's stream was read to its end: what did not come then, was not sent."""
        self.timeline.stream_ended(run_id)

    def error(self, situation: str, answer: Answer) -> None:
        """Remember how the node refuses: `situation` says what was asked, in words that stay the
        same from release to release."""
        self._errors[situation] = f"{answer.status} {error_code(answer)}"

    def behaviour(self, name: str, value: str) -> None:
        """Remember how the node behaves where nothing on the wire says so beforehand."""
        self._behaviours[name] = value

    def _capabilities(self, document: dict[str, Any]) -> dict[str, Any]:
        """Features and endpoints are kept by value, the rest by shape."""
        features, endpoints = document.get("features"), document.get("endpoints")
        if isinstance(features, dict):
            self._features = _neutral(features)
        if isinstance(endpoints, dict):
            self._endpoints = {
                one_line(str(name)): one_line(f"{str(one.get('method')).upper()} {one.get('path')}")
                for name, one in endpoints.items()
                if isinstance(one, dict)
            }
        return {k: v for k, v in document.items() if k not in ("features", "endpoints")}


def error_code(answer: Answer) -> str:
    """The code of an error body, or what stands in its place: `text/plain`, `no code`."""
    if answer.content_type != "application/json":
        return answer.content_type or "no content type"
    code = answer.error()[1]
    return one_line(code, 60) if code else "no code"


def _neutral(value: Any) -> Any:
    """A JSON value whose texts no terminal obeys: these are kept as the server wrote them."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line(str(name)): _neutral(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_neutral(inner) for inner in value]
    return value


def _document(answer: Answer) -> tuple[Any, bool]:
    """(the JSON document or None, whether a body that calls itself JSON is broken)."""
    if answer.content_type != "application/json" or not answer.body:
        return None, False
    if len(answer.body) > _LARGEST:
        return None, False
    try:
        return json.loads(answer.body), False
    except (ValueError, RecursionError):
        return None, True


def _run_state(document: Any) -> str | None:
    if not isinstance(document, dict) or document.get("object") != "hermes.run":
        return None
    state = document.get("status")
    return one_line(state, 40) if isinstance(state, str) else None


def _published(route: _Route) -> model.Shape:
    paths = dict(route.shape.paths()) if route.shape.seen else {}
    if route.broken:
        paths["$"] = sorted({*paths.get("$", []), "broken"})
    return model.Shape(
        status=route.status,
        content_type=route.content_type,
        paths=paths,
        codes=sorted(route.codes),
        headers=sorted(route.headers or ()),
    )
