"""Step 11: the adapter's activation cache lies on persistent storage."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial

from hermes_ctl.checks.agent import AgentSettings, does_not_start
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.mounts import (
    OVERLAY_TYPES,
    SHARED_TYPES,
    UNKNOWN_TYPE,
    VOLATILE_TYPES,
    Place,
    can_write,
    is_volatile_folder,
    locate,
)
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject

_RETENTION = 3600
"""Seconds that Hermes keeps a terminal run; the cache must cover it (contract, Run states)."""

_EXPECTED = "a writable folder on persistent storage, outside /tmp and the container's layer"
_PERSISTENT = (
    "set ACTIVATION_CACHE_DIR to a persistent folder, such as /var/lib/bmas-agent/activations"
)


async def probe(subject: Subject) -> Finding:
    """The adapter's effective folder, seen from inside its own process where it runs here, from its
    environment file otherwise. Its health routes say nothing about it (bmas.md, 6)."""
    agent = await subject.agent()
    if agent is None:
        if subject.settings.agent_url is None:
            return Finding(
                Status.SKIP, "no bMAS adapter on this node (--agent-env FILE or --agent-url URL)"
            )
        return Finding(
            Status.UNKNOWN,
            "not verifiable from here: the adapter's process is not visible on this machine",
            expected=_EXPECTED,
            fix=(
                "run hermesctl on the node as a user who may see the process, or --agent-env FILE",
            ),
        )
    return await asyncio.to_thread(settle, agent)


def settle(agent: AgentSettings) -> Finding:
    """The finding for this adapter. Looks at files; asks nobody."""
    if agent.problem:
        return does_not_start(agent.problem)
    if not agent.cache_directory.startswith("/"):
        return Finding(
            Status.FAIL,
            f"{agent.cache_directory} is a relative path: it moves with the adapter's working folder",
            expected=_EXPECTED,
            observed=agent.cache_directory,
            fix=(_PERSISTENT,),
        )
    try:
        place = locate(agent.cache_directory, pid=agent.pid)
        free = shutil.disk_usage(place.outside).free
    except OSError as error:
        return Finding(
            Status.UNKNOWN,
            f"the adapter's view of its files cannot be read: {error.strerror}",
            fix=("run hermesctl as root on the node, or name its environment: --agent-env FILE",),
        )
    trail = Trail()
    view = "its own mounts" if agent.pid else "this machine's mounts"
    trail.add(agent.source, f"activation cache {place.path}")
    trail.add(view, f"{place.real} on {place.mount.type} at {place.mount.point}")
    trail.add(view, f"{free:,} B free")
    finding = partial(
        Finding,
        expected=_EXPECTED,
        observed=f"{place.real} on {place.mount.type}, {free:,} B free",
        evidence=trail(),
    )
    return (
        _unusable(agent, place, finding)
        or _too_small(agent, free, finding)
        or _doubtful(agent, place, finding)
        or finding(
            Status.PASS,
            f"{place.real} on {place.mount.type}, writable, {free / 1024**3:,.0f} GiB free",
        )
    )


def _unusable(agent: AgentSettings, place: Place, finding: partial[Finding]) -> Finding | None:
    """Not persistent, or not writable for the adapter."""
    problem = _not_persistent(place)
    if problem:
        return finding(Status.FAIL, problem, fix=(_PERSISTENT,))
    if not place.outside.is_dir():
        return finding(Status.FAIL, f"{place.existing} is not a folder", fix=(_PERSISTENT,))
    if place.mount.read_only:
        return finding(
            Status.FAIL,
            f"{place.existing} is mounted read-only",
            fix=("mount it read-write", _PERSISTENT),
        )
    if can_write(place.outside, agent.uid, agent.gids, place.root):
        return None
    if agent.uid is None:
        return finding(
            Status.UNKNOWN,
            f"{place.existing} is not writable for this user; whether it is for the adapter's "
            "cannot be told from its file",
            fix=(
                "run hermesctl as the adapter's user or as root, or name the adapter: --agent-url URL",
            ),
        )
    return finding(
        Status.FAIL,
        f"{place.existing} is not writable for the adapter (uid {agent.uid})",
        fix=(f"chown {agent.uid} {place.existing}",),
    )


def _too_small(agent: AgentSettings, free: int, finding: partial[Finding]) -> Finding | None:
    if free >= agent.cache_bytes:
        return None
    return finding(
        Status.FAIL,
        f"{free:,} B free, the cache may take {agent.cache_bytes:,} B",
        fix=("free space there, or lower ACTIVATION_CACHE_MAX_BYTES",),
    )


def _doubtful(agent: AgentSettings, place: Place, finding: partial[Finding]) -> Finding | None:
    """Persistent, with a doubt."""
    if place.mount.type.startswith(SHARED_TYPES):
        return finding(
            Status.WARN,
            f"{place.real} is on {place.mount.type}: file locks may not hold, and no other node may share it",
            fix=("use a local disk for the activation cache",),
        )
    if place.mount.type == UNKNOWN_TYPE:
        return finding(Status.UNKNOWN, f"what {place.real} is mounted on cannot be told")
    if agent.cache_ttl < _RETENTION:
        return finding(
            Status.WARN,
            f"persistent, but records live {agent.cache_ttl} s: less than Hermes keeps a run ({_RETENTION} s)",
            fix=(f"raise ACTIVATION_CACHE_TTL_SECONDS to {_RETENTION} or more",),
        )
    return None


def _not_persistent(place: Place) -> str | None:
    if is_volatile_folder(place.real):
        return f"{place.real} is under a folder that is emptied at boot or by a timer"
    if place.mount.type in OVERLAY_TYPES:
        return f"{place.real} is in the container's own layer ({place.mount.type}): gone with it"
    if place.mount.type in VOLATILE_TYPES:
        return f"{place.real} is in memory ({place.mount.type})"
    return None


PROBE = Probe(
    name="cache",
    title="Activation cache",
    proves=(
        "The adapter's activation cache, as its own process sees it, lies on storage that survives a "
        "restart, is writable and large enough. Without it, a retried activation does its work twice."
    ),
    causes=(
        Cause("under /tmp", _PERSISTENT + "; systemd's PrivateTmp hides it besides"),
        Cause("in memory (tmpfs)", _PERSISTENT),
        Cause("in the container's own layer", "mount a volume at /var/lib/bmas-agent"),
        Cause(
            "not writable for the adapter", "chown it to the adapter's user, or mount it read-write"
        ),
        Cause("too small", "free space there, or lower ACTIVATION_CACHE_MAX_BYTES"),
        Cause("on a network file system", "use a local disk: file locks may not hold there"),
        Cause(
            "not visible from here", "run hermesctl on the node as root, or name --agent-env FILE"
        ),
    ),
    settle=probe,
    offline=True,
)
