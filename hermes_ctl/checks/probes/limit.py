"""The running limit: a clear 429 at it, and a slot again when a run has ended."""

from __future__ import annotations

import asyncio
import time

from hermes_ctl.api.models import RunRequest
from hermes_ctl.checks.deep import deep, odd, stopped, unsettled, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import AtCapacity

MOST = 32
"""Runs that are started at most: a node that takes more has no limit worth the name."""

_SET = "set gateway.api_server.max_concurrent_runs in config.yaml, and restart the gateway"


async def work(subject: Subject, trail: Trail) -> str:
    """Long runs until the node refuses one, then one of them is stopped and another is taken."""
    await subject.ready_for_runs()
    started: list[str] = []
    try:
        refusal = await _fill(subject, started)
        if refusal is None:
            raise odd(f"{len(started)} runs were taken at once, and none was refused")
        trail.add("POST /v1/runs", f"429 {refusal.code} after {len(started)} runs")
        _judge(refusal)
        if not started:
            raise unsettled("the node was at its limit before any run of ours")
        freed = await _freed(subject, started)
        trail.add("POST /v1/runs", f"taken again {freed:.2f} s after a stop")
    finally:
        await asyncio.gather(*(stopped(subject, run_id) for run_id in started))
    limit = f" (max {refusal.limit})" if refusal.limit else ""
    return f"429{limit} at {len(started) - 1} runs, and a slot again {freed:.2f} s after a stop"


async def _fill(subject: Subject, started: list[str]) -> AtCapacity | None:
    while len(started) < MOST:
        try:
            started.append(await _submit(subject, len(started)))
        except AtCapacity as refusal:
            return refusal
    return None


async def _submit(subject: Subject, number: int) -> str:
    request = RunRequest(
        input=subject.checklist.long_run.prompt, session_id=subject.session(f"limit-{number}")
    )
    return (await subject.watcher.submit(request, wait_for_slot=False)).run_id


def _judge(refusal: AtCapacity) -> None:
    if refusal.code != "rate_limit_exceeded":
        raise wrong(f"the refusal carries the code {refusal.code}, not rate_limit_exceeded")
    if refusal.retry_after is None:
        raise wrong("the refusal carries no Retry-After")


async def _freed(subject: Subject, started: list[str]) -> float:
    """Seconds from the end of one run until the node took another."""
    await stopped(subject, started[0])
    began = time.monotonic()
    limit = began + subject.checklist.long_run.slot_deadline
    while True:
        try:
            started.append(await _submit(subject, len(started)))
        except AtCapacity:
            if time.monotonic() > limit:
                raise wrong("a run was stopped, and its slot never became free") from None
            await asyncio.sleep(0.1)
        else:
            return time.monotonic() - began


PROBE = Probe(
    name="limit",
    title="Limit of concurrent runs",
    proves=(
        "The node refuses a run too many with 429, the code rate_limit_exceeded and Retry-After, "
        "and takes one again as soon as another has been stopped."
    ),
    causes=(
        Cause("no run was refused: the limit is 0", _SET),
        Cause("a slot stays taken", "0.20 frees it when the run's stream is read to its end"),
    ),
    settle=deep("429 at the limit, and a slot again when a run has ended", work, _SET),
    needs_runs=True,
    last=True,
)
