"""What comes out of a coroutine that no signal disturbs. Signals: tests/cli/test_signals.py."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes_ctl.cli import loop
from hermes_ctl.errors import ConnectionReset, NoAnswer


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def fail(error: BaseException) -> int:
    await asyncio.sleep(0)
    raise error


async def together(*errors: BaseException) -> None:
    async with asyncio.TaskGroup() as tasks:
        for error in errors:
            tasks.create_task(fail(error))


def test_the_result_and_the_failure_are_the_coroutine_s() -> None:
    assert loop.run(answer(42)) == 42
    with pytest.raises(NoAnswer):
        loop.run(fail(NoAnswer("no answer")))


def test_of_a_group_of_failures_the_first_known_one_is_told() -> None:
    with pytest.raises(NoAnswer):
        loop.run(together(NoAnswer("no answer")))
    with pytest.raises(ConnectionReset):
        loop.run(together(ValueError("ours"), ConnectionReset("theirs")))
    with pytest.raises(ValueError, match="ours"):
        loop.run(together(ValueError("ours")))


def test_handlers_are_put_back() -> None:
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in watched]
    loop.run(answer(1))
    assert [signal.getsignal(number) for number in watched] == before


def test_it_runs_in_another_thread_as_well() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(loop.run, answer(7)).result() == 7
