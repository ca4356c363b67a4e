"""The command that runs when a node's verdict changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import Mapping, Sequence

from hermes_ctl.errors import UsageError

LIMIT = 60.0
"""Seconds that the command may take before it is ended."""

_GRACE = 2.0
_STANDARD_ERROR = 2
_AT_ONCE = 4


def parse_command(text: str) -> tuple[str, ...]:
    """The words of a command, cut as a shell would, without any shell running. Raises `UsageError`."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--exec {text!r} cannot be read: {error}") from None
    if not words:
        raise UsageError("--exec names no command", hint='--exec "notify-operator --channel ops"')
    return words


class Reaction:
    """Runs `command` with a document on its standard input; what it prints goes to our standard
    error. The keys that hermesctl knows from its environment are not handed on."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, limit: float = LIMIT
    ) -> None:
        self._command = command
        self._limit = limit
        self._environment = {
            name: value for name, value in environment.items() if name != "HERMES_GATEWAY_KEY"
        }
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def run(self, document: object, facts: Mapping[str, str]) -> str | None:
        """What went wrong, None where nothing did. `facts` are set as environment variables."""
        async with self._room:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=_STANDARD_ERROR,
                    env={**self._environment, **facts},
                )
            except OSError as error:
                return f"{self._command[0]} cannot be started: {error.strerror}"
            try:
                async with asyncio.timeout(self._limit):
                    await _feed(process, json.dumps(document).encode())
                    code = await process.wait()
            except TimeoutError:
                return f"{self._command[0]} was ended: it took more than {self._limit:g} s"
            finally:
                await _end(process)
        return f"{self._command[0]} ended with {code}" if code else None


async def _feed(process: asyncio.subprocess.Process, content: bytes) -> None:
    """Write it all, to a command that may not care to read it."""
    stdin = process.stdin
    assert stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(content)
        await stdin.drain()
    stdin.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
