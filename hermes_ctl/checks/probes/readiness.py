"""Step 3: profile, model, state database and disk are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from hermes_ctl.api.models import DetailedHealth, ModelEntry, ReadinessCheck, parse, rows
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.processes import open_files
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import AuthenticationFailed, HermesctlError
from hermes_ctl.text import one_line

GOOD = frozenset({"ok", "ready", "healthy"})
REQUIRED_CHECKS = ("config", "model", "state_db", "disk", "gateway")
ASK_AGAIN_AFTER = 1.0
_ATTEMPTS = 4

_MEND = {
    "config": "mend config.yaml in HERMES_HOME; it is read again at once",
    "model": "set model.default in config.yaml, or: hermes model",
    "state_db": "stop the gateway, move state.db aside or restore it, start: hermes gateway restart",
    "session_store": "stop the gateway, move state.db aside or restore it, start: hermes gateway restart",
    "disk": "free space on the node's disk",
    "gateway": "wait until it runs (check --wait 60s), or: hermes gateway restart",
    "profile": "turn on gateway.multiplex_profiles, or correct --profile",
}


_RESCUE = (
    "copy the file out of /proc/PID/fd of the gateway while it runs, then: hermes gateway restart"
)


async def probe(subject: Subject) -> Finding:
    """Every check in `/health/detailed`, asked twice, judged by our own rule: anything but ok is
    not ok. Hermes has no profile check: the profile is the id that `/v1/models` shows."""
    first, served = await asyncio.gather(subject.detailed_health(), _profile(subject))
    detailed, attempts = await _ask_again(subject, first)
    trail = Trail()
    bad, missing = _judge(detailed)
    checks = detailed.readiness.checks if detailed.readiness else {}
    for name, check in checks.items():
        trail.add(f"GET /health/detailed {name}", one_line(_words(check.model_dump()), 200))
    trail.add("GET /health/detailed", f"status {detailed.status}, gateway {detailed.gateway_state}")
    trail.add("GET /v1/models", served.told)
    wanted = subject.node.profile
    # Older servers serve the default profile for any prefix (wire.md, 0.12).
    if wanted not in (None, "default") and served.problem is None and served.name != wanted:
        bad.append(f"profile {wanted} is asked for, {served.name or 'none'} answers")
    elif served.problem is not None:
        missing.append(f"the profile cannot be told: {served.problem}")
    reported = list(bad)
    deleted = await _database_deleted(subject)
    if deleted:
        bad.append(f"state_db {deleted}")
    finding = partial(
        Finding,
        expected="status ok, and ok for " + ", ".join(REQUIRED_CHECKS),
        observed="; ".join(bad + missing) or f"status {detailed.status}, all checks ok",
        evidence=trail(),
        attempts=attempts,
    )
    if bad:
        mends = [_RESCUE] if deleted else []
        mends += [mend for name, mend in _MEND.items() if any(b.startswith(name) for b in reported)]
        return finding(Status.FAIL, "; ".join(bad), fix=tuple(dict.fromkeys(mends)))
    if missing:
        return finding(
            Status.UNKNOWN,
            "; ".join(missing),
            fix=("install the reviewed release, whose GET /health/detailed tells all of them",)
            if served.problem is None
            else ("step routes tells what is wrong with GET /v1/models",),
        )
    before = _judge(first)[0]
    if before and not _pending(first):
        return finding(
            Status.WARN,
            f"ok now, but at first: {'; '.join(before)}",
            fix=("it comes and goes: check again, and look into the gateway's log on the node",),
        )
    return finding(Status.PASS, "ok: " + _summary(checks))


async def _ask_again(subject: Subject, first: DetailedHealth) -> tuple[DetailedHealth, int]:
    """The second answer counts: newer servers say "probe pending" once after a start
    (field-notes 7). While it is not ok, ask a few times more."""
    detailed, attempts = first, 1
    while attempts < 2 or (attempts < _ATTEMPTS and _pending(detailed)):
        if _pending(detailed):
            await asyncio.sleep(ASK_AGAIN_AFTER)
        detailed = await subject.detailed_health_now()
        attempts += 1
    return detailed, attempts


def _pending(detailed: DetailedHealth) -> bool:
    return "pending" in str(detailed.model_dump().get("readiness", "")).lower()


def _judge(detailed: DetailedHealth) -> tuple[list[str], list[str]]:
    """(what is bad, what is not reported)."""
    readiness = detailed.readiness
    checks = readiness.checks if readiness else {}
    bad = [
        f"{name} {_words(check.model_dump())}"
        for name, check in checks.items()
        if check.status not in GOOD
    ]
    state = detailed.gateway_state
    inner = (checks["gateway"].model_extra or {}).get("state") if "gateway" in checks else None
    for value in dict.fromkeys(item for item in (state, inner) if item not in (None, "running")):
        bad.append(f"gateway {one_line(str(value), 40)}")
    if detailed.status not in GOOD and not bad:
        bad.append(f"status {one_line(detailed.status, 60)}")
    missing = [f"{name} is not reported" for name in REQUIRED_CHECKS if name not in checks]
    return bad, missing


def _words(check: dict[str, object]) -> str:
    status = check.pop("status", None)
    rest = ", ".join(f"{key} {value}" for key, value in check.items() if value not in (None, ""))
    return f"{status} ({rest})" if rest else str(status)


def _summary(checks: Mapping[str, ReadinessCheck]) -> str:
    names = [name for name in checks if name != "background_queues"]
    disk = checks.get("disk")
    used = ((disk.model_extra if disk else None) or {}).get("used_percent")
    return ", ".join(
        f"disk ({used:g}% used)" if name == "disk" and isinstance(used, (int, float)) else name
        for name in names
    )


@dataclass(frozen=True, slots=True)
class ServedProfile:
    """The profile that answers: the first id in `/v1/models`, or why it cannot be told."""

    name: str | None = None
    problem: str | None = None

    @property
    def told(self) -> str:
        return self.problem or f"id {self.name}"


async def _profile(subject: Subject) -> ServedProfile:
    try:
        answer = subject.client.judge(await subject.get("/v1/models"))
        entries = rows(answer.json(), answer, "models")
        return ServedProfile(parse(ModelEntry, entries[0], answer).id if entries else None)
    except AuthenticationFailed:
        raise
    except HermesctlError as error:
        return ServedProfile(problem=error.message)


async def _database_deleted(subject: Subject) -> str | None:
    """A state.db that was deleted under the gateway counts as ok there (wire.md, 8). On the node
    itself its process tells: it still writes to the deleted file."""
    process = await subject.gateway()
    files = open_files(process) if process else []
    if any("/state.db" in file and file.endswith(" (deleted)") for file in files):
        return "was deleted under the running gateway"
    return None


PROBE = Probe(
    name="readiness",
    title="Readiness",
    proves=(
        "GET /health/detailed says ok, and ok for config, model, state database, disk and gateway, "
        "twice; the profile that was asked for is the one that answers. `model: ok` only means that "
        "a name is configured: step 7 proves that it answers."
    ),
    causes=(
        Cause(
            "HTTP 200, but degraded",
            "the check that is not ok tells what to mend: config.yaml, the model's name, state.db, "
            "or room on the disk",
        ),
        Cause(
            "gateway draining", "it is shutting down; to wait until it is back: check --wait 60s"
        ),
        Cause(
            "another profile answers",
            "turn on gateway.multiplex_profiles on the node, or correct the profile's name",
        ),
        Cause("state.db was deleted under the running gateway", _RESCUE),
        Cause(
            "not ok at first, then ok", "look into the gateway's log on the node, and check again"
        ),
    ),
    settle=probe,
)
