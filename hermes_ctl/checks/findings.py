"""From findings and errors to the settled steps of a report, in words that are safe to show."""

from __future__ import annotations

import traceback
from pathlib import Path

from hermes_ctl.checks.checklist import StepEntry
from hermes_ctl.checks.ledger import LeftOver
from hermes_ctl.checks.model import Evidence, Status, Step
from hermes_ctl.checks.probe import Blocked, Finding
from hermes_ctl.durations import format_duration
from hermes_ctl.errors import AuthenticationFailed, HermesctlError
from hermes_ctl.secrets import redact
from hermes_ctl.text import visible

_MAY_HAVE_BEGUN = (
    "should the node take up what it did not answer, hermesctl health --detailed counts those runs; "
    "their sessions begin with hermesctl-check"
)


def settled_step(
    number: int, entry: StepEntry, title: str, finding: Finding, seconds: float
) -> Step:
    """The step as the report holds it: keys masked, nothing in it that a terminal would obey."""
    return Step(
        number=number,
        id=entry.id,
        title=title,
        status=finding.status,
        severity=entry.severity,
        summary=_safe(finding.summary),
        expected=None if finding.expected is None else _safe(finding.expected),
        observed=None if finding.observed is None else _safe(finding.observed),
        evidence=[
            Evidence(source=_safe(item.source), value=_safe(item.value))
            for item in finding.evidence
        ],
        fix=[_safe(line) for line in finding.fix],
        blocked_by=finding.blocked_by,
        attempts=finding.attempts,
        duration_s=round(max(0.0, seconds), 3),
    )


def _safe(text: str) -> str:
    return visible(redact(text))


def unreached(step_id: str, first: str, error: HermesctlError, waited: float) -> Finding:
    """The first step carries the reason and what to do; the others point to it."""
    if step_id != first:
        return Finding(Status.SKIP, "the node was not reached", blocked_by=first)
    for_long = f", for {format_duration(waited)}" if waited else ""
    return Finding(
        Status.UNKNOWN,
        error.message + for_long,
        expected="an answer from GET /health",
        observed=error.message + for_long,
        evidence=(Evidence(source=error.url or "GET /health", value=error.kind),),
        fix=_fix(error),
    )


def too_late(step_id: str, first: str, deadline: float) -> Finding:
    """The first step that was not settled by the deadline says so; the others point to it."""
    within = f"not settled within {format_duration(deadline)}"
    if step_id != first:
        return Finding(Status.SKIP, within, blocked_by=first)
    return Finding(
        Status.UNKNOWN,
        f"{within}, the deadline of this check",
        fix=("the node answers slowly or hangs; a longer --deadline tells which",),
    )


def unsettled(error: HermesctlError | Blocked) -> Finding:
    """What kept the step from being settled, where no other step tells it."""
    if isinstance(error, Blocked):
        return Finding(Status.UNKNOWN, error.reason)
    return Finding(
        Status.UNKNOWN,
        error.message,
        evidence=(Evidence(source=error.url or error.kind, value=error.message),),
        fix=_fix(error),
    )


def told_elsewhere(error: HermesctlError | Blocked, step_id: str) -> Finding:
    """The same where step `step_id` tells it."""
    if isinstance(error, Blocked):
        reason = error.reason
    elif isinstance(error, AuthenticationFailed):
        reason = "the key was refused"
    else:
        reason = "for the same reason"
    return Finding(Status.SKIP, f"not settled: {reason}", blocked_by=step_id)


def crashed(error: Exception) -> Finding:
    """A probe that raised what it should not have."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "nowhere"
    kind = f"{type(error).__name__}: {error}"
    return Finding(
        Status.UNKNOWN,
        f"this probe crashed ({kind}): a bug in hermesctl",
        evidence=(Evidence(source=place, value=kind),),
        fix=("report it, with the output of: hermesctl check -o json",),
    )


def note_left_over(steps: list[Step], left_over: LeftOver) -> None:
    """A run of ours that would not end, or may have begun without our knowledge, is told where the
    operator looks: in the step about stopping. It is no pass then."""
    told = []
    target = next((step for step in steps if step.id == "stop"), steps[-1])
    if left_over.submissions:
        told.append(f"{left_over.submissions} of the check's own submissions got no answer")
        target.fix.insert(0, _MAY_HAVE_BEGUN)
    if left_over.runs:
        told.append(f"{len(left_over.runs)} of the check's own runs could not be seen to end")
        stop = f"hermesctl stop {' '.join(left_over.runs)}"
        target.fix = [stop, *(line for line in target.fix if line != stop)]
    if target.status in (Status.PASS, Status.SKIP):
        target.status = Status.WARN if target.blocked_by is None else Status.UNKNOWN
        target.blocked_by = None
        target.summary = "; ".join(told)


def _fix(error: HermesctlError) -> tuple[str, ...]:
    return (error.hint,) if error.hint else ()
