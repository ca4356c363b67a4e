"""What every error owes an operator: what happened, where, what to type next, and no key."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest

from hermes_ctl.config import Node
from hermes_ctl.errors import HermesctlError

Failure = TypeVar("Failure", bound=HermesctlError)


async def failure(kind: type[Failure], node: Node, call: Awaitable[Any]) -> Failure:
    """The error that `call` ends with: exactly of this kind, and explained as it should be."""
    with pytest.raises(HermesctlError) as caught:
        await call
    error = caught.value
    assert type(error) is kind, f"{error.kind}: {error.message}"
    assert_explained(error, node)
    return error


def assert_explained(error: HermesctlError, node: Node) -> None:
    assert error.message
    assert "\n" not in error.message
    assert error.hint, f"no hint: {error.message}"
    assert error.url, f"no address: {error.message}"
    assert error.url.startswith(node.url)
    if node.key:
        for text in (error.message, error.hint, error.url, str(error), repr(error)):
            assert node.key.reveal() not in text
    assert error.__suppress_context__ or error.__context__ is None, "a traceback would show httpx"
