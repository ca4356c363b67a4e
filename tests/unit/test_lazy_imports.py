"""What a command may load, seen in a fresh interpreter each."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from hermes_ctl.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write("\\n".join(["modules:", *sys.modules]))
sys.exit(code)
"""
COMMAND_PARTS = ("hermes_ctl.cli.", "hermes_ctl.api", "hermes_ctl.checks", "hermes_ctl.lab")
SKELETON = {"hermes_ctl.cli.app", "hermes_ctl.cli.root", "hermes_ctl.cli.grammar"}


def loaded_by(*arguments: str) -> set[str]:
    """The modules in memory after `hermesctl ARGUMENTS`, which has to succeed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.partition("modules:\n")[2].split("\n"))


def test_version_loads_next_to_nothing() -> None:
    loaded = loaded_by("--version")
    assert loaded.isdisjoint(
        {"typer", "rich", "httpx", "pydantic", "asyncio", "dataclasses", "json", "re", "enum"}
    )
    assert {name for name in loaded if name.startswith("hermes_ctl")} == {
        "hermes_ctl",
        "hermes_ctl.main",
    }


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_loads_the_table_alone(option: str) -> None:
    loaded = loaded_by(option)
    assert loaded.isdisjoint({"typer", "rich", "httpx", "pydantic", "asyncio", "dataclasses"})
    assert {name for name in loaded if name.startswith("hermes_ctl.")} == {
        "hermes_ctl.main",
        "hermes_ctl.cli",
        "hermes_ctl.cli.app",
    }


def test_no_command_loads_no_command() -> None:
    loaded = loaded_by()
    assert loaded.isdisjoint({"rich", "httpx", "pydantic", "asyncio", "psutil", "yaml", "dotenv"})
    assert {name for name in loaded if name.startswith(COMMAND_PARTS)} <= SKELETON


def test_completion_script_loads_no_other_command() -> None:
    loaded = loaded_by("completion", "bash")
    assert loaded.isdisjoint({"rich", "httpx", "asyncio", "psutil", "yaml", "dotenv"})
    ours = {name for name in loaded if name.startswith(COMMAND_PARTS)}
    assert ours == SKELETON | {
        "hermes_ctl.cli.completion",
        "hermes_ctl.cli.nodes",
        "hermes_ctl.cli.options",
    }
