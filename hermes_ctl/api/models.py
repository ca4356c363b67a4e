"""What the API server answers, typed. Unknown fields are kept; older shapes are accepted.

Fields that some release leaves out are optional here; what a field means is told only where its
name does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.values import Count, Flag, Moment, Names, Text
from hermes_ctl.errors import MalformedAnswer

ACTIVE_STATES: Final = frozenset({"queued", "running", "waiting_for_approval", "stopping"})
TERMINAL_STATES: Final = frozenset({"completed", "failed", "cancelled", "interrupted"})
"""contract, Run states; `interrupted` came with 0.22 (wire.md, 0)."""


Model = TypeVar("Model", bound=BaseModel)


class WireModel(BaseModel):
    """A JSON object of the server's; fields that we do not know are in `model_extra`, and the whole
    object as it was sent in `raw`."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=(), defer_build=True)

    _raw: Any = PrivateAttr(default=None)

    @property
    def raw(self) -> Any:
        return self._raw

    @model_validator(mode="wrap")
    @classmethod
    def _keep_raw(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(value)
        if made is not value:
            made._raw = value
        return made


class Health(WireModel):
    status: str
    version: str | None = None
    platform: str | None = None


class ReadinessCheck(WireModel):
    status: str


class Readiness(WireModel):
    status: str
    checks: dict[str, ReadinessCheck] = {}


class DetailedHealth(WireModel):
    """`GET /health/detailed`. It answers 200 while degraded: look at `status`."""

    status: str
    readiness: Readiness | None = None
    version: str | None = None
    gateway_state: str | None = None
    pid: int | None = None

    def count(self, name: str) -> int | None:
        """A number of `readiness.checks.background_queues`, such as `active_api_runs`."""
        queues = self.readiness.checks.get("background_queues") if self.readiness else None
        value = (queues.model_extra or {}).get(name) if queues else None
        return value if isinstance(value, int) else None

    @property
    def active_api_runs(self) -> int | None:
        return self.count("active_api_runs")


class Endpoint(WireModel):
    method: str
    path: str


class Capabilities(WireModel):
    """`GET /v1/capabilities`. Feature values are booleans, strings or objects (wire.md, 8)."""

    features: dict[str, Any] = {}
    endpoints: dict[str, Endpoint] = {}
    model: str | None = None

    def has(self, feature: str) -> bool:
        """Strictly `true`: the adapter's rule (bmas.md, 3)."""
        return self.features.get(feature) is True

    def supports(self, feature: str) -> bool:
        """`true`, or an object with `supported: true` as `runs_idempotency` is."""
        value = self.features.get(feature)
        return value is True or (isinstance(value, Mapping) and value.get("supported") is True)


class Usage(WireModel):
    input_tokens: int = Field(0, validation_alias=AliasChoices("input_tokens", "prompt_tokens"))
    output_tokens: int = Field(
        0, validation_alias=AliasChoices("output_tokens", "completion_tokens")
    )
    total_tokens: int = 0

    @property
    def total(self) -> int:
        return self.total_tokens or self.input_tokens + self.output_tokens


class RunAccepted(WireModel):
    """The 202 of `POST /v1/runs`. Older servers wrote `id` (contract, Run request)."""

    run_id: str = Field(validation_alias=AliasChoices("run_id", "id"), min_length=1)
    status: str = "started"
    replayed: bool = False
    session_key_echo: str | None = None


class Run(WireModel):
    """`GET /v1/runs/{run_id}`. `model` only echoes the request, in every release (wire.md, 0.7)."""

    run_id: str = Field(validation_alias=AliasChoices("run_id", "id"))
    status: str
    session_id: str | None = None
    model: Any = None
    created_at: float | None = None
    updated_at: float | None = None
    last_event: str | None = None
    output: str | None = None
    error: Any = None
    usage: Usage | None = None
    pending_steer: Any = None
    runtime: dict[str, Any] | None = None
    approval: dict[str, Any] | None = None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATES

    @property
    def tokens(self) -> int:
        return self.usage.total if self.usage else 0


class RunRequest(BaseModel):
    """The body of `POST /v1/runs`; None fields are not sent."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    model: str | None = None
    provider: str | None = None
    model_options: dict[str, Any] | None = None
    session_id: str | None = None
    previous_response_id: str | None = None
    conversation_history: list[dict[str, Any]] | None = None

    def body(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class StopAnswer(WireModel):
    """The 200 of a stop. 0.22 answers a stop after the end with the whole status (wire.md, 3)."""

    run_id: str | None = None
    status: str


class SteerAnswer(WireModel):
    run_id: str | None = None
    accepted: bool = False


class ApprovalAnswer(WireModel):
    run_id: str | None = None
    choice: str | None = None
    resolved: int = 0


class ModelEntry(WireModel):
    id: str
    owned_by: Text = None


class Skill(WireModel):
    name: str
    description: Text = None
    category: Text = None


class Toolset(WireModel):
    name: str
    label: Text = None
    description: Text = None
    enabled: Flag = None
    configured: Flag = None
    tools: Names = []


class Provider(WireModel):
    slug: str
    name: Text = None
    is_current: bool = False
    authenticated: Flag = None
    models: list[Any] = []
    warning: Text = None


class ModelOptions(WireModel):
    """`GET /api/model/options` (0.20 and later): providers with their models."""

    providers: list[Provider] = []
    model: Text = None
    provider: Text = None


class Session(WireModel):
    """A session resource. `model` is that of the session's first run, for ever (wire.md, 0.8)."""

    id: str
    title: Text = None
    source: Text = None
    model: Text = None
    started_at: Moment = None
    ended_at: Moment = None
    end_reason: Text = None
    last_active: Moment = None
    message_count: Count = None
    tool_call_count: Count = None
    input_tokens: Count = None
    output_tokens: Count = None
    preview: Text = None
    parent_session_id: Text = None
    pinned: Flag = None
    archived: Flag = None


class Message(WireModel):
    """One message of a session. `content` is text, or a list of parts."""

    id: int | str | None = None
    role: str
    content: Any = None
    tool_calls: Any = None
    tool_call_id: Text = None
    tool_name: Text = None
    timestamp: Moment = None


def parse(model: type[Model], document: Any, answer: Answer) -> Model:
    """`document` as `model`. Raises `MalformedAnswer` naming the route and the first wrong field."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise MalformedAnswer(
            f"{answer.method} {answer.route}: {where}: {first['msg']}",
            hint=_unknown_shape(answer),
            url=answer.url,
        ) from None


def rows(document: Any, answer: Answer, *names: str) -> list[Any]:
    """The list in `document`: itself, or under `data`, `items` or one of `names`.

    Raises `MalformedAnswer` for any other shape, so that none is swallowed.
    """
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        for name in ("data", "items", *names):
            if isinstance(document.get(name), list):
                found: list[Any] = document[name]
                return found
    raise MalformedAnswer(
        f"{answer.method} {answer.route} answered no list, neither bare nor under data, items"
        + "".join(f", {name}" for name in names),
        hint=_unknown_shape(answer),
        url=answer.url,
    )


def _unknown_shape(answer: Answer) -> str:
    return (
        "this answer has a shape that hermesctl does not know; the whole of it: "
        f"hermesctl api {answer.method} {answer.route}"
    )
