"""Answers to the approvals of a run that is being followed: by rule, or asked at the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Protocol

from hermes_ctl.cli.run_options import Rule
from hermes_ctl.errors import HermesctlError, Pending, Refused, UsageError
from hermes_ctl.render.console import cell
from hermes_ctl.runs.control import send_answer
from hermes_ctl.runs.happenings import (
    Approval,
    ApprovalRequested,
    ApprovalResponded,
    Ended,
    Happening,
    ToolCompleted,
)

if TYPE_CHECKING:
    from hermes_ctl.api.client import Client
    from hermes_ctl.render.events import TextRunView
    from hermes_ctl.runs.approvals import OpenApprovals

_LONGEST_LINE = 4096


class Asking(Protocol):
    """What asks for approvals: a run that is followed, or a turn of a session."""

    @property
    def run_id(self) -> str: ...

    @property
    def approvals(self) -> OpenApprovals: ...


class Approver:
    """Deals with approvals by `rule`; None only shows them and leaves them to others.

    With `fail`, and where the rule's choice is not offered, it raises `Pending` with the command
    that answers the request; `again` is what that has to end with.
    """

    def __init__(
        self,
        client: Client,
        asking: Asking,
        rule: Rule | None,
        view: TextRunView | None,
        *,
        again: str = "",
    ) -> None:
        self._again = again
        self._client = client
        self._run = asking
        self._rule = rule
        self._question = Question(view) if view is not None else None
        self._asking: asyncio.Task[None] | None = None
        self._asked: Approval | None = None

    async def react(self, happening: Happening) -> None:
        """Takes every happening."""
        if isinstance(happening, ApprovalRequested):
            await self._requested(happening.approval)
        elif isinstance(happening, (ApprovalResponded, ToolCompleted, Ended)):
            self._forget_answered(ended=isinstance(happening, Ended))

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _requested(self, approval: Approval) -> None:
        if self._rule is None:
            return
        if self._rule == "ask":
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            return
        if self._rule == "fail" or self._rule not in approval.choices:
            raise self._pending(approval)
        await self._send(self._rule, approval)

    def _pending(self, approval: Approval) -> Pending:
        run_id = self._run.run_id
        command = "a command that is not known here"
        if approval.command is not None:
            command = cell(approval.command, 300)
            command += f" ({cell(approval.description, 100)})" if approval.description else ""
        rule = "" if self._rule == "fail" else f", and offers no {self._rule!r}"
        return Pending(
            f"{run_id} waits for an approval: {command}{rule}",
            hint=f"hermesctl approve {run_id} --once    or: hermesctl deny {run_id}",
        )

    async def _send(self, choice: str, approval: Approval) -> None:
        self._run.approvals.answered(approval)
        try:
            await send_answer(self._client, self._run.run_id, choice, approval)
        except Refused as error:
            self._say(f"the answer came too late: {error.message}")

    # At the terminal

    async def _ask(self) -> None:
        """Ask about what is open, the oldest first: without a request id the node takes that."""
        assert self._question is not None
        while waiting := self._run.approvals.all():
            self._asked = approval = waiting[0]
            choice = await self._question.ask(approval)
            self._asked = None
            if choice is None:
                command = f"hermesctl approve {self._run.run_id}{self._again}"
                self._say(f"not answered; from elsewhere: {command}")
                return
            try:
                await self._send(choice, approval)
            except HermesctlError as error:
                self._say(f"the answer could not be delivered: {error.message}")
                return

    def _forget_answered(self, *, ended: bool) -> None:
        """Take a question back that somebody else answered, or that timed out on the node."""
        if self._asking is None or self._asking.done():
            return
        if ended or self._asked not in self._run.approvals.all():
            self._asking.cancel()
            self._asking = None
            if self._question is not None:
                self._question.withdraw("no answer is needed any more")

    def _say(self, text: str) -> None:
        if self._question is not None:
            self._question.say(text)


class Question:
    """Asks for a choice at the terminal, without standing in the way of what goes on."""

    def __init__(self, view: TextRunView) -> None:
        self._view = view

    async def ask(self, approval: Approval) -> str | None:
        """One of the approval's choices; None where nobody wants to answer. `always` is asked twice:
        it writes a rule on the node that holds for ever (wire.md, 0.17)."""
        _forget_typed_ahead()
        words = ", ".join(approval.choices[:-1]) + f" or {approval.choices[-1]}"
        try:
            while True:
                line = await self._line(f"{words}?")
                if line is None:
                    self._view.withdraw()
                    return None
                choice = _meant(line, approval.choices)
                if choice == "always" and not await self._is_sure():
                    choice = None
                if choice is not None:
                    return choice
        finally:
            self._view.release()

    def say(self, text: str) -> None:
        self._view.say(" ", "approval", text)

    def withdraw(self, why: str) -> None:
        """The question that stands there is none any more."""
        self._view.withdraw()
        self.say(why)

    async def _is_sure(self) -> bool:
        line = await self._line(
            "always allows commands of this kind on the node from now on; type always once more:"
        )
        return (line or "").strip().lower() == "always"

    async def _line(self, prompt: str) -> str | None:
        self._view.hold(prompt)
        return await _read_line()


def _meant(line: str, choices: tuple[str, ...]) -> str | None:
    """The choice that a word or its beginning means, None for any other."""
    word = line.strip().lower()
    found = [choice for choice in choices if word and choice.startswith(word)]
    return found[0] if len(found) == 1 else None


async def _read_line() -> str | None:
    """A line from the terminal, None at its end. It can be cancelled."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    ready: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, readable)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    line = os.read(descriptor, _LONGEST_LINE)
    return line.decode("utf-8", "replace") if line else None


def _forget_typed_ahead() -> None:
    """Drop what was typed before the question could be read: it was not meant for it."""
    import termios

    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def rule_for(typed: Rule | None, *, can_ask: bool, otherwise: Rule | None) -> Rule | None:
    """The rule that was typed, else to ask where that can be, else `otherwise`.

    Raises `UsageError` where nobody can be asked.
    """
    if typed == "ask" and not can_ask:
        raise UsageError(
            "--on-approval ask needs a terminal and -o text",
            hint="--on-approval deny, once, session or fail",
        )
    return typed or ("ask" if can_ask else otherwise)
