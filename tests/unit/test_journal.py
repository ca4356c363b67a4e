"""The journal: what it keeps, and that it survives several processes, kills, and bad files."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from hermes_ctl import clock
from hermes_ctl.api.models import Run, Usage
from hermes_ctl.errors import ConfigurationError
from hermes_ctl.runs.happenings import Approval
from hermes_ctl.runs.journal import Entry, Journal, Submission, journal_path
from hermes_ctl.runs.result import Result, Verdict
from hermes_ctl.secrets import Secret

URL = "http://127.0.0.1:8642"


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "hermesctl" / "journal.sqlite3"


@pytest.fixture
def journal(path: Path, warnings: list[str]) -> Iterator[Journal]:
    with Journal(path, warn=warnings.append) as opened:
        yield opened


def submission(prompt: str = "Tidy up", **fields: str) -> Submission:
    return Submission(url=fields.pop("url", URL), node="local", prompt=prompt, **fields)


def started(journal: Journal, run_id: str, **fields: str) -> int:
    sent = submission(**fields)
    number = journal.known(journal.begin(sent), run_id, sent)
    assert number is not None
    return number


def entry(journal: Journal, number: int) -> Entry:
    found = journal.by_number(number)
    assert found is not None
    return found


def run_id(found: Entry | None) -> str | None:
    assert found is not None
    return found.run_id


# What it keeps


def test_a_run_from_its_submission_to_its_end(journal: Journal) -> None:
    sent = submission(session_id="s-42", idempotency_key="k1")
    number = journal.begin(sent)
    assert number is not None
    before = entry(journal, number)
    assert (before.run_id, before.state, before.pid) == (None, "submitting", os.getpid())
    assert journal.known(number, "run_1", sent) == number
    journal.saw(number, Run(run_id="run_1", status="running", created_at=5.0))
    running = entry(journal, number)
    assert (running.run_id, running.state, running.created_at) == ("run_1", "running", 5.0)
    assert (running.session_id, running.idempotency_key, running.pid) == ("s-42", "k1", None)
    usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    result = Result("run_1", "completed", Verdict.SUCCESS, output="Done.", usage=usage)
    journal.ended(number, result)
    kept = journal.result(number)
    assert kept is not None
    assert (kept.output, kept.usage, kept.verdict, kept.source) == (
        "Done.",
        usage,
        Verdict.SUCCESS,
        "journal",
    )
    assert entry(journal, number).is_over


def test_an_end_is_not_overwritten_by_a_late_poll(journal: Journal) -> None:
    number = started(journal, "run_1")
    journal.ended(number, Result("run_1", "cancelled", Verdict.CANCELLED))
    journal.saw(number, Run(run_id="run_1", status="stopping"))
    assert entry(journal, number).state == "cancelled"


def test_a_refused_submission_leaves_nothing(journal: Journal) -> None:
    journal.forget(journal.begin(submission()))
    assert journal.entries() == []


def test_a_run_started_elsewhere_is_adopted_once(journal: Journal) -> None:
    first = journal.adopt("run_9", submission())
    assert journal.adopt("run_9", submission()) == first
    assert not entry(journal, first or 0).started_here
    assert journal.latest() is None, "it was not started here"


def test_approvals_wait_until_they_are_answered(journal: Journal) -> None:
    number = started(journal, "run_1")
    for name in ("a", "b", "c", "d"):
        journal.asked(number, Approval(name, f"rm {name}", "recursive delete", ("once", "deny")))
        journal.asked(number, Approval(name, "told twice"))
    assert [one.approval.command for one in journal.pending(number)] == [
        "rm a",
        "rm b",
        "rm c",
        "rm d",
    ]
    journal.answered(number, "b")
    journal.answered(number, "b")
    assert [one.approval.request_id for one in journal.pending(number)] == ["a", "c", "d"]
    journal.answered(number)
    assert journal.pending(number) == []


def test_the_end_of_a_run_ends_its_approvals(journal: Journal) -> None:
    number = started(journal, "run_1")
    journal.asked(number, Approval("a", "rm a"))
    journal.ended(number, Result("run_1", "cancelled", Verdict.CANCELLED))
    assert journal.pending(number) == []


def test_no_key_gets_into_it(path: Path, journal: Journal) -> None:
    key = Secret("a-key-that-is-long-enough", "the test").reveal()
    number = started(journal, "run_1", prompt=f"use {key}")
    journal.asked(number, Approval("a", f"curl -H 'Bearer {key}'"))
    journal.uncertain(number, f"lost {key}")
    journal.ended(number, Result("run_1", "failed", Verdict.FAILED, f"bad {key}", key, key))
    journal.__exit__()
    files = [file for file in path.parent.iterdir() if file.is_file()]
    assert files
    assert not any(key.encode() in file.read_bytes() for file in files)


def test_an_answer_keeps_its_own_passwords(journal: Journal) -> None:
    number = started(journal, "run_1")
    output = 'export API_KEY="example"\nAuthorization: Bearer your-token-here'
    journal.ended(number, Result("run_1", "completed", Verdict.SUCCESS, output=output))
    kept = journal.result(number)
    assert kept is not None
    assert kept.output == output


def test_prompts_are_left_out_where_they_are_not_wanted(path: Path) -> None:
    with Journal(path, warn=pytest.fail, prompts=False) as journal:
        number = started(journal, "run_1", prompt="a secret plan")
        assert entry(journal, number).prompt is None
    assert b"secret plan" not in path.read_bytes()


def test_a_journal_that_is_not_wanted_makes_no_file(path: Path) -> None:
    with Journal(path, warn=pytest.fail, enabled=False) as journal:
        assert journal.begin(submission()) is None
        assert journal.known(None, "run_1", submission()) is None
        assert journal.entries() == []
    assert not path.exists()


# Names


def test_a_run_is_found_by_its_id_its_beginning_and_as_the_last_one(journal: Journal) -> None:
    started(journal, "run_aaa1")
    started(journal, "run_aab2")
    started(journal, "run_aac%", url="http://other:1")
    assert run_id(journal.by_id("run_aaa1")) == "run_aaa1"
    assert [one.run_id for one in journal.by_prefix("run_aa")] == [
        "run_aac%",
        "run_aab2",
        "run_aaa1",
    ]
    assert [one.run_id for one in journal.by_prefix("aab")] == ["run_aab2"]
    assert journal.by_prefix("%") == []
    assert journal.by_prefix("aa_") == []
    assert run_id(journal.latest()) == "run_aac%"
    assert run_id(journal.latest(URL)) == "run_aab2"


def test_runs_are_listed_newest_first_and_chosen(journal: Journal) -> None:
    first, second = started(journal, "run_1"), started(journal, "run_2")
    journal.ended(first, Result("run_1", "completed", Verdict.SUCCESS))
    assert [one.number for one in journal.entries()] == [second, first]
    assert [one.number for one in journal.entries(active=True)] == [second]
    assert [one.number for one in journal.entries(limit=1)] == [second]
    assert journal.entries(since=clock.now() + timedelta(seconds=1)) == []
    assert journal.entries(url="http://other:1") == []


def test_pruning_forgets_only_what_has_ended(journal: Journal) -> None:
    first, second = started(journal, "run_1"), started(journal, "run_2")
    journal.asked(first, Approval("a", "rm a"))
    journal.ended(first, Result("run_1", "completed", Verdict.SUCCESS))
    assert journal.prune(clock.now() - timedelta(days=1)) == 0
    assert journal.prune(clock.now() + timedelta(seconds=1)) == 1
    assert [one.number for one in journal.entries()] == [second]


# The file


def test_the_file_is_private(path: Path, journal: Journal) -> None:
    journal.begin(submission())
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    with Journal(path, warn=pytest.fail) as again:
        again.entries()
    assert path.stat().st_mode & 0o777 == 0o600


def test_where_it_is() -> None:
    assert journal_path({"XDG_STATE_HOME": "/s"}) == Path("/s/hermesctl/journal.sqlite3")
    default = Path("/h/.local/state/hermesctl/journal.sqlite3")
    assert journal_path({"HOME": "/h"}) == default
    assert journal_path({"HOME": "/h", "XDG_STATE_HOME": "relative"}) == default


def test_reading_makes_no_file(path: Path, journal: Journal) -> None:
    assert journal.entries() == []
    assert journal.latest() is None
    assert not path.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"this is no database, but it is long enough to be taken for one" * 20,
        lambda data: data[:100] + os.urandom(len(data) - 100),
        lambda data: data[: len(data) // 2],
    ],
    ids=["text", "garbage", "cut"],
)
def test_a_corrupt_journal_is_moved_aside_and_said(
    path: Path, warnings: list[str], damage: Callable[[bytes], bytes]
) -> None:
    with Journal(path, warn=pytest.fail) as journal:
        for count in range(50):
            started(journal, f"run_{count}", prompt="x" * 500)
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with Journal(path, warn=warnings.append) as journal:
        number = started(journal, "run_new")
        assert entry(journal, number).run_id == "run_new"
    assert len(warnings) == 1
    assert "moved to" in warnings[0]
    (aside,) = path.parent.glob("journal.sqlite3.corrupt-*")
    assert aside.read_bytes() == damaged


def test_a_newer_journal_is_refused_and_left_as_it_is(path: Path, warnings: list[str]) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE tomorrow (x)")
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with Journal(path, warn=warnings.append) as journal:
        with pytest.raises(ConfigurationError, match="newer hermesctl"):
            journal.begin(submission())
        with pytest.raises(ConfigurationError):
            journal.entries()
    assert (path.read_bytes(), warnings) == (before, [])


def test_another_program_s_database_is_left_alone(path: Path, warnings: list[str]) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with Journal(path, warn=warnings.append) as journal:
        assert journal.begin(submission()) is None
    assert path.read_bytes() == before
    assert len(warnings) == 1


def test_a_place_that_cannot_be_written_is_said_once(tmp_path: Path, warnings: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    with Journal(tmp_path / "file" / "journal.sqlite3", warn=warnings.append) as journal:
        assert journal.begin(submission()) is None
        assert journal.known(None, "run_1", submission()) is None
        assert journal.entries() == []
    assert len(warnings) == 1
    assert "note the ids" in warnings[0]
    assert warnings[0].count(str(tmp_path)) == 1, warnings[0]


def test_a_folder_in_the_journal_s_place_is_said_once(path: Path, warnings: list[str]) -> None:
    path.mkdir(parents=True)
    with Journal(path, warn=warnings.append) as journal:
        assert journal.begin(submission()) is None
        assert journal.entries() == []
        assert journal.is_lost
    assert len(warnings) == 1


def test_a_journal_on_a_read_only_disk_can_be_read(
    path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(path, warn=pytest.fail) as journal:
        started(journal, "run_1")
    connect = sqlite3.connect

    def read_only(database: Path, **settings: object) -> sqlite3.Connection:
        return connect(f"file:{database}?mode=ro", uri=True, **settings)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("hermes_ctl.runs.store.sqlite3.connect", read_only)
    with Journal(path, warn=warnings.append) as journal:
        assert journal.begin(submission()) is None
        assert run_id(journal.latest()) == "run_1"
    assert len(warnings) == 1


def test_a_run_is_written_anew_where_the_journal_was_moved_away(
    path: Path, journal: Journal
) -> None:
    sent = submission()
    number = journal.begin(sent)
    with Journal(path, warn=pytest.fail) as other:
        other.forget(number)
    journal.known(number, "run_1", sent)
    assert [one.run_id for one in journal.entries()] == ["run_1"]


# Several processes, and kills

WRITER = """
import sys
from pathlib import Path
from hermes_ctl.runs.journal import Journal, Submission
path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def warn(text):
    raise SystemExit(text)
