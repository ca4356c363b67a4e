"""The playbook that the README shows is the one that a live test runs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = "<!-- fleet -->"
"""Stands in the README until the section is there."""


def test_the_readme_shows_the_playbook_word_for_word() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    playbook = (ROOT / "examples" / "hermes-check.yml").read_text("utf-8")
    assert PLACE in readme or f"```yaml\n{playbook}```\n" in readme
