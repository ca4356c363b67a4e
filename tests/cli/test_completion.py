"""The completion scripts, and what a shell gets to hear."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

import pytest

from hermes_ctl.cli.app import ENTRIES
from hermes_ctl.cli.completion import FILES
from hermes_ctl.main import main

COMPLETIONS = Path(__file__).parents[2] / "completions"

ASK_BASH = """
hermesctl() {{ "{python}" -m hermes_ctl "$@"; }}
source <(hermesctl completion bash)
COMP_LINE={line}
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
"$(complete -p hermesctl | sed -E 's/.*-F ([^ ]+).*/\\1/')" hermesctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete_in_bash(line: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What bash offers for the last word of `line`, by the script as it is sourced."""
    words = re.findall(r"[:=]+|[^\s:=]+|(?<=\s)$", line)  # as bash takes a line apart
    script = ASK_BASH.format(
        python=sys.executable, line=quote(line), words=" ".join(map(quote, words))
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
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
    assert complete_in_bash("hermesctl ch") == [
        entry.name for entry in ENTRIES if entry.name.startswith("ch")
    ]
    assert complete_in_bash("hermesctl compl") == ["completion"]


def test_bash_completes_what_a_group_has() -> None:
    assert complete_in_bash("hermesctl completion ") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("hermesctl completion bash --ver", ["--verbose"]),
        ("hermesctl completion bash --color a", ["auto", "always"]),
        ("hermesctl completion bash --color=a", ["auto", "always"]),
        ("hermesctl completion bash --color ", ["auto", "always", "never"]),
        ("hermesctl completion bash --nothing", []),
        ("hermesctl check --url http://x:1 --color n", ["never"]),
    ],
)
def test_bash_completes_options_and_their_values(line: str, offered: list[str]) -> None:
    assert complete_in_bash(line) == offered


def test_contexts_are_completed(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HERMESCTL_CONFIG": str(tmp_path / "config.toml"),
        "XDG_CACHE_HOME": str(tmp_path),  # no lab is running there
    }
    for name in ("north", "northwest", "south"):
        subprocess.run(
            [
                *(sys.executable, "-m", "hermes_ctl", "config", "set-context", name),
                *("--url", "http://127.0.0.1:1"),
            ],
            env=environment,
            check=True,
            capture_output=True,
        )
    for typed in ("check -c n", "check n", "check south --context=n", "config use-context n"):
        assert complete_in_bash(f"hermesctl {typed}", environment) == ["north", "northwest"], typed


def test_bash_offers_what_follows_a_colon(tmp_path: Path) -> None:
    """bash replaces only what stands behind the last colon."""
    answer = tmp_path / "hermesctl"
    answer.write_text("#!/bin/sh\nprintf '%s\\n' lab:east lab:elm \"$COMP_CWORD\"\n")
    answer.chmod(0o755)
    script = (COMPLETIONS / "hermesctl.bash").read_text("utf-8")
    ask = f"""{script}
        COMP_LINE='hermesctl check -c lab:e' COMP_WORDS=(hermesctl check -c lab : e) COMP_CWORD=5
        _hermesctl_completion {answer}
        printf '%s ' "${{COMPREPLY[@]}}"
        COMP_LINE='hermesctl check --context=lab:e'
        COMP_WORDS=(hermesctl check --context = lab : e) COMP_CWORD=6
        _hermesctl_completion {answer}
        printf '%s ' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("east elm 3 east elm 2 ", "")


def test_bash_completes_files_where_nothing_is_offered(tmp_path: Path) -> None:
    """With one empty word in COMPREPLY, it would not fall back on the names of files."""
    answer = tmp_path / "hermesctl"
    answer.write_text("#!/bin/sh\necho\n")  # as typer says that there is nothing
    answer.chmod(0o755)
    script = (COMPLETIONS / "hermesctl.bash").read_text("utf-8")
    ask = f"""{script}
        COMP_LINE='hermesctl check --key-file n' COMP_WORDS=(hermesctl check --key-file n) COMP_CWORD=3
        _hermesctl_completion {answer}
        echo "${{#COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_zsh_and_fish_get_names_with_their_help() -> None:
    help = "Print the completion script of a shell."
    assert complete("zsh", "hermesctl comp") == (
        0,
        f"""_arguments '*: :(("completion":"{help}"))'\n""",
    )
    assert complete("fish", "hermesctl comp") == (0, f"completion\t{help}\n")
