"""The API server is not reachable from other machines unless that is meant."""

from __future__ import annotations

import asyncio
import ipaddress

import psutil

from hermes_ctl.checks.deep import deep, not_offered, unsettled, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_BIND = "set API_SERVER_HOST=127.0.0.1, or say in the checklist that it is meant: [hardening] exposed = true"


async def work(subject: Subject, trail: Trail) -> str:
    """On the node itself: the addresses on which its port is listened to."""
    meant = subject.checklist.hardening.exposed
    if not subject.address.is_loopback:
        if meant:
            return "reached over the network, as the checklist says that it may be"
        raise wrong(
            "it is reached over the network, and the checklist does not say that this is meant"
        )
    port = subject.address.port or (443 if subject.address.scheme == "https" else 80)
    addresses = await asyncio.to_thread(_listening_on, port)
    trail.add(
        f"sockets that listen on port {port}", ", ".join(addresses) or "none that is seen here"
    )
    if not addresses:
        raise unsettled(f"no socket that listens on port {port} can be seen from here")
    beyond = [address for address in addresses if not ipaddress.ip_address(address).is_loopback]
    if not beyond:
        return f"listens on {', '.join(addresses)} alone"
    if meant:
        return f"listens on {', '.join(beyond)}, as the checklist says that it may"
    raise wrong(f"port {port} listens on {', '.join(beyond)}: other machines may reach it")


def _listening_on(port: int) -> list[str]:
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        raise not_offered("the sockets of this machine may not be looked at") from None
    listening = (one.laddr for one in connections if one.status == psutil.CONN_LISTEN)
    return sorted({address.ip for address in listening if address and address.port == port})


PROBE = Probe(
    name="exposure",
    title="Exposure",
    proves=(
        "The port is listened to on loopback alone. A node that is reached over the network needs "
        "the checklist to say that this is meant."
    ),
    causes=(Cause("it listens on all addresses (0.0.0.0)", _BIND),),
    settle=deep("loopback alone, unless the checklist says otherwise", work, _BIND),
)
