"""A terminal with a person at it: hermesctl in a pseudo-terminal, its screen read by an emulator."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import pexpect
import pyte

_ALTERNATE_ON, _ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
_CURSOR_ON, _CURSOR_OFF = b"\x1b[?25h", b"\x1b[?25l"


class Terminal:
    """`hermesctl ARGUMENTS` in a terminal of `columns` by `lines`; ended with the block."""

    def __init__(
        self, *arguments: str, environment: Mapping[str, str], columns: int = 80, lines: int = 24
    ) -> None:
        self.raw = b""
        self._emulator = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._emulator)
        self.child: pexpect.spawn[bytes] = pexpect.spawn(
            sys.executable,
            ["-m", "hermes_ctl", *arguments],
            env={"TERM": "xterm-256color", "PATH": os.environ["PATH"], **environment},
            dimensions=(lines, columns),
        )
        self.modes = self._modes()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.child.close(force=True)

    def screen(self) -> str:
        """What stands on the screen now."""
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            while True:
                data = self.child.read_nonblocking(65536, timeout=0.05)
                self.raw += data
                self._stream.feed(data)
        return "\n".join(line.rstrip() for line in self._emulator.display)

    def until(self, condition: Callable[[str], bool], seconds: float = 60) -> str:
        """The screen as soon as `condition` holds for it; fails the test after so many seconds."""
        deadline = time.monotonic() + seconds
        while not condition(screen := self.screen()):
            assert time.monotonic() < deadline, screen
            time.sleep(0.05)
        return screen

    def shows(self, *texts: str) -> str:
        return self.until(lambda screen: all(text in screen for text in texts))

    def types(self, keys: str) -> None:
        self.child.send(keys)

    def resize(self, columns: int, lines: int) -> None:
        self._emulator.resize(lines, columns)
        self.child.setwinsize(lines, columns)

    def ends(self, seconds: float = 30) -> int:
        """The exit code, as a shell has it, once the child has ended."""
        deadline = time.monotonic() + seconds
        while self.child.isalive():
            self.screen()
            assert time.monotonic() < deadline, "it does not end"
        self.screen()
        status, number = self.child.exitstatus, self.child.signalstatus
        return status if status is not None else 128 + (number or 0)

    def is_as_it_was_found(self) -> bool:
        """Its modes restored, the alternate screen left, the cursor shown."""
        left = self.raw.rfind(_ALTERNATE_OFF) >= self.raw.rfind(_ALTERNATE_ON)
        shown = self.raw.rfind(_CURSOR_ON) >= self.raw.rfind(_CURSOR_OFF)
        return self._modes() == self.modes and left and shown

    def _modes(self) -> list[Any]:
        return termios.tcgetattr(self.child.child_fd)
