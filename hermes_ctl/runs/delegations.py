"""Work that goes on behind the end of a run: delegated subagents (field-notes 14)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from hermes_ctl.api.client import Client
from hermes_ctl.errors import HermesctlError
from hermes_ctl.text import one_line

_PATIENCE: Final = 2.0


async def work_left(client: Client, unended: Mapping[str, str], *, all_seen: bool) -> str | None:
    """One sentence on subagents that are still at work, None where there are none.

    `unended` are the goals of those whose end no event told; where not all events were seen
    (`all_seen` False), what the node counts for all of its runs has to do. Raises nothing.
    """
    if all_seen and not unended:
        return None
    active = await _active(client)
    if unended:
        goals = ", ".join(one_line(goal, 60) for goal in list(unended.values())[:3])
        counted = f"; the node counts {active} active delegations" if active else ""
        return (
            f"{len(unended)} of the run's subagents had not ended when it did ({goals}){counted}; "
            "what they find does not come back to this run"
        )
    if active:
        return f"the node counts {active} active delegations; they may be this run's"
    return None


async def _active(client: Client) -> int:
    with contextlib.suppress(HermesctlError, TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            return (await client.detailed_health()).count("active_delegations") or 0
    return 0
