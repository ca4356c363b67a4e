"""Waits for several runs side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Run
from hermes_ctl.cli import loop
from hermes_ctl.cli.chosen import Chosen, foreign, located
from hermes_ctl.config import NodeOptions
from hermes_ctl.errors import ExitCode, Pending
from hermes_ctl.render.run_tables import ENDED, Ended
from hermes_ctl.render.tables import Sheet
from hermes_ctl.render.views import ListView
from hermes_ctl.runs.chronicle import Chronicle
from hermes_ctl.runs.follow import Follower, FollowSettings
from hermes_ctl.runs.happenings import ApprovalRequested, Notice
from hermes_ctl.runs.happenings import Ended as RunEnded
from hermes_ctl.runs.journal import Journal
from hermes_ctl.runs.recovery import recover
from hermes_ctl.runs.result import Result


class Wait:
    """Waits by polling, shows each run that ends, and gives the exit code of all."""

    def __init__(self, journal: Journal, view: ListView, options: NodeOptions) -> None:
        self._journal = journal
        self._view = view
        self._options = options
        self._states: dict[str, str] = {}

    def run(self, chosen: Sequence[Chosen], *, any_of_them: bool, deadline: float | None) -> int:
        """Raises `Pending` at the deadline, and what a run's following raises."""
        results = loop.run(self._all(chosen, any_of_them=any_of_them, deadline=deadline))
        return max((result.exit_code for result in results), default=ExitCode.YES)

    async def _all(
        self, chosen: Sequence[Chosen], *, any_of_them: bool, deadline: float | None
    ) -> list[Result]:
        sheet = self._view.sheet(ENDED)
        unique = list({(one.run_id, one.node.url): one for one in chosen}.values())
        tasks = [asyncio.create_task(self._one(one, sheet)) for one in unique]
        wanted = asyncio.FIRST_COMPLETED if any_of_them else asyncio.FIRST_EXCEPTION
        try:
            done, waiting = await asyncio.wait(tasks, timeout=deadline, return_when=wanted)
            results = [task.result() for task in done]
        except asyncio.CancelledError:
            raise self._pending("", sum(not task.done() for task in tasks)) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            sheet.close()
        if waiting and not (any_of_them and results):
            raise self._pending("the deadline has passed and ", len(waiting))
        return results

    async def _one(self, chosen: Chosen, sheet: Sheet[Ended]) -> Result:
        async with Client(chosen.node) as client:
            found = await located(client, self._journal, chosen)
            result = await self._ended(client, found)
        sheet.add(Ended(result, chosen.node.name))
        return result

    async def _ended(self, client: Client, found: Chosen) -> Result:
        entry = found.entry
        chronicle = Chronicle(
            self._journal, entry.number if entry else None, foreign=foreign(found, self._options)
        )

        async def elsewhere(last: Run | None) -> Result | None:
            return await recover(
                client, found.run_id, last=last, journal=self._journal, entry=entry
            )

        settings = FollowSettings(stream=False)
        async with Follower(client, found.run_id, settings, elsewhere) as follower:
            async for happening in follower:
                chronicle.observe(happening)
                if follower.last is not None:
                    self._states[found.run_id] = follower.last.status
                if isinstance(happening, Notice):
                    self._view.screen.note(f"{found.run_id}: {happening.text}")
                elif isinstance(happening, ApprovalRequested):
                    self._view.screen.note(
                        f"{found.run_id} waits for an approval: hermesctl approve {found.run_id}"
                    )
                elif isinstance(happening, RunEnded):
                    self._states.pop(found.run_id, None)
                    return happening.result
        raise AssertionError("a follower ends with a result")

    def _pending(self, why: str, count: int) -> Pending:
        seen = ", ".join(f"{run_id} {state}" for run_id, state in list(self._states.items())[:5])
        which = "the run goes" if count == 1 else f"{count} runs go"
        return Pending(
            f"{why}{which} on: {seen or 'not seen yet'}",
            hint="hermesctl wait, or hermesctl runs",
        )
