"""When a gate is safe, when it is not, and what waivers do."""

from __future__ import annotations

from datetime import date

import jsonschema
import pytest

from hermes_ctl.checks.checklist import load_checklist, read_checklist
from hermes_ctl.checks.gate import (
    GateVerdict,
    Side,
    Waiver,
    WaiverState,
    gate_schema,
    judge_diff,
    parse_waiver,
)
from hermes_ctl.checks.model import Contract, Status
from hermes_ctl.errors import ChecklistError, UsageError
from tests.unit.sample_reports import NOW, check, gate, ready, step

SKILLS = "route:GET /v1/skills"


def test_a_regression_is_unsafe_and_named() -> None:
    report = gate()
    assert (report.verdict, report.exit_code) == (GateVerdict.UNSAFE, 1)
    assert report.reasons == ["GET /v1/skills is advertised and answers 500"]
    assert (report.counts.breaking, report.counts.compatible) == (1, 1)


def test_a_new_side_that_settled_nothing_is_not_safe() -> None:
    old = check(step("cache", Status.SKIP, "no adapter"))
    report = gate(old=old, new=old)
    assert (report.verdict, report.exit_code) == (GateVerdict.UNDETERMINED, 3)
    assert report.reasons == ["no step of NEW was settled"]


def test_a_waived_regression_is_safe_and_stays_in_the_report() -> None:
    report = gate(Waiver(SKILLS, "known"))
    assert (report.verdict, report.exit_code) == (GateVerdict.SAFE, 0)
    assert [(one.id, one.waived) for one in report.waived] == [(SKILLS, "known")]
    assert report.waivers[0].state is WaiverState.APPLIED
    assert report.counts.waived == 1


@pytest.mark.parametrize(
    ("expires", "state", "code"),
    [
        (date(2026, 11, 30), WaiverState.APPLIED, 0),
        (date(2026, 11, 29), WaiverState.EXPIRED, 1),
    ],
)
def test_a_waiver_counts_up_to_its_day(expires: date, state: WaiverState, code: int) -> None:
    report = gate(Waiver(SKILLS, "known", expires))
    assert (report.waivers[0].state, report.exit_code) == (state, code)


def test_a_waiver_that_nothing_needs_is_told() -> None:
    report = gate(Waiver(SKILLS, "known"), Waiver("step:jobs", "not used here"))
    assert [one.state for one in report.waivers] == [WaiverState.APPLIED, WaiverState.UNUSED]
    assert report.exit_code == 0


def test_what_is_compatible_needs_no_waiver() -> None:
    report = gate(Waiver(SKILLS, "known"), Waiver("feature:*", "all of them"))
    assert (report.waivers[1].state, report.counts.compatible) == (WaiverState.UNUSED, 1)


def test_a_waiver_does_not_cover_its_neighbours() -> None:
    assert gate(Waiver("route:GET /v1/skill", "near")).exit_code == 1
    assert gate(Waiver("route", "all")).exit_code == 1
    assert gate(Waiver("route:*", "all routes")).exit_code == 0


@pytest.mark.parametrize("name", ["stop", "step:stop"])
def test_a_step_that_fails_can_be_waived_with_or_without_its_kind(name: str) -> None:
    failing = check(step("release", Status.PASS), step("stop", Status.FAIL, "slot taken"))
    assert gate(new=failing).exit_code == 1
    assert gate(Waiver(name, "known"), new=failing).exit_code == 0


def test_a_step_that_fails_on_both_sides_keeps_the_gate_shut() -> None:
    failing = check(step("stop", Status.FAIL, "slot taken"))
    report = gate(old=failing, new=failing)
    assert (report.exit_code, report.reasons) == (1, ["stop fails: slot taken"])


def test_what_could_not_be_told_is_undetermined() -> None:
    report = gate(new=check(step("release", Status.PASS), step("stop", Status.UNKNOWN, "silent")))
    assert (report.verdict, report.exit_code) == (GateVerdict.UNDETERMINED, 3)
    assert report.reasons == ["stop could not be told: silent"]


def test_an_old_side_that_never_answered_is_undetermined() -> None:
    report = gate(old=ready(contract=Contract()), new=ready())
    assert (report.verdict, report.exit_code) == (GateVerdict.UNDETERMINED, 3)


def test_the_same_on_both_sides_is_safe() -> None:
    report = gate(new=ready())
    assert (report.verdict, report.differences) == (GateVerdict.SAFE, [])


def test_a_diff_judges_what_is_lost_and_not_the_readiness() -> None:
    failing = check(step("stop", Status.FAIL))
    same = judge_diff(Side(asked="a", report=failing), Side(asked="b", report=failing), now=NOW)
    assert (same.verdict, same.exit_code) == (GateVerdict.SAFE, 0)
    empty = judge_diff(
        Side(asked="a", report=ready(contract=Contract())), Side(asked="b", report=ready()), now=NOW
    )
    assert empty.exit_code == 3


def test_the_document_is_as_its_schema_says() -> None:
    for report in (gate(), gate(Waiver(SKILLS, "known", date(2026, 12, 31)))):
        jsonschema.validate(report.document(), gate_schema())


@pytest.mark.parametrize("text", ["", "x", "x=", "=reason", " = "])
def test_a_waiver_needs_a_finding_and_a_reason(text: str) -> None:
    with pytest.raises(UsageError, match="FINDING=REASON"):
        parse_waiver(text)


def test_a_reason_may_hold_an_equals_sign() -> None:
    assert parse_waiver("stop=see a=b") == Waiver("stop", "see a=b")


def test_waivers_stand_in_a_checklist(tmp_path: pytest.TempPathFactory) -> None:
    path = tmp_path / "mine.toml"  # type: ignore[operator]
    source = """
schema = "hermesctl.checklist/1"
name = "mine"
release = "==0.22.*"
[[step]]
id = "stop"
[[waiver]]
finding = "route:GET /v1/skills"
reason = "HA#108967"
expires = 2026-12-31
"""
    path.write_text(source)
    assert read_checklist(path).waiver[0].expires == date(2026, 12, 31)
    path.write_text(source.replace('reason = "HA#108967"', ""))
    with pytest.raises(ChecklistError, match="reason"):
        read_checklist(path)


def test_the_gate_s_checklist_holds_the_twelve_and_the_deep_ones() -> None:
    ids = [entry.id for entry in load_checklist("api-server").step]
    twelve = [entry.id for entry in load_checklist("bmas-node").step]
    assert ids[:12] == twelve
    assert {"wire", "approval", "steer", "continuity", "limit"} < set(ids)
