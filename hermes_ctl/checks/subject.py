"""The node under check: what the probes share, each thing asked for once.

Probes run side by side and ask here for what they need. The first to ask starts the work, the
others wait for the same result, so that no order has to be kept by hand.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from hermes_ctl.addresses import Address, parse_address
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
from hermes_ctl.checks.agent import (
    AgentSettings,
    agent_port,
    find_agent_process,
    read_agent_file,
)
from hermes_ctl.checks.checklist import Checklist
from hermes_ctl.checks.contract import ContractRecorder
from hermes_ctl.checks.ledger import RunLedger
from hermes_ctl.checks.model import ServerProcess, Timings
from hermes_ctl.checks.probe import Blocked
from hermes_ctl.checks.processes import gateway_process
from hermes_ctl.checks.server_process import server_process
from hermes_ctl.checks.settings import CheckSettings as CheckSettings
from hermes_ctl.checks.stage import Stage
from hermes_ctl.checks.transcript import RunWatcher, Transcript
from hermes_ctl.config import Node
from hermes_ctl.errors import (
    AuthenticationFailed,
    HermesctlError,
    RunNotFound,
    Undetermined,
)
from hermes_ctl.text import how_many

if TYPE_CHECKING:
    from psutil import Process

Result = TypeVar("Result")

DEEP_LANES = 4
"""How many deep probes put work on the node at once: it is to be looked at, not loaded."""


SURVEY_LIMIT = 5.0
WARM_UP_LIMIT = 30.0
"""Seconds for which the runs let the routes go first, and the other runs the first one."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What the second submission under one idempotency key gave: an id, or why it gave none."""

    run_id: str | None = None
    error: HermesctlError | None = None


