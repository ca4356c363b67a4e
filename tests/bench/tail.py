"""How long `hermesctl tail --stream -o jsonl` takes for 100,000 events, as a ratio to a bare
httpx-sse loop that parses and prints them, and whether its memory stays flat.

The limit (design.md, section 12): 1.5 times. Both are whole processes that write into nothing, the
server is a third one; they alternate, and their processor time is compared, so that a busy machine
does not decide. Memory: 100,000 events may need no more than 8 MB over what 10,000 need.

    python tests/bench/tail.py [EVENTS]
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LIMIT = 1.5
MEMORY_LIMIT_MB = 8.0
ROUNDS = 3
RUN_ID = "run_85eb7689061404a8979f7bee183bc150"

BARE = """
import asyncio, json, sys
import httpx
from httpx_sse import EventSource

async def main():
    async with (
        httpx.AsyncClient(trust_env=False, timeout=75) as client,
        client.stream("GET", sys.argv[1] + "/v1/runs/x/events") as response,
    ):
        async for event in EventSource(response).aiter_sse():
            if event.data:
                json.loads(event.data)
                print(event.data)

asyncio.run(main())
"""


def frames(events: int) -> bytes:
    """The stream's body, each frame a chunk of its own, as Hermes sends them."""
    parts = []
    for number in range(events):
        event = {
            "event": "message.delta",
            "run_id": RUN_ID,
            "timestamp": 1796036449.494736 + number,
            "delta": f" word{number}",
        }
        parts.append(f"data: {json.dumps(event)}\n\n".encode())
    last = {"event": "run.completed", "run_id": RUN_ID, "output": "Done.", "usage": USAGE}
    parts.append(f"data: {json.dumps(last)}\n\n: stream closed\n\n".encode())
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


USAGE = {"input_tokens": 100, "output_tokens": 14, "total_tokens": 114}


async def serve(events: int) -> None:
    """Prints its port, then plays a Hermes with one run, whose stream may be read again and again."""
    body = frames(events)
    status = {"run_id": RUN_ID, "created_at": 1.0, "updated_at": 2.0}
    told: set[bytes] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]:
            if b"/events" in line:
                writer.write(HEAD + b"Content-Type: text/event-stream\r\n" + CHUNKED)
                for start in range(0, len(body), 65536):
                    writer.write(body[start : start + 65536])
                    await writer.drain()
                told.add(line.split(b"/")[3])
            else:
                over = RUN_ID.encode() in told
                told.clear()
                data = json.dumps({**status, **(OVER if over else {"status": "running"})}).encode()
                writer.write(HEAD + b"Content-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
            await writer.drain()

    async def until_it_leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(until_it_leaves, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
OVER = {"status": "completed", "output": "Done.", "usage": USAGE}
"""The status once the stream was read to its end; told once, so that the next round begins anew."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: processor seconds, and megabytes at its largest."""

    seconds: float
    megabytes: float


def measured(command: Sequence[str], environment: dict[str, str]) -> Cost:
    """Run a command to its end, its output into nothing. It has to succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compared(events: int) -> tuple[list[Cost], list[Cost]]:
    """The bare loop's costs and hermesctl's, round by round."""
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(events)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "HERMES_GATEWAY_URL": url,
                "XDG_STATE_HOME": folder,
                "HERMESCTL_CONFIG": f"{folder}/config.toml",
            }
            tail = [sys.executable, "-m", "hermes_ctl", "tail", RUN_ID]
            ours = [*tail, "--stream", "-o", "jsonl", "-q"]
            bare = [sys.executable, "-c", BARE, url]
            rounds = [
                (measured(bare, environment), measured(ours, environment)) for _ in range(ROUNDS)
            ]
    finally:
        server.terminate()
        server.wait()
    return [one for one, _ in rounds], [other for _, other in rounds]


def main() -> int:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    bare, ours = compared(events)
    ratio = median(own.seconds / its.seconds for its, own in zip(bare, ours, strict=True))
    print(
        f"{events} events: bare {median(one.seconds for one in bare):.2f} s, "
        f"tail {median(one.seconds for one in ours):.2f} s, ratio {ratio:.2f} (limit {LIMIT})"
    )
    _, few = compared(max(1, events // 10))
    growth = max(one.megabytes for one in ours) - max(one.megabytes for one in few)
    print(f"memory: {growth:.1f} MB more than for a tenth of them (limit {MEMORY_LIMIT_MB:g})")
    return 0 if ratio <= LIMIT and growth <= MEMORY_LIMIT_MB else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(int(sys.argv[2])))
    else:
        raise SystemExit(main())
