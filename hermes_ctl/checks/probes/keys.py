"""Every protected route refuses a missing and a wrong key."""

from __future__ import annotations

import asyncio
import re

from hermes_ctl.api.answers import Answer
from hermes_ctl.checks.deep import deep, unsettled, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.secrets import Secret, wrong_key

OPEN = frozenset({"GET /health", "GET /v1/health"})
"""They need no key by design (wire.md, 0.11)."""

_NOBODY = "hermesctl-no-such-id"
_PARAMETER = re.compile(r"\{(\w+)\}")
_KEY = "set API_SERVER_KEY in the node's .env and restart the gateway; let no proxy add a key"
_NO_JSON = b"{"
"""A body that no route can act on, should one let us in."""


async def work(subject: Subject, trail: Trail) -> str:
    """All advertised routes, asked twice for what there is not. Nothing can be changed by it even
    where a route lets us in: ids are nobody's and bodies are no JSON."""
    routes = sorted(
        {
            (one.method.upper(), one.path)
            for one in (await subject.capabilities()).endpoints.values()
            if f"{one.method.upper()} {one.path}" not in OPEN and not one.path.endswith("/ws")
        }
    )
    if not routes:
        raise unsettled("the node advertises no route that needs a key")
    open_to: list[str] = []
    missing: set[str] = set()
    for kind, key in (("no key", None), ("a wrong key", wrong_key())):
        answers = await asyncio.gather(*(_ask(subject, *route, key) for route in routes))
        for (method, path), answer in zip(routes, answers, strict=True):
            if _is_missing(answer):
                missing.add(f"{method} {path}")
            elif answer.status != 401:
                open_to.append(f"{method} {path} answers {kind} with {answer.status}")
        refused = sum(answer.status == 401 for answer in answers)
        trail.add(kind, f"{refused} of {len(answers)} routes answer 401")
    for route in sorted(missing):
        trail.add("not served", route)
    for line in open_to:
        trail.add("not refused", line)
    if open_to:
        more = f", and {len(open_to) - 1} more" if len(open_to) > 1 else ""
        raise wrong(open_to[0] + more)
    if len(missing) == len(routes):
        raise unsettled("the node serves none of the routes that it advertises")
    told = f"{len(routes) - len(missing)} protected routes refuse no key and a wrong key"
    return f"{told}; {len(missing)} that are advertised are not served" if missing else told


def _is_missing(answer: Answer) -> bool:
    """Whether there is no such route at all (wire.md, 11): nobody gets in where nothing is. 0.22
    advertises what it serves only with an extension switched on."""
    return answer.status == 404 and answer.content_type == "text/plain"


async def _ask(subject: Subject, method: str, path: str, key: Secret | None) -> Answer:
    values = dict.fromkeys(_PARAMETER.findall(path), _NOBODY)
    content = _NO_JSON if method in ("POST", "PATCH", "PUT") else None
    return await subject.client.request(method, path, values=values, content=content, key=key)


PROBE = Probe(
    name="keys",
    title="Protected routes",
    proves="Every advertised route but the plain health check answers 401 without a key and with a wrong one.",
    causes=(
        Cause("a route answers without a key", _KEY),
        Cause("every key is accepted", "a proxy adds the right one: ask the node directly"),
    ),
    settle=deep("401 from every protected route, without a key and with a wrong one", work, _KEY),
)
