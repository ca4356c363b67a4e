"""Step 12: the limit of concurrent runs matches what the node can carry."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from hermes_ctl.addresses import parse_address
from hermes_ctl.api.models import RunRequest
from hermes_ctl.checks.agent import AgentSettings
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.processes import started_at
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import Transcript
from hermes_ctl.discovery import NodeFiles, Sourced, read_node_files
from hermes_ctl.errors import AtCapacity, ConfigurationError, NoAnswer, Undetermined

_MOST_RUNS = 64
"""Runs that `--probe-capacity` starts at most where neither a capacity nor a limit is known. Where
one is, a single run more than that says enough, and loads the node no further."""

_CLOCK_SLACK = 2.0
"""Seconds: Linux counts a process's start from a boot time in whole seconds, and the gateway reads
its files a moment after it started."""

_SET = "set gateway.api_server.max_concurrent_runs in config.yaml, then: hermes gateway restart"


@dataclass(frozen=True, slots=True)
class Limits:
    """What is known of the limit. `running` is proved by a 429 or by files older than the process,
    `configured` stands in the files; 0 is no limit. `changed`: edited since the gateway started.
    `accepted` is how many runs were accepted at once where none was refused."""

    running: int | None = None
    configured: Sourced[int] | None = None
    changed: bool = False
    ignored: tuple[Sourced[object], ...] = ()
    filled: bool = False
    accepted: int | None = None

    @property
    def value(self) -> int | None:
        if self.running is not None:
            return self.running
        return self.configured.value if self.configured else None


async def probe(subject: Subject) -> Finding:
    """The running limit shows on no route: only a 429 names it, or a file that is older than the
    gateway's process (wire.md, 0.15). The node's capacity has to be stated by whoever knows it."""
    limits = await _limits(subject)
    agent = await subject.agent()
    stated = subject.settings.node_capacity
    trail = Trail()
    _record(trail, limits, stated)
    finding = partial(
        Finding,
        expected=f"a limit of {stated}, the stated capacity"
        if stated
        else "a limit of the node's capacity",
        observed=_observed(limits),
        evidence=trail(),
    )
    return _wrong(limits, stated, finding) or _doubtful(limits, stated, agent, finding)


def _wrong(limits: Limits, stated: int | None, finding: partial[Finding]) -> Finding | None:
    """What is certainly not right, or cannot be told at all."""
    limit = limits.value
    ignored = f" ({limits.ignored[0].source} has no effect)" if limits.ignored else ""
    if limits.accepted is not None:
        return finding(
            Status.FAIL,
            f"{limits.accepted} runs at once were accepted: the limit is higher, or there is none",
            fix=(_SET,),
        )
    if limit is None:
        return finding(
            Status.UNKNOWN,
            "the limit is on no route of the API, and the node's files are not here",
            fix=("run hermesctl on the node, name its files (--hermes-home), or --probe-capacity",),
        )
    if limit == 0:
        return finding(Status.FAIL, f"no limit at all: 0 switches it off{ignored}", fix=(_SET,))
    if limits.configured and limits.running not in (None, limits.configured.value):
        return finding(
            Status.FAIL,
            f"{limits.running} runs at once, but {limits.configured.value} is configured",
            fix=("hermes gateway restart",),
        )
    if stated is not None and limit != stated:
        return finding(
            Status.FAIL, f"limit {limit}, stated capacity {stated}{ignored}", fix=(_SET,)
        )
    return None


def _doubtful(
    limits: Limits, stated: int | None, agent: AgentSettings | None, finding: partial[Finding]
) -> Finding:
    """Right as far as it was seen; a pass where nothing is left to doubt."""
    limit = limits.value
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
    if limits.running is None:
        return finding(
            Status.WARN,
            f"limit {limit} is configured; whether the gateway runs with it was not seen",
            fix=("run hermesctl on the node, or measure the running limit: --probe-capacity",),
        )
    wanted = agent.endpoint_concurrency if agent else 0
    if limit is not None and wanted > limit:
        return finding(
            Status.WARN,
            f"limit {limit}, but the daemon sends up to {wanted} at once: some will be answered 429",
            fix=(f"lower BMAS_AGENT_ENDPOINT_MAX_CONCURRENCY to {limit}",),
        )
    return finding(
        Status.PASS, f"limit {limit}{_proved(limits)}, for a stated capacity of {stated}"
    )


def _proved(limits: Limits) -> str:
    return ", running and configured" if limits.configured else ", running"


def _observed(limits: Limits) -> str:
    running = "not seen" if limits.running is None else str(limits.running)
    if limits.accepted is not None:
        running = f"{limits.accepted} or more"
    configured = "not seen" if limits.configured is None else str(limits.configured.value)
    return f"running {running}, configured {configured}"


def _record(trail: Trail, limits: Limits, stated: int | None) -> None:
    if limits.configured is not None:
        trail.add(limits.configured.source, limits.configured.value)
    for item in limits.ignored:
        trail.add(item.source, f"{item.value}, where Hermes does not look")
    if limits.filled:
        trail.add("POST /v1/runs until 429", limits.running or f"{limits.accepted} accepted")
    elif limits.running is not None:
        trail.add("config.yaml older than the gateway's process", limits.running)
    trail.add("stated capacity", "nobody stated one" if stated is None else stated)


async def _limits(subject: Subject) -> Limits:
    files = _node_files(subject)
    configured = files.max_concurrent_runs if files else None
    ignored = files.ignored_limits if files else ()
    if subject.settings.probe_capacity and subject.settings.runs:
        known = [subject.settings.node_capacity, configured.value if configured else None]
        most = max([number + 1 for number in known if number] or [_MOST_RUNS])
        accepted, running = await _fill(subject, most)
        return Limits(
            running=running,
            configured=configured,
            ignored=ignored,
            filled=True,
            accepted=accepted if running is None else None,
        )
    if files is None:
        return Limits()
    edited_later = await _edited_after_start(subject, files)
    return Limits(
        running=files.max_concurrent_runs.value if edited_later is False else None,
        configured=configured,
        changed=edited_later is True,
        ignored=ignored,
    )


def _node_files(subject: Subject) -> NodeFiles | None:
    """The node's own files, where they are here and belong to this address."""
    chosen = subject.settings.hermes_home
    environment = dict(subject.settings.environment)
    if chosen is not None:
        environment["HERMES_HOME"] = str(chosen)
    elif not subject.address.is_loopback:
        return None
    files = read_node_files(environment)
    if not files.found or files.unreadable:
        return None
    if chosen is not None:
        return files
    try:
        of_files = parse_address(files.url, "the node's files")
    except ConfigurationError:
        return None
    return files if subject.address.same_origin(of_files) else None


