"""One look at a node: whether it answers, how quickly, and what it says of itself."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from hermes_ctl import clock
from hermes_ctl.api.client import Client
from hermes_ctl.errors import HermesctlError
from hermes_ctl.text import one_line


@dataclass(frozen=True, slots=True)
class Trouble:
    """What kept a node from being looked at: the kind of the failure and a sentence on it.

    Not the failure itself: a traceback would keep alive all that it ever touched.
    """

    kind: str
    message: str

    @classmethod
    def of(cls, error: HermesctlError) -> Trouble:
        return cls(error.kind, one_line(error.message, 300))


@dataclass(frozen=True, slots=True)
class Pulse:
    """`latency_s` is the time that `GET /health` took, None where nothing of use answered it.

    `version`, `status`, `gateway_state` and `active_runs` are the node's own words, None where it
    did not tell; `trouble` says why it did not.
    """

    at: datetime
    latency_s: float | None = None
    version: str | None = None
    status: str | None = None
    gateway_state: str | None = None
    active_runs: int | None = None
    trouble: Trouble | None = None

    @property
    def is_up(self) -> bool:
        """Whether a Hermes answered. A key that it refuses does not make it less up."""
        return self.latency_s is not None


async def look(client: Client) -> Pulse:
    """Ask a node how it is: two requests that cost nothing. Raises nothing that a node can do."""
    at, began = clock.now(), time.monotonic()
    try:
        health = await client.health()
    except HermesctlError as error:
        return Pulse(at, trouble=Trouble.of(error))
    latency = time.monotonic() - began
    try:
        detailed = await client.detailed_health()
    except HermesctlError as error:
        return Pulse(at, latency, health.version, health.status, trouble=Trouble.of(error))
    return Pulse(
        at=at,
        latency_s=latency,
        version=detailed.version or health.version,
        status=detailed.status,
        gateway_state=detailed.gateway_state,
        active_runs=detailed.active_api_runs,
    )
