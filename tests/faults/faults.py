"""What the stand-in for Hermes does wrong. Everything is off at first: it is healthy.

    server.faults.cut_stream_after = 3                   an attribute for what can only be one way
    server.faults.slow(2.0, "GET /health")               a call for what may befall any route
    server.faults.status("POST /v1/runs", 429, times=2)  ... for the first two requests alone

Routes are written as templates, `GET /v1/runs/{run_id}`; `*` (the default) means every request.
Where several calls fit one request, the one made last wins.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.faults.wire import (
    Connection,
    Reply,
    Request,
    error_reply,
    html_reply,
    json_reply,
    text_reply,
)

ANY = "*"
DASHBOARD_PAGE = "<!doctype html><html><head><title>Hermes Agent</title></head><body></body></html>"
PROXY_PAGE = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
    "<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.24.0</center>\r\n"
    "</body>\r\n</html>\r\n"
)
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\r\u202egnp.exe [bold]markup[/bold]"
"""Sets a terminal's title, clears it, colours, overwrites the line, turns text round, is markup."""

Answer = Callable[[Connection, Request], Awaitable[None]]


@dataclass(slots=True)
class Fault:
    """Something that befalls requests of `route`: `answer` speaks instead of Hermes.

    With `work_done` Hermes does what was asked first, and only its answer is lost.
    """

    route: str
    answer: Answer
    work_done: bool = False
    then_normal: bool = False
    skip: int = 0
    times: int | None = None

    def befalls(self, request: Request) -> bool:
        if not fnmatch.fnmatchcase(request.route, self.route.replace("[", "[[]")):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is None:
            return True
        self.times -= 1
        return self.times >= 0


