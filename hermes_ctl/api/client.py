"""The Hermes API server's routes as typed coroutines.

Every call raises an error of `hermes_ctl.errors` for anything but a 2xx of the expected shape.
Nothing is retried and nothing is remembered: policy lives with the callers.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self

from hermes_ctl.api.answers import Answer, check_status, not_a_stream
from hermes_ctl.api.events import EventStream
from hermes_ctl.api.models import (
    ApprovalAnswer,
    Capabilities,
    DetailedHealth,
    Health,
    Message,
    Model,
    ModelEntry,
    ModelOptions,
    Run,
    RunAccepted,
    RunRequest,
    Session,
    Skill,
    SteerAnswer,
    StopAnswer,
    Toolset,
    parse,
    rows,
)
from hermes_ctl.api.transport import OWN_KEY, STREAM_SILENCE, OwnKey, Transport
from hermes_ctl.config import Node
from hermes_ctl.secrets import Secret

RUN = "/v1/runs/{run_id}"
SESSION = "/api/sessions/{session_id}"

Observer = Callable[[Answer], None]


class Client:
    """One node, asked. Use it as an async context manager.

    `observe` is called with every answer that came, whatever its status, before it is judged:
    the check collects its evidence and the wire's shapes there.
    """

    def __init__(
        self, node: Node, *, observe: Observer | None = None, connections: int = 20
    ) -> None:
        self.node = node
        self._transport = Transport(node, connections=connections)
        self._observe = observe

    @property
    def proxy(self) -> str | None:
        """The proxy of the environment that carries the requests, without its password."""
        return self._transport.shown_proxy

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def request(
        self,
        method: str,
        route: str,
        *,
        values: Mapping[str, str] | None = None,
        query: Mapping[str, str | int] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        key: Secret | OwnKey | None = OWN_KEY,
        timeout: float | None = None,
    ) -> Answer:
        """Any route, its answer unjudged. `values` fill the `{...}` of the route, `key=None` sends
        no key, `timeout` is in seconds. Raises only when no whole answer came."""
        answer = await self._transport.send(
            method,
            route,
            values=values,
            query=query,
            json=json,
            content=content,
            headers=headers,
            key=key,
            timeout=timeout,
        )
        if self._observe:
            self._observe(answer)
        return answer

    async def expect(self, method: str, route: str, **arguments: Any) -> Answer:
        """`request`, raising the error that a status other than 2xx means."""
        answer = await self.request(method, route, **arguments)
        return self.judge(answer, key=arguments.get("key", OWN_KEY))

    def judge(self, answer: Answer, *, key: Secret | OwnKey | None = OWN_KEY) -> Answer:
        """`answer` where its status is 2xx; raises what it means otherwise. `key` is what was
        sent with the request."""
        sent = self.node.key if isinstance(key, OwnKey) else key
        return check_status(answer, key_source=sent.source if sent else None)

    async def one(
        self, model: type[Model], method: str, route: str, *, inside: str = "", **arguments: Any
    ) -> Model:
        """The object that a route answers with, or the one under `inside` where it is wrapped."""
        answer = await self.expect(method, route, **arguments)
        document = answer.json()
        if inside and isinstance(document, dict) and inside in document:
            document = document[inside]
        return parse(model, document, answer)

    async def many(
        self, model: type[Model], route: str, *names: str, **arguments: Any
    ) -> list[Model]:
        """The list that a route answers with: bare, or under `data`, `items` or one of `names`."""
        answer = await self.expect("GET", route, **arguments)
        return [parse(model, row, answer) for row in rows(answer.json(), answer, *names)]

    # Health and discovery

    async def health(self) -> Health:
        return await self.one(Health, "GET", "/health", key=None)

    async def detailed_health(self) -> DetailedHealth:
        return await self.one(DetailedHealth, "GET", "/health/detailed")

    async def capabilities(self) -> Capabilities:
        return await self.one(Capabilities, "GET", "/v1/capabilities")

    async def models(self) -> list[ModelEntry]:
        return await self.many(ModelEntry, "/v1/models", "models")

    async def model_options(self, *, refresh: bool = False) -> ModelOptions:
        query = {"refresh": 1} if refresh else None
        return await self.one(ModelOptions, "GET", "/api/model/options", query=query)

    async def skills(self) -> list[Skill]:
        return await self.many(Skill, "/v1/skills", "skills")

    async def toolsets(self) -> list[Toolset]:
        return await self.many(Toolset, "/v1/toolsets", "toolsets")

    # Runs

    async def submit_run(
        self,
        request: RunRequest,
        *,
        session_key: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> RunAccepted:
        """Submit once. Raises `Unreachable` where nothing was sent; any other failure without a
        status leaves it open whether the run exists."""
        headers = {}
        if session_key is not None:
            headers["X-Hermes-Session-Key"] = session_key
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        answer = await self.expect(
            "POST", "/v1/runs", json=request.body(), headers=headers, timeout=timeout
        )
        accepted = parse(RunAccepted, answer.json(), answer)
        echo = answer.headers.get("x-hermes-session-key")
        return accepted.model_copy(update={"session_key_echo": echo})

    async def run(self, run_id: str, *, timeout: float | None = None) -> Run:
        return await self.one(Run, "GET", RUN, values={"run_id": run_id}, timeout=timeout)

    async def stop_run(self, run_id: str, *, timeout: float | None = None) -> StopAnswer:
        return await self.one(
            StopAnswer, "POST", RUN + "/stop", values={"run_id": run_id}, timeout=timeout
        )

    async def steer_run(self, run_id: str, text: str) -> SteerAnswer:
        return await self.one(
            SteerAnswer, "POST", RUN + "/steer", values={"run_id": run_id}, json={"input": text}
        )

    async def answer_approval(
        self, run_id: str, choice: str, *, request_id: str | None = None, everything: bool = False
    ) -> ApprovalAnswer:
        """`choice` is once, session, always or deny; `everything` answers all that are pending."""
        body: dict[str, Any] = {"choice": choice}
        if request_id is not None:
            body["request_id"] = request_id
        if everything:
            body["all"] = True
        return await self.one(
            ApprovalAnswer, "POST", RUN + "/approval", values={"run_id": run_id}, json=body
        )

    @contextlib.asynccontextmanager
    async def events(
        self,
        run_id: str,
        *,
        last_event_id: str | None = None,
        silence: float = STREAM_SILENCE,
        timeout: float | None = None,
    ) -> AsyncIterator[EventStream]:
        """The run's event stream, closed on every way out of the block. `timeout` is for its head:
        a node stands still for seconds when it starts the first run of its life.

        Hermes up to 0.20.4 has one reader for each stream, and leaving destroys it
        (wire.md, 0.1): open it once, and poll beside it.
        """
        headers = {"Last-Event-ID": last_event_id} if last_event_id else None
        async with self.stream(
            "GET",
            RUN + "/events",
            values={"run_id": run_id},
            headers=headers,
            silence=silence,
            timeout=timeout,
        ) as stream:
            yield stream

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        route: str,
        *,
        values: Mapping[str, str] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        silence: float = STREAM_SILENCE,
        timeout: float | None = None,
    ) -> AsyncIterator[EventStream]:
        """Any route that answers with Server-Sent Events. Raises what the status means where it
        answers otherwise, `MalformedAnswer` or `NotHermes` for a 200 of another content type."""
        async with self.exchange(
            method,
            route,
            values=values,
            json=json,
            headers=headers,
            silence=silence,
            timeout=timeout,
        ) as (stream, answer):
            if stream is None:
                raise not_a_stream(self.judge(answer))
            yield stream

    @contextlib.asynccontextmanager
    async def exchange(
        self, method: str, route: str, **arguments: Any
    ) -> AsyncIterator[tuple[EventStream | None, Answer]]:
        """Any route, whatever it answers with, unjudged: an event stream with the head of its
        answer, or None with the whole answer. `arguments` are those of `Transport.stream`."""
        async with self._transport.stream(method, route, **arguments) as (stream, answer):
            if self._observe:
                self._observe(answer)
            yield stream, answer

    # Sessions

    async def session(self, session_id: str) -> Session:
        return await self.one(
            Session, "GET", SESSION, inside="session", values={"session_id": session_id}
        )

    async def sessions(
        self, *, limit: int = 50, offset: int = 0, source: str | None = None
    ) -> list[Session]:
        """One page, newest first. `has_more` is wrong on 0.20 and later (wire.md, 0.18): page until
        no new id comes."""
        query: dict[str, str | int] = {"limit": limit, "offset": offset}
        if source is not None:
            query["source"] = source
        return await self.many(Session, "/api/sessions", "sessions", query=query)

    async def session_messages(
        self, session_id: str, *, limit: int | None = None, offset: int | None = None
    ) -> list[Message]:
        """Without `limit`: all on 0.19, the latest 500 in order on 0.20 and later (wire.md, 9)."""
        query = {
            name: value
            for name, value in (("limit", limit), ("offset", offset))
            if value is not None
        }
        return await self.many(
            Message,
            SESSION + "/messages",
            "messages",
            values={"session_id": session_id},
            query=query or None,
        )

    async def delete_session(self, session_id: str) -> None:
        await self.expect("DELETE", SESSION, values={"session_id": session_id})
