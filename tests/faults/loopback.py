"""A server in a thread of its own, on loopback: what every stand-in for a network is made of."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from tests.faults.wire import Connection


class LoopbackServer:
    """Serves from `__enter__` to `close` on `port` (a free one). Subclasses say how, in `serve`.

    `connections` counts TCP connections made, `open_connections` those that are still open.
    """

    def __init__(self, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None) -> None:
        self.host = host
        self.tls = tls
        self.port = 0
        self.connections = 0
        self.open_connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._started: Future[int] = Future()
        self._ending: asyncio.Event
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    async def serve(self, connection: Connection) -> None:
        """Speaks on one connection until it is done with it."""
        raise NotImplementedError

    def wait_until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Returns when `condition` holds; fails the test after so many seconds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the server never came into the awaited state"
            with self._changed:
                self._changed.wait(0.02)

    def notify(self) -> None:
        """Something changed: whoever waits looks again."""
        with self._changed:
            self._changed.notify_all()

    def in_loop(self, action: Callable[[], object]) -> None:
        """Does `action` in the server's own thread, and returns when it is done."""
        done: Future[None] = Future()

        def act() -> None:
            action()
            done.set_result(None)

        self._loop.call_soon_threadsafe(act)
        done.result(10)

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

    def _run(self) -> None:
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

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        connection = Connection(reader, writer, self.connections)
        try:
            await self.serve(connection)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            connection.close()
            self.open_connections -= 1
            self.notify()


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which nothing listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port
