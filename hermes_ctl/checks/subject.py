"""The node under check: what the probes share, each thing asked for once.

Probes run side by side and ask here for what they need. The first to ask starts the work, the
others wait for the same result, so that no order has to be kept by hand.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.api.models import (
    Capabilities,
    DetailedHealth,
    Health,
    Model,
    RunAccepted,
    RunRequest,
    parse,
)
from hermes_ctl.checks.agent import AgentSettings, find_agent_process, read_agent_file
from hermes_ctl.checks.checklist import Checklist
from hermes_ctl.checks.contract import ContractRecorder
from hermes_ctl.checks.ledger import RunLedger
from hermes_ctl.checks.model import Timings
from hermes_ctl.checks.transcript import RunWatcher, Transcript
from hermes_ctl.config import Node
from hermes_ctl.errors import Undetermined

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What the operator chose, and what is known of the node beside its API.

    `provider_requests` gives what the model provider received (model names, prompts): only a lab
    knows that. `wait` is in seconds. `environment` is the process environment.
    """

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    strict: bool = False
    runs: bool = True
    allow_busy: bool = False
    wait: float = 0.0
    release: str | None = None
    hermes_bin: Path | None = None
    hermes_home: Path | None = None
    agent_url: str | None = None
    agent_env: Path | None = None
    node_capacity: int | None = None
    probe_capacity: bool = False
    other_model: str | None = None
    profiles: tuple[Node, ...] = ()
    provider_requests: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Subject:
    """One node, while it is checked."""

    def __init__(
        self, node: Node, client: Client, checklist: Checklist, settings: CheckSettings
    ) -> None:
        self.node = node
        self.client = client
        self.checklist = checklist
        self.settings = settings
        self.timings = Timings()
        self.recorder = ContractRecorder()
        self.ledger = RunLedger()
        self.watcher = RunWatcher(client, self.ledger, self.recorder)
        self.nonce = secrets.token_hex(4)
        self.replay: Answer | None = None
        self._agent_file = read_agent_file(settings.agent_env) if settings.agent_env else None
        self._shared: dict[str, asyncio.Task[Any]] = {}

    async def once(self, name: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """The result of `work`, started by the first who asks for `name`; its failure is shared."""
        task = self._shared.get(name)
        if task is None:
            task = asyncio.ensure_future(work())
            self._shared[name] = task
        result: Result = await asyncio.shield(task)
        return result

    def forget(self) -> None:
        """Forget what was asked, so that it is asked anew (`--wait`)."""
        self._shared.clear()

    async def close(self) -> None:
        """End what is still shared and under way."""
        for task in self._shared.values():
            task.cancel()
        await asyncio.gather(*self._shared.values(), return_exceptions=True)

    @property
    def release(self) -> str:
        """The PEP 440 specifier that step 1 holds the node to."""
        return self.settings.release or self.checklist.release

    @cached_property
    def is_local(self) -> bool:
        """Whether this machine is the node: its address is a loopback one."""
        host = urlsplit(self.node.url).hostname or ""
        return host in ("localhost", "::1") or host.startswith("127.")

    def token(self) -> str:
        """A word that no model says by chance."""
        return f"HERMESCTL-{secrets.token_hex(5).upper()}"

    def session(self, purpose: str) -> str:
        """A session id of our own, so that no conversation of anybody's is touched."""
        return f"hermesctl-check-{self.nonce}-{purpose}"

    # What the node answers

    async def get(self, route: str) -> Answer:
        """The unjudged answer of a read route, asked for once."""
        return await self.once(f"GET {route}", lambda: self.client.request("GET", route))

    async def read(self, route: str, model: type[Model]) -> Model:
        """The same, judged and typed. Raises what its status or shape means."""
        answer = self.client.judge(await self.get(route))
        return parse(model, answer.json(), answer)

    async def health(self) -> Health:
        return await self.read("/health", Health)

    async def detailed_health(self) -> DetailedHealth:
        return await self.read("/health/detailed", DetailedHealth)

    async def detailed_health_now(self) -> DetailedHealth:
        """The same, asked anew."""
        answer = await self.client.expect("GET", "/health/detailed")
        return parse(DetailedHealth, answer.json(), answer)

    async def capabilities(self) -> Capabilities:
        return await self.read("/v1/capabilities", Capabilities)

    async def version(self) -> str | None:
        """The version of the running gateway, None where it does not say."""
        return (await self.health()).version

    async def agent(self) -> AgentSettings | None:
        """The bMAS adapter's environment: its process's own where it runs here, else its file's."""

        async def look() -> AgentSettings | None:
            url = self.settings.agent_url
            found = await asyncio.to_thread(find_agent_process, url) if url else None
            return found or self._agent_file

        return await self.once("agent", look)

    # The runs of the check

    async def ready_for_runs(self) -> int:
        """The number of runs that were active before ours. Raises `Undetermined` for a node that is
        busy, unless the operator allowed it."""
        active = (await self.detailed_health()).active_api_runs or 0
        if active and not self.settings.allow_busy:
            raise Undetermined(
                f"the node is busy: {active} active run{'s' if active > 1 else ''}, so none was added",
                hint="try again when it is idle, or say --allow-busy",
            )
        return active

    async def canary(self) -> Transcript:
        """The short run with a tool call: steps 5, 6, 7 and 10 are read from it."""
        return await self.once("canary", self._canary)

    async def _canary(self) -> Transcript:
        await self.ready_for_runs()
        settings = self.checklist.canary
        request = RunRequest(
            input=settings.prompt.replace("{token}", self.canary_token),
            session_id=self.session("canary"),
        )
        idempotency_key = None
        if (await self.capabilities()).supports("runs_idempotency"):
            idempotency_key = f"hermesctl-{self.nonce}"
        transcript = await self.watcher.submit(request, idempotency_key=idempotency_key)
        if idempotency_key:
            await self._submit_again(request, idempotency_key, transcript.run_id)
        await self.watcher.watch(transcript, deadline=settings.deadline)
        self._time(transcript)
        return transcript

    async def _submit_again(self, request: RunRequest, idempotency_key: str, run_id: str) -> None:
        """The canary's second submission under the same key. A node that makes a second run of it
        does not get away with leaving it running."""
        self.replay = await self.client.request(
            "POST",
            "/v1/runs",
            json=request.body(),
            headers={"Idempotency-Key": idempotency_key},
        )
        if self.replay.status == 202:
            second = parse(RunAccepted, self.replay.json(), self.replay).run_id
            if second != run_id:
                self.ledger.started(second, request.session_id)

    @cached_property
    def canary_token(self) -> str:
        return self.token()

    def _time(self, transcript: Transcript) -> None:
        timings = self.timings
        if transcript.events:
            timings.first_event_s = round(transcript.events[0].arrived - transcript.submitted, 3)
        if transcript.ended is not None:
            timings.run_s = round(transcript.ended - transcript.submitted, 3)
        if transcript.poll_s is not None:
            timings.poll_s = round(transcript.poll_s, 3)
