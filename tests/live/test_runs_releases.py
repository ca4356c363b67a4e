"""Where 0.19.0 and 0.22.2 differ from the reviewed release, and hermesctl with them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hermes_ctl.lab.gateway import Lab
from tests.faults.proxy import Link
from tests.typed import Hermesctl

Pointed = Callable[[Lab], Hermesctl]


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Pointed]:
    """hermesctl, pointed at a lab."""
    made: list[Hermesctl] = []

    def pointed(lab: Lab) -> Hermesctl:
        assert lab.node.key is not None
        key = lab.node.key.reveal()
        made.append(Hermesctl(tmp_path, monkeypatch, capsys, url=lab.node.url, key=key))
        return made[-1]

    yield pointed
    for one in made:
        one.end()


def token() -> str:
    return f"token-{uuid.uuid4().hex[:12]}"


def the_whole_way(hermesctl: Hermesctl) -> None:
    """Followed with a tool, asked and answered, stopped, and stopped again."""
    word = token()
    typed = hermesctl("run", f"[[run echo hi]] [[say {word}]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{word}\n"), typed.err
    assert hermesctl("run", f"[[approve-me {word}]] [[say {word}]]", "--follow").code == 8
    answered = hermesctl("approve", "-o", "json")
    assert (answered.code, answered.json["resolved"]) == (0, 1)
    assert hermesctl("tail").out == f"{word}\n"
    assert hermesctl("run", "[[silent 60s]]").code == 0
    stopped = hermesctl("stop", "-o", "json")
    assert (stopped.code, stopped.json["state"]) == (0, "cancelled")
    assert hermesctl("stop").code == 6


def test_the_old_release(old_lab: Lab, at: Pointed) -> None:
    hermesctl = at(old_lab)
    the_whole_way(hermesctl)
    hermesctl("run", "[[silent 60s]]")
    steered = hermesctl("steer", "be quick")
    assert steered.code == 1
    assert "0.20" in steered.err, "it says since when there is steering"
    assert hermesctl("stop").code == 0


def test_the_new_release(new_lab: Lab, at: Pointed) -> None:
    hermesctl = at(new_lab)
    the_whole_way(hermesctl)


def test_a_lost_answer_is_asked_for_again_on_the_new_release(new_lab: Lab, at: Pointed) -> None:
    word, before = token(), len(new_lab.requests())
    hermesctl = at(new_lab)
    with Link(urlsplit(new_lab.node.url).port or 0) as link:
        hermesctl.point_at(link.url)
        link.cut_when(b'"run_id"', lost=True)
        typed = hermesctl("run", f"[[say {word}]]", "--follow")
    assert (typed.code, typed.out) == (0, f"{word}\n"), typed.err
    assert "cannot start a second run" in typed.err
    seen = [
        one for one in new_lab.requests(after=before, purpose="chat") if word in str(one["last"])
    ]
    assert len(seen) == 1
    assert len(hermesctl("runs", "-o", "json").json) == 1


def test_a_stream_that_is_cut_is_resumed_on_the_new_release(new_lab: Lab, at: Pointed) -> None:
    hermesctl = at(new_lab)
    with Link(urlsplit(new_lab.node.url).port or 0) as link:
        hermesctl.point_at(link.url)
        link.cut_when(b'"delta": "5\\n"')
        typed = hermesctl("run", "[[count 12 every 50ms]]", "--follow", "-o", "jsonl")
    assert typed.code == 0
    assert "nothing is missing" in typed.err
    deltas = [line["delta"] for line in typed.lines if line["event"] == "message.delta"]
    assert "".join(deltas).split() == [str(number) for number in range(1, 13)]


def test_the_status_tells_the_approval_on_the_new_release(new_lab: Lab, at: Pointed) -> None:
    """Nobody follows it, and still the command is known."""
    word = token()
    hermesctl = at(new_lab)
    hermesctl("run", f"[[approve-me {word}]] [[say {word}]]")
    while not (rows := hermesctl("approvals", "-o", "json").json):
        pass
    assert [row["command"] for row in rows] == [f"rm -rf ./lab-scratch/{word}"]
    wrong = hermesctl("approve", "--request-id", "0" * 32)
    assert wrong.code == 6, "0.22 obeys the id, and there is no such request"
    right = hermesctl("deny", "--request-id", rows[0]["request_id"])
    assert right.code == 0
    assert hermesctl("tail").code == 0


def test_a_second_reader_takes_nothing_on_the_new_release(new_lab: Lab, at: Pointed) -> None:
    hermesctl = at(new_lab)
    run_id = hermesctl("run", "[[count 10 every 100ms]]").out.strip()
    process = hermesctl.start("tail", run_id, "--stream", "-o", "jsonl")
    typed = hermesctl("tail", run_id, "--stream", "-o", "jsonl")
    out, _ = process.communicate(timeout=60)
    for text in (typed.out, out):
        events = [json.loads(line) for line in text.splitlines()]
        deltas = [event["delta"] for event in events if event["event"] == "message.delta"]
        assert "".join(deltas).split() == [str(number) for number in range(1, 11)]
