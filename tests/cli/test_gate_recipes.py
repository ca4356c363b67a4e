"""The recipes for CI: their shell lines are executed as they stand, for each verdict of the gate.

`pip install` is left out: what is tested is installed. OLD and NEW are two stand-ins for Hermes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.deep_server import DeepServer

RECIPES = Path(__file__).parent / "recipes"
INSTALL = 'pip install "$HERMESCTL"'

CHECKLIST = """
schema = "hermesctl.checklist/1"
name = "quick"
release = "==0.20.4.*"
[[step]]
id = "auth"
[[step]]
id = "wire"
[[step]]
id = "sessions"
"""


def github() -> list[str]:
    recipe = yaml.safe_load((RECIPES / "hermes-gate.github.yml").read_text())
    return [step["run"] for step in recipe["jobs"]["gate"]["steps"] if "run" in step]


def gitlab() -> list[str]:
    recipe = yaml.safe_load((RECIPES / "hermes-gate.gitlab.yml").read_text())
    return list(recipe["hermes-gate"]["script"])


@pytest.fixture
def nodes() -> Iterator[tuple[DeepServer, DeepServer]]:
    with DeepServer() as old, DeepServer() as new:
        yield old, new


def execute(
    lines: list[str], folder: Path, nodes: tuple[DeepServer, DeepServer], **more: str
) -> subprocess.CompletedProcess[str]:
    """The shell lines, one after the other as a runner does, in a folder of their own."""
    assert lines[0] == INSTALL
    contexts = ""
    for name, server in zip(("old", "new"), nodes, strict=True):
        (folder / f"{name}.key").write_text(server.key)
        (folder / f"{name}.key").chmod(0o600)
        contexts += f'[contexts.{name}]\nurl = "{server.url}"\nkey-file = "{folder / name}.key"\n'
    contexts += f'[contexts.nobody]\nurl = "http://127.0.0.1:1"\nkey-file = "{folder}/new.key"\n'
    configuration = folder / "config.toml"
    configuration.write_text(contexts)
    configuration.chmod(0o600)
    (folder / "quick.toml").write_text(CHECKLIST)
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "HERMESCTL_CONFIG": str(configuration),
        "OLD": "old",
        "NEW": "new",
        "CHECKLIST": "quick.toml",
        "CI": "true",
        **more,
    }
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(lines[1:])],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("lines", [github(), gitlab()], ids=["github", "gitlab"])
@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_job_ends_as_the_gate_does_and_keeps_its_reports(
    lines: list[str], code: int, tmp_path: Path, nodes: tuple[DeepServer, DeepServer]
) -> None:
    if code == 1:
        nodes[1].faults.status("GET /v1/skills", 500)
    done = execute(lines, tmp_path, nodes, NEW="nobody" if code == 3 else "new")
    assert done.returncode == code, done.stdout + done.stderr
    document: dict[str, Any] = json.loads((tmp_path / "gate.json").read_text())
    assert document["exit_code"] == code
    assert ET.parse(tmp_path / "gate.xml").getroot().tag == "testsuites"
    assert (tmp_path / "gate.html").read_text().startswith("<!doctype html>")


def test_a_github_runner_gets_annotations_and_the_summary(
    tmp_path: Path, nodes: tuple[DeepServer, DeepServer]
) -> None:
    nodes[1].faults.status("GET /v1/skills", 500)
    summary = tmp_path / "summary.md"
    done = execute(
        github(), tmp_path, nodes, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary)
    )
    assert done.returncode == 1
    assert "::error title=hermesctl route%3AGET /v1/skills::" in done.stderr
    assert "GET /v1/skills is advertised and answers 500" in summary.read_text()


def test_what_the_recipes_keep_is_what_they_write() -> None:
    recipe = yaml.safe_load((RECIPES / "hermes-gate.gitlab.yml").read_text())["hermes-gate"]
    kept = {*recipe["artifacts"]["paths"], recipe["artifacts"]["reports"]["junit"]}
    for lines in (github(), gitlab()):
        written = {
            part.split("=")[1]
            for part in lines[1].split()
            if part.split("=")[0] in ("json", "html", "junit")
        }
        assert written == kept
