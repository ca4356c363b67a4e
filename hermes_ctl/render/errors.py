"""Failures as text for people and as JSON for programs. Loads nothing heavy: errors are quick."""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass

from hermes_ctl.errors import ExitCode, HermesctlError
from hermes_ctl.secrets import redact
from hermes_ctl.text import one_line, visible

_WIDTH = 6


@dataclass(frozen=True, slots=True)
class Failure:
    """What a command failed with. The texts may be hostile; `text` and `document` neutralise."""

    kind: str
    message: str
    exit_code: int
    hint: str | None = None
    url: str | None = None
    error: BaseException | None = None

    def text(self, *, verbose: bool = False) -> str:
        """Lines for standard error: the message, the URL, what to type next; with `verbose` the
        causes of a known failure, or the traceback of a bug (never with local variables)."""
        lines = [f"error: {_indented(self.message)}"]
        details = [("url", self.url), ("hint", self.hint)]
        if verbose and self.exit_code != ExitCode.BUG:
            details += [("cause", cause) for cause in _causes(self.error)]
        lines += [f"  {name:{_WIDTH}}{_indented(text)}" for name, text in details if text]
        if verbose and self.exit_code == ExitCode.BUG and self.error is not None:
            trace = "".join(traceback.format_exception(self.error))
            lines.append(visible(redact(trace)).rstrip())
        return "\n".join(lines) + "\n"

    def plugin_line(self) -> str:
        """The one line that a plugin of Nagios says on standard output. A `|` would begin its
        performance data."""
        return f"HERMES UNKNOWN - {one_line(redact(self.message)).replace('|', '/')}\n"

    def document(self) -> str:
        """The JSON document that stands for the result: `{"error": {...}}`."""
        error = {
            "kind": self.kind,
            "message": visible(redact(self.message)),
            "hint": visible(redact(self.hint)) if self.hint else None,
            "url": one_line(redact(self.url)) if self.url else None,
            "exit_code": int(self.exit_code),
        }
        return json.dumps({"error": error}, indent=2)


def known(error: HermesctlError) -> Failure:
    """A failure out of the tree in `hermes_ctl.errors`."""
    return Failure(
        kind=error.kind,
        message=error.message,
        exit_code=error.exit_code,
        hint=error.hint,
        url=error.url,
        error=error,
    )


def bug(error: Exception) -> Failure:
    """Anything that is not in the tree: ours to mend."""
    what = one_line(redact(f"{type(error).__name__}: {error}"), 300)
    return Failure(
        kind="Bug",
        message=f"this is a bug in hermesctl: {what}",
        exit_code=ExitCode.BUG,
        hint="type the command again with -v and report what it prints",
        error=error,
    )


def _indented(text: str) -> str:
    return visible(redact(text)).strip().replace("\n", "\n" + " " * (_WIDTH + 2))


def _causes(error: BaseException | None) -> list[str]:
    """`Type: message` of each exception behind `error`, the nearest first."""
    causes: list[str] = []
    cause = error and (error.__cause__ or error.__context__)
    while cause is not None and len(causes) < 5:
        causes.append(one_line(f"{type(cause).__name__}: {cause}", 300))
        cause = cause.__cause__ or cause.__context__
    return causes
