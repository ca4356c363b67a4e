"""Fields that are only shown: any value is taken, none is refused, and none is made up."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl.api.models import Session, Toolset
from hermes_ctl.api.values import moment, text

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "value",
    [
        NOON.timestamp(),
        int(NOON.timestamp()),
        NOON.timestamp() * 1000,
        "2026-11-30T12:00:00Z",
        "2026-11-30T13:00:00+01:00",
        "2026-11-30T12:00:00",
        " 2026-11-30 12:00 ",
        NOON,
    ],
)
def test_a_moment_in_any_notation(value: object) -> None:
    assert moment(value) == NOON


@pytest.mark.parametrize(
    "value", [None, True, "", "soon", float("nan"), float("inf"), 1e300, -1e300, [], {}, "9999-12-31T23:59:59-23:00"]
)  # fmt: skip
def test_what_is_no_moment_is_none(value: object) -> None:
    assert moment(value) is None


@given(JSON)
def test_any_value_in_any_field_is_taken(value: object) -> None:
    names = [name for name in Session.model_fields if name != "id"]
    session = Session.model_validate({"id": "s", **dict.fromkeys(names, value)})
    assert session.raw["title"] is value, "the server's own value is kept"
    assert session.title == text(value)
    Toolset.model_validate({"name": "t", "tools": value, "enabled": value})
