"""An approval is answered as it was shown, or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import RunRequest
from hermes_ctl.errors import Refused
from hermes_ctl.runs.happenings import Approval
from hermes_ctl.runs.journal import Entry, Journal, Submission
from hermes_ctl.top.control import RunControl
from tests.faults.server import HermesServer

pytestmark = pytest.mark.anyio
ANSWERS = "POST /v1/runs/{run_id}/approval"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite3", warn=pytest.fail) as opened:
        yield opened


async def asking(server: HermesServer, journal: Journal) -> Entry:
    """A journalled run of the stand-in that waits for an approval."""
    submission = Submission(server.url, "stand-in", "x")
    number = journal.begin(submission)
    async with Client(server.node()) as client:
        accepted = await client.submit_run(RunRequest(input="[[approve-me now]] [[say done]]"))
    journal.known(number, accepted.run_id, submission)
    server.wait_until(lambda: server.runs[accepted.run_id].status == "waiting_for_approval")
    entry = journal.by_id(accepted.run_id)
    assert entry is not None
    return entry


def shown(server: HermesServer, entry: Entry) -> Approval:
    """The approval that the run really waits for, as its event told it."""
    asked = server.runs[entry.run_id or ""].approval
    assert asked is not None
    return Approval(asked["request_id"], asked["command"], requested_at=asked["timestamp"])


async def test_what_was_shown_is_answered(server: HermesServer, journal: Journal) -> None:
    entry = await asking(server, journal)
    approval = shown(server, entry)
    journal.asked(entry.number, approval)
    control = RunControl(journal, lambda _: server.node())
    assert "once, 1 resolved" in await control.answer(entry, approval, "once")
    assert journal.pending(entry.number) == []


@pytest.mark.parametrize("change", [{"requested_at": time.time() - 60}, {"command": "rm -rf old"}])
async def test_another_command_by_now_is_not_answered(
    server: HermesServer, journal: Journal, change: dict[str, object]
) -> None:
    """Up to 0.20.4 the node would take the answer for whatever it asks now."""
    entry = await asking(server, journal)
    now = shown(server, entry)
    old = replace(now, request_id="old", **change)  # type: ignore[arg-type]
    journal.asked(entry.number, now if "command" in change else old)
    control = RunControl(journal, lambda _: server.node())
    with pytest.raises(Refused, match="look again"):
        await control.answer(entry, old, "once")
    assert server.received(ANSWERS) == []


async def test_a_command_that_became_known_is_to_be_read_first(
    server: HermesServer, journal: Journal
) -> None:
    entry = await asking(server, journal)
    control = RunControl(journal, lambda _: server.node())
    journal.asked(entry.number, shown(server, entry))
    with pytest.raises(Refused, match="look again"):
        await control.answer(entry, Approval(), "once")
    assert server.received(ANSWERS) == []


async def test_one_that_nobody_saw_can_be_denied(server: HermesServer, journal: Journal) -> None:
    entry = await asking(server, journal)
    control = RunControl(journal, lambda _: server.node())
    assert "deny, 1 resolved" in await control.answer(entry, Approval(), "deny")
