"""`hermesctl check` on real Hermes: what it finds on three releases, what it spends, what it leaves.

Each release has a lab of its own here: a check wants to know what else is going on there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import RunRequest
from hermes_ctl.checks import mounts
from hermes_ctl.checks.checklist import load_checklist
from hermes_ctl.checks.model import Report, Status, schema
from hermes_ctl.checks.mounts import is_volatile_folder
from hermes_ctl.checks.runner import check_node
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.cli.sides import with_lab
from hermes_ctl.config import environment
from hermes_ctl.lab.gateway import Lab, start
from hermes_ctl.lab.releases import REVIEWED
from hermes_ctl.main import main
from tests.faults.proxy import Link
from tests.live.conftest import NEW, OLD

PASS, WARN, FAIL, SKIP, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.SKIP, Status.UNKNOWN

HEALTHY = {step.id: PASS for step in load_checklist().step} | {"cache": SKIP}
CHAT_REQUESTS = 5
"""Of a check, at the provider: two of the run with a tool call, one of each other run."""


@pytest.fixture(scope="module")
def own_lab() -> Iterator[Lab]:
    """The reviewed release, with room for three runs. Its tests leave it as they found it."""
    with start(REVIEWED, environment=environment(), max_concurrent_runs=3) as lab:
        yield lab


def typed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """A command as it is typed, in this process."""
    capsys.readouterr()
    code = main(["check", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def checked(lab: Lab, *, url: str | None = None, **settings: Any) -> Report:
    """The report of a check of that lab; with `url`, by way of that address."""
    chosen = with_lab(CheckSettings(environment=environment()), lab)
    fields = {name: getattr(chosen, name) for name in CheckSettings.__slots__}
    node = lab.node
    if url is not None:
        node = replace(node, url=url)
    events: list[Any] = []
    made = CheckSettings(**{**fields, **settings})
    return asyncio.run(check_node(node, load_checklist(), made, events.append))


def statuses(report: Report) -> dict[str, Status]:
    return {step.id: step.status for step in report.steps}


def asked(lab: Lab, call: Callable[[Client], Any]) -> Any:
    async def ask() -> Any:
        async with Client(replace(lab.node, timeout=60)) as client:
            return await call(client)

    return asyncio.run(ask())


def active(lab: Lab) -> int:
    count = asked(lab, lambda client: client.detailed_health()).active_api_runs
    assert isinstance(count, int)
    return count


def own_sessions(lab: Lab) -> list[str]:
    sessions = asked(lab, lambda client: client.sessions(limit=200))
    return [session.id for session in sessions if session.id.startswith("hermesctl-check")]


def explained(report: Report) -> str:
    return "\n".join(
        f"{step.id}: {step.status} {step.summary}" for step in report.steps if step.status != PASS
    )


# The three releases


def test_the_reviewed_release(capsys: pytest.CaptureFixture[str], own_lab: Lab) -> None:
    """Eleven pass and cache is skipped; three short runs and a long one are all that it takes, the
    one that must fail among them; nothing of it stays behind."""
    before = len(own_lab.requests(purpose="chat"))
    running = active(own_lab)
    code, out, _ = typed(capsys, f"lab:{own_lab.name}", "-o", "json")
    document = json.loads(out)
    jsonschema.validate(document, schema())
    report = Report.model_validate(document)
    assert statuses(report) == HEALTHY, explained(report)
    assert (code, report.verdict) == (0, "ready")
    assert report.node.hermes_version == "0.20.4.post1"
    assert report.cost.runs == 4
    assert len(own_lab.requests(purpose="chat")) - before == CHAT_REQUESTS
    assert active(own_lab) == running
    assert own_sessions(own_lab) == []
    assert own_lab.node.key is not None
    assert own_lab.node.key.reveal() not in out


@pytest.fixture
def persistent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder outside /tmp. Where this machine itself is a container whose every folder goes with
    it, the mounts are those of a disk."""
    places = [Path.home(), Path.cwd(), Path("/var/lib"), Path("/opt"), Path("/srv")]
    usable = [
        place
        for place in places
        if not is_volatile_folder(str(place.resolve())) and os.access(place, os.W_OK)
    ]
    folder = Path(tempfile.mkdtemp(prefix="hermesctl-test-", dir=usable[0]))
    if mounts.locate(str(folder)).mount.type in mounts.OVERLAY_TYPES | mounts.VOLATILE_TYPES:
        (tmp_path / "proc" / "self").mkdir(parents=True)
        line = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        (tmp_path / "proc" / "self" / "mountinfo").write_text(line)
        monkeypatch.setattr(mounts, "PROC", tmp_path / "proc")
    yield folder
    for path in [*folder.iterdir(), folder]:
        path.rmdir() if path.is_dir() else path.unlink()


