"""A Hermes stand-in on a real socket: healthy as 0.20.4.post1 is, wrong in any way a test asks for.

    with HermesServer() as server:
        server.faults.cut_stream_after = 3
        ...                              # anything that talks to server.url with server.key
        assert len(server.received("POST /v1/runs")) == 1

It runs in a thread of its own, so that a test may be plain, asynchronous, or start a process.
`faults.py` lists what can go wrong, `answers.py` holds the healthy answers, `runs.py` tells a run,
`stream.py` sends it, `wire.py` writes the bytes; all of it was measured. Prompts are those of the
lab's scripted model (hermes_ctl/lab/script.py).
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from hermes_ctl.config import Node
from hermes_ctl.secrets import Secret
from tests.faults.answers import Answers
from tests.faults.faults import Faults
from tests.faults.loopback import LoopbackServer
from tests.faults.runs import Run
from tests.faults.stream import tell
from tests.faults.wire import Connection, Reply, Request, server_error

KEY = "stand-in-key-0123456789abcdef"


class HermesServer(LoopbackServer):
    """The stand-in. Set attributes before or while it serves; use it as a context manager.

    `pace` multiplies every pause of the model and its tools: 0 is as quick as can be.
    `requests` is everything that arrived, in order. `before_body` is said as soon as a request's
    head is here; what follows it is read and thrown away, as a proxy does that closes politely.
    """

    def __init__(
        self, host: str = "127.0.0.1", *, key: str = KEY, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(host, tls=tls)
        self.key = key
        self.faults = Faults()
        self.pace = 1.0
        self.tool_seconds = 0.05
        self.requests: list[Request] = []
        self.before_body: Reply | None = None
        self.answers = Answers(self)

    @property
    def runs(self) -> dict[str, Run]:
        """Every run by its id, to look at and to change."""
        return self.answers.runs

    def node(self, **fields: Any) -> Node:
        """The node that a client of this server starts from; `fields` replace what they name."""
        given = {"name": "stand-in", "url": self.url, "key": Secret(self.key, "the test")}
        return Node(**{**given, **fields})

    def received(self, route: str) -> list[Request]:
        """The requests of one route, written as a template: `GET /v1/runs/{run_id}`."""
        return [request for request in self.requests if request.route == route]

    def start_run(self, run: Run) -> None:
        """Sets a run going, in this server's loop."""
        run.task = asyncio.get_running_loop().create_task(run.perform())

    async def serve(self, connection: Connection) -> None:
        if self.before_body:
            await connection.reader.readuntil(b"\r\n\r\n")
            await self._speak(connection, self.before_body)
            await connection.client_left()
            return
        while connection.is_open and (request := await connection.receive()):
            self.answers.locate(request)
            self.requests.append(request)
            self.notify()
            await self._answer(connection, request)

    async def _answer(self, connection: Connection, request: Request) -> None:
        fault = self.faults.find(request)
        if fault is None or fault.then_normal:
            if fault:
                await fault.answer(connection, request)
            await self._speak(connection, self._work(request))
            return
        if fault.work_done:
            self._work(request)
        await fault.answer(connection, request)

    def _work(self, request: Request) -> Reply | Run:
        try:
            return self.answers.answer(request)
        except (TypeError, AttributeError, KeyError, ValueError):
            return server_error()

    async def _speak(self, connection: Connection, answer: Reply | Run) -> None:
        if isinstance(answer, Run):
            await tell(connection, answer, self.faults)
            return
        await connection.send(answer.head() + answer.body)
        if answer.close:
            connection.close()
