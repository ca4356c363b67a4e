"""A key does not travel in the clear."""

from __future__ import annotations

from hermes_ctl.checks.deep import deep, odd, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_TLS = "put a TLS proxy in front of the node, or reach it through a tunnel (ssh -L, WireGuard)"


async def work(subject: Subject, trail: Trail) -> str:
    """Plain HTTP is for this machine alone: Hermes itself serves no TLS."""
    scheme = subject.node.url.partition(":")[0]
    trail.add(
        "the node's address",
        f"{scheme}, {'loopback' if subject.address.is_loopback else 'network'}",
    )
    if scheme == "https":
        if subject.node.insecure:
            raise odd("encrypted, but the certificate is not verified (--insecure)")
        return "encrypted, the certificate verified"
    if subject.address.is_loopback:
        return "plain HTTP, on this machine alone"
    raise wrong("the key is sent over the network in plain HTTP")


PROBE = Probe(
    name="encryption",
    title="Encryption",
    proves="The key is sent over HTTPS with a verified certificate, or does not leave this machine.",
    causes=(
        Cause("plain HTTP to another machine", _TLS),
        Cause("a certificate that is not verified", "trust its authority: --ca-file FILE"),
    ),
    settle=deep("HTTPS, or loopback", work, _TLS),
    offline=True,
)
