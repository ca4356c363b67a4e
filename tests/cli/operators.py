"""What the command line tests share: a node to talk to, and an operator who types."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.main import main
from tests.faults.deep_server import DeepServer


class Stream(io.TextIOWrapper):
    """An output stream whose text can be had, and that may say it is a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def bytes(self) -> bytes:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()

    def text(self) -> str:
        return self.bytes().decode("utf-8")


class Keyboard(io.StringIO):
    """Standard input, at a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Typed:
    """What became of one command."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Operator = Callable[..., Typed]


@pytest.fixture
def node() -> Iterator[DeepServer]:
    """A stand-in that has every route that the commands use."""
    with DeepServer() as server:
        yield server


@pytest.fixture
def operator(node: DeepServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Operator:
    """Types a command at `node`. `terminal` says that a person is looking, `answer` is what that
    person types when asked."""
    for name in [name for name in os.environ if name.startswith(("HERMES", "XDG_"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "HERMES_GATEWAY_URL": node.url,
        "HERMES_GATEWAY_KEY": node.key,
        "HERMESCTL_CONFIG": str(tmp_path / "config.toml"),
        "HOME": str(tmp_path),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "TERM": "xterm",
    }.items():
        monkeypatch.setenv(name, value)

    def type_(*arguments: str, terminal: bool = False, answer: str | None = None) -> Typed:
        out, err = Stream(terminal), Stream(answer is not None)
        with monkeypatch.context() as patched:
            if answer is not None:
                patched.setattr("sys.stdin", Keyboard(answer))
            with redirect_stdout(out), redirect_stderr(err):
                code = main(list(arguments))
        return Typed(int(code), out.bytes(), err.text())

    return type_


def hostile(typed: Typed) -> set[str]:
    """Characters in what was written that a terminal would obey."""
    controls = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n", "\t"}
    return set(typed.out + typed.err) & (controls | {"\u202e", "\u2028"})


def session_row(number: int, **more: Any) -> dict[str, Any]:
    """A session as the server lists it."""
    moment = 1_790_000_000.0 - number
    row = {"id": f"s-{number}", "title": f"Session {number}", "source": "api_server", "model": "m"}
    return {**row, "started_at": moment, "last_active": moment, "message_count": 2, **more}
