"""Text that is given on the command line, or comes from standard input or a file in its place."""

from __future__ import annotations

import sys
from pathlib import Path

from hermes_ctl.errors import UsageError


def text_argument(given: str, what: str) -> str:
    """`given`, or all of standard input for `-`. `what` is said in errors. Raises `UsageError`."""
    return given if given != "-" else read_text(given, what)


def read_text(name: str, what: str) -> str:
    """What the file `name`, or standard input for `-`, holds as UTF-8, its last line end taken off.

    Raises `UsageError` for what cannot be read, and for nothing at all.
    """
    try:
        text = read_bytes(name, what).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{what}: {_place(name)} is not UTF-8 text") from None
    if not text.strip():
        raise UsageError(f"{what}: {_place(name)} is empty", hint="give some text")
    return text.removesuffix("\n").removesuffix("\r")


def read_bytes(name: str, what: str) -> bytes:
    """The same as bytes, whatever they are."""
    if name == "-":
        if sys.stdin is None:
            raise UsageError(f"{what}: standard input is closed", hint="give a file instead")
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{what}: {name} cannot be read: {error.strerror}") from None


def _place(name: str) -> str:
    return "standard input" if name == "-" else name
