"""The messages of a session as a conversation: for a terminal, for a pipe, as Markdown.

All of it is hostile text: what a model or a user wrote cannot leave its place, on a screen or in
an exported file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from hermes_ctl.api.models import Message
from hermes_ctl.render.console import Screen, json_text
from hermes_ctl.render.tables import ago, plain
from hermes_ctl.secrets import redact
from hermes_ctl.text import one_line, visible

if TYPE_CHECKING:
    from datetime import datetime

LONGEST: Final = 4000
"""Characters of one text that a terminal shows; `--raw` and pipes have all of it."""

_LONGEST_TOOL: Final = 160
_ROLES: Final = {"user": "bold cyan", "assistant": "bold green", "tool": "dim", "system": "dim"}


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or parts that are joined by line ends. A part
    that holds no text is named (`[image_url]`), anything else is shown as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return json_text(content)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return json_text(part)
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"


def tool_calls(message: Message) -> Iterator[tuple[str, str]]:
    """The tool calls that an assistant's message makes: the tool's name and its arguments."""
    calls = message.tool_calls
    if isinstance(calls, str):
        try:
            calls = json.loads(calls)
        except ValueError:
            yield "", calls
            return
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield str(function.get("name", "")), text_of(function.get("arguments"))
        else:
            yield "", json_text(call)


class Conversation:
    """Writes messages to the screen, one after the other."""

    def __init__(self, screen: Screen, *, raw: bool = False) -> None:
        self._screen = screen
        self._whole = raw or not screen.is_terminal
        self._first = True

    def add(self, message: Message) -> None:
        if not self._first:
            self._screen.line("")
        self._first = False
        self._header(message)
        text = text_of(message.content).strip("\n")
        if message.role == "tool":
            self._indented(text)
        elif text:
            self._screen.line(self._shortened(text))
        for name, arguments in tool_calls(message):
            self._indented(arguments, f"{self._screen.marks.tool} {name} ")

    def _header(self, message: Message) -> None:
        words = [message.role, message.tool_name or "", self._time(message.timestamp)]
        line = "  ".join(one_line(redact(word), 120) for word in words if word)
        if not self._screen.is_terminal:
            self._screen.line(line)
            return
        from rich.text import Text

        self._screen.out.print(Text(line, style=_ROLES.get(message.role, "bold")), soft_wrap=True)

    def _time(self, moment: datetime | None) -> str:
        if moment is None:
            return ""
        return ago(moment) if self._screen.is_terminal else plain(moment)

    def _indented(self, text: str, mark: str = "") -> None:
        """What a tool got or gave: on a terminal one line of it."""
        if not self._whole:
            text = one_line(text, _LONGEST_TOOL)
        self._screen.line("  " + (mark + text).replace("\n", "\n  "))

    def _shortened(self, text: str) -> str:
        if self._whole or len(text) <= LONGEST:
            return text
        return f"{text[:LONGEST]}\n... {len(text) - LONGEST:,} characters more: --raw"


def markdown(message: Message) -> str:
    """One message for a Markdown file. Its text is quoted, so that no heading in it can be taken
    for another message."""
    named = f" {message.tool_name}" if message.tool_name else ""
    when = f" ({plain(message.timestamp)})" if message.timestamp else ""
    lines = [f"## {one_line(f'{message.role}{named}', 120)}{when}", ""]
    text = text_of(message.content).strip("\n")
    if text:
        lines += [_quoted(_fenced(text) if message.role == "tool" else text), ""]
    for name, arguments in tool_calls(message):
        lines += [_quoted(f"calls {name}\n{_fenced(arguments)}"), ""]
    return visible(redact("\n".join(lines))) + "\n"


def _fenced(text: str) -> str:
    """`text` as code, in a fence that is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in visible(text).split("\n"))


FORMS: Final[dict[str, Callable[[Message], str]]] = {
    "md": markdown,
    "jsonl": lambda message: redact(json_text(message.raw)) + "\n",
    "json": lambda message: redact(json_text(message.raw, indent=2)),
}
"""The forms of an exported conversation, and what each makes of one message."""
