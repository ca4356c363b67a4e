"""Signals and closed pipes, in a process of their own: nothing here is simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import pytest

# A command named `try`; {body} is what it does.
PROGRAM = """
import asyncio, signal, sys, time
from hermes_ctl.cli import loop, root
from hermes_ctl.cli.app import Entry
from hermes_ctl.cli.grammar import as_command
from hermes_ctl.cli.options import StreamView
from hermes_ctl.errors import ConnectionReset, UsageError
from hermes_ctl.main import main

def command(view: StreamView) -> None:
    "Try it."
    say = view.screen.line
{body}

root.ENTRIES = (Entry("Test", "try", "no:thing", "Try it."),)
root.load = lambda entry: as_command(entry.name, command)
sys.exit(main(["try", *sys.argv[1:]]))
"""

WAITS = """
    async def wait():
        try:
            say("ready")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            say("cleaned up")
    loop.run(wait())
"""

CLEANS_SLOWLY = """
    async def wait():
        try:
            say("ready")
            await asyncio.Event().wait()
        finally:
            say("cleaning")
            await asyncio.Event().wait()
    loop.run(wait(), leaving_hint=lambda: "hermesctl stop run_1")
"""

FAILS_TO_CLEAN = """
    async def wait():
        try:
            say("ready")
            await asyncio.Event().wait()
        finally:
            raise ConnectionReset("the run could not be stopped", hint="hermesctl stop run_1")
    loop.run(wait())
"""

TAKES_CTRL_C = """
    async def wait():
        asked = asyncio.Event()
        async def main():
            say("ready")
            await asked.wait()
            say("stopped by itself")
        return main(), asked
    async def both():
        coroutine, event = await wait()
        global ask
        ask = event.set
        await coroutine
    loop.run(both(), on_interrupt=lambda: ask())
"""

NOT_ASYNCHRONOUS = """
    try:
        say("ready")
        time.sleep(60)
    finally:
        say("cleaned up")
"""

BLOCKS_THE_LOOP = """
    async def wait():
        try:
            say("ready")
            time.sleep(1)
            await asyncio.Event().wait()
        finally:
            say("cleaned up")
    loop.run(wait())
"""

WRITES_FOR_EVER = """
    while True:
        say("row " * 20)
"""


@contextmanager
def started(body: str, *options: str, **settings: object) -> Iterator[subprocess.Popen[str]]:
    """The command, running; ended with the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=body), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().strip()


@pytest.mark.parametrize("body", [WAITS, NOT_ASYNCHRONOUS, BLOCKS_THE_LOOP])
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "the terminal went away"),
    ],
)
def test_a_signal_ends_the_command_after_its_clean_up(
    body: str, number: int, code: int, word: str
) -> None:
    with started(body) as process:
        assert line_of(process.stdout) == "ready"
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
    assert stdout == "cleaned up\n"
    assert stderr == f"error: {word}\n"
    assert process.returncode == code


def test_the_second_signal_leaves_at_once_and_says_how_to_go_on() -> None:
    with started(CLEANS_SLOWLY) as process:
        assert line_of(process.stdout) == "ready"
        process.send_signal(signal.SIGTERM)
        assert line_of(process.stdout) == "cleaning"
        process.send_signal(signal.SIGINT)
        stderr = process.communicate(timeout=30)[1]
    assert stderr.splitlines() == [
        "error: left at once, without cleaning up",
        "  hint  hermesctl stop run_1",
    ]
    assert process.returncode == 130


def test_one_wish_sent_twice_is_one_wish() -> None:
    """`timeout 60 hermesctl ...` signals the process and, at once again, its group."""
    with started(WAITS) as process:
        assert line_of(process.stdout) == "ready"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=30)
    assert (stdout, stderr) == ("cleaned up\n", "error: terminated\n")
    assert process.returncode == 143


def test_a_failing_clean_up_is_told_with_the_code_of_the_signal() -> None:
    with started(FAILS_TO_CLEAN) as process:
        assert line_of(process.stdout) == "ready"
        process.send_signal(signal.SIGINT)
        stderr = process.communicate(timeout=30)[1]
    assert stderr.splitlines() == [
        "error: interrupted, and then: the run could not be stopped",
        "  hint  hermesctl stop run_1",
    ]
    assert process.returncode == 130


def test_a_command_may_take_ctrl_c_itself() -> None:
    with started(TAKES_CTRL_C) as process:
        assert line_of(process.stdout) == "ready"
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    assert (stdout, stderr) == ("stopped by itself\n", "")
    assert process.returncode == 0


def test_json_says_how_it_ended_too() -> None:
    with started(WAITS, "-o", "json") as process:
        assert line_of(process.stdout) == "ready"
        process.send_signal(signal.SIGTERM)
        stdout = process.communicate(timeout=30)[0]
    assert '"exit_code": 143' in stdout


def test_an_ignored_hangup_stays_ignored() -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with started(WAITS, preexec_fn=ignore) as process:
        assert line_of(process.stdout) == "ready"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        stderr = process.communicate(timeout=30)[1]
    assert stderr == "error: terminated\n"


def closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], [], ["completion", "bash"]])
def test_a_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    writer = closed_pipe()
    done = subprocess.run(
        [sys.executable, "-m", "hermes_ctl", *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_pipe_that_closes_in_the_middle_ends_quietly() -> None:
    with started(WRITES_FOR_EVER) as process:
        assert line_of(process.stdout)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=30) == 141
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.stdout = None


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["completion", "bash"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_said_once(arguments: list[str], unbuffered: str) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "hermes_ctl", *arguments],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_streams_that_were_closed_before(closed: str) -> None:
    run: Callable[..., int] = subprocess.call
    assert run(["sh", "-c", f'"{sys.executable}" -m hermes_ctl --version {closed}']) == 0
    assert run(["sh", "-c", f'"{sys.executable}" -m hermes_ctl --what {closed}']) == 2
