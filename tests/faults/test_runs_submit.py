"""Submitting: answers that are lost, nodes that are full, and never a second POST by guess."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import pytest

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import RunRequest
from hermes_ctl.errors import (
    AtCapacity,
    AuthenticationFailed,
    ConnectionRefused,
    HermesctlError,
    Interrupted,
    NoAnswer,
    Redirected,
    RequestRejected,
    ServerFailure,
    SubmissionUncertain,
    UsageError,
)
from hermes_ctl.runs import submit
from hermes_ctl.runs.journal import Journal
from hermes_ctl.runs.submit import Accepted, SubmitSettings, Submitter
from tests.faults.server import HermesServer

pytestmark = pytest.mark.anyio

RUNS = "POST /v1/runs"
HELLO = RunRequest(input="[[say hello]]")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "_FIRST_WAIT", 0.05)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite3", warn=pytest.fail) as opened:
        yield opened


async def submitted(
    server: HermesServer,
    journal: Journal,
    request: RunRequest = HELLO,
    *,
    told: list[str] | None = None,
    settings: SubmitSettings | None = None,
    session_key: str | None = None,
    timeout: float = 5.0,
) -> Accepted:
    tell = (lambda text: None) if told is None else told.append
    async with Client(server.node(timeout=timeout)) as client:
        submitter = Submitter(client, journal, settings or SubmitSettings(), tell)
        return await submitter.submit(request, session_key=session_key)


def states(journal: Journal) -> list[tuple[str | None, str]]:
    return [(entry.run_id, entry.state) for entry in journal.entries()]


async def test_a_run_is_journalled_before_it_is_sent(
    server: HermesServer, journal: Journal
) -> None:
    server.faults.hang(RUNS)
    task = asyncio.create_task(submitted(server, journal, timeout=30.0))
    await asyncio.to_thread(server.wait_until, lambda: bool(server.received(RUNS)))
    assert states(journal) == [(None, "submitting")]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert states(journal) == [(None, "uncertain")]


async def test_a_submitted_run_has_its_id_in_the_journal(
    server: HermesServer, journal: Journal
) -> None:
    accepted = await submitted(server, journal)
    assert states(journal) == [(accepted.run_id, "started")]


# At capacity


async def test_a_full_node_is_asked_again(server: HermesServer, journal: Journal) -> None:
    server.faults.status(RUNS, 429, headers={"Retry-After": "0"}, times=2)
    told: list[str] = []
    accepted = await submitted(server, journal, told=told)
    assert accepted.run_id in server.runs
    assert len(server.received(RUNS)) == 3
    assert "(its limit is 10 runs)" in told[0]
    assert "(2 of 3)" in told[0]


async def test_a_node_that_stays_full_is_reported(server: HermesServer, journal: Journal) -> None:
    server.faults.status(RUNS, 429, headers={"Retry-After": "0"})
    with pytest.raises(AtCapacity, match="asked 3 times") as caught:
        await submitted(server, journal)
    assert (caught.value.exit_code, caught.value.limit) == (7, 10)
    assert len(server.received(RUNS)) == 3
    assert states(journal) == []


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_honoured_in_both_forms(
    server: HermesServer, journal: Journal, form: str
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    server.faults.status(
        RUNS, 429, headers={"Retry-After": "1" if form == "seconds" else later}, times=1
    )
    began = time.monotonic()
    await submitted(server, journal)
    assert 0.9 < time.monotonic() - began < 6


async def test_a_node_that_asks_to_come_back_in_an_hour_is_left(
    server: HermesServer, journal: Journal
) -> None:
    server.faults.status(RUNS, 429, headers={"Retry-After": "3600"})
    with pytest.raises(AtCapacity, match="come back in 60 min") as caught:
        await submitted(server, journal)
    assert caught.value.retry_after == 3600
    assert len(server.received(RUNS)) == 1


async def test_no_wait_begins_that_the_deadline_would_end(
    server: HermesServer, journal: Journal
) -> None:
    server.faults.status(RUNS, 429, headers={"Retry-After": "5"})
    settings = SubmitSettings(deadline=time.monotonic() + 1.0)
    with pytest.raises(AtCapacity):
        await submitted(server, journal, settings=settings)
    assert len(server.received(RUNS)) == 1


async def test_a_wait_can_be_given_up(server: HermesServer, journal: Journal) -> None:
    server.faults.status(RUNS, 429, headers={"Retry-After": "30"})
    async with Client(server.node()) as client:
        submitter = Submitter(client, journal, SubmitSettings(), lambda _: submitter.give_up())
        with pytest.raises(Interrupted):
            await submitter.submit(HELLO)
    assert states(journal) == []


# Answers that are lost


def lose_answers(server: HermesServer, how: str, times: int | None = None) -> None:
    """The node takes the run, and its answer gets lost on the way."""
    faults = server.faults
    lose: dict[str, Callable[..., None]] = {
        "reset": faults.reset,
        "empty": faults.empty_reply,
        "hang": faults.hang,
        "cut": faults.cut_body,
        "bad gateway": faults.bad_gateway,
        "no json": faults.bad_json,
        "no id": partial(faults.status, code=202, body={}),
        "page": faults.html,
    }
    lose[how](RUNS, work_done=True, times=times)


LOST = ["reset", "empty", "hang", "cut", "bad gateway", "no json", "no id", "page"]


@pytest.mark.parametrize("how", LOST)
async def test_a_lost_answer_is_uncertain_and_never_repeated(
    server: HermesServer, journal: Journal, how: str
) -> None:
    lose_answers(server, how)
    with pytest.raises(SubmissionUncertain, match="may be running") as caught:
        await submitted(server, journal, timeout=0.7)
    assert caught.value.exit_code == 9
    assert "hermesctl runs" in (caught.value.hint or "")
    assert len(server.received(RUNS)) == 1
    assert len(server.runs) == 1
    assert states(journal) == [(None, "uncertain")]


@pytest.mark.parametrize("how", LOST)
async def test_an_idempotent_node_is_asked_again_for_the_same_run(
    server: HermesServer, journal: Journal, how: str
) -> None:
    server.faults.idempotent = True
    lose_answers(server, how, 2)
    told: list[str] = []
    accepted = await submitted(server, journal, told=told, timeout=0.7)
    assert list(server.runs) == [accepted.run_id]
    keys = {request.headers.get("idempotency-key") for request in server.received(RUNS)}
    assert len(keys) == 1
    assert None not in keys
    assert len(server.received(RUNS)) == 3
    assert accepted.replayed
    assert "cannot start a second run" in told[0]
    assert states(journal) == [(accepted.run_id, "started")]


async def test_an_idempotent_node_that_never_answers_is_uncertain(
    server: HermesServer, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "_RESENDS", 2)
    server.faults.idempotent = True
    server.faults.reset(RUNS)
    with pytest.raises(SubmissionUncertain):
        await submitted(server, journal)
    assert len(server.received(RUNS)) == 3


async def test_no_idempotency_key_where_it_would_mean_nothing(
    server: HermesServer, journal: Journal
) -> None:
    await submitted(server, journal)
    (request,) = server.received(RUNS)
    assert "idempotency-key" not in request.headers


# Answers that say no


@pytest.mark.parametrize(
    ("code", "kind"),
    [(401, AuthenticationFailed), (400, RequestRejected), (413, RequestRejected)],
)
async def test_a_clear_no_leaves_nothing_in_the_journal(
    server: HermesServer, journal: Journal, code: int, kind: type[HermesctlError]
) -> None:
    server.faults.status(RUNS, code)
    with pytest.raises(kind):
        await submitted(server, journal)
    assert states(journal) == []
    assert len(server.received(RUNS)) == 1


async def test_a_draining_gateway_has_taken_no_run(server: HermesServer, journal: Journal) -> None:
    server.faults.draining = True
    with pytest.raises(ServerFailure) as caught:
        await submitted(server, journal)
    assert caught.value.code == "gateway_draining"
    assert states(journal) == []


async def test_a_redirect_is_not_followed_and_took_no_run(
    server: HermesServer, journal: Journal
) -> None:
    server.faults.redirect("http://elsewhere.invalid/", RUNS)
    with pytest.raises(Redirected):
        await submitted(server, journal)
    assert states(journal) == []


async def test_an_unreachable_node_was_sent_nothing(server: HermesServer, journal: Journal) -> None:
    node = server.node()
    server.__exit__(None, None, None)
    async with Client(node) as client:
        with pytest.raises(ConnectionRefused):
            await Submitter(client, journal, SubmitSettings(), lambda _: None).submit(HELLO)
    assert states(journal) == []


async def test_a_node_that_does_not_tell_its_capabilities_gets_one_submission(
    server: HermesServer, journal: Journal
) -> None:
    server.faults.status("GET /v1/capabilities", 500)
    await submitted(server, journal)
    assert len(server.received(RUNS)) == 1


# What is checked here


async def test_a_body_that_hermes_would_not_take_is_not_sent(
    server: HermesServer, journal: Journal
) -> None:
    with pytest.raises(UsageError, match="10,000,000"):
        await submitted(server, journal, RunRequest(input="x" * 10_000_000))
    assert server.requests == []
    assert states(journal) == []


@pytest.mark.parametrize("key", ["", "k" * 257, "a\nb", "a\x00b", "a\tb", "\x85", " padded "])
async def test_a_session_key_that_hermes_would_not_take_is_not_sent(
    server: HermesServer, journal: Journal, key: str
) -> None:
    with pytest.raises(UsageError):
        await submitted(server, journal, session_key=key)
    assert server.received(RUNS) == []


@pytest.mark.parametrize("key", ["k", "k" * 256, "bmas:task-1:planner", "schlüssel 1"])
async def test_a_session_key_is_sent_and_its_echo_compared(
    server: HermesServer, journal: Journal, key: str
) -> None:
    accepted = await submitted(server, journal, session_key=key)
    assert accepted.warnings == ()


async def test_an_echo_that_differs_is_warned_of(server: HermesServer, journal: Journal) -> None:
    server.faults.status(RUNS, 202, {"run_id": "run_1"}, headers={"X-Hermes-Session-Key": "other"})
    accepted = await submitted(server, journal, session_key="mine")
    assert len(accepted.warnings) == 1
    assert "'other'" in accepted.warnings[0]


async def test_the_time_limit_of_a_submission_is_its_own(
    server: HermesServer, journal: Journal
) -> None:
    """A cold gateway stands still for its first run."""
    server.faults.slow(1.0, RUNS)
    await submitted(server, journal, settings=SubmitSettings(timeout=10.0), timeout=0.5)
    server.faults.clear()
    server.faults.slow(1.0, "GET /v1/capabilities")
    with pytest.raises(NoAnswer):
        async with Client(server.node(timeout=0.5)) as client:
            await client.capabilities()
