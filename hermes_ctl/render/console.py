"""The two output streams, and what may be done with each: colour, animation, signs, width."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TextIO

from hermes_ctl.errors import ClosedPipe, OutputLost
from hermes_ctl.secrets import redact, redact_values, without_known
from hermes_ctl.text import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console

ColorPolicy = Literal["auto", "always", "never"]

_BEYOND_ASCII = re.compile(r"[^\n -~]+")
_PIPE_WIDTH = 1000  # what goes into a pipe is not wrapped


@dataclass(frozen=True, slots=True)
class Marks:
    """The signs at the left margin. Colour never carries their meaning alone."""

    passed: str
    failed: str
    skipped: str
    warned: str
    unknown: str
    running: str
    tool: str
    approval: str


SIGNS = Marks("✓", "✗", "–", "!", "?", "…", "●", "▲")
WORDS = Marks("ok", "FAIL", "skip", "WARN", "?", "...", "*", "!")


def marks_for(stream: TextIO) -> Marks:
    """Signs where the stream's encoding has them all, ASCII words otherwise."""
    try:
        "✓✗–…●▲".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return WORDS
    return SIGNS


def use_color(policy: ColorPolicy, *, is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """`--color` first, then NO_COLOR, FORCE_COLOR and TERM=dumb, then whether it is a terminal."""
    if policy != "auto":
        return policy == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR", "0") not in ("", "0", "false"):
        return True
    return is_terminal and environment.get("TERM") != "dumb"


def json_text(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """`value` as JSON that is safe on a terminal: what cannot be printed is escaped, as JSON has it.

    Takes also pydantic models, datetimes and paths.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only, default=_plain)
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    found = match.group()
    if found.isprintable():
        return found
    return "".join(c if c.isprintable() else _escape(c) for c in found)


def _escape(character: str) -> str:
    escape = json.dumps(character)[1:-1]
    return escape if escape != character else f"\\u{ord(character):04x}"


def _plain(value: object) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, PathLike):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


class Screen:
    """Standard output for results, standard error for everything else.

    `environment` is the process's, handed in. Everything written here is redacted and neutral;
    a closed standard output ends the command with `ClosedPipe`, a full one with `OutputLost`.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        color: ColorPolicy = "auto",
        quiet: bool = False,
        verbose: bool = False,
    ) -> None:
        self.stdout: TextIO = sys.stdout
        self.stderr: TextIO = sys.stderr
        self.quiet = quiet
        self.verbose = verbose
        self.document_written = False
        self._color: ColorPolicy = color
        self._environment = environment
        for stream in (self.stdout, self.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads standard output."""
        return self.stdout.isatty()

    @property
    def error_is_terminal(self) -> bool:
        return self.stderr.isatty()

    @property
    def animates(self) -> bool:
        """Whether standard error may show what moves: a real terminal, not a log of CI."""
        environment = self._environment
        dull = environment.get("TERM") == "dumb" or bool(environment.get("CI"))
        return self.error_is_terminal and not dull and not self.quiet

    @cached_property
    def marks(self) -> Marks:
        return marks_for(self.stdout)

    @cached_property
    def error_marks(self) -> Marks:
        return marks_for(self.stderr)

    @cached_property
    def out(self) -> Console:
        """Standard output for rich renderables. Markup is never interpreted."""
        return self._console(self.stdout, is_output=True)

    @cached_property
    def err(self) -> Console:
        """Standard error for rich renderables. Markup is never interpreted."""
        return self._console(self.stderr, is_output=False)

    def write(self, text: str) -> None:
        """`text` as it is, at once, to standard output. It has to be neutral already."""
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except BrokenPipeError as error:
            raise ClosedPipe from error
        except OSError as error:
            raise OutputLost(f"the output cannot be written: {error.strerror}") from error

    def pass_through(self, body: bytes) -> None:
        """`body` byte for byte to standard output, for a program: only known keys are masked."""
        with suppress(UnicodeDecodeError):
            body = without_known(body.decode("utf-8")).encode("utf-8")
        try:
            self.stdout.flush()
            self.stdout.buffer.write(body)
            self.stdout.buffer.flush()
        except BrokenPipeError as error:
            raise ClosedPipe from error
        except OSError as error:
            raise OutputLost(f"the output cannot be written: {error.strerror}") from error

    def line(self, text: str) -> None:
        """One or more lines of result for people, made visible and redacted."""
        self.write(visible(redact(text)) + "\n")

    def document(self, value: object) -> None:
        """`value` as the one JSON document of this command."""
        self.write(self._redacted_json(value, indent=2) + "\n")
        self.document_written = True

    def json_line(self, value: object) -> None:
        """`value` as JSON on one line."""
        self.write(self._redacted_json(value, indent=None) + "\n")

    def _redacted_json(self, value: object, *, indent: int | None) -> str:
        text = self.json(value, indent=indent)
        if redact(text) == text:
            return text
        return self.json(redact_values(json.loads(text)), indent=indent)

    def json(self, value: object, *, indent: int | None = None) -> str:
        """`value` as JSON that standard output's encoding can hold."""
        encoding = (self.stdout.encoding or "ascii").lower()
        return json_text(value, indent=indent, ascii_only=not encoding.startswith("utf"))

    def note(self, text: str) -> None:
        """A remark on standard error; not with `-q`."""
        if not self.quiet:
            self._say(text)

    def detail(self, text: str) -> None:
        """A remark on standard error that only `-v` shows."""
        if self.verbose:
            self._say(text)

    def warn(self, text: str) -> None:
        """A warning on standard error, whatever the options."""
        self._say(f"warning: {text}")

    def say(self, text: str) -> None:
        """A line on standard error, whatever the options."""
        self._say(text)

    def _say(self, text: str) -> None:
        try:
            self.stderr.write(visible(redact(text)) + "\n")
            self.stderr.flush()
        except OSError:
            return  # nobody listens to remarks: the result still counts

    def _console(self, stream: TextIO, *, is_output: bool) -> Console:
        from rich.console import Console

        class EdgeConsole(Console):
            def on_broken_pipe(self) -> None:
                if is_output:
                    raise ClosedPipe
                self.quiet = True

        terminal = stream.isatty()
        color = use_color(self._color, is_terminal=terminal, environment=self._environment)
        dumb = self._environment.get("TERM") == "dumb"
        return EdgeConsole(
            file=stream,
            force_terminal=terminal and not dumb,
            color_system=("auto" if terminal and not dumb else "256") if color else None,
            no_color=not color,
            width=None if terminal else _PIPE_WIDTH,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
            _environ={k: v for k, v in self._environment.items() if k not in _RICH_SWITCHES},
        )


# The colour policy is decided above, not a second time by rich.
_RICH_SWITCHES = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def cell(text: str, limit: int | None = None) -> str:
    """`text` as one neutral, redacted line for a table."""
    return one_line(redact(text), limit)
