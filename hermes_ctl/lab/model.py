"""A scripted OpenAI-compatible model on loopback: no key, no cost, no surprise.

What it says is in `script.py` and `directives.py` (their docstrings list the prompts and the
directives). This file is the server around it, the standard library's:
`POST /v1/chat/completions` (plain and streamed), `GET /v1/models`, each with or without `/v1`,
and for tests and proofs:

    GET  /lab/requests[?after=N]   what was received: {"requests": [record, ...]}, see `Record`;
                                   with a negative N the last so many
    GET  /lab/behaviour            how it behaves now: see `Behaviour`
    POST /lab/behaviour            a JSON object with the fields to change; `{}` resets them all

It answers under the names in `MODELS`; another name is an HTTP 400 that names it, as a provider
that knows its models does (Hermes fails a run on 400 within a second, on 404 after ten).

    python -m hermes_ctl.lab.model --port 8099 --record requests.jsonl
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import parse_qs, urlsplit

from hermes_ctl.clock import now
from hermes_ctl.errors import UsageError
from hermes_ctl.lab.reply import Reply
from hermes_ctl.lab.script import answer, purpose_of, text_of
from hermes_ctl.lab.turns import Turn

DEFAULT_MODEL = "lab-model"
OTHER_MODEL = "lab-other"
MODELS = (DEFAULT_MODEL, OTHER_MODEL)
KEPT_REQUESTS = 10_000
KEPT_TEXT = 4_000
"""Characters of a message that a record keeps."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the model misbehaves, all at once and for every chat request until changed.

    `toolless`: it makes no tool call, as if none had been offered. `usage` False: usage is absent.
    `any_model`: it takes every model name. `hang`: it accepts the request and never answers.
    `empty`: it answers without text. `status`: an HTTP error instead of an answer.
    `delay`: seconds before the first byte of each answer.
    """

    toolless: bool = False
    usage: bool = True
    any_model: bool = False
    hang: bool = False
    empty: bool = False
    status: int = 200
    delay: float = 0.0

    def changed(self, change: object) -> Behaviour:
        """This behaviour with the fields in `change`; raises `UsageError` for any other field."""
        if not isinstance(change, dict):
            raise UsageError("a behaviour is a JSON object")
        if not change:
            return Behaviour()
        known = {item.name: type(getattr(self, item.name)) for item in fields(self)}
        for name, value in change.items():
            if name not in known:
                raise UsageError(f"no such behaviour: {name}; there are {', '.join(known)}")
            if not isinstance(value, (int, float) if known[name] is float else known[name]):
                raise UsageError(f"{name} must be {known[name].__name__}")
        return replace(self, **change)


@dataclass(frozen=True, slots=True)
class Record:
    """One request as the provider received it.

    `number` counts from 1; `purpose` is `chat`, `title` or `review` (see `script.purpose_of`), or
    `probe` for whatever is no chat completion; `user` is the last user message, `last` the last message of any role
    (a tool result, a steer), both cut; `authorization` says whether that header was there, its
    value is never kept; `parameters` are the other top-level scalars and objects of the body.
    """

    number: int
    time: str
    method: str
    path: str
    purpose: str
    headers: Mapping[str, str]
    authorization: bool
    model: str | None = None
    stream: bool = False
    messages: int = 0
    tools: tuple[str, ...] = ()
    user: str = ""
    last: str = ""
    parameters: Mapping[str, Any] | None = None


class Model(ThreadingHTTPServer):
    """The server. `with Model(record=PATH) as model: model.start()`; `model.url` ends in `/v1`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, record: Path | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.behaviour = Behaviour()
        self._records: deque[Record] = deque(maxlen=KEPT_REQUESTS)
        self._received = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._file: TextIO | None = record.open("a", encoding="utf-8") if record else None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Serve from a thread of its own."""
        serve = partial(self.serve_forever, poll_interval=0.1)  # how soon it notices `shutdown`
        self._thread = threading.Thread(target=serve, name="lab-model", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:  # `shutdown` would wait for ever for a loop that never ran
            self.shutdown()
        self.server_close()

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in mid-answer is an everyday event here, not a traceback."""

    def received(self, make: Callable[[int], Record]) -> None:
        """Keep one request, in memory and in the file, before it is answered."""
        with self._lock:
            self._received += 1
            record = make(self._received)
            self._records.append(record)
            if self._file is not None:
                self._file.write(json.dumps(asdict(record)) + "\n")
                self._file.flush()

    def records(self, after: int = 0) -> list[Record]:
        """The requests received since number `after`, oldest first; the last so many where it is
        negative."""
        with self._lock:
            if after < 0:
                return list(self._records)[after:]
            return [record for record in self._records if record.number > after]


