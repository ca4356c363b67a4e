"""Fixtures for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes_ctl import secrets
from hermes_ctl.known_keys import KnownKeys
from tests.faults.server import HermesServer

pytest_plugins = ("tests.live.labs",)


@pytest.fixture(autouse=True)
def own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of one test are no keys of the next: the redactor knows those of the process."""
    known = KnownKeys()
    known.add(set(secrets._known.values))
    monkeypatch.setattr(secrets, "_known", known)
    secrets.wrong_key.cache_clear()  # one that an earlier test made would be known no more


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests (`pytest.mark.anyio`) run on asyncio, as hermesctl does."""
    return "asyncio"


@pytest.fixture
def server() -> Iterator[HermesServer]:
    """A healthy stand-in for Hermes, made to fail by `server.faults`."""
    with HermesServer() as server:
        yield server
