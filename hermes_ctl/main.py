"""The process edge: arguments in, an exit code out; signals, closed pipes, failures as messages.

Everything heavy is imported late, so that `hermesctl --version` costs hardly more than Python.
"""

from __future__ import annotations

import os
import sys

from hermes_ctl import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes_ctl.render.errors import Failure
    from hermes_ctl.render.views import View


PLUGIN_UNKNOWN = 3
"""What a plugin of Nagios says when it could not tell. Our own 2 would be its CRITICAL."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return its exit code.

    Nothing but an exit code leaves here: every failure has become a message by then.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _complete_streams()
    try:
        if arguments[:1] == ["--version"]:
            sys.stdout.write(f"hermesctl {__version__}\n")
            code = 0
        elif arguments in (["--help"], ["-h"]):
            from hermes_ctl.cli.app import help_text

            sys.stdout.write(help_text())
            code = 0
        else:
            code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_output()
        return 141
    except OSError as error:
        _abandon_output()
        sys.stderr.write(f"error: the output cannot be written: {error.strerror}\n")
        return 3
    return code


def _complete_streams() -> None:
    """A stream that was closed before we started is one that nobody reads."""
    if sys.stdout is None or sys.stderr is None:
        nothing = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
        sys.stdout = sys.stdout or nothing
        sys.stderr = sys.stderr or nothing


def _abandon_output() -> None:
    """Let the interpreter flush its standard output into nothing, and not complain about it."""
    if sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run(arguments: list[str]) -> int:
    """One command, from its arguments to its exit code."""
    import gc
    from contextlib import ExitStack

    gc.disable()  # imports make no garbage, and looking for it takes a fifth of a start-up
    with ExitStack() as signals:
        for restore in _ending_signals():
            signals.callback(restore)
        return _command(arguments)


class _Signalled(BaseException):
    """A signal that ends the process, as an exception, so that clean-up on the way out runs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _ending_signals() -> Iterator[Callable[[], object]]:
    """Turn SIGINT, SIGTERM and SIGHUP into exceptions; yields what undoes it.

    A signal that the parent ignores (nohup) stays ignored. `cli.loop` has its own way with them.
    """
    import signal
    import threading
    from functools import partial

    def end(number: int, _frame: object) -> None:
        raise _Signalled(number)

    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            yield partial(signal.signal, number, signal.signal(number, end))


def _command(arguments: list[str]) -> int:
    invocation = None
    try:
        from hermes_ctl.cli.grammar import Invocation
        from hermes_ctl.cli.root import run

        invocation = Invocation()
        return run(arguments, invocation)
    except BaseException as error:
        failure = _failure(error)
    if _is_plugin(arguments) and failure.exit_code < 128:
        sys.stdout.write(failure.plugin_line())
        sys.stderr.write(failure.text())
        return PLUGIN_UNKNOWN
    _report(failure, invocation.view if invocation else None, arguments)
    return failure.exit_code


def _failure(error: BaseException) -> Failure:
    """What is to be said of `error`. Raises where that is nothing, or cannot be written."""
    import errno

    from hermes_ctl.errors import ClosedPipe, HermesctlError, OutputLost
    from hermes_ctl.render import errors

    if isinstance(error, ClosedPipe):
        raise BrokenPipeError from error
    if isinstance(error, _Signalled):
        from hermes_ctl.cli.loop import interrupted

        return errors.known(interrupted(error.number))
    if isinstance(error, OutputLost):
        _abandon_output()  # or what is still to be written would fail, and be told, once more
    if isinstance(error, HermesctlError):
        return errors.known(error)
    if not isinstance(error, Exception) or getattr(error, "errno", None) == errno.ENOSPC:
        raise error
    return errors.bug(error)


def _report(failure: Failure, view: View | None, arguments: list[str]) -> None:
    """Say on standard error what failed and, where JSON was asked for, on standard output too."""
    if view is None:  # the arguments could not be parsed: look at them as they are
        verbose = "-v" in arguments or "--verbose" in arguments
        json = _asks_for_json(arguments)
    else:
        verbose = view.screen.verbose
        json = view.format == "json" and not view.screen.document_written
    sys.stderr.write(failure.text(verbose=verbose))
    if json:
        sys.stdout.write(failure.document() + "\n")


def _options(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _is_plugin(arguments: list[str]) -> bool:
    return arguments[:1] == ["check"] and "--nagios" in _options(arguments)


def _asks_for_json(arguments: list[str]) -> bool:
    from itertools import pairwise

    options = _options(arguments)
    apart = ("-o", "json"), ("--output", "json")
    together = {"-ojson", "--output=json"}
    return any(pair in apart for pair in pairwise(options)) or not together.isdisjoint(options)