async def _edited_after_start(subject: Subject, files: NodeFiles) -> bool | None:
    """Whether config.yaml changed since the gateway started, None where its process is not here."""
    await subject.require_key()
    process = await subject.gateway()
    started = started_at(process) if process else None
    if started is None:
        return None
    try:
        edited = (files.home / "config.yaml").stat().st_mtime
    except FileNotFoundError:
        return False  # the default of Hermes is in force, and was when it started
    except OSError:
        return None
    return edited > started + _CLOCK_SLACK


async def _fill(subject: Subject, most: int) -> tuple[int, int | None]:
    """Start long runs until a 429 names the limit or `most` are accepted, and stop them all:
    (accepted, limit)."""
    before = await subject.ready_for_runs()
    if before is None:
        raise Undetermined(
            "how busy the node is cannot be told, so it was not filled",
            hint="mend GET /health/detailed first",
        )
    idempotent = await subject.is_idempotent()
    readers: list[asyncio.Task[None]] = []
    limit: int | None = None
    try:
        while len(readers) < most - before:
            transcript = await _one_more(subject, len(readers), idempotent=idempotent)
            readers.append(asyncio.create_task(subject.watcher.read_stream(transcript)))
    except AtCapacity as error:
        limit = error.limit if error.limit is not None else before + len(readers)
    except NoAnswer as error:
        if not readers:
            raise
        raise Undetermined(
            f"{before + len(readers)} runs at once were accepted, the next got no answer",
            url=error.url,
            hint="the node hangs before it refuses: a lower limit is one that it can keep",
        ) from error
    finally:
        await subject.ledger.stop_all(subject.client)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return before + len(readers), limit


async def _one_more(subject: Subject, number: int, *, idempotent: bool) -> Transcript:
    session = subject.session(f"capacity-{number}")
    request = RunRequest(input=subject.checklist.long_run.prompt, session_id=session)
    return await subject.watcher.submit(
        request, idempotency_key=session if idempotent else None, wait_for_slot=False
    )


PROBE = Probe(
    name="capacity",
    title="Capacity",
    proves=(
        "Hermes runs no more at once than the node can carry: the running limit is the configured "
        "one and the stated capacity, and it is not switched off."
    ),
    causes=(
        Cause("the limit is 0: switched off", _SET),
        Cause("the limit differs from the stated capacity", _SET),
        Cause(
            "the limit stands where Hermes does not look",
            "of all places in the YAML only gateway.api_server.max_concurrent_runs works",
        ),
        Cause("the file was edited after the gateway started", "hermes gateway restart"),
        Cause(
            "some runs are accepted, and the next one gets no answer (--probe-capacity)",
            "set the limit to no more than the node was seen to accept",
        ),
        Cause("nobody stated a capacity", "say what the node can carry: --node-capacity N"),
        Cause(
            "neither file nor probe",
            "run hermesctl on the node, name its files (--hermes-home DIR), or --probe-capacity",
        ),
    ),
    settle=probe,
    last=True,
)
