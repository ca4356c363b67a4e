"""What many reports come to: the common verdict, what changed, what is told once, and the JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes_ctl.api.models import DetailedHealth
from hermes_ctl.checks.changes import change_between
from hermes_ctl.checks.model import (
    ChecklistDescription,
    Counts,
    FleetReport,
    NodeDescription,
    Report,
    ServerProcess,
    Status,
    Step,
    Tool,
    Verdict,
)
from hermes_ctl.checks.reaction import Reaction, parse_command
from hermes_ctl.checks.server_process import server_process
from hermes_ctl.errors import UsageError
from hermes_ctl.render.fleet import troubles_of
from hermes_ctl.report import json as json_form
from hermes_ctl.report.merging import merged
from hermes_ctl.secrets import MASK, Secret

BEGAN = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
PROCESS = ServerProcess(pid=7, started="4711")


def report(
    name: str,
    verdict: Verdict = Verdict.READY,
    *steps: Step,
    url: str | None = None,
    profile: str | None = None,
    process: ServerProcess | None = None,
    later: float = 0.0,
    lasting: float = 1.0,
) -> Report:
    return Report(
        tool=Tool(version="1"),
        node=NodeDescription(
            name=name, url=url or f"http://{name}:8642", profile=profile, process=process
        ),
        checklist=ChecklistDescription(name="bmas-node", release="==1", sha256="0"),
        started_at=BEGAN + timedelta(seconds=later),
        duration_s=lasting,
        verdict=verdict,
        exit_code={Verdict.READY: 0, Verdict.NOT_READY: 1, Verdict.UNDETERMINED: 3}[verdict],
        counts=Counts(),
        steps=list(steps),
    )


def step(step_id: str, status: Status, summary: str = "so it is", *fix: str) -> Step:
    return Step(number=1, id=step_id, title="", status=status, summary=summary, fix=list(fix))


# The fleet's report


@pytest.mark.parametrize(
    ("verdicts", "worst", "code"),
    [
        ([Verdict.READY, Verdict.READY], Verdict.READY, 0),
        ([Verdict.READY, Verdict.UNDETERMINED], Verdict.UNDETERMINED, 3),
        ([Verdict.UNDETERMINED, Verdict.NOT_READY, Verdict.READY], Verdict.NOT_READY, 1),
    ],
)
def test_the_worst_counts(verdicts: list[Verdict], worst: Verdict, code: int) -> None:
    fleet = FleetReport.of([report(f"n{i}", verdict) for i, verdict in enumerate(verdicts)])
    assert (fleet.verdict, fleet.exit_code) == (worst, code)
    assert fleet.worst_first()[0].verdict is worst


def test_it_lasts_from_the_first_beginning_to_the_last_end() -> None:
    fleet = FleetReport.of([report("a", later=5, lasting=2), report("b", later=1, lasting=3)])
    assert (fleet.started_at, fleet.duration_s) == (BEGAN + timedelta(seconds=1), 6.0)


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ([report("b", process=PROCESS)], [["a", "b"]]),
        ([report("b", url="http://a:8642", process=PROCESS)], [["a", "b"]]),
        ([report("b", url="http://a:8642/p/x", profile="x", process=PROCESS)], []),
        ([report("b", url="http://b:8642/p/x", profile="x", process=PROCESS)], [["a", "b"]]),
        ([report("b", process=ServerProcess(pid=7, started="4712"))], []),
        ([report("b")], []),
    ],
)
def test_names_of_one_server_are_found(others: list[Report], found: list[list[str]]) -> None:
    fleet = FleetReport.of([report("a", process=PROCESS), *others])
    assert [same.nodes for same in fleet.same_server] == found


@pytest.mark.parametrize(
    ("platform", "started"),
    [
        ({"writer_start_time": 171101, "updated_at": "2026-11-30T15:02:19.58+00:00"}, "171101"),
        ({"updated_at": "2026-11-30T15:03:51.04+00:00"}, "2026-11-30T15:03:51.04+00:00"),
        ({}, None),
        ("odd", None),
    ],
)
def test_a_process_is_known_by_its_start(platform: object, started: str | None) -> None:
    """As 0.20 and 0.22, 0.19, and something else tell it."""
    health = DetailedHealth.model_validate(
        {"status": "ok", "pid": 7, "platforms": {"api_server": platform}}
    )
    assert server_process(health) == (ServerProcess(pid=7, started=started) if started else None)


def test_no_process_is_known_without_an_id() -> None:
    platforms = {"api_server": {"writer_start_time": 1}}
    assert server_process(DetailedHealth(status="ok", platforms=platforms)) is None


# JSON, node by node


def test_the_pieces_are_the_whole_document() -> None:
    one = report("a", Verdict.READY, step("auth", Status.PASS))
    two = report("b", Verdict.NOT_READY, step("auth", Status.FAIL, 'a "quote"\nand a line'))
    two.contract = one.contract
    two.contract.features = {"runs": True}
    fleet = FleetReport.of([one, two])
    text = json_form.text(fleet)
    assert json.loads(text) == fleet.document()
    assert text == json.dumps(fleet.document(), indent=2, ensure_ascii=False) + "\n"


def test_no_key_is_in_the_pieces() -> None:
    key = Secret('key-"with"-quotes-0123456789', "a test").reveal()
    fleet = FleetReport.of([report("a", Verdict.READY, step("auth", Status.PASS, f"{key} opens"))])
    text = json_form.text(fleet)
    assert json.loads(text)["nodes"][0]["steps"][0]["summary"] == f"{MASK} opens"


# Merged from files


def saved(path: Path, one: Report | FleetReport) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json_form.text(one))
    return path


def names(fleet: FleetReport) -> list[str]:
    return [one.node.name for one in fleet.nodes]


def test_nodes_that_checked_themselves_are_named_after_their_files(tmp_path: Path) -> None:
    files = [saved(tmp_path / f"{host}.json", report("local")) for host in ("web1", "web2")]
    files.append(saved(tmp_path / "other.json", report("node3", Verdict.NOT_READY)))
    fleet = merged(files)
    assert names(fleet) == ["web1", "web2", "node3"]
    assert fleet.exit_code == 1


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    files = [saved(tmp_path / host / "report.json", report("local")) for host in ("a", "b")]
    assert names(merged(files)) == [str(tmp_path / "a/report"), str(tmp_path / "b/report")]


def test_fleets_are_merged_too(tmp_path: Path) -> None:
    one = saved(tmp_path / "east.json", FleetReport.of([report("n1"), report("n2")]))
    two = saved(tmp_path / "west.json", FleetReport.of([report("n1"), report("n3")]))
    assert names(merged([one, two])) == ["east/n1", "n2", "west/n1", "n3"]


def test_what_is_no_report_is_not_merged(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"schema": "something/1"}')
    with pytest.raises(UsageError):
        merged([path])


# What is told once


def test_the_same_trouble_is_told_once_for_all_nodes() -> None:
    refused = "nothing listens on {}:8642"
    fleet = FleetReport.of(
        [
            report("a", Verdict.UNDETERMINED, step("release", Status.UNKNOWN, refused.format("a"))),
            report("b", Verdict.NOT_READY, step("auth", Status.FAIL, "refused", "mend it")),
            report("c", Verdict.UNDETERMINED, step("release", Status.UNKNOWN, refused.format("c"))),
            report("d", Verdict.READY, step("release", Status.WARN, "not seen")),
            report(
                "e", Verdict.NOT_READY, step("auth", Status.FAIL, "refused", "mend it otherwise")
            ),
        ]
    )
    told = [(one.step.id, one.step.summary, one.on) for one in troubles_of(fleet)]
    assert told == [
        ("release", "not seen", "d"),
        ("release", "nothing listens on the node", "a, c"),
        ("auth", "refused", "b"),
        ("auth", "refused", "e"),
    ]


def test_what_an_interruption_left_open_is_no_trouble() -> None:
    left = report("a", Verdict.UNDETERMINED, step("auth", Status.UNKNOWN, "interrupted"))
    assert troubles_of(FleetReport.of([left])) == []


def test_many_nodes_are_counted() -> None:
    nodes = [report(f"n{i}", Verdict.NOT_READY, step("auth", Status.FAIL)) for i in range(11)]
    (trouble,) = troubles_of(FleetReport.of(nodes))
    assert trouble.on.endswith("n7 and 3 more")


# What changes


def test_the_first_check_changes_everything() -> None:
    change = change_between(None, report("a", Verdict.READY, step("auth", Status.PASS)))
    assert change is not None
    assert change.was is None
    assert not change.of_verdict, "a node is taken to have been ready"
    assert [(one.id, one.was) for one in change.steps] == [("auth", None)]
    worse = change_between(None, report("a", Verdict.NOT_READY))
    assert worse is not None
    assert worse.of_verdict


def test_only_what_came_out_otherwise_is_a_change() -> None:
    before = report("a", Verdict.READY, step("auth", Status.PASS), step("routes", Status.PASS))
    same = report(
        "a",
        Verdict.READY,
        step(
            "auth",
            Status.PASS,
            "in other words",
        ),
        *before.steps[1:],
    )
    assert change_between(before, same) is None
    other = report("a", Verdict.READY, step("auth", Status.WARN, "weak"), *before.steps[1:])
    change = change_between(before, other)
    assert change is not None
    assert not change.of_verdict
    assert change.document() == {
        "schema": "hermesctl.change/1",
        "at": "2026-08-01T12:00:00+00:00",
        "node": "a",
        "was": "ready",
        "verdict": "ready",
        "steps": [{"id": "auth", "was": "pass", "status": "warn", "summary": "weak"}],
    }


# The command


@pytest.mark.parametrize("text", ["", "  ", "notify 'ops"])
def test_a_command_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_command(text)


def test_no_shell_reads_the_command() -> None:
    assert parse_command("notify 'a b' $HOME; rm") == ("notify", "a b", "$HOME;", "rm")


def reaction(script: str, *arguments: str, limit: float = 20.0) -> Reaction:
    environment = {**os.environ, "HERMES_GATEWAY_KEY": "the-key-that-stays-here"}
    return Reaction([sys.executable, "-c", script, *arguments], environment, limit=limit)


def test_the_report_is_on_its_input_and_no_key_in_its_environment(tmp_path: Path) -> None:
    script = (
        "import json, os, sys; json.dump([json.load(sys.stdin), os.environ.get('HERMESCTL_NODE'),"
        " os.environ.get('HERMES_GATEWAY_KEY')], open(sys.argv[1], 'w'))"
    )
    out = tmp_path / "out.json"
    document = {"verdict": "ready", "long": "x" * 500_000}
    problem = asyncio.run(reaction(script, str(out)).run(document, {"HERMESCTL_NODE": "a"}))
    assert problem is None
    assert json.loads(out.read_text()) == [document, "a", None]


@pytest.mark.parametrize(
    ("script", "limit", "told"),
    [
        ("raise SystemExit(3)", 20.0, "ended with 3"),
        ("import time; time.sleep(60)", 0.5, "took more than 0.5 s"),
        ("import os; os.close(0)", 20.0, None),
    ],
)
def test_what_goes_wrong_is_told(script: str, limit: float, told: str | None) -> None:
    problem = asyncio.run(reaction(script, limit=limit).run({"long": "x" * 500_000}, {}))
    assert problem is None if told is None else problem is not None and told in problem


def test_a_command_that_is_not_there_is_told() -> None:
    problem = asyncio.run(Reaction(["/no/such/command"], {}).run({}, {}))
    assert problem == "/no/such/command cannot be started: No such file or directory"


def test_interrupted_it_leaves_no_process(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = (
        f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )

    async def interrupt() -> None:
        task = asyncio.create_task(reaction(script).run({}, {}))
        for _ in range(2000):
            if pid_file.exists() and pid_file.read_text():
                break
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupt())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
