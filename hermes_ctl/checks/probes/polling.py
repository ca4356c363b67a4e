"""Step 7: polling gives the same terminal output as the stream, and it is a real answer."""

from __future__ import annotations

from functools import partial

from hermes_ctl.api.events import Event
from hermes_ctl.api.models import Run
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import NOT_ANSWERED, Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.text import one_line

_PROVIDER = "look at the model, its provider and its key on the node: hermes doctor"
_ERROR = "mend what the run's error says; where that is the model or its provider: hermes doctor"
_LOST = "look into the gateway's log on the node: did it restart, do two gateways answer in turn?"


async def probe(subject: Subject) -> Finding:
    """The terminal event's output against the polled one; joined deltas prove nothing (wire.md,
    0.4). The token that was asked for, and tokens spent: a failed turn can call itself completed."""
    canary = await subject.canary()
    trail = Trail()
    run, event = canary.final, canary.terminal_event
    streamed = event.data.get("output") if event else None
    trail.add("event " + (event.name if event else "missing"), one_line(str(streamed), 120))
    if run is None and isinstance(canary.poll_error, NOT_ANSWERED):
        raise canary.poll_error
    if run is None:
        why = canary.poll_error.message if canary.poll_error else _late(subject)
        return Finding(
            Status.FAIL,
            why,
            expected="a terminal state",
            observed=why,
            evidence=trail(),
            fix=(_PROVIDER,) if canary.gave_up else (_LOST,),
        )
    trail.add(
        "GET /v1/runs/{run_id}",
        f"{run.status}, {run.tokens} tokens, {one_line(str(run.output or run.error), 120)}",
    )
    finding = partial(
        Finding,
        expected="completed, the streamed output again, the token in it, tokens above 0",
        observed=f"{run.status}, {len(run.output or ''):,} characters, {run.tokens} tokens",
        evidence=trail(),
    )
    return _judged(run, event, subject.canary_token, finding)


def _judged(run: Run, event: Event | None, token: str, finding: partial[Finding]) -> Finding:
    if run.status != "completed":
        return finding(
            Status.FAIL,
            f"the run {run.status}: {one_line(str(run.error or 'no reason given'), 160)}",
            fix=(_ERROR,),
        )
    output = run.output or ""
    streamed = str(event.data.get("output") or "") if event else ""
    if event is not None and "output" in event.data and streamed != output:
        return finding(
            Status.FAIL,
            f"polled output differs from the streamed one: {_difference(streamed, output)}",
            fix=("something changes answers on the way, or two gateways answer in turn",),
        )
    if not output.strip():
        return finding(
            Status.FAIL,
            f"completed with no output and {run.tokens:,} tokens: "
            "a failed turn that calls itself completed",
            fix=(_PROVIDER,),
        )
    if token not in output:
        return finding(
            Status.FAIL,
            f"the answer is not the one asked for: {one_line(output, 100)!r}, {run.tokens:,} tokens",
            fix=(_PROVIDER,),
        )
    if not run.tokens:
        return finding(
            Status.FAIL,
            "the answer is right, but no token was counted: usage is missing or 0",
            fix=("make the provider state its usage (stream_options.include_usage)",),
        )
    compared = "same output" if event is not None else "output"
    return finding(
        Status.PASS,
        f"{compared} ({len(output):,} characters), token returned, {run.tokens:,} tokens",
    )


def _late(subject: Subject) -> str:
    return f"the run had no terminal state after {subject.checklist.canary.deadline:g} s"


def _difference(streamed: str, polled: str) -> str:
    return f"{one_line(polled, 50)!r} instead of {one_line(streamed, 50)!r}"


PROBE = Probe(
    name="polling",
    title="Polled output",
    proves=(
        "GET /v1/runs/{run_id} ends at completed with the very output of the terminal event, the "
        "random word that was asked for is in it, and tokens were spent: the model answers."
    ),
    causes=(
        Cause("completed with empty output, or with another answer", _PROVIDER),
        Cause(
            "the run failed",
            "its error tells whose fault it is: a 401 in it is Hermes' key to its provider",
        ),
        Cause(
            "no token was counted",
            "make the provider state its usage (stream_options.include_usage)",
        ),
        Cause("outputs differ", "two gateways answer at one address, or a proxy changes answers"),
    ),
    settle=probe,
    needs_runs=True,
)
