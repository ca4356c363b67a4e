"""The routes that Hermes-Relay consumes, with its fallbacks."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from hermes_ctl.checks.deep import deep, odd, wrong
from hermes_ctl.checks.drift.consumers import RELAY_ROUTES
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_NOBODY = "hermesctl-no-such-id"
_PARAMETER = re.compile(r"\{(\w+)\}")
_SESSIONS = "/api/sessions"
_INSTALL = "install a release whose routes Hermes-Relay knows: 0.19 and later have them"
_RESTART = "hermes gateway restart; a defect of the release if it stays"
FALLBACKS = ("POST /v1/chat/completions", "POST /v1/runs")
"""What Relay falls back to where the native session API is missing (Relay contract, Failure and
fallback rules)."""


@dataclass(frozen=True, slots=True)
class Served:
    """`problem` is None for a route that answers as Hermes does."""

    route: str
    advertised: bool
    problem: str | None


async def work(subject: Subject, trail: Trail) -> str:
    """Each route asked for what there is not. One that is not advertised may be missing, as long as
    what Relay falls back to is there."""
    answers = await asyncio.gather(*(_ask(subject, route) for route in RELAY_ROUTES))
    for one in answers:
        trail.add(one.route, one.problem or "served")
    broken = [one for one in answers if one.problem and one.advertised]
    missing = [one for one in answers if one.problem and not one.advertised]
    if broken:
        told = "; ".join(f"{one.route} is advertised and {one.problem}" for one in broken)
        raise wrong(told, _RESTART)
    no_sessions = [one.route for one in missing if _SESSIONS in one.route]
    gone = {one.route for one in missing}
    if no_sessions and gone.issuperset(FALLBACKS):
        raise wrong("neither the session API nor what Relay falls back to is served")
    if gone.intersection({"GET /health", "GET /v1/capabilities", "GET /v1/models"}):
        raise wrong(f"Relay cannot start: {', '.join(sorted(gone))} not served")
    if missing:
        raise odd(f"Relay falls back, since it is not offered: {', '.join(sorted(gone))}")
    return f"all {len(answers)} routes of the Relay contract are served, the session API among them"


async def _ask(subject: Subject, route: str) -> Served:
    method, _, path = route.partition(" ")
    endpoints = (await subject.capabilities()).endpoints.values()
    advertised = any((one.method.upper(), one.path) == (method, path) for one in endpoints)
    values = dict.fromkeys(_PARAMETER.findall(path), _NOBODY)
    content = b"{" if method in ("POST", "PATCH") else None
    answer = await subject.client.request(method, path, values=values, content=content)
    if answer.status >= 500:
        return Served(route, advertised, f"answers {answer.status}")
    if answer.status in (404, 405) and answer.content_type == "text/plain":
        return Served(route, advertised, "is not served")
    if not values and method == "GET" and answer.status != 200:
        return Served(route, advertised, f"answers {answer.status}")
    return Served(route, advertised, None)


PROBE = Probe(
    name="relay-routes",
    title="Routes of Hermes-Relay",
    proves=(
        "Every route of the API server that Hermes-Relay consumes answers as Hermes does; one that "
        "is not offered has what Relay falls back to. The dashboard on its own port is not asked: a "
        "failed login there does not invalidate chat over the API server."
    ),
    causes=(
        Cause("advertised, and answers 500", _RESTART),
        Cause("the session API is missing", "Relay falls back to completions or runs"),
    ),
    settle=deep("every route served, or what Relay falls back to", work, _INSTALL),
)
