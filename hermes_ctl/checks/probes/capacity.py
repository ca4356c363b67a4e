"""Step 12: the limit of concurrent runs matches what the node can carry."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from hermes_ctl.api.models import RunRequest
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import Transcript
from hermes_ctl.discovery import NodeFiles, Sourced, read_node_files
from hermes_ctl.errors import AtCapacity, HermesctlError

_MOST_RUNS = 64
"""Runs that `--probe-capacity` starts at most before it says that there is no limit."""

_CLOCK_SLACK = 2.0
"""Seconds: Linux counts a process's start from a boot time in whole seconds, and the gateway reads
its files a moment after it started."""

_SET = "set gateway.api_server.max_concurrent_runs in config.yaml, then: hermes gateway restart"


@dataclass(frozen=True, slots=True)
class Limits:
    """What is known of the limit. `running` is proved by a 429 or by files older than the process,
    `configured` stands in the files; 0 is no limit. `changed` : edited since the gateway started."""

    running: int | None = None
    configured: Sourced[int] | None = None
    changed: bool = False
    ignored: tuple[Sourced[object], ...] = ()
    started: int | None = None


async def probe(subject: Subject) -> Finding:
    """The running limit shows on no route: only a 429 names it, or a file that is older than the
    gateway's process (wire.md, 0.15). The node's capacity has to be stated by whoever knows it."""
    limits = await _limits(subject)
    agent = await subject.agent()
    stated = subject.settings.node_capacity
    trail = Trail()
    _record(trail, limits, stated)
    limit = limits.running if limits.running is not None else _value(limits.configured)
    finding = partial(
        Finding,
        expected=f"a limit of {stated}, the stated capacity"
        if stated
        else "a limit of the node's capacity",
        observed=_observed(limits),
        evidence=trail(),
    )
    if limit is None:
        return finding(
            Status.UNKNOWN,
            "the limit is on no route of the API, and the node's files are not here",
            fix=("run hermesctl on the node, name its files (--hermes-home), or --probe-capacity",),
        )
    if limits.started is not None and limits.running is None:
        return finding(
            Status.FAIL, f"no limit: {limits.started} runs at once were accepted", fix=(_SET,)
        )
    if limit == 0:
        return finding(Status.FAIL, "no limit at all: 0 switches it off", fix=(_SET,))
    if limits.configured and limits.running not in (None, limits.configured.value):
        return finding(
            Status.FAIL,
            f"{limits.running} runs at once, but {limits.configured.value} is configured",
            fix=("hermes gateway restart",),
        )
    if limits.changed:
        return finding(
            Status.WARN,
            f"limit {limit} is configured, but the file was edited after the gateway started",
            fix=("hermes gateway restart", "or measure the running limit: --probe-capacity"),
        )
    if stated is None:
        return finding(
            Status.WARN,
            f"limit {limit}, but nobody stated what the node can carry",
            fix=("state it: --node-capacity N",),
        )
    if limit != stated:
        ignored = f" ({limits.ignored[0].source} has no effect)" if limits.ignored else ""
        return finding(
            Status.FAIL, f"limit {limit}, stated capacity {stated}{ignored}", fix=(_SET,)
        )
    wanted = agent.endpoint_concurrency if agent else None
    if wanted is not None and wanted > limit:
        return finding(
            Status.WARN,
            f"limit {limit}, but the daemon sends up to {wanted} at once: some will be answered 429",
            fix=(f"lower BMAS_AGENT_ENDPOINT_MAX_CONCURRENCY to {limit}",),
        )
    return finding(
        Status.PASS, f"limit {limit}{_proved(limits)}, for a stated capacity of {stated}"
    )


def _proved(limits: Limits) -> str:
    if limits.running is None:
        return ", configured"
    return ", running and configured" if limits.configured else ", running"


def _value(sourced: Sourced[int] | None) -> int | None:
    return sourced.value if sourced else None


def _observed(limits: Limits) -> str:
    running = "not seen" if limits.running is None else str(limits.running)
    configured = "not seen" if limits.configured is None else str(limits.configured.value)
    return f"running {running}, configured {configured}"


def _record(trail: Trail, limits: Limits, stated: int | None) -> None:
    if limits.configured is not None:
        trail.add(limits.configured.source, limits.configured.value)
    for item in limits.ignored:
        trail.add(item.source, f"{item.value}, where Hermes does not look")
    if limits.started is not None:
        trail.add("POST /v1/runs until 429", limits.running or f"{limits.started} accepted")
    elif limits.running is not None:
        trail.add("config.yaml older than the gateway's process", limits.running)
    trail.add("stated capacity", "nobody stated one" if stated is None else stated)


async def _limits(subject: Subject) -> Limits:
    files = _node_files(subject)
    if subject.settings.probe_capacity and subject.settings.runs:
        started, running = await _fill(subject)
        return Limits(
            running=running,
            configured=files.max_concurrent_runs if files else None,
            ignored=files.ignored_limits if files else (),
            started=started,
        )
    if files is None:
        return Limits()
    edited_later = await _edited_after_start(subject, files)
    value = files.max_concurrent_runs.value
    return Limits(
        running=value if edited_later is False else None,
        configured=files.max_concurrent_runs,
        changed=edited_later is True,
        ignored=files.ignored_limits,
    )


def _node_files(subject: Subject) -> NodeFiles | None:
    """The node's own files, where they are here and belong to this address."""
    chosen = subject.settings.hermes_home
    environment = dict(subject.settings.environment)
    if chosen is not None:
        environment["HERMES_HOME"] = str(chosen)
    elif not subject.is_local:
        return None
    files = read_node_files(environment)
    if not files.found or files.unreadable:
        return None
    same_server = subject.node.url.startswith(files.url) or chosen is not None
    return files if same_server else None


