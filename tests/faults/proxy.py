"""What stands between a client and a node: a TCP link that misbehaves, and an HTTP proxy.

with Link(port) as link:                 # to any server on loopback, a real Hermes included
    link.cut_when(b"tool.started")       # the connection breaks once this was passed on
    link.hold_back = True                # a buffering proxy: a stream arrives whole, at its end
    ...                                  # anything that talks to link.url
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from tests.faults.loopback import LoopbackServer
from tests.faults.wire import Connection, Request, html_reply

END_OF_CHUNKS = b"0\r\n\r\n"


class Link(LoopbackServer):
    """A TCP link to `port` of loopback. Everything passes until told otherwise, at any moment.

    `delay` is seconds for each piece in each direction, `drip` bytes of an answer's piece.
    `greeting` is said by the link itself to whoever connects. `received` and `sent` count the bytes of clients and of the server.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        super().__init__()
        self.target = (host, port)
        self.delay = 0.0
        self.drip: int | None = None
        self.hold_back = False
        self.refuse = False
        self.greeting = b""
        self.received = 0
        self.sent = 0
        self._trigger: bytes | None = None
        self._lost = False
        self._last_word: bytes | None = None
        self._flow: asyncio.Event
        self._pairs: set[_Pair] = set()

    def cut_when(self, text: bytes, *, lost: bool = False) -> None:
        """Breaks the connection, once, on which the server says `text`. The client gets to see it, and
        nothing behind it; with `lost`, not even that."""
        self._trigger = text
        self._lost = lost

    def stall_when(self, text: bytes) -> None:
        """Stalls, once, behind the piece in which the server says `text`."""
        self._last_word = text

    def cut(self) -> None:
        """Breaks every connection now."""
        self.in_loop(self._reset_all)

    def _reset_all(self) -> None:
        for pair in self._pairs:
            pair.reset()

    def stall(self) -> None:
        """Nothing passes from the server any more, and nothing is closed."""
        self.in_loop(self._flow.clear)

    def resume(self) -> None:
        self.in_loop(self._flow.set)

    async def _listen(self) -> None:
        self._flow = asyncio.Event()
        self._flow.set()
        await super()._listen()

    async def serve(self, connection: Connection) -> None:
        if self.refuse:
            connection.reset()
            return
        await connection.send(self.greeting)
        reader, writer = await asyncio.open_connection(*self.target)
        pair = _Pair(connection, Connection(reader, writer, connection.number))
        self._pairs.add(pair)
        up = asyncio.create_task(self._carry_requests(pair))
        down = asyncio.create_task(self._carry_answers(pair))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            self._pairs.discard(pair)
            pair.server.close()

    async def _carry_requests(self, pair: _Pair) -> None:
        while data := await pair.client.reader.read(65536):
            self.received += len(data)
            await asyncio.sleep(self.delay)
            await pair.server.send(data)

    async def _carry_answers(self, pair: _Pair) -> None:
        while data := await pair.server.reader.read(65536):
            self.sent += len(data)
            self.notify()
            await self._flow.wait()
            await asyncio.sleep(self.delay)
            passed = pair.up_to(data, self._trigger) if self._trigger else None
            if passed is None:
                await self._pass_on(pair, data)
                if self._last_word and self._last_word in data:
                    self._last_word = None
                    self._flow.clear()
                continue
            self._trigger = None
            if not self._lost:
                await self._pass_on(pair, data[:passed])
            pair.client.close()
            return
        await pair.client.send(bytes(pair.held))

    async def _pass_on(self, pair: _Pair, data: bytes) -> None:
        if self.hold_back and (pair.held or b"text/event-stream" in data):
            pair.held += data
            if not pair.held.endswith(END_OF_CHUNKS):
                return
            data = bytes(pair.held)
            pair.held.clear()
        size = self.drip or len(data)
        for start in range(0, len(data), size):
            await pair.client.send(data[start : start + size])


@dataclass(eq=False)
class _Pair:
    """A client's connection and the one that was made to the server for it."""

    client: Connection
    server: Connection
    held: bytearray = field(default_factory=bytearray)
    tail: bytes = b""

    def up_to(self, data: bytes, text: bytes) -> int | None:
        """How much of `data` goes to the end of `text`, None where the server has not yet said it."""
        seen = self.tail + data
        found = seen.find(text)
        before = len(self.tail)
        self.tail = seen[-len(text) :]
        return None if found < 0 else max(0, found + len(text) - before)

    def reset(self) -> None:
        self.client.reset()
        self.server.close()


class HttpProxy(LoopbackServer):
    """A proxy as `HTTP_PROXY` names one: it fetches `http://...` from `upstream`, whatever the host.

    `requests` is what it was asked, absolute addresses included; `refuse_with` is a status that it
    answers to everything, as a company's proxy does with a page of its own. Without an upstream it
    cannot reach anything (502).
    """

    def __init__(self, upstream: int | None = None) -> None:
        super().__init__()
        self.upstream = upstream
        self.refuse_with: int | None = None
        self.requests: list[Request] = []

    async def serve(self, connection: Connection) -> None:
        while request := await connection.receive():
            self.requests.append(request)
            if self.refuse_with or self.upstream is None:
                page = "<html><head><title>Blocked by policy</title></head></html>"
                reply = html_reply(self.refuse_with or 502, page, {"Server": "squid/6.6"})
                await connection.send(reply.head() + reply.body)
                continue
            await self._forward(connection, request)

    async def _forward(self, connection: Connection, request: Request) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        if request.method == "CONNECT":
            await connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
            head = f"{request.method} {request.path} HTTP/1.1\r\n{lines}connection: close\r\n\r\n"
            writer.write(head.encode("latin-1") + request.body)
        with contextlib.suppress(OSError):
            await asyncio.gather(_pump(connection.reader, writer), _pump(reader, connection.writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
