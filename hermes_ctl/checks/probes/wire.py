"""The wire contract: every read route that is advertised, and how the node refuses."""

from __future__ import annotations

import asyncio

from hermes_ctl.api.answers import Answer
from hermes_ctl.checks.contract import error_code
from hermes_ctl.checks.deep import deep, odd, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import HermesctlError
from hermes_ctl.secrets import wrong_key

READ_ROUTES = (
    "/health",
    "/v1/health",
    "/health/detailed",
    "/v1/capabilities",
    "/v1/models",
    "/v1/skills",
    "/v1/toolsets",
    "/api/model/options",
    "/api/sessions",
    "/api/jobs",
)
"""Those of the API document, asked for whether they are advertised or not."""

_NOBODY = "hermesctl-no-such-id"
_RESTART = "hermes gateway restart; a defect of the release if it stays"


async def work(subject: Subject, trail: Trail) -> str:
    """Each read route is called, each kind of refusal is provoked. A route that is advertised and
    broken is a warning here: the gate compares it with the other release."""
    endpoints = (await subject.capabilities()).endpoints.values()
    advertised = {
        one.path for one in endpoints if one.method.upper() == "GET" and "{" not in one.path
    }
    asked = sorted({*READ_ROUTES, *(path for path in advertised if not path.endswith("/ws"))})
    answers = await asyncio.gather(*(_read(subject, trail, path) for path in asked))
    await _refusals(subject, trail)
    broken = {
        path: answer
        for path, answer in zip(asked, answers, strict=True)
        if path in advertised and (answer is None or answer.status != 200)
    }
    if broken:
        named = "; ".join(
            f"GET {path} {f'answers {one.status}' if one else 'gives no answer'}"
            for path, one in broken.items()
        )
        raise odd(f"advertised, and broken: {named}")
    served = sum(answer is not None and answer.status == 200 for answer in answers)
    return f"{served} read routes answer, all {len(advertised)} advertised ones among them"


async def _read(subject: Subject, trail: Trail, path: str) -> Answer | None:
    try:
        answer = await subject.get(path)
    except HermesctlError as error:
        trail.add(f"GET {path}", error.message)
        return None
    trail.add(f"GET {path}", f"{answer.status} {answer.content_type}, {len(answer.body)} bytes")
    return answer


async def _refusals(subject: Subject, trail: Trail) -> None:
    """How the node says no. Each is kept by what was asked, so that two releases can be compared."""
    situations = {
        "no key": subject.client.request("GET", "/v1/models", key=None),
        "a wrong key": subject.client.request("GET", "/v1/models", key=wrong_key()),
        "a run that there is not": subject.client.request(
            "GET", "/v1/runs/{run_id}", values={"run_id": _NOBODY}
        ),
        "a stop of a run that there is not": subject.client.request(
            "POST", "/v1/runs/{run_id}/stop", values={"run_id": _NOBODY}
        ),
        "a session that there is not": subject.client.request(
            "GET", "/api/sessions/{session_id}", values={"session_id": _NOBODY}
        ),
        "a route that there is not": subject.client.request("GET", f"/v1/{_NOBODY}"),
        "a method that there is not": subject.client.request("DELETE", "/v1/models"),
        "a submission without input": subject.client.request("POST", "/v1/runs", json={}),
        "a submission that is no JSON": subject.client.request(
            "POST", "/v1/runs", content=b'{"input": '
        ),
        "a page of another origin": subject.client.request(
            "GET", "/health", headers={"Origin": "https://hermesctl.invalid"}
        ),
    }
    answers = await asyncio.gather(*situations.values())
    for situation, answer in zip(situations, answers, strict=True):
        subject.recorder.error(situation, answer)
        trail.add(situation, f"{answer.status} {error_code(answer)}")
    for situation in ("no key", "a wrong key"):
        answer = answers[list(situations).index(situation)]
        if answer.status != 401:
            raise wrong(f"{situation} is answered with {answer.status}, not 401")
    for situation, answer in zip(situations, answers, strict=True):
        if answer.status >= 500:
            raise wrong(f"{situation} is answered with {answer.status}")


PROBE = Probe(
    name="wire",
    title="Wire contract",
    proves=(
        "Every read route that the node advertises, and every one of the API document, is called; "
        "each kind of refusal is provoked. Statuses, shapes, headers and codes go into the report, "
        "where hermesctl diff and gate compare them."
    ),
    causes=(
        Cause("advertised, and broken", _RESTART),
        Cause("no key is answered with 200", "a proxy adds a key, or API_SERVER_KEY is not set"),
    ),
    settle=deep(
        "each advertised read route answers 200; wrong requests are refused", work, _RESTART
    ),
    deep=True,
)