class _ClientGone(Exception):
    """The client closed its connection while the answer was being made."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Model

    def log_message(self, format: str, *args: object) -> None:
        """Requests are in the record, not on standard error."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/lab/requests":
            after = int(parse_qs(address.query).get("after", ["0"])[0])
            self._json({"requests": [asdict(record) for record in self.server.records(after)]})
        elif address.path == "/lab/behaviour":
            self._json(asdict(self.server.behaviour))
        else:
            self.server.received(lambda number: self._record(number, {}))
            self._models(address.path.removeprefix("/v1"))

    def _models(self, path: str) -> None:
        listed = {name: {"id": name, "object": "model", "owned_by": "lab"} for name in MODELS}
        if path == "/models":
            self._json({"object": "list", "data": list(listed.values())})
        elif path.removeprefix("/models/") in listed:
            self._json(listed[path.removeprefix("/models/")])
        else:
            self._error(404, f"the lab's model has no {self.path}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            request = json.loads(body or b"{}")
        except ValueError:
            self._error(400, "the body is not JSON")
            return
        if self.path == "/lab/behaviour":
            self._change_behaviour(request)
            return
        if not isinstance(request, dict):
            self._error(400, "the body is not a JSON object")
            return
        self.server.received(lambda number: self._record(number, request))
        if not self._is_chat():
            self._error(404, f"the lab's model has no {self.path}")
            return
        try:
            self._chat(request)
        except (_ClientGone, ConnectionError):
            self.close_connection = True

    def _is_chat(self) -> bool:
        return urlsplit(self.path).path.removeprefix("/v1") == "/chat/completions"

    def _change_behaviour(self, change: object) -> None:
        try:
            self.server.behaviour = self.server.behaviour.changed(change)
        except UsageError as failure:
            self._error(400, failure.message)
            return
        self._json(asdict(self.server.behaviour))

    # -- one chat completion ----------------------------------------------------------------------

    def _chat(self, request: dict[str, Any]) -> None:
        behaviour = self.server.behaviour
        model = str(request.get("model"))
        if behaviour.hang:
            self._wait(3600.0)
        self._wait(behaviour.delay)
        if model not in MODELS and not behaviour.any_model:
            self._error(400, f"The model `{model}` does not exist", code="model_not_found")
            return
        if behaviour.toolless:
            request = {**request, "tools": []}
        try:
            turn = Turn() if behaviour.empty else answer(request)
        except UsageError as failure:
            self._error(400, failure.message)
            return
        status = behaviour.status if behaviour.status != 200 else turn.status
        if status != 200:
            self._error(status, f"the lab's model was told to answer {status}")
            return
        reply = Reply(request, turn, with_usage=behaviour.usage)
        if request.get("stream"):
            self._stream(reply)
        else:
            self._json(reply.whole(self._wait))

    def _stream(self, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in reply.chunks(self._wait):
            self._frame(json.dumps(chunk))
        self._frame("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _frame(self, data: str) -> None:
        frame = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))

    def _wait(self, seconds: float) -> None:
        """Sleep, and end the request as soon as the client has gone."""
        if seconds <= 0:
            return
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            readable, _, _ = select.select([self.connection], [], [], left)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise _ClientGone
            if readable:  # a pipelined request waits its turn
                time.sleep(min(left, 0.2))

    # -- answers ----------------------------------------------------------------------------------

    def _record(self, number: int, request: Mapping[str, Any]) -> Record:
        messages = [m for m in request.get("messages") or [] if isinstance(m, dict)]
        said = [text_of(m.get("content")) for m in messages if m.get("role") == "user"]
        tools = [t.get("function", {}).get("name") for t in request.get("tools") or []]
        left_out = ("messages", "tools", "model", "stream")
        headers = {name.lower(): value for name, value in self.headers.items()}
        authorization = headers.pop("authorization", None) is not None
        model = request.get("model")
        return Record(
            number=number,
            time=now().isoformat(),
            method=self.command,
            path=self.path,
            purpose=purpose_of(request) if self._is_chat() else "probe",
            headers=headers,
            authorization=authorization,
            model=model if isinstance(model, str) else None,
            stream=bool(request.get("stream")),
            messages=len(messages),
            tools=tuple(str(name) for name in tools),
            user=said[-1][:KEPT_TEXT] if said else "",
            last=text_of(messages[-1].get("content"))[-KEPT_TEXT:] if messages else "",
            parameters={k: v for k, v in request.items() if k not in left_out},
        )

    def _json(self, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _error(self, status: int, message: str, code: str | None = None) -> None:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self._json(
            {"error": {"message": message, "type": kind, "param": None, "code": code}}, status
        )


def main(arguments: list[str] | None = None) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="python -m hermes_ctl.lab.model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--record", type=Path, help="append each request as a JSON line")
    options = parser.parse_args(arguments)
    with Model(options.port, options.record) as model:
        model.serve_forever()


if __name__ == "__main__":
    main()