@dataclass
class Faults:
    """See the module. Every attribute is read at the moment it matters, so it may be set at any time."""

    # The node as it describes itself
    version: str = "0.20.4.post1"
    dropped_routes: set[str] = field(default_factory=set)
    dropped_features: set[str] = field(default_factory=set)
    extra_features: dict[str, Any] = field(default_factory=dict)
    degraded: dict[str, dict[str, Any]] = field(default_factory=dict)
    probe_pending: int = 0  # so many detailed-health answers say that a check is still pending
    draining: bool = False
    foreign_runs: int = 0  # runs of somebody else: counted as active, holding slots

    # Keys and profiles
    accept_any_key: bool = False
    accept_no_key: bool = False
    echo_key: bool = False  # every error message repeats the key that came

    # Runs
    limit: int = 10  # 0: none, as in Hermes
    ignore_model: bool = False  # as 0.19.0 does: echoed, never used
    accept_unknown_model: bool = False  # a provider that takes any name
    idempotent: bool = False  # advertises and honours an Idempotency-Key, as 0.22 does
    answer_with_id: bool = False  # `id` in place of `run_id`, as old servers
    change_run_id: str | None = None  # "answer", "status" or "events": where another id stands
    no_tool_call: bool = False  # the model has no tools
    final_output: str | None = None  # what the model says at the end, in place of what was asked
    polled_output: str | None = None  # the status says this; the event says the truth
    empty_output: bool = False
    zero_tokens: bool = False
    run_error: str | None = None  # every run fails with this
    stuck: bool = False  # a run starts and does nothing more
    unknown_state: str | None = None  # a state nobody has heard of, while the run is active
    forget_runs_after: int | None = None  # so many polls, then 404: a restart
    finish_before_stop: bool = False  # the run is over a moment before the stop arrives
    late_stop: bool = False  # stopping is accepted, and the run completes (0.22)
    never_stop: bool = False  # stopping is accepted, and nothing stops
    keep_slot: bool = False  # a run that ended still counts as active
    hostile: bool = False  # model text, tool previews, titles and errors hold `HOSTILE`

    # The event stream; frames are counted from 1, comments are not
    cut_stream_after: int | None = None  # the connection closes in the middle
    reset_stream_after: int | None = None  # ... by a TCP reset
    end_stream_after: int | None = None  # a clean end, without terminal event or closing comment
    stall_stream_after: int | None = None  # nothing more, not even keepalives
    only_keepalives_after: int | None = None  # nothing more but keepalives
    no_terminal_event: bool = False
    no_closing_comment: bool = False
    buffer_stream: bool = False  # everything at once, when the run is over
    malformed_frame_at: int | None = None
    foreign_frame_at: int | None = None  # an unknown event before this frame
    oversized_frame: int | None = None  # bytes of one tool event's preview
    keepalive: float = 30.0
    stream_pieces: int | None = None  # every frame cut into pieces of so many bytes
    stream_content_type: str = "text/event-stream"
    gzip_stream: bool = False  # as a proxy does that compresses everything
    raw_stream: Iterable[bytes] | None = None  # pieces sent in place of the run's events

    fallen: list[Fault] = field(default_factory=list)

    def drop_route(self, route: str) -> None:
        """Listed in the capabilities, and not served (404 in plain text)."""
        self.dropped_routes.add(route)

    def drop_feature(self, name: str) -> None:
        """Neither a feature nor an endpoint of this name in the capabilities."""
        self.dropped_features.add(name)

    def degrade(self, check: str, status: str = "degraded", **details: Any) -> None:
        """This check of `/health/detailed` is not ok, and so neither is the whole."""
        self.degraded[check] = {"status": status, **details}

    def say(self, route: str, reply: Reply, **when: Any) -> None:
        """Any answer at all."""

        async def answer(connection: Connection, request: Request) -> None:
            await connection.send(reply.head() + reply.body)
            if reply.close:
                connection.close()

        self._befall(route, answer, **when)

    def status(
        self,
        route: str,
        code: int,
        body: bytes | str | Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **when: Any,
    ) -> None:
        """An answer with this status: a JSON object, plain text, or Hermes' own error body."""
        if isinstance(body, Mapping):
            reply = json_reply(body, code, headers)
        elif body is not None:
            text = body.decode("latin-1") if isinstance(body, bytes) else body
            reply = text_reply(code, text, headers)
        elif code == 429:
            reply = error_reply(
                429,
                f"Too many concurrent runs (max {self.limit})",
                "rate_limit_exceeded",
                kind="rate_limit_error",
                headers=headers or {"Retry-After": "1"},
            )
        else:
            reply = error_reply(code, f"scripted {code}", "scripted", headers=headers)
        self.say(route, reply, **when)

    def slow(self, seconds: float, route: str = ANY, **when: Any) -> None:
        """The right answer, late."""

        async def answer(connection: Connection, request: Request) -> None:
            await asyncio.sleep(seconds)

        self._befall(route, answer, then_normal=True, **when)

    def hang(self, route: str = ANY, **when: Any) -> None:
        """Accepted, read, never answered."""

        async def answer(connection: Connection, request: Request) -> None:
            await connection.client_left()
            connection.close()

        self._befall(route, answer, **when)

    def reset(self, route: str = ANY, **when: Any) -> None:
        """The connection is reset once the request was read."""

        async def answer(connection: Connection, request: Request) -> None:
            connection.reset()

        self._befall(route, answer, **when)

    def empty_reply(self, route: str = ANY, **when: Any) -> None:
        """The connection is closed in place of an answer."""

        async def answer(connection: Connection, request: Request) -> None:
            connection.close()

        self._befall(route, answer, **when)

    def cut_body(
        self, route: str = ANY, *, sent: int = 10, promised: int = 1000, **when: Any
    ) -> None:
        """An answer that stops in the middle of its body."""

        async def answer(connection: Connection, request: Request) -> None:
            head = Reply(200, b"{" * promised).head()
            await connection.send(head + b"{" * sent)
            connection.close()

        self._befall(route, answer, **when)

    def drip(self, seconds: float, route: str = ANY, *, size: int = 100_000, **when: Any) -> None:
        """A valid head, then one byte of the body every so many seconds."""

        async def answer(connection: Connection, request: Request) -> None:
            await connection.send(Reply(200, b" " * size).head())
            for _ in range(size):
                await asyncio.sleep(seconds)
                await connection.send(b" ")

        self._befall(route, answer, **when)

    def flood(self, size: int, route: str = ANY, **when: Any) -> None:
        """A chunked JSON answer of so many bytes."""

        async def answer(connection: Connection, request: Request) -> None:
            head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            await connection.send(head.encode())
            for start in range(0, size, 65536):
                await connection.send_chunk(b" " * min(65536, size - start))
            await connection.end_chunks()

        self._befall(route, answer, **when)

    def raw(self, data: bytes, route: str = ANY, **when: Any) -> None:
        """These bytes, whatever they are, and the end of the connection."""

        async def answer(connection: Connection, request: Request) -> None:
            await connection.send(data)
            connection.close()

        self._befall(route, answer, **when)

    def redirect(self, target: str, route: str = ANY, code: int = 302, **when: Any) -> None:
        self.say(route, text_reply(code, f"{code}: Found", {"Location": target}), **when)

    def html(
        self, route: str = ANY, page: str = "<html><body>hello</body></html>", **when: Any
    ) -> None:
        self.say(route, html_reply(200, page), **when)

    def dashboard(self, route: str = ANY) -> None:
        """The Hermes dashboard answers: a page for every path."""
        self.html(route, DASHBOARD_PAGE)

    def bad_gateway(self, route: str = ANY, **when: Any) -> None:
        """A proxy that cannot reach the node."""
        self.say(route, html_reply(502, PROXY_PAGE, {"Server": "nginx/1.24.0"}), **when)

    def bad_json(self, route: str = ANY, body: bytes = b'{"status": "o', **when: Any) -> None:
        self.say(route, Reply(200, body), **when)

    def clear(self) -> None:
        """Healthy again."""
        self.__dict__.update(Faults().__dict__)

    def find(self, request: Request) -> Fault | None:
        """The fault that befalls this request, counted."""
        return next((fault for fault in reversed(self.fallen) if fault.befalls(request)), None)

    def _befall(
        self,
        route: str,
        answer: Answer,
        *,
        work_done: bool = False,
        then_normal: bool = False,
        times: int | None = None,
        skip: int = 0,
    ) -> None:
        self.fallen.append(Fault(route, answer, work_done, then_normal, skip, times))
