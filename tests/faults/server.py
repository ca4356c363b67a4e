"""A Hermes stand-in on a real socket: healthy as 0.20.4.post1 is, wrong in any way a test asks for.

    with HermesServer() as server:
        server.faults.cut_stream_after = 3
        ...                              # anything that talks to server.url with server.key
        assert len(server.received("POST /v1/runs")) == 1

It runs in a thread of its own, so that a test may be plain, asynchronous, or start a process.
`faults.py` lists what can go wrong, `runs.py` tells a run, `wire.py` writes the bytes; the healthy
answers here were measured. Prompts are those of the lab's scripted model (hermes_ctl/lab/script.py).
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from hermes_ctl.config import Node
from hermes_ctl.secrets import Secret
from tests.faults.answers import Answers
from tests.faults.faults import Faults
from tests.faults.runs import Run
from tests.faults.stream import tell
from tests.faults.wire import Connection, Reply, Request, server_error

KEY = "stand-in-key-0123456789abcdef"


class HermesServer:
    """The stand-in. Set attributes before or while it serves; use it as a context manager.

    `pace` multiplies every pause of the model and its tools: 0 is as quick as can be.
    `requests` is everything that arrived, in order; `connections` counts TCP connections made,
    `open_connections` those that are still open.
    """

    def __init__(
        self, host: str = "127.0.0.1", *, key: str = KEY, tls: ssl.SSLContext | None = None
    ) -> None:
        self.host = host
        self.key = key
        self.tls = tls
        self.faults = Faults()
        self.pace = 1.0
        self.tool_seconds = 0.05
        self.requests: list[Request] = []
        self.connections = 0
        self.open_connections = 0
        self.port = 0
        self.answers = Answers(self)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="hermes-stand-in", daemon=True)
        self._started: Future[int] = Future()
        self._ending: asyncio.Event
        self._changed = threading.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    # For tests

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

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

    def wait_until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Returns when `condition` holds; fails the test after so many seconds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the server never came into the awaited state"
            with self._changed:
                self._changed.wait(0.02)

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._started.result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gone, as a killed process is: the port is closed and every connection with it."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(10)

    # The thread

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._listen())
        except OSError as error:
            self._started.set_exception(error)
        finally:
            self._loop.close()

    async def _listen(self) -> None:
        self._ending = asyncio.Event()
        server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self.tls)
        self._started.set_result(server.sockets[0].getsockname()[1])
        await self._ending.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start_run(self, run: Run) -> None:
        """Sets a run going, in this server's loop."""
        run.task = asyncio.get_running_loop().create_task(run.perform())
        self._tasks.add(run.task)
        run.task.add_done_callback(self._tasks.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        connection = Connection(reader, writer, self.connections)
        try:
            while connection.is_open and (request := await connection.receive()):
                await self._answer(connection, request)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            connection.close()
            self.open_connections -= 1
            self._notify()

    async def _answer(self, connection: Connection, request: Request) -> None:
        self.answers.locate(request)
        self.requests.append(request)
        self._notify()
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
        except (TypeError, AttributeError, KeyError):
            return server_error()

    async def _speak(self, connection: Connection, answer: Reply | Run) -> None:
        if isinstance(answer, Run):
            await tell(connection, answer, self.faults)
            return
        await connection.send(answer.head() + answer.body)
        if answer.close:
            connection.close()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