def test_the_reviewed_release_with_an_adapter(
    capsys: pytest.CaptureFixture[str], own_lab: Lab, persistent: Path
) -> None:
    """With the environment file of an adapter whose cache is persistent, all twelve pass."""
    env = persistent / "agent.env"
    env.write_text(
        f"ACTIVATION_CACHE_DIR={persistent}/activations\nBMAS_AGENT_ENDPOINT_MAX_CONCURRENCY=3\n"
        "DAEMON_INGEST_URL=http://127.0.0.1:1\nBMAS_NODE_KEY=0123456789abcdef\n"
    )
    code, out, err = typed(capsys, f"lab:{own_lab.name}", "--agent-env", str(env))
    assert code == 0, out
    assert "READY  12 passed · 4 runs" in out
    assert f"{persistent}/activations on " in out
    assert err == ""


def test_0_19(start_lab: Callable[..., Lab]) -> None:
    """Another release, whose `model` is ignored: nothing else is wrong with it."""
    lab = start_lab(OLD)
    report = checked(lab)
    assert statuses(report) == {**HEALTHY, "release": FAIL, "model": FAIL}, explained(report)
    assert report.step("release").summary == (
        "the gateway runs 0.19.0, the reviewed release is ==0.20.4.*"
    )
    assert report.step("model").summary == "the node accepted 'lab-other' and used 'lab-model'"
    assert (report.verdict, report.exit_code) == ("not_ready", 1)
    assert (active(lab), own_sessions(lab)) == (0, [])


def test_0_22(start_lab: Callable[..., Lab]) -> None:
    """Another release, whose list of skills is broken; its idempotency is put to the proof."""
    lab = start_lab(NEW)
    report = checked(lab)
    assert statuses(report) == {**HEALTHY, "release": FAIL, "routes": WARN}, explained(report)
    assert "GET /v1/skills answers 500: Failed to enumerate skills" in (
        report.step("routes").summary
    )
    assert report.step("run-id").summary.endswith(", and for the same idempotency key")
    assert report.cost.runs == 4
    assert (active(lab), own_sessions(lab)) == (0, [])


# What can go wrong, on a real one


@contextlib.contextmanager
def behaving(lab: Lab, **change: object) -> Iterator[None]:
    lab.behave(**change)
    try:
        yield
    finally:
        lab.behave()


def test_a_model_without_tools(own_lab: Lab) -> None:
    with behaving(own_lab, toolless=True):
        report = checked(own_lab, only=("polling", "traces"))
    assert report.step("polling").status is PASS
    assert report.step("traces").status is UNKNOWN
    assert report.step("traces").summary == "the model made no tool call: nothing to measure"


def test_a_provider_that_answers_any_name(own_lab: Lab) -> None:
    """The session records what was asked for; only the provider itself could tell."""
    with behaving(own_lab, any_model=True):
        blind = checked(own_lab, only=("model",), provider_requests=None)
        seeing = checked(own_lab, only=("model",))
    assert blind.step("model").status is UNKNOWN
    assert "but the provider answers to any name" in blind.step("model").summary
    assert seeing.step("model").status is PASS


def test_the_model_by_the_session_alone(own_lab: Lab) -> None:
    """As on a node whose provider nobody sees, with a model that the node itself lists."""
    report = checked(own_lab, only=("model",), provider_requests=None)
    assert report.step("model").summary == (
        "lab-other recorded by the session; an unknown name was refused"
    )