class Subject:
    """One node, while it is checked.

    `survey` is the asking of every route, `warm_up` the first run until its first event.
    """

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
        self.replay: Replay | None = None
        self.survey = Stage(SURVEY_LIMIT)
        self.warm_up = Stage(WARM_UP_LIMIT)
        self._agent_file = read_agent_file(settings.agent_env) if settings.agent_env else None
        self.lanes = asyncio.Semaphore(DEEP_LANES)
        self._shared: dict[str, asyncio.Task[Any]] = {}
        self._waited: dict[asyncio.Task[Any] | None, float] = {}

    async def once(self, name: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """The result of `work`, started by the first who asks for `name`; its failure is shared."""
        task = self._shared.get(name)
        mine = task is None
        if task is None:
            task = asyncio.ensure_future(work())
            self._shared[name] = task
        began = time.monotonic()
        try:
            result: Result = await asyncio.shield(task)
        finally:
            if not mine:
                asker = asyncio.current_task()
                self._waited[asker] = self.waited() + time.monotonic() - began
        return result

    def waited(self) -> float:
        """Seconds that the current task has waited for work that another one had begun."""
        return self._waited.get(asyncio.current_task(), 0.0)

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
    def address(self) -> Address:
        return parse_address(self.node.url, "the node")

    async def gateway(self) -> Process | None:
        """The gateway's process, where this machine is the node and it may be seen."""
        return await self.once("gateway process", self._gateway)

    async def _gateway(self) -> Process | None:
        if not self.address.is_loopback:
            return None
        try:
            pid = (await self.detailed_health()).pid
        except HermesctlError:
            return None
        if pid is None:
            return None
        port = self.address.port or (443 if self.address.scheme == "https" else 80)
        return await asyncio.to_thread(gateway_process, pid, port)

    async def is_here(self) -> bool:
        """Whether this machine is the node: its address is a loopback one, and its process, where
        the node names one, is a process of this machine."""
        if not self.address.is_loopback:
            return False
        try:
            pid = (await self.detailed_health()).pid
        except HermesctlError:
            return True
        return pid is None or await self.gateway() is not None

    def token(self) -> str:
        """A word that no model says by chance."""
        return f"HERMESCTL-{secrets.token_hex(5).upper()}"

    def session(self, purpose: str) -> str:
        """A session id of our own, so that no conversation of anybody's is touched."""
        return f"hermesctl-check-{self.nonce}-{purpose}"

    # What the node answers

    async def get(self, route: str, *, timeout: float | None = None) -> Answer:
        """The unjudged answer of a read route, asked for once."""
        request = self.client.request
        return await self.once(f"GET {route}", lambda: request("GET", route, timeout=timeout))

    async def read(self, route: str, model: type[Model]) -> Model:
        """The same, judged and typed. Raises what its status or shape means."""
        answer = self.client.judge(await self.get(route))
        return parse(model, answer.json(), answer)

    async def health(self) -> Health:
        return await self.read("/health", Health)

    async def detailed_health(self) -> DetailedHealth:
        return await self.read("/health/detailed", DetailedHealth)

    def seen_process(self) -> ServerProcess | None:
        """The process that answered, where its health was asked for at all."""
        task = self._shared.get("GET /health/detailed")
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        answer: Answer = task.result()
        try:
            return server_process(parse(DetailedHealth, self.client.judge(answer).json(), answer))
        except HermesctlError:
            return None

    async def detailed_health_now(self) -> DetailedHealth:
        """The same, asked anew."""
        answer = await self.client.expect("GET", "/health/detailed")
        return parse(DetailedHealth, answer.json(), answer)

    async def require_key(self) -> None:
        """Raises `AuthenticationFailed` where the node refuses the key; any other trouble with
        `/health/detailed` is for step readiness to tell."""
        try:
            await self.detailed_health()
        except AuthenticationFailed:
            raise
        except HermesctlError:
            return

    async def capabilities(self) -> Capabilities:
        return await self.read("/v1/capabilities", Capabilities)

    async def version(self) -> str | None:
        """The version of the running gateway, None where it does not say."""
        return (await self.health()).version

    async def agent(self) -> AgentSettings | None:
        """The bMAS adapter's environment: its process's own where it runs here, else its file's."""

        async def look() -> AgentSettings | None:
            url = self.settings.agent_url
            port = agent_port(url) if url else None
            found = await asyncio.to_thread(find_agent_process, port) if port else None
            return found or self._agent_file

        return await self.once("agent", look)

    # The runs of the check

    async def ready_for_runs(self) -> int | None:
        """The number of runs that were active before ours, None where the node does not tell.

        Raises `Undetermined` for a node that is busy, unless the operator allowed it, and `Blocked`
        for one that takes no runs.
        """
        return await self.once("ready for runs", self._ready_for_runs)

    async def _ready_for_runs(self) -> int | None:
        try:
            detailed = await self.detailed_health()
        except AuthenticationFailed:
            raise
        except HermesctlError:
            return None  # step readiness says what is wrong there
        if detailed.gateway_state == "draining":
            raise Blocked("readiness", "the gateway is draining and takes no runs")
        active = detailed.active_api_runs
        if active and not self.settings.allow_busy:
            raise Undetermined(
                f"the node is busy: {how_many(active, 'active run')}, so none was added",
                hint="check again when it is idle (hermesctl runs), or add runs to it: --allow-busy",
            )
        await self.survey.wait()
        return active

    async def canary(self) -> Transcript:
        """The short run with a tool call: steps 6, 7 and 10 are read from it.

        Raises `Blocked` where it was not even accepted, or never heard of again: step 5 says why.
        """
        try:
            transcript = await self.accepted_canary()
        except AuthenticationFailed:
            raise
        except HermesctlError as error:
            raise Blocked("run-id", error.message) from error
        self.require_known(transcript)
        return transcript

    def require_known(self, transcript: Transcript) -> None:
        """Raises `Blocked` for a run that the node accepted and does not know."""
        if isinstance(transcript.poll_error, RunNotFound) and not transcript.events:
            raise Blocked("run-id", "the node does not know the run that it accepted")

    async def accepted_canary(self) -> Transcript:
        """The same for step 5. Raises what its submission raises."""
        self.warm_up.begin()
        return await self.once("canary", self._canary)

    async def _canary(self) -> Transcript:
        try:
            return await self._watched_canary()
        finally:
            self.warm_up.end()

    async def _watched_canary(self) -> Transcript:
        await self.ready_for_runs()
        settings = self.checklist.canary
        request = RunRequest(
            input=settings.prompt.replace("{token}", self.canary_token),
            session_id=self.session("canary"),
        )
        key = f"hermesctl-{self.nonce}" if await self.is_idempotent() else None
        transcript = await self.watcher.submit(request, idempotency_key=key)
        if key:
            again = self._submit_again(request, key, transcript.run_id)
            self.replay = await self.ledger.submission(again)
        await self.watcher.watch(
            transcript, deadline=settings.deadline, on_event=lambda _: self.warm_up.end()
        )
        self._time(transcript)
        return transcript

    async def is_idempotent(self) -> bool:
        """Whether the node says that it honours an `Idempotency-Key`."""
        try:
            return (await self.capabilities()).supports("runs_idempotency")
        except HermesctlError:
            return False  # step routes says what is wrong there

    async def _submit_again(self, request: RunRequest, idempotency_key: str, first: str) -> Replay:
        """The canary's second submission under the same key. A node that makes a second run of it
        does not get away with leaving it running."""
        try:
            answer = await self.client.expect(
                "POST",
                "/v1/runs",
                json=request.body(),
                headers={"Idempotency-Key": idempotency_key},
            )
            run_id = parse(RunAccepted, answer.json(), answer).run_id
        except HermesctlError as error:
            return Replay(error=error)
        if run_id != first:
            self.ledger.started(run_id, request.session_id)
        return Replay(run_id)

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
