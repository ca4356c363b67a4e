"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.checking import Checker
from tests.faults.proxy import Link
from tests.faults.server import HermesServer


@pytest.fixture
def link(server: HermesServer) -> Iterator[Link]:
    """A TCP link to `server` that can be cut, stalled, delayed, or hold a stream back."""
    with Link(server.port) as link:
        yield link


@pytest.fixture
def checker(server: HermesServer, tmp_path: Path) -> Checker:
    """Whole checks of `server`, in this process."""
    return Checker(server, tmp_path)
