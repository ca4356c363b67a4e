"""How long a whole check takes, as a ratio to the bare requests that it has to make.

The limit is 1.15. The bare requests are made with httpx and httpx-sse alone, in the order and with
the overlap of the check: the routes, then one run, then the others beside it, a stop, polls, and
the sessions deleted at the end. Checks and bare requests alternate against one lab, so that a busy
machine slows both alike, and medians are compared.

    python -m tests.bench.check [ROUNDS]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import httpx
from httpx_sse import aconnect_sse

from hermes_ctl.checks.checklist import load_checklist
from hermes_ctl.checks.model import Verdict
from hermes_ctl.checks.runner import check_node
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.cli.sides import with_lab
from hermes_ctl.config import Node, environment
from hermes_ctl.lab.gateway import start

LIMIT = 1.15
PROMPTS = load_checklist()
NOBODY = "hermesctl-no-such-id"
ENDED = ("completed", "failed", "cancelled")
POLL = 0.05

OTHER_ROUTES = (
    ("POST", "/v1/runs"),
    ("GET", f"/v1/runs/{NOBODY}"),
    ("POST", f"/v1/runs/{NOBODY}/stop"),
    ("GET", "/api/model/options"),
    ("POST", f"/v1/runs/{NOBODY}/approval"),
    ("POST", f"/v1/runs/{NOBODY}/steer"),
    ("GET", "/v1/skills"),
    ("GET", "/v1/toolsets"),
    ("GET", "/api/sessions"),
    ("GET", f"/api/sessions/{NOBODY}"),
    ("PATCH", f"/api/sessions/{NOBODY}"),
    ("DELETE", f"/api/sessions/{NOBODY}"),
    ("GET", f"/api/sessions/{NOBODY}/messages"),
    ("POST", f"/api/sessions/{NOBODY}/fork"),
    ("POST", f"/api/sessions/{NOBODY}/chat"),
    ("POST", f"/api/sessions/{NOBODY}/chat/stream"),
    ("POST", f"/api/sessions/{NOBODY}/model"),
)
"""Beside those that are asked for their own sake, and the events of nobody's run."""


@dataclass
class BareRequests:
    """One check's requests, and nothing made of the answers but what the next one needs."""

    http: httpx.AsyncClient
    other_model: str
    sessions: list[str] = field(default_factory=list)

    async def make(self) -> None:
        await self.http.get("/health")
        surveyed, warm = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._routes(surveyed))
            group.create_task(self._readiness())
            group.create_task(self.http.get("/v1/models", headers={"Authorization": ""}))
            group.create_task(self.http.get("/v1/models", headers={"Authorization": "Bearer x"}))
            await surveyed.wait()
            canary = PROMPTS.canary.prompt.replace("{token}", "HERMESCTL-BARE")
            group.create_task(self._short_run(canary, None, warm))
            await warm.wait()
            group.create_task(self._long_run())
            tiny = PROMPTS.model_run.prompt.replace("{token}", "HERMESCTL-BARE")
            group.create_task(self._model_run(tiny, self.other_model))
            group.create_task(self._model_run(tiny, "hermesctl-no-such-model"))
        gone = [self.http.delete(f"/api/sessions/{session}") for session in self.sessions]
        await asyncio.gather(*gone)

    async def _routes(self, surveyed: asyncio.Event) -> None:
        await self.http.get("/v1/capabilities")
        slow = asyncio.create_task(self.http.get(f"/v1/runs/{NOBODY}/events"))
        asked = [self._ask(method, path) for method, path in OTHER_ROUTES]
        await asyncio.gather(*asked)
        surveyed.set()
        await slow

    async def _ask(self, method: str, path: str) -> None:
        body: dict[str, str] | None = {} if method in ("POST", "PATCH") else None
        await self.http.request(method, path, json=body)

    async def _readiness(self) -> None:
        await asyncio.gather(self.http.get("/health/detailed"), self.http.get("/v1/models"))
        await self.http.get("/health/detailed")

    async def _submit(self, prompt: str, model: str | None) -> tuple[str, str]:
        session = f"hermesctl-bare-{secrets.token_hex(6)}"
        self.sessions.append(session)
        body: dict[str, str] = {"input": prompt, "session_id": session}
        if model is not None:
            body["model"] = model
        answer = await self.http.post("/v1/runs", json=body)
        return answer.json()["run_id"], session

    async def _events(self, run_id: str, seen: Callable[[dict[str, Any]], None]) -> None:
        path = f"/v1/runs/{run_id}/events"
        async with aconnect_sse(self.http, "GET", path) as source:
            async for event in source.aiter_sse():
                seen(json.loads(event.data))

    async def _short_run(self, prompt: str, model: str | None, warm: asyncio.Event | None) -> str:
        run_id, session = await self._submit(prompt, model)
        await self._events(run_id, lambda _: warm.set() if warm else None)
        await self._poll_until_ended(run_id)
        return session

    async def _model_run(self, prompt: str, model: str) -> None:
        session = await self._short_run(prompt, model, None)
        await self.http.get(f"/api/sessions/{session}")

    async def _long_run(self) -> None:
        run_id, _ = await self._submit(PROMPTS.long_run.prompt, None)
        streaming = asyncio.Event()
        reading = asyncio.create_task(self._events(run_id, lambda _: streaming.set()))
        await streaming.wait()
        await self.http.post(f"/v1/runs/{run_id}/stop")
        await self._poll_until_ended(run_id)
        await self.http.get("/health/detailed")
        await reading

    async def _poll_until_ended(self, run_id: str) -> None:
        while True:
            answer = await self.http.get(f"/v1/runs/{run_id}")
            if answer.json()["status"] in ENDED:
                return
            await asyncio.sleep(POLL)


async def bare(node: Node, other_model: str) -> None:
    """What `BareRequests` says, over connections of its own, as a check has them."""
    assert node.key is not None
    headers = {"Authorization": f"Bearer {node.key.reveal()}"}
    async with httpx.AsyncClient(base_url=node.url, headers=headers, timeout=60) as http:
        await BareRequests(http, other_model).make()


async def check(node: Node, settings: CheckSettings) -> None:
    report = await check_node(node, PROMPTS, settings, lambda _: None)
    assert report.verdict is Verdict.READY, [
        (step.id, step.summary) for step in report.steps if step.status not in ("pass", "skip")
    ]


def measured(node: Node, settings: CheckSettings, rounds: int) -> tuple[float, float]:
    """(the median check, the median of the bare requests), in seconds."""
    ways: Mapping[str, Callable[[], Awaitable[None]]] = {
        "bare": lambda: bare(node, settings.other_model or ""),
        "check": lambda: check(node, settings),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            begun = time.perf_counter()
            asyncio.run(_awaited(work))
            if number:  # the first of each is slow: modules are loaded, a gateway is cold
                times[name].append(time.perf_counter() - begun)
    return median(times["check"]), median(times["bare"])


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def tell(taken: float, needed: float) -> float:
    ratio = taken / needed
    print(f"the bare requests   {needed:6.2f} s")
    print(f"a check             {taken:6.2f} s  {ratio:5.2f} times, at most {LIMIT:g}")
    return ratio


@contextlib.contextmanager
def in_a_lab() -> Iterator[tuple[Node, CheckSettings]]:
    with start(environment=environment()) as lab:
        settings = with_lab(CheckSettings(environment=environment()), lab)
        yield lab.node, settings


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with in_a_lab() as (node, settings):
        return int(tell(*measured(node, settings, rounds)) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
