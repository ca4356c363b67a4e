"""Text that a server or a model sent, made safe to show.

Everything that is not ours is hostile: it may hold terminal escape sequences, carriage returns
that overwrite a line, or bidirectional controls that reorder it.
"""

from __future__ import annotations

import re

from hermes_ctl.secrets import redact

# C0 and C1 controls (tab and newline apart), DEL, line and paragraph separators,
# zero-width and bidirectional controls, byte order mark, lone surrogates, tag characters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def _show(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def visible(text: str) -> str:
    """`text` with every control character made visible (`ESC` becomes `\\x1b`), nothing obeyed.

    Newlines and tabs stay, a carriage return before a newline is dropped.
    """
    return _UNSAFE.sub(_show, text.replace("\r\n", "\n"))


def one_line(text: str, limit: int | None = None) -> str:
    """`text` as one visible line; with `limit`, at most that many characters, the cut marked.

    Keys are masked before the cut: half a key is no longer known for one.
    """
    line = " ".join(visible(text).split())
    if limit is None or len(line) <= limit:
        return line
    line = redact(line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def how_many(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}{'s' * (number != 1)}"