async def _edited_after_start(subject: Subject, files: NodeFiles) -> bool | None:
    """Whether config.yaml changed since the gateway started, None where its process is not here."""
    import psutil

    config = files.home / "config.yaml"
    try:
        pid = (await subject.detailed_health()).pid
        if pid is None or not subject.is_local:
            return None
        started = psutil.Process(pid).create_time()
        return config.exists() and config.stat().st_mtime > started + _CLOCK_SLACK
    except (HermesctlError, psutil.Error, OSError):
        return None


async def _fill(subject: Subject) -> tuple[int, int | None]:
    """Start long runs until a 429 names the limit, and stop them all: (accepted, limit)."""
    await subject.ready_for_runs()
    readers: list[asyncio.Task[None]] = []
    transcripts: list[Transcript] = []
    limit: int | None = None
    try:
        while len(transcripts) < _MOST_RUNS:
            request = RunRequest(
                input=subject.checklist.long_run.prompt,
                session_id=subject.session(f"capacity-{len(transcripts)}"),
            )
            transcript = await subject.watcher.submit(request, wait_for_slot=False)
            transcripts.append(transcript)
            readers.append(asyncio.create_task(subject.watcher.read_stream(transcript)))
    except AtCapacity as error:
        limit = error.limit if error.limit is not None else len(transcripts)
    finally:
        await subject.ledger.stop_all(subject.client)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return len(transcripts), limit


PROBE = Probe(
    name="capacity",
    title="Capacity",
    proves=(
        "Hermes runs no more at once than the node can carry: the running limit is the configured "
        "one and the stated capacity, and it is not switched off."
    ),
    causes=(
        Cause("limit 0", _SET),
        Cause("limit differs from the stated capacity", _SET),
        Cause("the file was edited after the start", "hermes gateway restart"),
        Cause("nobody stated a capacity", "--node-capacity N"),
        Cause("neither file nor probe", "run on the node, --hermes-home DIR, or --probe-capacity"),
    ),
    settle=probe,
    last=True,
)
