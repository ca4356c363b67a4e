"""The running limit: a clear 429 at it, and a slot again when a run has ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

from hermes_ctl.api.models import RunAccepted, RunRequest, parse
from hermes_ctl.checks.deep import deep, odd, stopped, unsettled, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import AtCapacity, HermesctlError

MOST = 32
"""Runs that are started at most: a node that takes more has no limit worth the name."""

ANSWER_LIMIT = 15.0
"""Seconds after which a submission counts as not answered."""

_LATE_LIMIT = 90.0
"""Seconds in which a submission that hung may still come back once other runs have ended: a run
that is started late is stopped as well."""

_SET = "set gateway.api_server.max_concurrent_runs in config.yaml, and restart the gateway"
_LOWER = "set the limit below the number of runs at which it hangs: some releases work with a thread for each core and four more"


@dataclass(slots=True)
class Filling:
    """What filling the node came to. `late` is a submission that was not answered in time."""

    started: list[str] = field(default_factory=list)
    refusal: AtCapacity | None = None
    late: asyncio.Task[str] | None = None


async def work(subject: Subject, trail: Trail) -> str:
    """Long runs until the node refuses one, then one of them is stopped and another is taken."""
    await subject.ready_for_runs()
    filling = Filling()
    try:
        await _fill(subject, filling)
        if filling.late is not None:
            await _hangs(subject, trail, filling)
        return await _judge(subject, trail, filling)
    finally:
        await _empty(subject, filling)


async def _judge(subject: Subject, trail: Trail, filling: Filling) -> str:
    started, refusal = filling.started, filling.refusal
    if refusal is None:
        raise odd(f"{len(started)} runs were taken at once, and none was refused")
    trail.add("POST /v1/runs", f"429 {refusal.code} after {len(started)} runs")
    if refusal.code != "rate_limit_exceeded":
        raise wrong(f"the refusal carries the code {refusal.code}, not rate_limit_exceeded")
    if refusal.retry_after is None:
        raise wrong("the refusal carries no Retry-After")
    if not started:
        raise unsettled("the node was at its limit before any run of ours")
    number = len(started)
    freed = await _freed(subject, filling)
    trail.add("POST /v1/runs", f"taken again {freed:.2f} s after a stop")
    limit = f" (max {refusal.limit})" if refusal.limit else ""
    return f"429{limit} at {number} runs, and a slot again {freed:.2f} s after a stop"


async def _fill(subject: Subject, filling: Filling) -> None:
    while len(filling.started) < MOST:
        task = asyncio.ensure_future(_submit(subject, len(filling.started)))
        await asyncio.wait([task], timeout=ANSWER_LIMIT)
        if not task.done():
            filling.late = task
            return
        try:
            filling.started.append(task.result())
        except AtCapacity as refusal:
            filling.refusal = refusal
            return


async def _submit(subject: Subject, number: int) -> str:
    """The id of one more long run, which the ledger knows the moment that it is known here."""
    request = RunRequest(
        input=subject.checklist.long_run.prompt, session_id=subject.session(f"limit-{number}")
    )

    async def send() -> str:
        answer = await subject.client.expect(
            "POST", "/v1/runs", json=request.body(), timeout=_LATE_LIMIT
        )
        run_id = parse(RunAccepted, answer.json(), answer).run_id
        subject.ledger.started(run_id, request.session_id)
        return run_id

    return await subject.ledger.submission(send())


async def _hangs(subject: Subject, trail: Trail, filling: Filling) -> None:
    """The node takes the request and says nothing. Whether it answers anything else meanwhile."""
    number = len(filling.started)
    trail.add("POST /v1/runs", f"no answer in {ANSWER_LIMIT:g} s with {number} runs under way")
    try:
        answer = await subject.client.request("GET", "/health", timeout=5.0)
        trail.add("GET /health meanwhile", f"{answer.status} in {answer.elapsed:.2f} s")
    except HermesctlError as error:
        trail.add("GET /health meanwhile", error.message)
    if not number:
        raise unsettled(f"the node did not answer a submission within {ANSWER_LIMIT:g} s")
    raise wrong(
        f"with {number} runs under way another submission is neither taken nor refused, but hangs"
    )


async def _freed(subject: Subject, filling: Filling) -> float:
    """Seconds from the end of one run until the node took another."""
    await stopped(subject, filling.started[0])
    began = time.monotonic()
    limit = began + subject.checklist.long_run.slot_deadline
    while True:
        try:
            filling.started.append(await _submit(subject, len(filling.started)))
        except AtCapacity:
            if time.monotonic() > limit:
                raise wrong("a run was stopped, and its slot never became free") from None
            await asyncio.sleep(0.1)
        else:
            return time.monotonic() - began


async def _empty(subject: Subject, filling: Filling) -> None:
    """Stop all, then what was started late, once its answer is there."""
    await asyncio.gather(*(stopped(subject, run_id) for run_id in filling.started))
    if filling.late is not None:
        with contextlib.suppress(HermesctlError):
            await stopped(subject, await filling.late)


PROBE = Probe(
    name="limit",
    title="Limit of concurrent runs",
    proves=(
        "The node refuses a run too many with 429, the code rate_limit_exceeded and Retry-After, "
        "and takes one again as soon as another has been stopped."
    ),
    causes=(
        Cause("no run was refused: the limit is 0", _SET),
        Cause("it hangs before it reaches its limit", _LOWER),
        Cause("a slot stays taken", "0.20 frees it when the run's stream is read to its end"),
    ),
    settle=deep("429 at the limit, and a slot again when a run has ended", work, _SET, _LOWER),
    needs_runs=True,
    last=True,
)
