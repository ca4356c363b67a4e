"""Step 4: the key opens, and nothing else does."""

from __future__ import annotations

import asyncio
from functools import partial

from hermes_ctl.api.answers import Answer
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.secrets import NEW_KEY, wrong_key

_ROUTE = "/v1/models"


async def probe(subject: Subject) -> Finding:
    """`/health` needs no key, so it passes with any (wire.md, 0.11): an authenticated route is asked
    with the key, without one and with a wrong one; the latter two must be 401."""
    request = subject.client.request
    health, own, without, other = await asyncio.gather(
        subject.get("/health"),
        subject.get(_ROUTE),
        request("GET", _ROUTE, key=None),
        request("GET", _ROUTE, key=wrong_key()),
    )
    trail = Trail()
    for label, answer in (
        ("GET /health with the key", health),
        (f"GET {_ROUTE} with the key", own),
        (f"GET {_ROUTE} without a key", without),
        (f"GET {_ROUTE} with a wrong key", other),
    ):
        trail.add(label, answer.status)
    problems, fixes = _problems(subject, own, without, other)
    finding = partial(
        Finding,
        expected="200 with the key; 401 without one and with a wrong one",
        observed=f"{own.status} with the key, {without.status} without, {other.status} with a wrong one",
        evidence=trail(),
    )
    if problems:
        return finding(Status.FAIL, "; ".join(problems), fix=tuple(dict.fromkeys(fixes)))
    untold = [answer for answer in (own, without, other) if answer.status not in (200, 401, 403)]
    if untold:
        message = untold[0].error()[0] or "nothing"
        return finding(
            Status.UNKNOWN,
            f"GET {_ROUTE} answers {untold[0].status}, so the key cannot be tried: {message}",
            fix=("step routes tells what is wrong there",),
        )
    if subject.node.key_findings:
        return finding(
            Status.WARN,
            f"key accepted, but: {subject.node.key_findings[0]}",
            fix=(f"{NEW_KEY} makes a strong one",),
        )
    if health.status != 200:
        return finding(
            Status.WARN,
            f"the key opens GET {_ROUTE}, and GET /health answers {health.status}",
            fix=("step routes tells what is wrong there",),
        )
    return finding(Status.PASS, "key accepted; no key and a wrong key refused with 401")


def _problems(
    subject: Subject, own: Answer, without: Answer, other: Answer
) -> tuple[list[str], list[str]]:
    """What is certainly wrong, and what mends it."""
    problems: list[str] = []
    fixes: list[str] = []
    key = subject.node.key
    if own.status in (401, 403) and key is None:
        problems.append("the node wants a key and none is configured here")
        fixes.append("give its API_SERVER_KEY: --key-file FILE, or hermesctl config set-context")
        fixes.append("hermesctl config explain shows where a key is looked for")
    elif own.status in (401, 403) and key is not None:
        problems.append(f"the key was refused ({own.status}); it came from {key.source}")
        fixes.append("give the node's API_SERVER_KEY: hermesctl config explain")
        fixes += subject.node.key_findings
    for answer, what in ((without, "without a key"), (other, "with a wrong key")):
        if answer.status == 200:
            problems.append(f"anyone gets in {what}")
            fixes.append(
                "set API_SERVER_KEY on the node and restart it (hermes gateway restart), "
                "or find out which proxy adds the key"
            )
    return problems, fixes


PROBE = Probe(
    name="auth",
    title="Authentication",
    proves=(
        "The configured key is accepted on a route that needs one, and that route refuses no key and "
        "a wrong key with 401. GET /health alone proves nothing: it needs no key."
    ),
    causes=(
        Cause(
            "no key is configured here", "--key-file FILE, or hermesctl config set-context, once"
        ),
        Cause(
            "the key was refused",
            "it must be the node's API_SERVER_KEY; hermesctl config explain tells where it came from",
        ),
        Cause("a named profile refuses the key", "each profile has an API_SERVER_KEY of its own"),
        Cause(
            "anyone gets in",
            "set API_SERVER_KEY on the node, then: hermes gateway restart; or a proxy adds the key",
        ),
        Cause(
            "the key is weak",
            f"{NEW_KEY} makes a strong one; below 16 characters the port stays closed",
        ),
    ),
    settle=probe,
)
