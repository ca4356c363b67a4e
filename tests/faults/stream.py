"""The event stream of a run as the stand-in sends it, with everything that may befall it."""

from __future__ import annotations

import asyncio
import contextlib
import zlib

from tests.faults.faults import Faults
from tests.faults.runs import Run
from tests.faults.wire import Connection, stream_head

BROKEN_FRAME = b'data: {"event": "message.del\n\n'
FOREIGN_FRAME = b'data: {"event": "artifact.created", "size": 1}\n\n'


async def tell(connection: Connection, run: Run, faults: Faults) -> None:
    """Sends the stream until it ends, a fault ends it, or the reader leaves.

    The first reader that leaves takes the buffer with it, as on every Hermes up to 0.20.4.
    """
    left = asyncio.create_task(connection.client_left())
    telling = asyncio.create_task(_tell(connection, run, faults))
    try:
        await asyncio.wait({left, telling}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done() and not telling.cancelled():
            telling.result()
    finally:
        run.frames = None
        for task in (left, telling):
            task.cancel()
        with contextlib.suppress(OSError):
            await asyncio.gather(left, telling, return_exceptions=True)


async def _tell(connection: Connection, run: Run, faults: Faults) -> None:
    encoding = "gzip" if faults.gzip_stream else None
    await connection.send(stream_head(faults.stream_content_type, encoding))
    send = _Sender(connection, faults)
    if faults.raw_stream is not None:
        for piece in faults.raw_stream:
            await send(piece)
        await connection.end_chunks()
        return
    held = b""
    count = 0
    async for frame in run.told(faults.keepalive):
        if frame.startswith(b":") and not faults.buffer_stream:
            await send(frame)
            continue
        count += not frame.startswith(b":")
        if faults.foreign_frame_at == count:
            frame = FOREIGN_FRAME + frame
        if faults.malformed_frame_at == count:
            frame = BROKEN_FRAME
        if faults.buffer_stream:
            held += frame
            continue
        await send(frame)
        if await _ended_early(connection, send, faults, count):
            return
    await send(held)
    await connection.end_chunks()


async def _ended_early(connection: Connection, send: _Sender, faults: Faults, count: int) -> bool:
    if faults.cut_stream_after == count:
        connection.close()
    elif faults.reset_stream_after == count:
        connection.reset()
    elif faults.end_stream_after == count:
        await connection.end_chunks()
    elif faults.stall_stream_after == count:
        await asyncio.Event().wait()
    elif faults.only_keepalives_after == count:
        while True:
            await asyncio.sleep(faults.keepalive)
            await send(b": keepalive\n\n")
    else:
        return False
    return True


class _Sender:
    """Sends pieces of the stream as chunks, cut and compressed as the faults say."""

    def __init__(self, connection: Connection, faults: Faults) -> None:
        self.connection = connection
        self.size = faults.stream_pieces
        self.gzip = zlib.compressobj(wbits=31) if faults.gzip_stream else None

    async def __call__(self, data: bytes) -> None:
        if self.gzip:
            data = self.gzip.compress(data) + self.gzip.flush(zlib.Z_SYNC_FLUSH)
        size = self.size or len(data)
        for start in range(0, len(data), size or 1):
            await self.connection.send_chunk(data[start : start + size])
