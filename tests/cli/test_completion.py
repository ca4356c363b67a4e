"""The completion scripts, and what a shell gets to hear."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_ctl.cli.app import ENTRIES
from hermes_ctl.cli.completion import FILES
from hermes_ctl.main import main

COMPLETIONS = Path(__file__).parents[2] / "completions"

ASK_BASH = """
hermesctl() {{ "{python}" -m hermes_ctl "$@"; }}
source <(hermesctl completion bash)
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
"$(complete -p hermesctl | sed -E 's/.*-F ([^ ]+).*/\\1/')" hermesctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete_in_bash(*words: str) -> list[str]:
    """What bash offers for the last of `words`, by the script as it is sourced."""
    script = ASK_BASH.format(python=sys.executable, words=" ".join(f"'{word}'" for word in words))
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def complete(shell: str, line: str) -> tuple[int, str]:
    """The exit code and the answer of hermesctl for a zsh or fish that completes `line`."""
    done = subprocess.run(
        [sys.executable, "-m", "hermes_ctl"],
        env={
            **os.environ,
            "_HERMESCTL_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shipped_scripts_are_the_printed_ones(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    name = {"bash": "hermesctl.bash", "zsh": "_hermesctl", "fish": "hermesctl.fish"}[shell]
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert printed == FILES[name]
    assert (COMPLETIONS / name).read_text("utf-8") == printed, "make completions"


def test_nothing_else_is_shipped() -> None:
    assert {path.name for path in COMPLETIONS.iterdir()} == FILES.keys()


def test_bash_completes_commands() -> None:
    assert complete_in_bash("hermesctl", "ch") == [
        entry.name for entry in ENTRIES if entry.name.startswith("ch")
    ]
    assert complete_in_bash("hermesctl", "compl") == ["completion"]


def test_bash_completes_what_a_group_has() -> None:
    assert complete_in_bash("hermesctl", "completion", "") == ["bash", "zsh", "fish"]


def test_bash_completes_options_and_their_values() -> None:
    assert complete_in_bash("hermesctl", "completion", "bash", "--ver") == ["--verbose"]
    assert complete_in_bash("hermesctl", "completion", "bash", "--color", "a") == ["auto", "always"]


def test_zsh_and_fish_get_names_with_their_help() -> None:
    help = "Print the completion script of a shell."
    assert complete("zsh", "hermesctl comp") == (
        0,
        f"""_arguments '*: :(("completion":"{help}"))'\n""",
    )
    assert complete("fish", "hermesctl comp") == (0, f"completion\t{help}\n")
