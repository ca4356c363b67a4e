"""Which approval an answer is meant for, and what a run's session still tells of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl import clock
from hermes_ctl.api.models import Message, Run, Session
from hermes_ctl.config import Node
from hermes_ctl.errors import HermesctlError, NoAnswer, NotOffered, ObjectNotFound, UsageError
from hermes_ctl.runs.approvals import OpenApprovals
from hermes_ctl.runs.chronicle import Chronicle
from hermes_ctl.runs.control import Waiting, choose, insist_on_stop
from hermes_ctl.runs.happenings import (
    Approval,
    ApprovalRequested,
    ApprovalResponded,
    approval_of,
)
from hermes_ctl.runs.journal import Entry, Journal, Submission
from hermes_ctl.runs.recovery import find_lost, prompt_digest, recover
from hermes_ctl.runs.result import Result, Verdict
from hermes_ctl.runs.survey import locate

ONE = Approval("r1", "rm -rf a", "recursive delete")
TWO = Approval("r2", "rm -rf b", "recursive delete")
RUN_ID = "run_" + "b" * 32


@pytest.mark.anyio
async def test_a_stop_that_cannot_be_delivered_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent:
        stops = 0

        async def stop_run(self, run_id: str) -> None:
            self.stops += 1
            raise NoAnswer("no answer within 1 s")

    async def at_once(seconds: float) -> None:
        pass

    monkeypatch.setattr("hermes_ctl.runs.control.asyncio.sleep", at_once)
    client: Any = Silent()
    told = [trouble async for trouble in insist_on_stop(client, RUN_ID)]
    assert told == ["the stop could not be delivered: no answer within 1 s"]
    assert client.stops == 3


# Which approval


def test_the_only_one_is_meant() -> None:
    assert choose(Waiting((ONE,), obeyed=False, unseen=False), None, run_id="x") is ONE


def test_one_that_nobody_saw_can_be_answered() -> None:
    assert choose(Waiting((), obeyed=False, unseen=True), None, run_id="x") is None


@pytest.mark.parametrize("obeyed", [True, False])
def test_it_is_not_guessed_between_two(obeyed: bool) -> None:
    with pytest.raises(UsageError, match=r"r1 .*r2 ") as caught:
        choose(Waiting((ONE, TWO), obeyed=obeyed, unseen=False), None, run_id="x")
    assert "--request-id" in (caught.value.hint or "")


def test_an_id_is_obeyed_where_the_server_obeys_it() -> None:
    known = Waiting((ONE, TWO), obeyed=True, unseen=False)
    assert choose(known, "r2", run_id="x") is TWO
    assert choose(known, "r9", run_id="x") == Approval("r9"), "the server knows best"


def test_an_id_that_the_server_would_ignore_is_only_sent_for_the_oldest() -> None:
    known = Waiting((ONE, TWO), obeyed=False, unseen=False)
    assert choose(known, "r1", run_id="x") is ONE
    with pytest.raises(NotOffered, match="would take the oldest request: r1"):
        choose(known, "r2", run_id="x")
    with pytest.raises(UsageError):
        choose(known, "r9", run_id="x")


def test_only_known_choices_are_offered() -> None:
    offered = approval_of({"choices": ["deny", "once", "for ever", 7]})
    assert offered.choices == ("once", "deny")
    assert approval_of({}).choices == ("once", "deny"), "the least, where none are told"


def test_answers_are_taken_off_the_oldest_or_by_their_id() -> None:
    waiting = OpenApprovals()
    for approval in (ONE, TWO, Approval("r3")):
        waiting.requested(approval)
    waiting.responded(ApprovalResponded(None, "once", 1, "r2"))  # type: ignore[arg-type]
    waiting.responded(ApprovalResponded(None, "once", 1, None))  # type: ignore[arg-type]
    assert [one.request_id for one in waiting.all()] == ["r3"]


def test_an_answer_that_is_told_twice_is_written_down_once(journal: Journal) -> None:
    """The one who answers writes it down, and so does the one who follows the run."""
    number = entry(journal).number
    chronicle = Chronicle(journal, number)
    for approval in (ONE, TWO):
        chronicle.observe(ApprovalRequested(None, approval))
    journal.answered(number, "r1")
    chronicle.observe(ApprovalResponded(None, "once", 1, None))  # type: ignore[arg-type]
    assert [one.approval for one in journal.pending(number)] == [TWO]
    chronicle.observe(ApprovalResponded(None, "deny", 1, None))  # type: ignore[arg-type]
    assert journal.pending(number) == []


# What is left of a run


class Sessions:
    """A node that knows sessions and no runs."""

    def __init__(self, **messages: Sequence[dict[str, Any]] | HermesctlError) -> None:
        self.node = Node("scripted")
        self.messages = messages
        self.started = clock.now()

    async def session_messages(self, session_id: str) -> list[Message]:
        found = self.messages.get(session_id)
        if isinstance(found, HermesctlError):
            raise found
        if found is None:
            raise ObjectNotFound("no such session", status=404)
        return [Message.model_validate(one) for one in found]

    async def sessions(self, *, limit: int) -> list[Session]:
        return [Session(id=name, started_at=self.started) for name in self.messages]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite3", warn=pytest.fail) as opened:
        yield opened


def asked(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": clock.now().timestamp(), **fields}


def answered(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "finish_reason": "stop", **fields}


def entry(journal: Journal, prompt: str = "hi", run_id: str = RUN_ID, **fields: str) -> Entry:
    sent = Submission("http://x", "x", prompt, prompt_digest(prompt), **fields)
    number = journal.known(journal.begin(sent), run_id, sent)
    found = journal.by_number(number or 0)
    assert found is not None
    return found


async def left(
    node: Sessions, journal: Journal, known: Entry | None, last: Run | None = None
) -> Result | None:
    return await recover(node, RUN_ID, last=last, journal=journal, entry=known)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_the_journal_speaks_first(journal: Journal) -> None:
    known = entry(journal)
    journal.ended(known.number, Result(RUN_ID, "completed", Verdict.SUCCESS, output="kept"))
    found = await left(Sessions(), journal, known)
    assert found is not None
    assert (found.output, found.source) == ("kept", "journal")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("messages", "verdict", "output"),
    [
        ([asked("hi"), answered("Hello.")], Verdict.SUCCESS, "Hello."),
        ([asked("hi"), answered("Hel", finish_reason=None)], Verdict.UNKNOWN, "Hel"),
        ([asked("hi")], Verdict.GONE, None),
        ([asked("hi"), answered("", tool_calls=[{"id": "c"}])], Verdict.GONE, None),
        ([], Verdict.GONE, None),
        (None, Verdict.GONE, None),
        (NoAnswer("silent"), Verdict.UNKNOWN, None),
    ],
    ids=["whole", "cut", "no answer", "in a tool", "empty", "no session", "not to be asked"],
)
async def test_then_the_session(
    journal: Journal, messages: Any, verdict: Verdict, output: str | None
) -> None:
    node = Sessions(**({} if messages is None else {RUN_ID: messages}))
    found = await left(node, journal, entry(journal))
    assert found is not None
    assert (found.verdict, found.output) == (verdict, output)
    assert found.verdict is Verdict.SUCCESS or found.reason


@pytest.mark.anyio
async def test_in_a_shared_session_only_the_run_s_own_turn_counts(journal: Journal) -> None:
    early = asked("hi", timestamp=(clock.now() - timedelta(hours=1)).timestamp())
    messages = [
        *(early, answered("before")),
        *(asked("other"), answered("of another run")),
        *(asked("hi"), answered("its own")),
        *(asked("next"), answered("after")),
    ]
    found = await left(Sessions(s1=messages), journal, entry(journal, session_id="s1"))
    assert found is not None
    assert found.output == "its own"


@pytest.mark.anyio
async def test_nobody_ever_knew_it(journal: Journal) -> None:
    assert await left(Sessions(), journal, None) is None


# A submission without an id


def lost(journal: Journal, prompt: str = "hi", **fields: str) -> Entry:
    number = journal.begin(Submission("http://x", "x", prompt, prompt_digest(prompt), **fields))
    journal.uncertain(number, "lost")
    found = journal.by_number(number or 0)
    assert found is not None
    return found


@pytest.mark.anyio
async def test_a_lost_run_is_found_by_prompt_and_time(journal: Journal) -> None:
    node = Sessions(**{RUN_ID: [asked("hi")], "run_other": [asked("ho")], "s1": [asked("hi")]})
    found = await locate(node, journal, lost(journal))  # type: ignore[arg-type]
    assert found is not None
    assert found.run_id == RUN_ID


@pytest.mark.anyio
@pytest.mark.parametrize("why", ["two", "old", "known", "session", "under way"])
async def test_a_lost_run_is_not_guessed(journal: Journal, why: str) -> None:
    node = Sessions(**{RUN_ID: [asked("hi")]})
    fields = {}
    if why == "two":
        node.messages["run_twin"] = [asked("hi")]
    elif why == "old":
        node.started = clock.now() - timedelta(hours=1)
    elif why == "known":
        entry(journal)
    elif why == "session":
        fields["session_id"] = "s1"
    elif why == "under way":  # this process is alive: it may be submitting the run that is seen
        journal.begin(Submission("http://x", "x", "hi", prompt_digest("hi")))
    assert await locate(node, journal, lost(journal, **fields)) is None  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_two_lost_runs_do_not_become_one(journal: Journal) -> None:
    node = Sessions(**{RUN_ID: [asked("hi")]})
    first, second = lost(journal), lost(journal)
    found = await find_lost(node, journal, first)  # type: ignore[arg-type]
    assert found is not None
    journal.located(first.number, found)
    journal.located(second.number, found)
    ids = [one.run_id for one in journal.entries()]
    assert sorted(ids, key=str) == sorted([RUN_ID, None], key=str)
