"""Step 5: one run, one identifier, everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Replay, Subject
from hermes_ctl.checks.transcript import Transcript
from hermes_ctl.errors import MalformedAnswer, RunNotFound
from hermes_ctl.text import one_line


async def probe(subject: Subject) -> Finding:
    """The 202's id in the status and in every event; the same idempotency key gives the same id
    where the node advertises that."""
    expected = "202, and one id in the answer, the status and every event"
    try:
        canary = await subject.accepted_canary()
    except MalformedAnswer as error:
        return Finding(
            Status.FAIL,
            f"no run id: {error.message}",
            expected=expected,
            observed=error.message,
            fix=("ask the node directly; a run may have been started that nobody can stop",),
        )
    run_id = canary.run_id
    trail = Trail()
    trail.add("POST /v1/runs", f"{canary.answer.status} {run_id}")
    others = _other_ids(canary)
    for source, value in others:
        trail.add(source, value)
    replay = subject.replay
    if replay is not None:
        told = replay.run_id or (replay.error.message if replay.error else "nothing")
        trail.add("POST /v1/runs again, same Idempotency-Key", told)
    polled = canary.last.run_id if canary.last else None
    trail.add("GET /v1/runs/{run_id}", polled or canary.poll_error or "never answered")
    finding = partial(
        Finding,
        expected=expected,
        observed="; ".join(f"{value} in {source}" for source, value in others)
        or (f"{run_id} everywhere" if polled else f"{run_id} wherever it was seen"),
        evidence=trail(),
    )
    return (
        _another_id(canary, others, finding)
        or _another_run(replay, run_id, finding)
        or _incomplete(canary, polled, finding)
        or finding(
            Status.PASS, _told(canary) + (", and for the same idempotency key" if replay else "")
        )
    )


def _another_id(
    canary: Transcript, others: Sequence[tuple[str, str]], finding: partial[Finding]
) -> Finding | None:
    run_id = canary.run_id
    if others:
        source, value = others[0]
        return finding(
            Status.FAIL,
            f"the id changes: {one_line(value, 60)} in {source}, {one_line(run_id, 60)} in the answer",
            fix=(
                "a proxy mixes answers up, or two gateways answer in turn: ask the node directly",
            ),
        )
    if isinstance(canary.poll_error, RunNotFound) and not canary.events:
        return finding(
            Status.FAIL,
            f"the node does not know the run it accepted: {one_line(run_id, 60)} is 404",
            fix=("two gateways answer in turn, or it restarted: ask the node directly",),
        )
    return None


def _another_run(replay: Replay | None, run_id: str, finding: partial[Finding]) -> Finding | None:
    if replay is not None and replay.run_id not in (None, run_id):
        return finding(
            Status.FAIL,
            f"the same Idempotency-Key made a second run: {one_line(str(replay.run_id), 60)}",
            fix=("do not retry submissions on this node: it would do the work twice",),
        )
    if replay is not None and replay.error is not None:
        return finding(
            Status.WARN,
            f"one id, but the same Idempotency-Key was refused: {replay.error.message}",
            fix=("do not rely on retried submissions on this node",),
        )
    return None


def _incomplete(
    canary: Transcript, polled: str | None, finding: partial[Finding]
) -> Finding | None:
    run_id = canary.run_id
    if polled is None and not canary.events:
        return finding(
            Status.UNKNOWN,
            f"{run_id} was accepted and never seen again",
            fix=(f"hermesctl status {run_id}", "look into the gateway's log on the node"),
        )
    if polled is None:
        why = canary.poll_error.message if canary.poll_error else "nobody answered for it"
        return finding(
            Status.UNKNOWN,
            f"{_short(run_id)} in the answer and {_events(canary)}, but its status was not seen: {why}",
            fix=(f"hermesctl status {run_id}", "look into the gateway's log on the node"),
        )
    nameless = [event.name for event in canary.events if event.run_id is None]
    if nameless:
        return finding(
            Status.WARN,
            f"one id, but {len(nameless)} of {len(canary.events)} events carry none "
            f"({one_line(nameless[0], 60)})",
            fix=("read such events as those of the run whose stream they came by",),
        )
    if canary.answer.status != 202:
        return finding(
            Status.WARN,
            f"{run_id} is stable, but was answered with {canary.answer.status}",
            fix=("install the reviewed release: the contract says 202",),
        )
    return None


def _told(canary: Transcript) -> str:
    short = _short(canary.run_id)
    if not canary.events:
        return f"{short} in the answer and the status; no event came (see events)"
    return f"{short} in the answer, the status and {_events(canary)}"


def _short(run_id: str) -> str:
    return f"{run_id[:10]}…" if len(run_id) > 12 else run_id


def _events(canary: Transcript) -> str:
    number = len(canary.events)
    return "the one event" if number == 1 else f"all {number} events"


def _other_ids(canary: Transcript) -> list[tuple[str, str]]:
    """(where, id) wherever another id than the accepted one was seen."""
    found: dict[str, str] = {}
    if canary.last is not None and canary.last.run_id != canary.run_id:
        found["the status"] = canary.last.run_id
    for event in canary.events:
        if event.run_id not in (None, canary.run_id):
            found.setdefault(f"event {event.name}", str(event.run_id))
    return list(found.items())


PROBE = Probe(
    name="run-id",
    title="Run identifier",
    proves=(
        "A run that was accepted with 202 keeps its identifier: the answer, the polled status and "
        "every event carry the same one, and a repeated submission under one idempotency key gives "
        "it again where the node advertises that."
    ),
    causes=(
        Cause("ids differ", "two gateways answer at one address, or a proxy caches"),
        Cause(
            "accepted, then unknown", "two gateways answer at one address, or the node restarted"
        ),
        Cause(
            "a second run for the same idempotency key",
            "do not retry submissions on this node: it would do the work twice",
        ),
        Cause(
            "the node is busy or at capacity", "check again when it is idle, or say --allow-busy"
        ),
    ),
    settle=probe,
    needs_runs=True,
)
