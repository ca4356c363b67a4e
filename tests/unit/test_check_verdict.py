"""The verdict, the counts and the exit code: decided in one place, from the steps alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl.checks.model import (
    ChecklistDescription,
    Counts,
    FleetReport,
    NodeDescription,
    Report,
    Severity,
    Status,
    Step,
    Tool,
    Verdict,
    count,
    decide,
    worst,
)

PASS, WARN, FAIL, SKIP, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.SKIP, Status.UNKNOWN


def step(
    status: Status, severity: Severity = Severity.REQUIRED, blocked_by: str | None = None
) -> Step:
    return Step(
        number=1,
        id="x",
        title="X",
        status=status,
        severity=severity,
        summary="",
        blocked_by=blocked_by,
    )


def report(verdict: Verdict, exit_code: int) -> Report:
    return Report(
        tool=Tool(version="0"),
        node=NodeDescription(name="n", url="http://n"),
        checklist=ChecklistDescription(name="c", release="==0", sha256=""),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        duration_s=0.0,
        verdict=verdict,
        exit_code=exit_code,
        counts=Counts(),
        steps=[],
    )


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ([PASS, WARN, SKIP], "ready"),
        ([PASS, FAIL, UNKNOWN], "not_ready"),
        ([PASS, UNKNOWN], "undetermined"),
        ([], "undetermined"),
        ([SKIP, SKIP], "undetermined"),
        ([WARN, SKIP], "ready"),
    ],
)
def test_verdict(statuses: list[Status], verdict: str) -> None:
    assert decide([step(status) for status in statuses]) == verdict


def test_advisory_steps_decide_nothing() -> None:
    for status in Status:
        assert decide([step(PASS), step(status, Severity.ADVISORY)]) is Verdict.READY


def test_strict_lets_nothing_be_skipped() -> None:
    assert decide([step(PASS), step(SKIP)]) is Verdict.READY
    assert decide([step(PASS), step(SKIP)], strict=True) is Verdict.UNDETERMINED
    assert decide([step(PASS), step(SKIP, Severity.ADVISORY)], strict=True) is Verdict.READY


def test_a_blocked_step_was_not_settled() -> None:
    assert decide([step(PASS), step(SKIP, blocked_by="auth")]) is Verdict.UNDETERMINED


steps = st.lists(
    st.builds(
        step,
        st.sampled_from(Status),
        st.sampled_from(Severity),
        st.sampled_from([None, "auth"]),
    )
)


@given(steps)
def test_the_order_does_not_matter_and_strict_is_never_milder(some: list[Step]) -> None:
    rank = {Verdict.READY: 0, Verdict.UNDETERMINED: 1, Verdict.NOT_READY: 2}
    assert decide(some) is decide(reversed(some))
    assert rank[decide(some, strict=True)] >= rank[decide(some)]


@given(steps)
def test_ready_is_said_only_where_every_required_step_allows_it(some: list[Step]) -> None:
    required = [one for one in some if one.severity is Severity.REQUIRED]
    bad = [
        one
        for one in required
        if one.status in (FAIL, UNKNOWN) or (one.blocked_by and one.status is SKIP)
    ]
    proved = any(one.status is not SKIP for one in some)
    assert (decide(some) is Verdict.READY) is (proved and not bad)


@given(steps)
def test_counts_add_up(some: list[Step]) -> None:
    counts = count(some)
    assert sum(counts.model_dump().values()) == len(some)
    assert counts.fail == sum(one.status is FAIL for one in some)
    assert set(counts.model_dump(by_alias=True)) == {"pass", "warn", "fail", "skip", "unknown"}


@pytest.mark.parametrize(
    ("verdicts", "common"),
    [
        (["ready", "ready"], "ready"),
        (["ready", "undetermined"], "undetermined"),
        (["ready", "undetermined", "not_ready"], "not_ready"),
    ],
)
def test_the_verdict_of_many(verdicts: list[str], common: str) -> None:
    assert worst(Verdict(verdict) for verdict in verdicts) == common


def test_the_exit_code_of_many() -> None:
    fleet = FleetReport.of([report(Verdict.READY, 0), report(Verdict.UNDETERMINED, 3)])
    assert (fleet.verdict, fleet.exit_code) == ("undetermined", 3)
    assert [one.verdict for one in fleet.nodes] == ["ready", "undetermined"]


def test_a_step_by_its_id() -> None:
    with pytest.raises(KeyError):
        report(Verdict.READY, 0).step("release")
