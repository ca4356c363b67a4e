"""Follows one run on the screen: what `run --follow`, `tail` and `steer --wait` have in common."""

from __future__ import annotations

import asyncio
from functools import partial

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Run
from hermes_ctl.cli.approving import Approver, rule_for
from hermes_ctl.cli.asking import can_be_typed
from hermes_ctl.cli.run_options import FollowOptions
from hermes_ctl.errors import ExitCode, Pending
from hermes_ctl.render.event_json import JsonLinesRunView, JsonRunView
from hermes_ctl.render.events import RunView, TextRunView
from hermes_ctl.render.views import StreamView
from hermes_ctl.runs.chronicle import Chronicle, Recorder
from hermes_ctl.runs.control import STOPPED
from hermes_ctl.runs.follow import Follower, FollowSettings
from hermes_ctl.runs.happenings import DeadlinePassed, Ended
from hermes_ctl.runs.journal import Entry, Journal, Submission
from hermes_ctl.runs.recovery import recover
from hermes_ctl.runs.result import Result
from hermes_ctl.runs.submit import Submitter
from hermes_ctl.text import one_line


class Following:
    """One run on one screen. Made before anything is sent: it opens the record and judges the
    options, raising `UsageError`."""

    def __init__(self, view: StreamView, options: FollowOptions) -> None:
        screen = view.screen
        self._options = options
        self._screen = screen
        text = TextRunView(screen, show_reasoning=options.show_reasoning)
        self._view: RunView = view_of(view, text)
        self._text = text if self._view is text else None
        can_ask = self._text is not None and can_be_typed() and screen.error_is_terminal
        self._rule = rule_for(options.on_approval, can_ask=can_ask, otherwise=options.rule_in_pipe)
        self._recorder = Recorder(options.record, screen.warn) if options.record else None
        self.submitter: Submitter | None = None
        self._follower: Follower | None = None
        self._interrupted = False

    def interrupt(self) -> None:
        """Ctrl-C, the first one: stop the run, or leave it, as the options have it. One that is on
        its way to the node is waited for, so that it can be stopped."""
        self._interrupted = True
        if self._follower is not None:
            self._react_to_interrupt(self._follower)
        elif self.submitter is not None:
            self.submitter.give_up()

    def say(self, text: str) -> None:
        """A remark before the run is shown."""
        self._screen.note(text)

    def leaving_hint(self) -> str | None:
        """What to type after a second Ctrl-C."""
        if self._follower is None:
            return "hermesctl runs"
        return f"hermesctl tail {self._follower.run_id}"

    async def follow(
        self,
        client: Client,
        journal: Journal,
        run_id: str,
        *,
        number: int | None,
        accepted: bool,
        deadline: float | None,
        about: str = "",
        foreign: Submission | None = None,
    ) -> int:
        """Show the run to its end and journal it; its exit code.

        `accepted` says that this command submitted it, `about` is shown beside its id, `foreign` is
        what to write down of a run that the journal does not know. Raises what the follower raises, and
        `Pending` at a deadline that does not stop the run, at an approval that is not to be
        answered here, and where a signal ends this command and not the run.
        """
        entry = journal.by_number(number) if number is not None else None
        settings = FollowSettings(stream=self._options.stream, accepted=accepted, deadline=deadline)
        follower = Follower(
            client, run_id, settings, partial(self._recover, client, journal, entry, run_id)
        )
        chronicle = Chronicle(journal, number, foreign=foreign)
        approver = Approver(client, follower, self._rule, self._text)
        try:
            self._view.begin(run_id, about, started=accepted)
            result = await self._show(follower, chronicle, approver)
        except asyncio.CancelledError:
            raise Pending(
                f"{run_id} goes on without being followed", hint=f"hermesctl tail {run_id}"
            ) from None
        finally:
            approver.close()
            self._view.close()
            if self._recorder is not None:
                self._recorder.close()
        if self._interrupted and result.state in STOPPED:
            return ExitCode.INTERRUPTED
        return result.exit_code

    async def _show(self, follower: Follower, chronicle: Chronicle, approver: Approver) -> Result:
        result: Result | None = None
        async with follower:
            self._follower = follower
            if self._interrupted:
                self._react_to_interrupt(follower)
            async for happening in follower:
                if self._recorder is not None:
                    self._recorder.observe(happening)
                chronicle.observe(happening)
                self._view.show(happening)
                await approver.react(happening)
                if isinstance(happening, DeadlinePassed):
                    self._deadline_passed(follower)
                if isinstance(happening, Ended):
                    result = happening.result
                if not follower.has_more:
                    self._view.flush()
        assert result is not None
        return result

    def _deadline_passed(self, follower: Follower) -> None:
        if self._options.stops_at_deadline:
            follower.request_stop("the deadline has passed")
            return
        state = one_line(follower.last.status, 60) if follower.last else "not seen yet"
        raise Pending(
            f"the deadline has passed; {follower.run_id} is {state} and goes on",
            hint=f"hermesctl tail {follower.run_id}",
        )

    def _react_to_interrupt(self, follower: Follower) -> None:
        if self._options.on_interrupt == "stop":
            follower.request_stop("Ctrl-C")
        else:
            follower.detach()

    @staticmethod
    async def _recover(
        client: Client, journal: Journal, entry: Entry | None, run_id: str, last: Run | None
    ) -> Result | None:
        known = entry or journal.by_id(run_id, client.node.url)
        return await recover(client, run_id, last=last, journal=journal, entry=known)


def view_of(view: StreamView, text: TextRunView) -> RunView:
    """The view for the form that was asked for: `text`, or one for programs."""
    if view.format == "jsonl":
        return JsonLinesRunView(view.screen)
    if view.format == "json":
        return JsonRunView(view.screen)
    return text
