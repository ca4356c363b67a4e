"""The help, and the table of commands that stands for the commands until one is called."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from hermes_ctl.cli.app import ENTRIES, Entry
from hermes_ctl.cli.root import load
from hermes_ctl.main import main

SECTIONS = ["Readiness", "Runs", "Inspect", "Monitoring", "Gate and lab", "Configuration"]
IDS = [entry.name for entry in ENTRIES]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == ""
    return stdout


@pytest.mark.parametrize("entry", ENTRIES, ids=IDS)
def test_the_table_says_what_the_command_says(entry: Entry) -> None:
    help = load(entry).help
    assert help is not None
    assert help.splitlines()[0] == entry.help


@pytest.mark.parametrize("entry", ENTRIES, ids=IDS)
def test_every_command_has_its_help(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    help = shown(capsys, entry.name, "--help")
    assert help.startswith(f"Usage: hermesctl {entry.name} ")
    assert entry.help.split()[0] in help
    assert "  -h, --help" in help


@pytest.mark.parametrize("entry", ENTRIES, ids=IDS)
def test_every_option_says_what_it_is_for(entry: Entry) -> None:
    command = load(entry)
    for leaf in getattr(command, "commands", {"": command}).values():
        options = [param for param in leaf.params if param.param_type_name == "option"]
        mute = [option.name for option in options if not getattr(option, "help", None)]
        assert mute == [], f"{entry.name} {leaf.name}"


@pytest.mark.parametrize("entry", ENTRIES, ids=IDS)
def test_examples_can_be_copied_from_80_columns(entry: Entry) -> None:
    command = load(entry)
    for leaf in [command, *getattr(command, "commands", {}).values()]:
        _, _, examples = inspect.cleandoc(leaf.help or "").partition("Examples:")
        long = [line for line in examples.splitlines() if len(line) > 76]  # 2 of them indentation
        assert long == [], f"{entry.name} {leaf.name}"


def test_the_table_is_in_sections_and_fits() -> None:
    assert list(dict.fromkeys(entry.section for entry in ENTRIES)) == [
        section for section in SECTIONS if section in {entry.section for entry in ENTRIES}
    ]
    assert len(set(IDS)) == len(IDS)
    for entry in ENTRIES:
        assert entry.help[0].isupper(), entry.help
        assert len(entry.name) + len(entry.help) < 86, "it would not fit on one line"


def test_the_help_lists_every_command_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    help = shown(capsys, "--help")
    lines = [line.split() for line in help.splitlines() if line.startswith("  ")]
    names = [words[0] for words in lines if words[0] in IDS and len(words) > 1]
    assert names == IDS
    assert "--version" in help
    assert "Exit codes" in help


@pytest.mark.parametrize("arguments", [("-h",), ()])
def test_no_command_and_h_show_the_same_help(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert shown(capsys, *arguments) == shown(capsys, "--help")


def test_a_group_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "completion") == shown(capsys, "completion", "--help")


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        (["complete"], "unknown command 'complete', did you mean 'completion'?", "hermesctl --help"),
        (["xyzzy"], "unknown command 'xyzzy'", "hermesctl --help"),
        (["completion", "bush"], "unknown command 'bush', did you mean 'bash'?", "hermesctl completion --help"),
        (["--verison"], "No such option: --verison (Possible options: --version)", "hermesctl --help"),
        (["completion", "bash", "--colour"], "No such option: --colour (Possible options: --color)", "hermesctl completion bash --help"),
        (["completion", "bash", "--color"], "Option '--color' requires an argument", "hermesctl completion bash --help"),
        (["completion", "bash", "--color", "red"], "Invalid value for '--color': 'red' is not one of 'auto', 'always', 'never'", "hermesctl completion bash --help"),
        (["completion", "bash", "more"], "Got unexpected extra argument(s) (more)", "hermesctl completion bash --help"),
    ],
)  # fmt: skip
def test_a_slip_is_answered_in_one_sentence(
    capsys: pytest.CaptureFixture[str], typed: list[str], message: str, hint: str
) -> None:
    assert main(typed) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert stderr.splitlines() == [f"error: {message}", f"  hint  {hint}"]


def test_hostile_arguments_are_shown_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["\x1b[2Jx"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_the_module_runs_as_the_command_does() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hermes_ctl", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: hermesctl ")
