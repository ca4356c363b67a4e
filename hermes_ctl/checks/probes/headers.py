"""The security headers of JSON answers."""

from __future__ import annotations

from hermes_ctl.checks.deep import deep, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

REQUIRED = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "content-security-policy": "",
    "referrer-policy": "",
}
"""The header and the value that it has to have, empty for any."""

_ROUTES = ("/health", "/v1/models", "/v1/capabilities")
_PROXY = "a proxy strips them, or a release does not send them: compare with hermesctl diff"


async def work(subject: Subject, trail: Trail) -> str:
    """Only ordinary JSON answers have them, by design (wire.md, 0.20): streams and errors do not."""
    missing: dict[str, list[str]] = {}
    for route in _ROUTES:
        answer = await subject.get(route)
        lacks = [
            name
            for name, value in REQUIRED.items()
            if value.lower() not in answer.headers.get(name, "\0").lower()
        ]
        trail.add(f"GET {route}", f"lacks {', '.join(lacks)}" if lacks else "has all of them")
        for name in lacks:
            missing.setdefault(name, []).append(route)
    if missing:
        named = "; ".join(f"{name} on GET {', '.join(routes)}" for name, routes in missing.items())
        raise wrong(f"missing {named}")
    return f"{', '.join(REQUIRED)} on {len(_ROUTES)} routes"


PROBE = Probe(
    name="headers",
    title="Security headers",
    proves="JSON answers forbid sniffing, framing and referrers, and carry a content security policy.",
    causes=(Cause("one is missing", _PROXY),),
    settle=deep("nosniff, no framing, a content and a referrer policy", work, _PROXY),
)
