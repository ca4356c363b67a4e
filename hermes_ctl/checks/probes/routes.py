"""Step 2: the five required routes are advertised exactly, and each really answers."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.models import Capabilities, RunAccepted, parse
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import ConnectionLost, HermesctlError, NoAnswer, RouteNotFound
from hermes_ctl.text import one_line

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

_CAPABILITIES = "GET /v1/capabilities"
_DRAINING = "gateway_draining"
_REVIEWED = "install the reviewed release on the node, then: hermes gateway restart"
_RESTART = "hermes gateway restart; a defect of this release if that does not mend it"
_DIRECTLY = "ask the node directly: something before it answers for it"
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
    mend: str = ""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


async def probe(subject: Subject) -> Finding:
    """Features and endpoints as advertised; then each route asked in a way that costs nothing:
    read routes plainly, the others for an id that nobody has, a submission without its input."""
    subject.survey.begin()
    try:
        return await _survey(subject)
    finally:
        subject.survey.end()


async def _survey(subject: Subject) -> Finding:
    expected = "features true, exact method and path, and an answer in JSON, for five routes"
    try:
        capabilities = await subject.capabilities()
    except RouteNotFound as error:
        return Finding(
            Status.FAIL,
            "the node has no GET /v1/capabilities: it advertises nothing",
            expected=expected,
            observed=error.message,
            fix=(_REVIEWED,),
        )
    trail = Trail()
    gaps = _gaps(capabilities)
    required = list(REQUIRED_ENDPOINTS.values())
    others = [
        (endpoint.method.upper(), endpoint.path)
        for endpoint in capabilities.endpoints.values()
        if _harmless(endpoint.method.upper(), endpoint.path)
    ]
    asked = list(dict.fromkeys(required + others))
    answers = await _ask_all(subject, asked)
    broken = [answer for answer in answers if answer.problem]
    broken_required = [item for item in broken if (item.method, item.path) in required]
    trail.add(_CAPABILITIES, "; ".join(gaps) or "all required features and endpoints")
    for item in broken:
        trail.add(item.name, item.problem)
    if gaps or broken_required:
        named = gaps + [f"{item.name} {item.problem}" for item in broken_required]
        missed_only = not gaps and not any(item.settled for item in broken_required)
        return Finding(
            Status.UNKNOWN if missed_only else Status.FAIL,
            named[0] if len(named) == 1 else f"{named[0]}, and {len(named) - 1} more",
            expected=expected,
            observed="; ".join(named),
            evidence=trail(),
            fix=(
                "is it up? check again when it is not so busy, or give it more time: --timeout 60s",
            )
            if missed_only
            else tuple(dict.fromkeys([_REVIEWED] * bool(gaps) + [i.mend for i in broken_required])),
        )
    served = f"5 of 5 required routes listed and served; {len(answers) - len(broken)} of {len(answers)} advertised"
    if broken:
        return Finding(
            Status.WARN,
            f"{served}: {broken[0].name} {broken[0].problem}",
            expected=expected,
            observed="; ".join(f"{item.name} {item.problem}" for item in broken),
            evidence=trail(),
            fix=tuple(dict.fromkeys(item.mend for item in broken)),
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


async def _ask_all(subject: Subject, asked: Sequence[tuple[str, str]]) -> list[RouteAnswer]:
    """All at once. An event stream of nobody waits a second for its run, so the runs do not wait
    for it."""
    tasks = {route: asyncio.create_task(_ask(subject, *route)) for route in asked}
    slow = tasks[REQUIRED_ENDPOINTS["run_events"]]
    try:
        await asyncio.wait([task for task in tasks.values() if task is not slow])
        subject.survey.end()
        return await asyncio.gather(*tasks.values())
    finally:
        for task in tasks.values():
            task.cancel()


async def _ask(subject: Subject, method: str, path: str) -> RouteAnswer:
    values = dict.fromkeys(_PARAMETER.findall(path), _NOBODY)
    is_submission = (method, path) == REQUIRED_ENDPOINTS["runs"]
    if is_submission:  # should it start a run, that is not to be taken for a busy node
        with contextlib.suppress(HermesctlError):
            await subject.detailed_health()
    try:
        if method == "GET" and not values:
            answer = await subject.get(path)
        else:
            body: dict[str, str] | None = {} if method in ("POST", "PATCH", "PUT") else None
            answer = await subject.client.request(method, path, values=values, json=body)
    except (NoAnswer, ConnectionLost) as error:
        why = f"gave no answer: {error.message}"
        return RouteAnswer(method, path, why, settled=False, mend=_RESTART)
    except HermesctlError as error:
        return RouteAnswer(method, path, f"did not answer: {error.message}", mend=_DIRECTLY)
    if is_submission and _started(subject, answer):
        return RouteAnswer(method, path, "starts a run without an input", mend=_REVIEWED)
    problem, mend = _problem(answer, bool(values))
    return RouteAnswer(method, path, problem, mend=mend)


def _started(subject: Subject, answer: Answer) -> bool:
    """Whether a submission without its input was accepted. The run is ours to stop then."""
    if answer.status != 202:
        return False
    try:
        run_id = parse(RunAccepted, answer.json(), answer).run_id
    except HermesctlError:
        return True
    subject.ledger.started(run_id, None)
    subject.ledger.given_up(run_id)
    return True


def _problem(answer: Answer, of_nobody: bool) -> tuple[str | None, str]:
    """(None for an answer that only the route itself can give: JSON, and not a server's failure;
    otherwise what is wrong, and what mends it)."""
    if answer.is_html:
        return f"is answered by a web page ({answer.status}), not by Hermes", _DIRECTLY
    message, code = answer.error() if answer.status >= 400 else ("", None)
    if answer.status in (401, 403):
        return f"answers {answer.status} to the key that opened {_CAPABILITIES}", _DIRECTLY
    if answer.status >= 500 and code != _DRAINING:
        return f"answers {answer.status}: {message or 'nothing'}", _RESTART
    if 300 <= answer.status < 400:
        return f"answers {answer.status}, a redirect", _DIRECTLY
    try:
        answer.json()
    except HermesctlError:
        kind = answer.content_type or "no content type"
        mend = _REVIEWED if answer.status == 404 else _DIRECTLY
        said = message or answer.error()[0] or "nothing"
        return f"is not served ({answer.status} {kind}: {one_line(said, 60)})", mend
    if answer.status == 404 and not of_nobody:
        return "answers 404", _REVIEWED
    return None, ""


PROBE = Probe(
    name="routes",
    title="Required routes",
    proves=(
        "GET /v1/capabilities lists the five routes of the contract with exact method and path and "
        "their features strictly true, and each of them answers as Hermes would, in JSON."
    ),
    causes=(
        Cause("a feature or endpoint is missing", _REVIEWED),
        Cause("listed, but answers 404 in plain text", _REVIEWED),
        Cause("listed, but answers 500", _RESTART),
        Cause("listed, but answers in HTML, with a redirect or in plain text", _DIRECTLY),
    ),
    settle=probe,
)
