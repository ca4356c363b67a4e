"""Nothing secret stands in any answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dotenv import dotenv_values

from hermes_ctl.checks.deep import deep, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.probes.wire import READ_ROUTES
from hermes_ctl.checks.subject import Subject
from hermes_ctl.secrets import Secret, without_known, wrong_key

_ROTATE = "change that secret, then ask Hermes' maintainers: no answer should hold it"
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHORTEST = 8


async def work(subject: Subject, trail: Trail) -> str:
    """All read routes and some refusals, searched for the node's key and, on the node itself, for
    every secret of its environment file."""
    known = await asyncio.to_thread(_own_secrets, subject)
    answers = [await subject.get(route) for route in READ_ROUTES]
    answers.append(await subject.client.request("GET", "/v1/models", key=wrong_key()))
    answers.append(await subject.client.request("POST", "/v1/runs", json={}))
    leaking = []
    for answer in answers:
        text = answer.body.decode("utf-8", "replace") + "\n".join(answer.headers.values())
        if without_known(text) != text:
            leaking.append(f"{answer.method} {answer.route} {answer.status}")
    where = "the node's key"
    if known:
        where += f" and what else is secret in its environment file ({len(known)})"
    trail.add(
        f"{len(answers)} answers, searched for {where}", ", ".join(leaking) or "none in there"
    )
    if leaking:
        raise wrong(f"a secret stands in the answer of {', '.join(leaking)}")
    return f"none of {len(answers)} answers holds {where}"


def _own_secrets(subject: Subject) -> list[Secret]:
    """The secrets of the node's own `.env`, where it is here. Being made, they are known."""
    home = subject.settings.hermes_home
    path = Path(home) / ".env" if home else None
    if path is None or not path.is_file():
        return []
    return [
        Secret(value, str(path))
        for name, value in dotenv_values(path).items()
        if value and len(value) >= _SHORTEST and name.upper().endswith(_SECRET_NAMES)
    ]


PROBE = Probe(
    name="leaks",
    title="Secrets in answers",
    proves=(
        "No answer of a read route, and no refusal, holds the node's key or another secret of its "
        "environment file."
    ),
    causes=(Cause("a secret stands in an answer", _ROTATE),),
    settle=deep("no known secret in any answer", work, _ROTATE),
)
