"""The process edge where no command is concerned."""

from __future__ import annotations

import signal

import pytest

from hermes_ctl import __version__
from hermes_ctl.main import main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"hermesctl {__version__}\n", "")


def test_the_arguments_are_the_process_s_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["hermesctl", "--version"])
    assert main() == 0
    assert capsys.readouterr().out == f"hermesctl {__version__}\n"


def test_signal_handlers_are_put_back() -> None:
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in watched]
    assert main(["--help"]) == 0
    assert main(["nothing"]) == 2
    assert [signal.getsignal(number) for number in watched] == before
