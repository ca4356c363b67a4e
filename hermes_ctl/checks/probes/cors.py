"""No web page of another origin may use the API."""

from __future__ import annotations

from hermes_ctl.checks.deep import deep, odd, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.text import one_line

ORIGIN = "https://hermesctl.invalid"
"""An origin that nobody has: the name is reserved."""

_NARROW = (
    "name the very origins in API_SERVER_CORS_ORIGINS, or unset it; look at a proxy's own headers"
)


async def work(subject: Subject, trail: Trail) -> str:
    """A request and a preflight from an origin of nobody's: neither may be allowed."""
    said = (await subject.capabilities()).features.get("cors")
    trail.add("GET /v1/capabilities", f"cors {said}")
    statuses = []
    for method in ("GET", "OPTIONS"):
        headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
        answer = await subject.client.request(method, "/v1/models", headers=headers)
        allowed = answer.headers.get("access-control-allow-origin")
        trail.add(f"{method} /v1/models from {ORIGIN}", f"{answer.status}, allowed: {allowed}")
        if allowed in ("*", ORIGIN, "null"):
            raise wrong(f"{method} allows any page to use it: {one_line(str(allowed), 60)}")
        statuses.append(answer.status)
    if said not in (False, None):
        raise odd(
            f"pages of some origins may use it (cors {one_line(str(said), 60)}), this one not"
        )
    return f"a page of another origin is answered {statuses[0]} and allowed nothing"


PROBE = Probe(
    name="cors",
    title="Other origins",
    proves="A request and a preflight from another origin get no Access-Control-Allow-Origin.",
    causes=(Cause("every origin is allowed, or the asking one is repeated", _NARROW),),
    settle=deep("no permission for an origin of nobody's", work, _NARROW),
)
