"""The stand-in answers as 0.20.4.post1 does: the recorded conversations, held with it, have the same shapes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.checks.shapes import Shape
from tests.cassettes import scenarios
from tests.faults.server import HermesServer
from tests.faults.wire import SECURITY_HEADERS

pytestmark = pytest.mark.anyio

RELEASE = Path(scenarios.__file__).parent / "0.20.4.post1"
WATCHED = {name.lower() for name in SECURITY_HEADERS} | {
    "content-type",
    "allow",
    "retry-after",
    "x-hermes-session-key",
}
UNLIKE = re.compile(
    r"\$\.providers\[\]"  # fifty providers in the real one, two here
    r"|\$\.platforms\.api_server"  # process ids of the machine
    r"|\$\.readiness\.checks\.\w+\.detail"
)

Told = dict[str, tuple[Shape, set[str]]]


def learn(told: Told, name: str, body: bytes, headers: set[str]) -> None:
    """Adds one answer to what was told: the shape of its JSON, or its text, and its headers."""
    shape, seen = told.setdefault(name, (Shape(), set()))
    seen |= headers & WATCHED
    try:
        shape.learn(json.loads(body))
    except ValueError:
        shape.types.add(body.decode())


def recorded(scenario: str) -> Told:
    told: Told = {}
    cassette: dict[str, Any] = yaml.safe_load((RELEASE / f"{scenario}.yaml").read_text("utf-8"))
    for interaction in cassette["interactions"]:
        request, response = interaction["request"], interaction["response"]
        path = re.sub(r"run_\w{32}", "{id}", urlsplit(request["uri"]).path)
        name = f"{request['method']} {path} {response['status']['code']}"
        body = response["body"]["string"]
        learn(
            told, name, body.encode() if isinstance(body, str) else body, set(response["headers"])
        )
    return told


async def told_by(server: HermesServer, scenario: str) -> Told:
    told: Told = {}

    def observe(answer: Answer) -> None:
        path = re.sub(r"run_\w{32}", "{id}", urlsplit(answer.url).path)
        learn(told, f"{answer.method} {path} {answer.status}", answer.body, set(answer.headers))

    async with Client(server.node(), observe=observe) as client:
        await scenarios.SCENARIOS[scenario](client, 0.01)
    return told


def paths(shape: Shape) -> dict[str, list[str]]:
    """The shape without what differs by the node and not by the release."""
    return {path: types for path, types in shape.paths() if not UNLIKE.match(path)}


@pytest.mark.parametrize("scenario", scenarios.SCENARIOS)
async def test_same_answers(server: HermesServer, scenario: str) -> None:
    real, ours = recorded(scenario), await told_by(server, scenario)
    may_be_missed = {name for name in real if name.endswith(" 404") and "/api/sessions/" in name}
    assert real.keys() - may_be_missed == ours.keys() - may_be_missed
    for name in real.keys() & ours.keys():
        assert ours[name][1] == real[name][1], f"headers of {name}"
        if name != "GET /v1/skills 200":  # the recorded node has none
            assert paths(ours[name][0]) == paths(real[name][0]), name
