"""Runs a command's coroutine to its end, whatever signal comes in between.

The first SIGINT, SIGTERM or SIGHUP cancels the coroutine, so that its `finally` blocks run (a
check stops the runs that it started); the next one leaves at once. A command that wants to act on
Ctrl-C itself passes `on_interrupt`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from hermes_ctl.errors import HermesctlError, Interrupted
from hermes_ctl.render import errors

T = TypeVar("T")

_WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal went away",
}
# `timeout` signals the process and then the process's whole group: two signals, one wish.
_ONE_WISH_S = {signal.SIGINT: 0.15, signal.SIGTERM: 1.0, signal.SIGHUP: 1.0}
_SHOW_CURSOR = b"\x1b[?25h"


def run(
    coroutine: Coroutine[Any, Any, T],
    *,
    on_interrupt: Callable[[], None] | None = None,
    leaving_hint: Callable[[], str | None] | None = None,
) -> T:
    """The result of `coroutine`.

    `on_interrupt` is called in the event loop for the first SIGINT, in place of the cancelling:
    the coroutine is expected to end by itself then, and its result counts. A second SIGINT leaves
    at once all the same. `leaving_hint` gives the hint that is shown when that happens.

    Raises `Interrupted` after a signal that cancelled, and whatever the coroutine raised; of a
    group of failures, as a TaskGroup raises it, the first one.
    """
    _collect_garbage()
    watch = _Watch(on_interrupt, leaving_hint)
    try:
        with watch.signals(), asyncio.Runner() as runner:
            result = runner.run(watch.guard(coroutine))
    except asyncio.CancelledError:
        if watch.cancelled_by is None:
            raise
    except HermesctlError as failure:
        if watch.cancelled_by is None:
            raise
        raise interrupted(watch.cancelled_by, failure) from failure
    except BaseExceptionGroup as group:
        raise _first(group) from group
    else:
        if watch.cancelled_by is None:
            return result
    raise interrupted(watch.cancelled_by)


def interrupted(number: int, failure: HermesctlError | None = None) -> Interrupted:
    """What a command raises that a signal ended, and whose clean-up raised `failure`."""
    word = _WORDS[signal.Signals(number)]
    if failure is None:
        return Interrupted(number, word)
    return Interrupted(number, f"{word}, and then: {failure.message}", hint=failure.hint)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure in the group that is a known one, else the first of all."""
    leaves = list(_leaves(group))
    return next((leaf for leaf in leaves if isinstance(leaf, HermesctlError)), leaves[0])


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _collect_garbage() -> None:
    """From here on: the process edge put it off for the start-up. What is loaded by now stays."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


class _Watch:
    """What the signals that arrived mean for one coroutine."""

    def __init__(
        self,
        on_interrupt: Callable[[], None] | None,
        leaving_hint: Callable[[], str | None] | None,
    ) -> None:
        self.cancelled_by: int | None = None
        self._on_interrupt = on_interrupt
        self._leaving_hint = leaving_hint
        self._last: tuple[int, float] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def guard(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """`coroutine` as the task that a signal cancels."""
        if self.cancelled_by is not None:
            coroutine.close()
            raise asyncio.CancelledError
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        try:
            return await coroutine
        finally:
            self._task = None

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Receive the signals for as long as this lasts; one that is ignored stays ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _WORDS}
        ours = [number for number, handler in before.items() if handler != signal.SIG_IGN]
        for number in ours:
            signal.signal(number, self._received)
        try:
            yield
        finally:
            for number in ours:
                signal.signal(number, before[number])

    def _received(self, number: int, _frame: object) -> None:
        last, self._last = self._last, (number, time.monotonic())
        if last and last[0] == number:
            if self._last[1] - last[1] < _ONE_WISH_S[signal.Signals(number)]:
                return
            self._leave(number)
        if self.cancelled_by is not None:
            self._leave(number)
        if number == signal.SIGINT and self._on_interrupt and self._loop and self._task:
            self._loop.call_soon_threadsafe(self._on_interrupt)
            return
        self.cancelled_by = number
        if self._loop and self._task:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _leave(self, number: int) -> None:
        """End the process here: nothing is waited for, not even a lock or a thread."""
        hint = self._leaving_hint() if self._leaving_hint else None
        failure = errors.known(Interrupted(number, "left at once, without cleaning up", hint=hint))
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR + b"\n")
        os.write(2, failure.text().encode(errors="replace"))
        os._exit(failure.exit_code)
