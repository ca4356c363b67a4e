"""How long hermesctl's client takes to read 100,000 events, as a ratio to a bare httpx-sse loop.

The limit: 1.3 times, for a stream whose frames arrive one by one (as live ones do), with ids (as
0.22 sends them), and twenty at a time (as from a proxy, or late). The server is a process of its
own; the two readers alternate, and their processor time is compared, so that a busy machine does
not decide.

    python tests/bench/event_stream.py [EVENTS]
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

import httpx
from httpx_sse import EventSource

from hermes_ctl.api.client import Client
from hermes_ctl.api.events import Event
from hermes_ctl.config import Node

LIMIT = 1.3
ROUNDS = 3
FORMS = {"one by one": (1, False), "with ids": (1, True), "twenty at a time": (20, False)}

Reader = Callable[[str], Awaitable[int]]


def frame(number: int, with_id: bool) -> bytes:
    event = {
        "event": "message.delta",
        "run_id": "run_85eb7689061404a8979f7bee183bc150",
        "timestamp": 1796036449.494736 + number,
        "delta": f" word{number}",
    }
    head = f"id: {number}\n" if with_id else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


async def serve(events: int, group: int, with_id: bool) -> None:
    """Prints its port, then answers every request with the stream, until it is ended."""
    frames = [frame(number, with_id) for number in range(1000)]
    groups = [b"".join(frames[start : start + group]) for start in range(0, 1000, group)]
    block = b"".join(b"%x\r\n%b\r\n" % (len(data), data) for data in groups)
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        for _ in range(events // 1000):
            writer.write(block)
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def bare(url: str) -> int:
    """httpx and httpx-sse alone, with the JSON parsed."""
    count = 0
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        client.stream("GET", f"{url}/v1/runs/run_x/events") as response,
    ):
        async for event in EventSource(response).aiter_sse():
            if event.data:
                json.loads(event.data)
                count += 1
    return count


async def ours(url: str) -> int:
    count = 0
    async with Client(Node("bench", url=url)) as client, client.events("run_x") as stream:
        async for item in stream:
            if isinstance(item, Event):
                count += 1
    return count


def seconds(reader: Reader, url: str, events: int) -> float:
    """Processor time of this process for one whole reading."""

    async def read() -> int:
        return await reader(url)

    begun = time.process_time()
    count = asyncio.run(read())
    taken = time.process_time() - begun
    if count != events:
        raise SystemExit(f"{count} events were read, {events} were sent")
    return taken


def ratio(name: str, events: int) -> float:
    """The median of our readings over the median of the bare ones, for one form of the stream."""
    command = [sys.executable, __file__, "serve", str(events), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://127.0.0.1:{(server.stdout or sys.stdin).readline().strip()}"
            pairs = [
                (seconds(bare, url, events), seconds(ours, url, events)) for _ in range(ROUNDS)
            ]
        finally:
            server.kill()
    plain = median(pair[0] for pair in pairs)
    own = median(pair[1] for pair in pairs)
    print(f"{name:18}bare {plain:5.2f} s  hermesctl {own:5.2f} s  {own / plain:5.2f} times")
    return own / plain


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(int(sys.argv[2]), *FORMS[sys.argv[3]]))
        return 0
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    slow = {name: found for name in FORMS if (found := ratio(name, events)) > LIMIT}
    for name, found in slow.items():
        print(f"events {name}: {found:.2f} times, at most {LIMIT:g}")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
