"""Fixtures for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.server import HermesServer

pytest_plugins = ("tests.live.labs",)


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests (`pytest.mark.anyio`) run on asyncio, as hermesctl does."""
    return "asyncio"


@pytest.fixture
def server() -> Iterator[HermesServer]:
    """A healthy stand-in for Hermes, made to fail by `server.faults`."""
    with HermesServer() as server:
        yield server
