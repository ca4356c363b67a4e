"""The exit codes of design.md, section 7: one test for each, through the process edge.

Real signals and real pipes need a process of their own: tests/cli/test_signals.py.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from hermes_ctl import errors
from hermes_ctl.cli import root
from hermes_ctl.cli.app import Entry
from hermes_ctl.cli.grammar import as_command
from hermes_ctl.cli.options import DocumentView
from hermes_ctl.errors import ExitCode, HermesctlError
from hermes_ctl.main import main
from hermes_ctl.secrets import Secret

Outcome = Callable[[], int | None]
Try = Callable[..., int]


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch) -> Try:
    """Runs `hermesctl try [OPTIONS]`, a command that does what it is given."""

    def attempt(outcome: Outcome | Exception, *options: str) -> int:
        def command(view: DocumentView) -> int | None:
            """Try it."""
            if isinstance(outcome, Exception):
                raise outcome
            return outcome()

        entry = Entry("Test", "try", "nowhere:nothing", "Try it.")
        monkeypatch.setattr(root, "ENTRIES", (entry,))
        monkeypatch.setattr(root, "load", lambda entry: as_command(entry.name, command))
        return main(["try", *options])

    return attempt


def every_class(base: type[HermesctlError]) -> list[type[HermesctlError]]:
    below = base.__subclasses__()
    return below + [found for each in below for found in every_class(each)]


def test_0_yes(attempt: Try) -> None:
    assert attempt(lambda: None) == 0
    assert attempt(lambda: 0) == 0


def test_1_no(attempt: Try) -> None:
    assert attempt(lambda: 1) == 1
    assert attempt(errors.NotOffered("no")) == 1
    assert attempt(errors.RequestRejected("no", status=400)) == 1


@pytest.mark.parametrize(
    "options",
    [["--what"], ["-o"], ["-o", "yaml"], ["--color", "blue"], ["too", "many"]],
)
def test_2_usage(attempt: Try, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert attempt(lambda: pytest.fail("it ran"), *options) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    message, hint = stderr.splitlines()
    assert message.startswith("error: ")
    assert hint == "  hint  hermesctl try --help"


def test_2_configuration(attempt: Try) -> None:
    assert attempt(errors.ConfigurationError("no such context")) == 2
    assert attempt(errors.ChecklistError("no such key")) == 2


def test_3_undetermined(attempt: Try) -> None:
    assert attempt(errors.ConnectionRefused("refused")) == 3
    assert attempt(errors.ServerFailure("500", status=500)) == 3


def test_4_authentication(attempt: Try) -> None:
    assert attempt(errors.AuthenticationFailed("wrong key", status=401)) == 4


def test_5_not_found(attempt: Try) -> None:
    assert attempt(errors.RunNotFound("no such run", status=404)) == 5


def test_6_refused(attempt: Try) -> None:
    assert attempt(errors.Refused("the run is over", status=409)) == 6


def test_7_at_capacity(attempt: Try) -> None:
    assert attempt(errors.AtCapacity("ten run already")) == 7


def test_8_pending(attempt: Try) -> None:
    assert attempt(errors.Pending("waits for approval")) == 8


def test_9_uncertain(attempt: Try) -> None:
    assert attempt(errors.SubmissionUncertain("the answer was lost")) == 9


def test_70_a_bug(attempt: Try, capsys: pytest.CaptureFixture[str]) -> None:
    key = Secret("k" * 32, "test")
    assert attempt(ValueError(f"what is {key.reveal()}\x1b[31m?")) == 70
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert stderr.splitlines() == [
        "error: this is a bug in hermesctl: ValueError: what is ***\\x1b[31m?",
        "  hint  type the command again with -v and report what it prints",
    ]


def test_70_with_v_shows_the_traceback_without_the_key(
    attempt: Try, capsys: pytest.CaptureFixture[str]
) -> None:
    key = Secret("s3cret-" * 5, "test")
    assert attempt(ValueError(f"what is {key.reveal()}?"), "-v") == 70
    stderr = capsys.readouterr().err
    assert "Traceback (most recent call last)" in stderr
    assert "raise outcome" in stderr
    assert key.reveal() not in stderr


def test_130_interrupted(attempt: Try) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    assert attempt(interrupted) == 130
    assert attempt(errors.Interrupted(signal.SIGINT, "interrupted")) == 130


def test_143_terminated(attempt: Try) -> None:
    assert attempt(errors.Interrupted(signal.SIGTERM, "terminated")) == 143


def test_141_closed_pipe(attempt: Try, capsys: pytest.CaptureFixture[str]) -> None:
    def closed() -> int:
        raise errors.ClosedPipe

    assert attempt(closed) == 141
    assert capsys.readouterr() == ("", "")


def test_every_failure_has_a_code_of_the_table() -> None:
    codes = {kind.exit_code for kind in every_class(HermesctlError) if kind.exit_code != 70}
    assert codes <= set(ExitCode)
    bugs = {kind.__name__ for kind in every_class(HermesctlError) if kind.exit_code == 70}
    assert bugs == {"StatusError", "Interrupted"}  # a base class; and its code is the signal's


def test_an_error_is_one_json_document(attempt: Try, capsys: pytest.CaptureFixture[str]) -> None:
    refused = errors.ConnectionRefused(
        "nothing listens\nthere", hint="hermes gateway start", url="http://user:pass@host:1/health"
    )
    assert attempt(refused, "-o", "json") == 3
    stdout, stderr = capsys.readouterr()
    assert json.loads(stdout) == {
        "error": {
            "kind": "ConnectionRefused",
            "message": "nothing listens\nthere",
            "hint": "hermes gateway start",
            "url": "http://***@host:1/health",
            "exit_code": 3,
        }
    }
    assert stderr.splitlines() == [
        "error: nothing listens",
        "        there",
        "  url   http://***@host:1/health",
        "  hint  hermes gateway start",
    ]


@pytest.mark.parametrize("json_option", [["-o", "json"], ["-ojson"], ["--output=json"]])
def test_usage_errors_are_json_too(
    attempt: Try, capsys: pytest.CaptureFixture[str], json_option: list[str]
) -> None:
    assert attempt(lambda: 0, "--what", *json_option) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "UsageError"
    assert error["message"] == "No such option: --what"
    assert error["exit_code"] == 2


def test_json_behind_a_double_dash_is_not_an_option(
    attempt: Try, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attempt(lambda: 0, "--", "-o", "json") == 2
    assert capsys.readouterr().out == ""


def test_a_document_is_not_followed_by_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(view: DocumentView) -> None:
        """Try it."""
        view.screen.document({"verdict": "ready"})
        raise errors.ConnectionReset("while cleaning up")

    monkeypatch.setattr(root, "ENTRIES", (Entry("Test", "try", "n:n", "Try it."),))
    monkeypatch.setattr(root, "load", lambda entry: as_command(entry.name, command))
    assert main(["try", "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out) == {"verdict": "ready"}


def test_v_shows_the_causes_of_a_known_failure(
    attempt: Try, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> int:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as error:
            raise errors.ConnectionRefused("nothing listens there") from error

    assert attempt(refused, "-v") == 3
    assert capsys.readouterr().err.splitlines() == [
        "error: nothing listens there",
        "  cause ConnectionRefusedError: [Errno 111] Connection refused",
    ]
