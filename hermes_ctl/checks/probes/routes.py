"""Step 2: the five required routes are advertised exactly, and each really answers."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.models import Capabilities
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import AuthenticationFailed, ConnectionLost, HermesctlError, NoAnswer

REQUIRED_FEATURES = ("run_submission", "run_status", "run_events_sse", "run_stop")
"""Strictly true, by the adapter's rule (bmas.md, 3)."""

REQUIRED_ENDPOINTS = {
    "health": ("GET", "/health"),
    "runs": ("POST", "/v1/runs"),
    "run_status": ("GET", "/v1/runs/{run_id}"),
    "run_events": ("GET", "/v1/runs/{run_id}/events"),
    "run_stop": ("POST", "/v1/runs/{run_id}/stop"),
}
"""contract, Required API server routes."""

_NOBODY = "hermesctl-no-such-id"
_PARAMETER = re.compile(r"\{(\w+)\}")
_KNOWN_RESOURCES = ("/v1/runs/", "/api/sessions/", "/api/jobs/")
"""Where Hermes is known to answer in JSON for an id of nobody's (wire.md, 11)."""

_NOT_ASKED = re.compile(r"/(ws|events)$")
"""A WebSocket cannot be asked by GET; an event stream of nobody waits a second for its run."""


@dataclass(frozen=True, slots=True)
class RouteAnswer:
    """How a route answered when it was asked for something that does not exist. Not `settled`: it
    gave no answer in time, which a node that is busy starting does too."""

    method: str
    path: str
    problem: str | None
    settled: bool = True

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


async def probe(subject: Subject) -> Finding:
    """Features and endpoints as advertised; then each route asked in a way that costs nothing:
    read routes plainly, the others for an id that nobody has, a submission without its input."""
    capabilities = await subject.capabilities()
    trail = Trail()
    gaps = _gaps(capabilities)
    required = list(REQUIRED_ENDPOINTS.values())
    others = [
        (endpoint.method.upper(), endpoint.path)
        for endpoint in capabilities.endpoints.values()
        if _harmless(endpoint.method.upper(), endpoint.path)
    ]
    asked = list(dict.fromkeys(required + others))
    answers = await asyncio.gather(*(_ask(subject, method, path) for method, path in asked))
    broken = [answer for answer in answers if answer.problem]
    broken_required = [item for item in broken if (item.method, item.path) in required]
    trail.add("GET /v1/capabilities", "; ".join(gaps) or "all required features and endpoints")
    for item in broken:
        trail.add(item.name, item.problem)
    expected = "features true, exact method and path, and an answer in JSON, for five routes"
    if gaps or broken_required:
        named = gaps + [f"{item.name} {item.problem}" for item in broken_required]
        missed_only = not gaps and not any(item.settled for item in broken_required)
        return Finding(
            Status.UNKNOWN if missed_only else Status.FAIL,
            named[0] if len(named) == 1 else f"{named[0]}, and {len(named) - 1} more",
            expected=expected,
            observed="; ".join(named),
            evidence=trail(),
            fix=("check again, or give the node more time: --timeout 30s",)
            if missed_only
            else ("install the reviewed release on the node, and ask it without a proxy",),
        )
    served = f"5 of 5 required routes listed and served; {len(answers) - len(broken)} of {len(answers)} advertised"
    if broken:
        return Finding(
            Status.WARN,
            f"{served}: {broken[0].name} {broken[0].problem}",
            expected=expected,
            observed="; ".join(f"{item.name} {item.problem}" for item in broken),
            evidence=trail(),
            fix=("a defect of this release if a restart does not mend it: hermes gateway restart",),
        )
    return Finding(Status.PASS, served, expected=expected, observed="all", evidence=trail())


def _gaps(capabilities: Capabilities) -> list[str]:
    gaps = [
        f"feature {name} is {capabilities.features.get(name, 'missing')!r}, not true"
        for name in REQUIRED_FEATURES
        if not capabilities.has(name)
    ]
    for name, (method, path) in REQUIRED_ENDPOINTS.items():
        endpoint = capabilities.endpoints.get(name)
        if endpoint is None:
            gaps.append(f"endpoint {name} is not listed")
        elif (endpoint.method.upper(), endpoint.path) != (method, path):
            gaps.append(f"endpoint {name} is {endpoint.method} {endpoint.path}")
    return gaps


def _harmless(method: str, path: str) -> bool:
    """Whether asking costs nothing and changes nothing: a plain read, or a resource of nobody's."""
    if _NOT_ASKED.search(path):
        return False
    if _PARAMETER.search(path):
        return path.startswith(_KNOWN_RESOURCES)
    return method == "GET"


async def _ask(subject: Subject, method: str, path: str) -> RouteAnswer:
    values = dict.fromkeys(_PARAMETER.findall(path), _NOBODY)
    try:
        if method == "GET" and not values:
            answer = await subject.get(path)
        else:
            body: dict[str, str] | None = {} if method in ("POST", "PATCH", "PUT") else None
            answer = await subject.client.request(method, path, values=values, json=body)
    except (NoAnswer, ConnectionLost) as error:
        return RouteAnswer(method, path, f"gave no answer: {error.message}", settled=False)
    except HermesctlError as error:
        return RouteAnswer(method, path, f"did not answer: {error.message}")
    return RouteAnswer(method, path, _problem(answer, bool(values)))


def _problem(answer: Answer, of_nobody: bool) -> str | None:
    """None for an answer that only the route itself can give: JSON, and not a server's failure."""
    if answer.status in (401, 403):
        raise AuthenticationFailed(
            f"{answer.method} {answer.route} answered {answer.status}", status=answer.status
        )
    if answer.status >= 500:
        return f"answers {answer.status}: {answer.error()[0] or 'nothing'}"
    try:
        answer.json()
    except HermesctlError:
        text = answer.error()[0]
        return f"is not served ({answer.status} {answer.content_type or 'no content type'}: {text[:60]})"
    if 300 <= answer.status < 400 or (answer.status == 404 and not of_nobody):
        return f"answers {answer.status}"
    return None


PROBE = Probe(
    name="routes",
    title="Required routes",
    proves=(
        "GET /v1/capabilities lists the five routes of the contract with exact method and path and "
        "their features strictly true, and each of them answers as Hermes would, in JSON."
    ),
    causes=(
        Cause("a feature or endpoint is missing", "install the reviewed release"),
        Cause(
            "listed, but answers 500", "hermes gateway restart; a defect of the release if it stays"
        ),
        Cause(
            "listed, but answers in HTML or plain text", "a proxy answers: ask the node directly"
        ),
    ),
    settle=probe,
)
