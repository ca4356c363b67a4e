"""Fixtures of the tests that type commands."""

from __future__ import annotations

from tests.cli.shell import shell

__all__ = ["shell"]
