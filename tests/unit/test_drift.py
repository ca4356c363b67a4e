"""What differs between two checks: each kind of difference, its level, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_ctl.checks.drift.comparison import compare
from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.model import Mark, Report, RunTrace, Status
from tests.unit.sample_reports import check, contract, ready, shape, step, trace


def differences(old: Report, new: Report) -> dict[str, Difference]:
    return {one.id: one for one in compare(old, new)}


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Difference]:
    """The differences of two contracts that differ in these fields."""
    return differences(ready(contract=contract(**old)), ready(contract=contract(**new)))


def fields(
    old: dict[str, list[str]], new: dict[str, list[str]], key: str = "GET /health 200"
) -> dict[str, Level]:
    """Path and level of what changed in one answer."""
    found = changed({"shapes": {key: shape(old)}}, {"shapes": {key: shape(new)}})
    return {one.id.rpartition(" ")[2]: one.level for one in found.values()}


def test_a_check_does_not_differ_from_itself() -> None:
    assert compare(check(), check()) == []


# Routes


def test_a_route_that_breaks_is_a_regression_with_its_consumers() -> None:
    found = changed(
        {}, {"shapes": {"GET /v1/skills 500": shape({}, status=500, content_type="text/plain")}}
    )
    broken = found["route:GET /v1/skills"]
    assert broken.level is Level.BREAKING
    assert "advertised and answers 500" in broken.summary
    assert (broken.old, broken.new) == ("200", "500")
    assert broken.consumers == ["bMAS", "Hermes-Relay", "hermesctl"]


def test_a_route_that_was_broken_already_is_no_difference() -> None:
    broken = {"shapes": {"GET /v1/skills 500": shape({}, status=500)}}
    assert changed(broken, broken) == {}


def test_a_route_that_is_new_and_broken_is_a_regression() -> None:
    endpoints = {"extra": "GET /v1/extra"}
    found = changed(
        {"shapes": {}, "endpoints": endpoints},
        {
            "shapes": {"GET /v1/extra 404": shape({}, status=404, content_type="text/plain")},
            "endpoints": endpoints,
        },
    )
    assert found["route:GET /v1/extra"].level is Level.BREAKING


def test_a_route_that_is_served_at_last_is_gained() -> None:
    missing = shape({}, status=404, content_type="text/plain")
    found = changed(
        {"shapes": {"GET /api/model/options 404": missing}},
        {"shapes": {"GET /api/model/options 200": shape({"$": ["object"]})}},
    )
    assert found["route:GET /api/model/options"].level is Level.COMPATIBLE


@pytest.mark.parametrize(
    ("status", "words"), [(403, "answers 403"), (201, "answers 201 instead of 200")]
)
def test_another_status_is_breaking(status: int, words: str) -> None:
    found = changed(
        {"shapes": {"GET /v1/models 200": shape({})}},
        {"shapes": {f"GET /v1/models {status}": shape({}, status=status)}},
    )
    assert found["route:GET /v1/models"].level is Level.BREAKING
    assert words in found["route:GET /v1/models"].summary


def test_a_route_that_one_side_was_not_asked_for_is_not_compared() -> None:
    assert changed({}, {"shapes": {}}) == {}


def test_another_content_type_is_breaking() -> None:
    found = changed(
        {"shapes": {"GET /health 200": shape({})}},
        {"shapes": {"GET /health 200": shape({}, content_type="text/html")}},
    )
    assert found["content-type:GET /health 200"].level is Level.BREAKING


# Features and endpoints


def test_features_gained_lost_and_changed() -> None:
    found = changed(
        {"features": {"run_stop": True, "cors": False, "key": "X-A", "audio": False}},
        {"features": {"cors": True, "key": "X-B", "video": False}},
    )
    assert {name: one.level for name, one in found.items()} == {
        "feature:run_stop": Level.BREAKING,
        "feature:cors": Level.COMPATIBLE,
        "feature:key": Level.RISKY,
    }


def test_a_feature_that_says_itself_that_it_is_off_is_not_offered() -> None:
    off, on = {"enabled": False, "version": 1}, {"supported": True, "durable": True}
    found = changed(
        {"features": {"x": True, "old": on}},
        {"features": {"x": True, "browser": off, "old": {"supported": False}, "keys": on}},
    )
    assert {name: one.level for name, one in found.items()} == {
        "feature:old": Level.BREAKING,
        "feature:keys": Level.COMPATIBLE,
    }


def test_what_only_a_step_that_was_left_out_gets_to_see_is_not_lost() -> None:
    """Without runs, a run's status is asked for nobody's id alone: 404, as it was before."""
    status = "GET /v1/runs/{run_id}"
    refused = {f"{status} 404": shape({"$.error": ["object"]}, status=404)}
    before = contract(
        shapes={f"{status} 200 completed": shape({"$.status": ["string"]}), **refused}
    )
    old = check(step("polling", Status.PASS), contract=before)
    less = check(step("polling", Status.SKIP), contract=contract(shapes=refused))
    as_much = check(step("polling", Status.PASS), contract=contract(shapes=refused))
    assert f"route:{status}" not in {one.id for one in compare(old, less)}
    assert f"route:{status}" in {one.id for one in compare(old, as_much)}


def test_endpoints_gained_lost_and_moved() -> None:
    found = changed(
        {"endpoints": {"a": "GET /a", "b": "GET /b"}},
        {"endpoints": {"b": "POST /b", "c": "GET /c"}},
    )
    assert {name: one.level for name, one in found.items()} == {
        "endpoint:a": Level.BREAKING,
        "endpoint:b": Level.BREAKING,
        "endpoint:c": Level.COMPATIBLE,
    }


# Fields


def test_a_field_that_vanished_is_told_at_its_top_alone() -> None:
    old = {"$": ["object"], "$.a": ["object"], "$.a.b": ["string"], "$.c": ["string"]}
    assert fields(old, {"$": ["object"], "$.c": ["string"]}) == {"$.a": Level.BREAKING}


def test_a_field_that_was_optional_may_be_away() -> None:
    assert fields({"$": ["object"], "$.a": ["absent", "string"]}, {"$": ["object"]}) == {}


def test_an_empty_list_says_nothing_of_its_items() -> None:
    old = {"$": ["object"], "$.data": ["array"], "$.data[]": ["object"], "$.data[].id": ["string"]}
    assert fields(old, {"$": ["object"], "$.data": ["array"]}) == {}
    assert fields({"$": ["object"], "$.data": ["array"]}, old) == {}


def test_keys_of_a_map_are_no_fields() -> None:
    one = {"$": ["object"], "$.m": ["object"], "$.m{}": ["object"], "$.m{}.x": ["string"]}
    other = {"$": ["object"], "$.m": ["object"], "$.m.only": ["object"], "$.m.only.x": ["string"]}
    assert fields(one, other) == {}
    assert fields(other, one) == {}


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        (["string"], ["object"], Level.BREAKING),
        (["string"], ["integer", "string"], Level.RISKY),
        (["integer", "string"], ["string"], None),
        (["integer"], ["number"], Level.RISKY),
        (["number"], ["integer"], None),
        (["string"], ["null", "string"], Level.RISKY),
        (["string"], ["absent", "string"], Level.RISKY),
        (["null"], ["string"], None),
    ],
)
def test_types_of_a_field(old: list[str], new: list[str], level: Level | None) -> None:
    found = fields({"$": ["object"], "$.a": old}, {"$": ["object"], "$.a": new})
    assert found == ({"$.a": level} if level else {})


@pytest.mark.parametrize("key", ["GET /api/sessions 200", "GET /api/sessions/{session_id} 200"])
def test_whether_a_row_of_data_is_null_is_no_difference(key: str) -> None:
    assert (
        fields({"$": ["object"], "$.t": ["string"]}, {"$": ["object"], "$.t": ["null"]}, key) == {}
    )


def test_the_body_of_an_error_is_less_grave() -> None:
    old = {"$": ["object"], "$.error": ["object"], "$.error.param": ["null"]}
    found = changed(
        {"shapes": {"GET /v1/models 401": shape(old, status=401)}},
        {
            "shapes": {
                "GET /v1/models 401": shape({"$": ["object"], "$.error": ["object"]}, status=401)
            }
        },
    )
    assert [one.level for one in found.values()] == [Level.RISKY]


def test_a_field_of_a_resource_is_told_once_for_all_its_routes() -> None:
    old = {"$": ["object"], "$.job": ["object"], "$.job.model": ["string"]}
    new = {"$": ["object"], "$.job": ["object"]}
    keys = ("GET /api/jobs/{job_id} 200", "POST /api/jobs 200")
    found = changed(
        {"shapes": {key: shape(old) for key in keys}}, {"shapes": {key: shape(new) for key in keys}}
    )
    assert list(found) == ["field:/api/jobs $.job.model"]
    assert all(key in found["field:/api/jobs $.job.model"].where for key in keys)


# Events, states, comments, headers


def told(
    *names: str,
    purpose: str = "canary",
    read_to_end: bool = True,
    paths: dict[str, list[str]] | None = None,
) -> Report:
    """A check whose one run sent these events."""
    events = {name: {"$": ["object"], **(paths or {})} for name in names}
    marks = [Mark(at_s=1.0, name=name) for name in names]
    run = trace(purpose=purpose, marks=marks, read_to_end=read_to_end)
    return ready(contract=contract(events=events), runs=[run])


def test_events_that_vanished_and_came() -> None:
    found = differences(told("run.failed", "a"), told("message.interim", "a"))
    assert {name: one.level for name, one in found.items()} == {
        "event:run.failed": Level.BREAKING,
        "event:message.interim": Level.COMPATIBLE,
    }
    assert "bMAS" in found["event:run.failed"].consumers


def test_fields_of_an_event() -> None:
    old, new = told("a", paths={"$.output": ["string"]}), told("a", paths={"$.seq": ["integer"]})
    assert {name: one.level for name, one in differences(old, new).items()} == {
        "event-field:a $.output": Level.BREAKING,
        "event-field:a $.seq": Level.COMPATIBLE,
    }


@pytest.mark.parametrize(
    "new",
    [told("b", read_to_end=False), told("b", purpose="long-1"), ready(runs=[])],
    ids=["stream not read to its end", "no run for that purpose", "no run at all"],
)
def test_an_event_that_could_not_have_been_seen_has_not_vanished(new: Report) -> None:
    assert "event:a" not in differences(told("a", "b"), new)


def test_an_event_of_another_stream_vanishes_where_that_stream_was_seen() -> None:
    old = ready(contract=contract(events={"session-chat done": {}, "session-chat error": {}}))
    new = ready(contract=contract(events={"session-chat done": {}}))
    none = ready(contract=contract(events={"responses x": {}}))
    assert differences(old, new)["event:session-chat error"].level is Level.BREAKING
    assert "event:session-chat error" not in differences(old, none)


def test_an_unknown_state_is_risky_and_a_known_one_is_not() -> None:
    found = changed({"states": []}, {"states": ["interrupted", "paused"]})
    assert {name: one.level for name, one in found.items()} == {"state:paused": Level.RISKY}


def test_comments_of_a_stream() -> None:
    found = changed({"comments": ["stream closed"]}, {"comments": ["open"]})
    assert {name: one.level for name, one in found.items()} == {
        "comment:open": Level.COMPATIBLE,
        "comment:stream closed": Level.RISKY,
    }


def test_a_security_header_that_went_away() -> None:
    found = changed(
        {"shapes": {"GET /health 200": shape({}, headers=["x-frame-options"])}},
        {"shapes": {"GET /health 200": shape({}, headers=[])}},
    )
    assert found["header:x-frame-options"].level is Level.RISKY
    assert found["header:x-frame-options"].where == "GET /health 200"


# Refusals and behaviour


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ("401 invalid_api_key", "401 gateway_auth_failed", Level.RISKY),
        ("404 run_not_found", "400 no code", Level.BREAKING),
        ("404 run_not_found", "200 no code", Level.RISKY),
        ("404 run_not_found", "500 text/plain", Level.BREAKING),
    ],
)
def test_refusals(old: str, new: str, level: Level) -> None:
    found = changed({"errors": {"a stop": old}}, {"errors": {"a stop": new}})
    assert found["answer:a stop"].level is level


def test_behaviour_gained_lost_and_changed() -> None:
    gone, again, hangs = (
        "404 while the run goes on",
        "replayed from the start",
        "goes on where it is",
    )
    for old, new, level in (
        (gone, again, Level.COMPATIBLE),
        (again, gone, Level.BREAKING),
        (gone, hangs, Level.RISKY),
    ):
        found = changed(
            {"behaviours": {"reopened stream": old}}, {"behaviours": {"reopened stream": new}}
        )
        assert found["behaviour:reopened stream"].level is level


# Steps and timings


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        (Status.PASS, Status.FAIL, Level.BREAKING),
        (Status.SKIP, Status.FAIL, Level.RISKY),
        (Status.PASS, Status.WARN, Level.RISKY),
        (Status.PASS, Status.UNKNOWN, Level.RISKY),
        (Status.PASS, Status.SKIP, Level.RISKY),
        (Status.FAIL, Status.PASS, Level.COMPATIBLE),
        (Status.UNKNOWN, Status.PASS, Level.COMPATIBLE),
        (Status.FAIL, Status.FAIL, None),
    ],
)
def test_steps(old: Status, new: Status, level: Level | None) -> None:
    found = differences(check(step("stop", old)), check(step("stop", new)))
    assert {name: one.level for name, one in found.items()} == (
        {"step:stop": level} if level else {}
    )


def test_a_new_step_that_fails_is_risky() -> None:
    found = differences(check(step("stop", Status.PASS)), check(step("limit", Status.FAIL)))
    assert found["step:limit"].level is Level.RISKY


def stopped(*seconds: float) -> list[RunTrace]:
    """Runs that were stopped one second after their start, and took so long to end."""
    marks = [Mark(at_s=1.0, name="stop")]
    return [
        RunTrace(
            purpose="long",
            run_id=f"run_{number}",
            started_s=0.0,
            ended_s=1.0 + took,
            status="cancelled",
            marks=marks,
        )
        for number, took in enumerate(seconds)
    ]


@pytest.mark.parametrize(
    ("old", "new", "slower"),
    [
        ((0.2, 0.3), (2.0, 2.5), True),
        ((0.2, 0.3), (0.9, 0.9), False),  # less than a second more
        ((2.0, 2.0), (3.5, 3.5), False),  # less than three times as long
        ((0.2, 0.2), (9.0, 0.3), False),  # one busy moment
        ((0.2,), (9.0,), False),  # a single sample on each side
    ],
)
def test_slower_needs_the_factor_a_second_and_samples(
    old: tuple[float, ...], new: tuple[float, ...], slower: bool
) -> None:
    found = differences(ready(runs=stopped(*old)), ready(runs=stopped(*new)))
    assert ("timing:cancelled" in found) is slower
    if slower:
        one = found["timing:cancelled"]
        assert one.level is Level.RISKY
        assert (one.old, one.new) == ("0.20 s", "2.00 s")
        assert "10.0 times" in one.summary
