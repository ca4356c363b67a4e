"""The shape of JSON: merged, optional fields and unions seen, maps told from objects."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl.checks.shapes import Shape


def merged(*values: object) -> dict[str, list[str]]:
    shape = Shape()
    for value in values:
        shape.learn(value)
    return dict(shape.paths())


def test_paths_have_types_and_never_values() -> None:
    assert merged({"id": "secret", "n": 1, "x": 1.5, "ok": True, "no": None, "list": []}) == {
        "$": ["object"],
        "$.id": ["string"],
        "$.n": ["integer"],
        "$.x": ["number"],
        "$.ok": ["boolean"],
        "$.no": ["null"],
        "$.list": ["array"],
    }


def test_items_of_an_array_are_merged() -> None:
    paths = merged({"data": [{"id": "a", "size": 1}, {"id": None}]})
    assert paths["$.data[].id"] == ["null", "string"]
    assert paths["$.data[].size"] == ["absent", "integer"]


def test_a_field_that_one_of_two_answers_lacks_is_optional() -> None:
    paths = merged({"status": "running"}, {"status": "completed", "output": "x"})
    assert paths["$.status"] == ["string"]
    assert paths["$.output"] == ["absent", "string"]


def test_a_map_is_not_mistaken_for_an_object() -> None:
    by_name = {"capabilities": {"claude-4.5": {"fast": True}, "gpt-5": {"fast": False}}}
    paths = merged(by_name)
    assert paths["$.capabilities{}.fast"] == ["boolean"]
    assert not any("claude" in path for path in paths)


def test_a_map_whose_keys_look_like_fields_is_told_by_its_other_answers() -> None:
    """As `providers[].capabilities` of GET /api/model/options is: most are empty, and what there is
    is all alike."""
    paths = merged({"c": {}}, {"c": {"default": {"fast": True}}}, {"c": {"mini": {"fast": False}}})
    assert paths["$.c{}.fast"] == ["boolean"]


def test_fixed_names_stay_fields() -> None:
    """As `readiness.checks` of GET /health/detailed is: each check is there each time."""
    checks = {"config": {"status": "ok"}, "model": {"status": "ok"}}
    assert "$.checks.config.status" in merged({"checks": checks}, {"checks": checks})


def test_an_object_with_one_optional_scalar_is_no_map() -> None:
    assert "$.a.note" in merged({"a": {"note": "x"}}, {"a": {}})


def test_deep_nesting_ends() -> None:
    deep: object = "x"
    for _ in range(100):
        deep = {"a": deep}
    assert len(merged(deep)) < 20


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(json_values, min_size=1, max_size=4))
def test_order_does_not_matter_and_no_value_leaks(values: list[object]) -> None:
    forward, backward = merged(*values), merged(*reversed(values))
    assert forward == backward
    kinds = {"object", "array", "string", "integer", "number", "boolean", "null", "absent"}
    assert {kind for kinds_of in forward.values() for kind in kinds_of} <= kinds
    json.dumps(forward)
