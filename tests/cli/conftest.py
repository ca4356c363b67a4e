"""Fixtures of the tests that type commands."""

from __future__ import annotations

from tests.cli.operators import node, operator
from tests.cli.shell import shell

__all__ = ["node", "operator", "shell"]
