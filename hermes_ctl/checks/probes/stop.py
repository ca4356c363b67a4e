"""Step 8: a long run goes through stopping to cancelled, and gives its slot back."""

from __future__ import annotations

from functools import partial

from hermes_ctl.checks.long_run import StopTrial, first_trial, stop_trial
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import NOT_ANSWERED, Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import RunNotFound
from hermes_ctl.text import one_line

_ATTEMPTS = 2


async def probe(subject: Subject) -> Finding:
    """Stopped as soon as it streams. A run that ended before the stop proves nothing: once more,
    then `unknown`. `stopping` counts from the stop's own answer or from a poll at once."""
    trial = await first_trial(subject)
    attempts = 1
    while trial.early and attempts < _ATTEMPTS:
        attempts += 1
        trial = await stop_trial(subject, attempts)
    subject.timings.stop_to_stopping_s = _rounded(trial.stopping)
    subject.timings.stop_to_cancelled_s = (
        _rounded(trial.ended) if trial.final == "cancelled" else None
    )
    trail = Trail()
    trail.add("POST /v1/runs/{run_id}/stop", trial.answered or trial.error or "not sent")
    trail.add("GET /v1/runs/{run_id}", " → ".join(trial.states) or trial.early or "nothing")
    if trial.active is not None:
        trail.add("GET /health/detailed", f"active_api_runs {trial.active}")
    finding = partial(
        Finding,
        expected="stopping, then cancelled, then its slot free",
        observed=" → ".join(dict.fromkeys(trial.states)) or str(trial.early or trial.error),
        evidence=trail(),
        attempts=attempts,
    )
    return _judge(subject, trial, finding)


def _unstopped(trial: StopTrial, finding: partial[Finding]) -> Finding | None:
    """Where the stop came too late, or was not taken."""
    if trial.early == "failed":
        return finding(
            Status.UNKNOWN,
            "the long run failed before it could be stopped",
            fix=(f"its error tells why: hermesctl status {trial.run_id}",),
        )
    if trial.early:
        return finding(
            Status.UNKNOWN,
            f"the long run was {one_line(trial.early, 60)} before it could be stopped",
            fix=("give the checklist a longer long-run.prompt for this model",),
        )
    if isinstance(trial.error, NOT_ANSWERED):
        return finding(
            Status.UNKNOWN,
            f"the stop got no answer: {trial.error.message}",
            fix=(
                f"hermesctl stop {trial.run_id}",
                *([trial.error.hint] if trial.error.hint else []),
            ),
        )
    if trial.error is not None:
        return finding(
            Status.FAIL,
            f"the stop was refused while the run went on: {trial.error.message}",
            fix=(f"hermesctl stop {trial.run_id}", "hermes gateway restart"),
        )
    return None


def _judge(subject: Subject, trial: StopTrial, finding: partial[Finding]) -> Finding:
    limit = subject.checklist.long_run.stop_deadline
    if unstopped := _unstopped(trial, finding):
        return unstopped
    if trial.final is None:
        return _endless(trial, limit, finding)
    if trial.final != "cancelled":
        return finding(
            Status.FAIL,
            f"the stop was accepted, and the run ended as {one_line(trial.final, 40)}",
            fix=("do not rely on stop to undo work on this node",),
        )
    if trial.stopping is None:
        return finding(
            Status.FAIL,
            "cancelled, but never stopping, neither answered nor polled",
            fix=("install the reviewed release on the node, then: hermes gateway restart",),
        )
    seconds = f"cancelled after {trial.ended or 0:.2f} s"
    if trial.slot_free is False:
        return finding(
            Status.FAIL,
            f"{seconds}, but its slot is still taken (active_api_runs {trial.active})",
            fix=("its work goes on behind the state: look at the node, hermes gateway restart",),
        )
    slot = "slot free again" if trial.slot_free else "slot not reported"
    at_once = "stopping at once" if trial.answered == "stopping" else "stopping when polled"
    return finding(Status.PASS, f"{at_once}, {seconds}, {slot}")


def _endless(trial: StopTrial, limit: float, finding: partial[Finding]) -> Finding:
    """No terminal state was seen after the stop."""
    if isinstance(trial.poll_error, RunNotFound):
        return finding(
            Status.FAIL,
            "the run vanished after the stop: 404 before any terminal state",
            fix=("look into the gateway's log on the node: did it restart?",),
        )
    if trial.poll_error is not None:
        return finding(
            Status.UNKNOWN,
            f"stopped, and then its state could not be read: {trial.poll_error.message}",
            fix=(f"hermesctl stop {trial.run_id}",),
        )
    unheard = f" (it answered with {trial.answered})" if trial.answered != "stopping" else ""
    return finding(
        Status.FAIL,
        f"still {one_line(trial.states[-1], 40)} {limit:g} s after the stop{unheard}: "
        "its work goes on",
        fix=(f"hermesctl stop {trial.run_id}", "hermes gateway restart"),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


PROBE = Probe(
    name="stop",
    title="Stop",
    proves=(
        "A long run that is asked to stop is stopping, then cancelled, and its slot is free again: "
        "judged by what polling reaches, not by the 200 of the stop."
    ),
    causes=(
        Cause(
            "the run finished before the stop",
            "give the checklist a longer prompt for this model: long-run.prompt",
        ),
        Cause(
            "still stopping at the deadline",
            "a tool that cannot be interrupted is at work: hermes gateway restart",
        ),
        Cause(
            "ended as completed",
            "servers from 0.22 do so when the stop comes late: do not rely on it to undo work",
        ),
        Cause(
            "its slot stays taken",
            "its work goes on behind the state: look at the node, hermes gateway restart",
        ),
    ),
    settle=probe,
    needs_runs=True,
)
