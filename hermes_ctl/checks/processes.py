"""Processes of this machine: the gateway's own, and whoever listens on a port.

psutil is loaded here and only when something is looked for.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psutil import Process


def gateway_process(pid: int, port: int) -> Process | None:
    """The process `pid` of this machine where it really is the gateway.

    A loopback address may lead into a container or through a tunnel: the same number is then some
    other process here. The gateway listens on `port`, or its command names Hermes.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        with contextlib.suppress(psutil.AccessDenied):
            if port in _ports_of(process):
                return process
        return process if any("hermes" in part for part in process.cmdline()) else None
    except psutil.Error:
        return None


def _ports_of(process: Process) -> set[int]:
    import psutil

    return {
        connection.laddr.port
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr
    }


def listeners(port: int) -> list[Process]:
    """The processes that listen on `port` of this machine, as far as they may be seen."""
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return []
    pids = {
        item.pid
        for item in connections
        if item.status == psutil.CONN_LISTEN and item.laddr and item.laddr.port == port and item.pid
    }
    found = []
    for pid in sorted(pids):
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return found


def started_at(process: Process) -> float | None:
    """When the process started, in seconds since 1970; None where it has gone."""
    import psutil

    try:
        return process.create_time()
    except psutil.Error:
        return None


def open_files(process: Process) -> list[str]:
    """What the process's descriptors lead to, as /proc names it: a deleted file ends with
    ` (deleted)`. Empty where they may not be seen."""
    try:
        return [str(link.readlink()) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
    except OSError:
        return []


def groups_of(process: Process) -> tuple[int, ...]:
    """All groups whose rights the process has: its effective one and the supplementary ones."""
    groups = [process.gids().effective]
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text("ascii", "replace").splitlines():
            if line.startswith("Groups:"):
                groups += [int(number) for number in line.split()[1:]]
    return tuple(dict.fromkeys(groups))
