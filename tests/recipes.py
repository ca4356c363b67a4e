"""The recipes of the README: code blocks whose first line names their file."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
_BLOCK = re.compile(r"^```\w*\n# (hermesctl-[\w.-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section() -> str:
    """The section on monitoring."""
    found = re.search(r"^## Monitoring\n(.*?)(?=^## |\Z)", README.read_text("utf-8"), re.M | re.S)
    assert found is not None, "README.md has no section `## Monitoring`"
    return found.group(1)


def recipe(name: str) -> str:
    """The text of one recipe, without the line that names it."""
    blocks = dict(_BLOCK.findall(section()))
    assert name in blocks, f"README.md has no recipe {name}"
    text: str = blocks[name]
    return text


def readme_playbook() -> str:
    """The Ansible playbook, as the section on many nodes shows it."""
    found = re.search(
        r"^```yaml\n(# hermes-check\.yml: .*?)^```$", README.read_text("utf-8"), re.M | re.S
    )
    assert found is not None, "README.md has no playbook hermes-check.yml"
    return found.group(1)