def test_a_provider_that_fails(own_lab: Lab) -> None:
    with behaving(own_lab, status=401):
        report = checked(own_lab, only=("run-id", "events", "polling", "traces"))
    assert report.step("polling").status is FAIL
    assert "401" in report.step("polling").summary
    assert report.step("run-id").status is PASS
    assert report.step("events").status is WARN
    assert "no run streamed long enough" in report.step("events").summary
    assert report.step("traces").blocked_by == "polling"


def test_a_provider_that_states_no_usage(own_lab: Lab) -> None:
    with behaving(own_lab, usage=False):
        report = checked(own_lab, only=("polling",))
    assert report.step("polling").status is FAIL
    assert report.step("polling").summary == (
        "the answer is right, but no token was counted: usage is missing or 0"
    )


def test_a_model_that_says_nothing(own_lab: Lab) -> None:
    """Hermes calls it completed, counts its tokens and puts words of its own in place of an
    answer: the token that was asked for tells."""
    with behaving(own_lab, empty=True):
        report = checked(own_lab, only=("polling",))
    assert report.step("polling").status is FAIL
    assert report.step("polling").summary.startswith("the answer is not the one asked for:")


def test_a_stream_that_is_held_back(own_lab: Lab) -> None:
    """A buffering proxy before a real node: found by the long run, and by it alone blamed."""
    port = int(own_lab.node.url.rpartition(":")[2])
    with Link(port) as link:
        link.hold_back = True
        report = checked(own_lab, url=link.url)
    assert statuses(report) == {**HEALTHY, "events": FAIL}, explained(report)
    assert report.step("events").summary.startswith("held back")


def test_the_running_limit_measured(own_lab: Lab) -> None:
    report = checked(own_lab, only=("capacity",), probe_capacity=True)
    assert report.step("capacity").summary == (
        "limit 3, running and configured, for a stated capacity of 3"
    )
    assert report.cost.runs == 3
    assert active(own_lab) == 0
    other = checked(own_lab, only=("capacity",), probe_capacity=True, node_capacity=5)
    assert other.step("capacity").summary == "limit 3, stated capacity 5"
    assert active(own_lab) == 0


def test_a_busy_node_is_left_alone(own_lab: Lab) -> None:
    async def busy() -> Report:
        async with Client(replace(own_lab.node, timeout=60)) as client:
            run = await client.submit_run(RunRequest(input="[[count 600]]", session_id="foreign"))
            report = await asyncio.to_thread(checked, own_lab)
            await client.stop_run(run.run_id)
            while not (await client.run(run.run_id)).is_terminal:
                assert report.cost.runs == 0
                await asyncio.sleep(0.05)
            await client.delete_session("foreign")
            return report

    report = asyncio.run(busy())
    assert report.step("run-id").summary == "the node is busy: 1 active run, so none was added"
    assert report.step("stop").blocked_by == "run-id"
    assert report.verdict == "undetermined"
    assert report.cost.runs == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(own_lab: Lab, tmp_path: Path, number: signal.Signals) -> None:
    """Whatever it had started is stopped and gone when it has left."""
    path = tmp_path / "report.json"
    arguments = ["check", f"lab:{own_lab.name}", "--report", f"json={path}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes_ctl", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while active(own_lab) == 0:
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    assert json.loads(path.read_text())["interrupted"] is True
    assert (active(own_lab), own_sessions(own_lab)) == (0, [])


def test_files_that_were_changed_under_a_running_gateway(start_lab: Callable[..., Lab]) -> None:
    """A configuration edited after the start, and a database deleted: both look fine to Hermes."""
    lab = start_lab(max_concurrent_runs=4)
    assert checked(lab, only=("readiness", "polling")).verdict == "ready"
    config = lab.home / "config.yaml"
    config.write_text(config.read_text() + "\n# edited\n")
    os.utime(config, (config.stat().st_mtime + 60,) * 2)
    edited = checked(lab, runs=False)
    assert edited.step("capacity").status is WARN
    assert "edited after the gateway started" in edited.step("capacity").summary
    for path in lab.home.glob("state.db*"):
        path.unlink()
    deleted = checked(lab, runs=False)
    assert deleted.step("readiness").status is FAIL
    assert deleted.step("readiness").summary == "state_db was deleted under the running gateway"
    config.write_text("model: [")
    broken = checked(lab, runs=False)
    assert "invalid config (ParserError)" in broken.step("readiness").summary