with Journal(path, warn=warn) as journal:
    for each in range(count):
        sent = Submission(url="http://x", node="x", prompt=name)
        number = journal.begin(sent)
        print(f"begun {number}", flush=True)
        journal.known(number, f"run_{name}_{each}", sent)
        print(f"known run_{name}_{each}", flush=True)
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_eight_processes_write_at_once(path: Path) -> None:
    """All of them make the file, too."""
    writers = [writer(path, str(number), 10) for number in range(8)]
    said = [process.communicate(timeout=120)[0] for process in writers]
    assert [process.returncode for process in writers] == [0] * 8, said
    with Journal(path, warn=pytest.fail) as journal:
        ids = [one.run_id for one in journal.entries()]
    assert sorted(ids, key=str) == sorted(f"run_{w}_{n}" for w in range(8) for n in range(10))


def test_kill_at_any_moment_loses_nothing_that_was_written(path: Path) -> None:
    told: list[str] = []
    for attempt in range(6):
        process = writer(path, f"k{attempt}", 10_000)
        assert process.stdout is not None
        told += [process.stdout.readline().strip() for _ in range(1 + 3 * attempt)]
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=30)
        told += rest.split("\n")
    with Journal(path, warn=pytest.fail) as journal:
        ids = {one.run_id for one in journal.entries()}
        numbers = {one.number for one in journal.entries()}
    known = {line.split()[1] for line in told if line.startswith("known ")}
    begun = {int(line.split()[1]) for line in told if line.startswith("begun ")}
    assert known <= ids
    assert begun <= numbers
