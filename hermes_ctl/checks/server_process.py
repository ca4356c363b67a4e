"""Which process answers: so that one server under two names is found out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes_ctl.api.models import DetailedHealth
from hermes_ctl.checks.model import ServerProcess
from hermes_ctl.text import one_line


def server_process(detailed: DetailedHealth) -> ServerProcess | None:
    """The gateway's process as `/health/detailed` names it, None where it does not say enough.

    Its start is `writer_start_time` of the API server's platform from 0.20 on; 0.19 has only the
    moment, to the microsecond, at which that platform connected.
    """
    platforms = (detailed.model_extra or {}).get("platforms")
    own: Any = platforms.get("api_server") if isinstance(platforms, Mapping) else None
    if detailed.pid is None or not isinstance(own, Mapping):
        return None
    started = own.get("writer_start_time") or own.get("updated_at")
    if not isinstance(started, str | int | float):
        return None
    return ServerProcess(pid=detailed.pid, started=one_line(str(started), 60))
