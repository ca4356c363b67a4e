"""Sees one turn of a session through on the screen."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from hermes_ctl.api.client import Client
from hermes_ctl.api.offers import Offers
from hermes_ctl.cli import loop, nodes
from hermes_ctl.cli.approving import Approver, rule_for
from hermes_ctl.cli.asking import can_be_typed
from hermes_ctl.cli.chosen import typed_again
from hermes_ctl.cli.following import view_of
from hermes_ctl.cli.options import NodeOptions, StreamView
from hermes_ctl.cli.run_options import Rule
from hermes_ctl.durations import format_duration
from hermes_ctl.errors import ExitCode, HermesctlError, Pending
from hermes_ctl.render.console import cell
from hermes_ctl.render.events import TextRunView
from hermes_ctl.runs.happenings import (
    Approval,
    ApprovalRequested,
    Ended,
    Happening,
    StateChanged,
    UnknownEvent,
)
from hermes_ctl.runs.result import Result, Verdict
from hermes_ctl.runs.turns import LONGEST, Turn, TurnRequest

_SETTLE = 10.0
"""Seconds that a turn which was asked to stop is waited for."""


class Chatting:
    """One turn on one screen. Made before anything is sent; raises `UsageError` for options that do
    not go together."""

    def __init__(
        self,
        view: StreamView,
        request: TurnRequest,
        node: NodeOptions,
        *,
        stream: bool,
        rule: Rule | None,
        show_reasoning: bool,
    ) -> None:
        self._screen = view.screen
        self._request = request
        self._stream = stream
        self._node = node
        self._again = typed_again(node)
        messages = f"hermesctl sessions messages {request.session_id} --tail 2"
        self._how_to_read = messages + self._again
        text = TextRunView(view.screen, show_reasoning=show_reasoning, more=self._how_to_read)
        self._text = text if view.format == "text" else None
        self._view = view_of(view, text)
        can_ask = self._text is not None and can_be_typed() and view.screen.error_is_terminal
        self._rule = rule_for(rule, can_ask=can_ask, otherwise="fail")
        self._interrupted = asyncio.Event()
        self._stopping = False

    def run(self, deadline: float | None) -> int:
        """Take the turn; its exit code. `deadline` is in seconds.

        Raises `Pending` where it did not end in time, or wants an approval that is not to be given.
        """
        return loop.run(
            self._taken(deadline),
            on_interrupt=self._interrupted.set,
            leaving_hint=lambda: self._how_to_read,
        )

    async def _taken(self, deadline: float | None) -> int:
        async with Client(nodes.resolve(self._node)) as client:
            turn = Turn(await Offers.of(client), self._request, stream=self._stream)
            shown = asyncio.create_task(self._shown(client, turn, deadline or LONGEST))
            interrupt = asyncio.create_task(self._interrupted.wait())
            try:
                await asyncio.wait(
                    {shown, interrupt}, timeout=deadline, return_when=asyncio.FIRST_COMPLETED
                )
                if not shown.done():
                    await self._stop(turn, shown)
                if interrupt.done():
                    return ExitCode.INTERRUPTED
                if self._stopping:
                    raise self._too_late(turn, deadline or 0.0)
                return (await shown).exit_code
            finally:
                interrupt.cancel()
                await self._leave(turn, shown)
                self._view.close()

    async def _shown(self, client: Client, turn: Turn, timeout: float) -> Result:
        approver = Approver(client, turn, self._rule, self._text, again=self._again)
        result: Result | None = None
        try:
            async for happening in turn.happenings(timeout):
                if isinstance(happening, StateChanged):
                    about = f"session {self._request.session_id}"
                    self._view.begin(turn.run_id, about, started=False)
                if isinstance(happening, Ended):
                    happening = Ended(self._as_stopped(happening.result))
                    result = happening.result
                self._show(happening)
                if isinstance(happening, ApprovalRequested):
                    self._refuse_to_wait(happening.approval)
                await approver.react(happening)
                self._view.flush()
        finally:
            approver.close()
        assert result is not None
        return result

    def _show(self, happening: Happening) -> None:
        """Unknown events are for programs, and for whoever wants to know more."""
        hidden = isinstance(happening, UnknownEvent) and self._text is not None
        if not hidden or self._screen.verbose:
            self._view.show(happening)

    def _refuse_to_wait(self, approval: Approval) -> None:
        """Raises `Pending` for a request that is not to be answered here. Unlike that of a run, it
        cannot wait: when its stream is dropped, Hermes takes the turn for given up."""
        if self._rule == "ask" or self._rule in approval.choices:
            return
        command = cell(approval.command or "a command that is not known here", 300)
        raise Pending(
            f"the turn wants an approval, and was given up: {command}",
            hint="--on-approval once or deny answers it; on a terminal it is asked for",
        )

    def _as_stopped(self, result: Result) -> Result:
        """A turn that was asked to stop is reported as completed up to 0.20.4, with no token spent."""
        if not self._stopping or result.verdict is not Verdict.SUSPECT:
            return result
        return replace(result, state="stopped", verdict=Verdict.CANCELLED, reason="it was stopped")

    # The ways out

    async def _stop(self, turn: Turn, shown: asyncio.Task[Result]) -> None:
        """Ask the node to stop the turn, and wait until it has ended; where it cannot be asked, say
        that it goes on."""
        self._stopping = True
        asked = False
        with contextlib.suppress(HermesctlError):
            asked = await turn.stop()
        if asked:
            await asyncio.wait({shown}, timeout=_SETTLE)
        if not shown.done():
            shown.cancel()
            if self._text is not None:
                self._text.close()
            what = "does not stop" if asked else "cannot be stopped, and goes on on the node"
            self._screen.note(f"the turn {what}; its answer: {self._how_to_read}")

    async def _leave(self, turn: Turn, shown: asyncio.Task[Result]) -> None:
        """However this ends, no turn is left working for nobody, where that can be helped."""
        given_up = not shown.done() or (not shown.cancelled() and shown.exception() is not None)
        shown.cancel()
        if given_up and not self._stopping:
            with contextlib.suppress(HermesctlError):
                await turn.stop()
        await asyncio.wait({shown})

    def _too_late(self, turn: Turn, deadline: float) -> Pending:
        return Pending(
            f"the turn did not end within {format_duration(deadline)}"
            + (", and was asked to stop" if turn.can_be_stopped else ""),
            hint=self._how_to_read,
        )
