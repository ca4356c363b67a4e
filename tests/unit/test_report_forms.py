"""Each report form, read by somebody else's reader, and hostile text in each of them."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

import pytest
from junit2htmlreport.parser import Junit
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families
from sarif_pydantic import Sarif

from hermes_ctl.checks.gate import Waiver
from hermes_ctl.checks.model import FleetReport, Status, Verdict
from hermes_ctl.report.forms import FORMS, AnyReport, writer
from hermes_ctl.report.nagios import PluginCode, plugin_code
from tests.unit.sample_reports import HOSTILE, check, fleet, gate, ready, step

REPORTS: dict[str, AnyReport] = {
    "ready": ready(),
    "check": check(),
    "fleet": fleet(),
    "gate": gate(),
    "waived": gate(Waiver("route:GET /v1/skills", "known, HA#108967"), Waiver("jobs", "unused")),
}

every_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


def made(form: str, report: AnyReport) -> str:
    return writer(form)(report)


@pytest.mark.parametrize("form", FORMS)
@every_report
def test_no_form_obeys_hostile_text(form: str, report: AnyReport) -> None:
    text = made(form, report)
    assert text.endswith("\n")
    for character in "\x1b\x00\x0b\u202e":
        assert character not in text
    text.encode("utf-8")


# JUnit: the constraints of the schema that Jenkins' xUnit plugin holds reports to (junit-10), which
# GitLab's are a part of.

_SUITE = {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname"}
_CASE_CHILDREN = {"skipped", "error", "failure", "system-out", "system-err"}


def junit(report: AnyReport) -> ET.Element:
    root = ET.fromstring(made("junit", report).encode())
    assert root.tag == "testsuites"
    assert set(root.attrib) <= {"name", "time", "tests", "failures", "errors"}
    for suite in root:
        assert suite.tag == "testsuite"
        assert set(suite.attrib) <= _SUITE
        assert {"name", "tests", "failures", "errors"} <= set(suite.attrib)
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        for child in suite:
            assert child.tag in ("properties", "testcase")
        for one in suite.iter("property"):
            assert set(one.attrib) == {"name", "value"}
        for case in suite.iter("testcase"):
            assert set(case.attrib) <= {"name", "time", "classname", "group"}
            assert {child.tag for child in case} <= _CASE_CHILDREN
            float(case.attrib["time"])
    return root


@every_report
def test_junit_is_what_jenkins_and_gitlab_accept(report: AnyReport, tmp_path: Any) -> None:
    root = junit(report)
    path = tmp_path / "report.xml"
    path.write_text(made("junit", report))
    parsed = Junit(str(path))
    assert len(parsed.suites) == len(root)


def test_junit_tells_failures_errors_and_skips_apart() -> None:
    suite = junit(check())[0]
    kinds = {
        case.attrib["name"].split(" ")[1]: [child.tag for child in case]
        for case in suite.iter("testcase")
    }
    assert kinds == {
        "release": ["system-out"],
        "stop": ["failure"],
        "model": ["error"],
        "traces": ["system-out"],
        "cache": ["skipped"],
        "capacity": ["system-out"],
    }


def test_junit_holds_the_waiver() -> None:
    suite = junit(REPORTS["waived"])[-1]
    skipped = suite.find(".//skipped")
    assert skipped is not None
    assert "known, HA#108967" in skipped.attrib["message"]
    properties = [one.attrib["value"] for one in suite.iter("property")]
    assert any("unused: jobs" in value for value in properties)


# The others


@every_report
def test_prometheus_reads_its_text(report: AnyReport) -> None:
    families = {
        family.name: family for family in text_string_to_metric_families(made("prometheus", report))
    }
    code = families["hermesctl_exit_code"].samples[0]
    assert code.value == report.exit_code
    steps = families["hermesctl_step_status"].samples
    assert {sample.labels["status"] for sample in steps} == {status.value for status in Status}


def test_prometheus_has_one_status_for_each_step() -> None:
    samples = [
        sample
        for family in text_string_to_metric_families(made("prometheus", check()))
        if family.name == "hermesctl_step_status"
        for sample in family.samples
    ]
    chosen = {one.labels["step"]: one.labels["status"] for one in samples if one.value == 1}
    assert chosen["stop"] == "fail"
    assert len(chosen) == len(check().steps)


@every_report
def test_sarif_reads_its_results(report: AnyReport) -> None:
    parsed = Sarif.model_validate_json(made("sarif", report))
    run = parsed.runs[0]
    rules = [rule.id for rule in run.tool.driver.rules or []]
    for result in run.results or []:
        assert result.rule_id in rules


def test_sarif_suppresses_what_was_waived() -> None:
    document = json.loads(made("sarif", REPORTS["waived"]))
    waived = [one for one in document["runs"][0]["results"] if one.get("suppressions")]
    assert [one["suppressions"][0]["justification"] for one in waived] == ["known, HA#108967"]


@every_report
def test_markdown_renders_without_anything_of_the_server_s(report: AnyReport) -> None:
    page = MarkdownIt("commonmark").enable("table").render(made("markdown", report))
    for tag in ("<script", "<img", "<a "):
        assert tag not in page
    assert "<table>" in page
    rows = ET.fromstring(f"<div>{_tables(page)}</div>")
    for table in rows:
        widths = {len(row) for row in table.iter("tr")}
        assert len(widths) == 1, "hostile text broke a row"


def _tables(page: str) -> str:
    found = page.split("<table>")[1:]
    return "".join(f"<table>{part.split('</table>')[0]}</table>" for part in found)


def test_markdown_mentions_nobody() -> None:
    assert "@everyone" not in made("markdown", check()).replace("\\@everyone", "")


@every_report
def test_tap_counts_what_it_says(report: AnyReport) -> None:
    lines = made("tap", report).splitlines()
    points = [line for line in lines if line.startswith(("ok ", "not ok "))]
    assert lines[:2] == ["TAP version 14", f"1..{len(points)}"]
    numbers = [int(line.removeprefix("not ").split(" ")[1]) for line in points]
    assert numbers == list(range(1, len(points) + 1))


def test_tap_marks_skips_advisories_and_waivers() -> None:
    text = made("tap", check())
    assert "cache: no adapter # SKIP" in text
    assert "not ok 6 - node1 capacity: advisory only # TODO advisory" in text
    assert "# TODO waived: known, HA\\#108967" in made("tap", REPORTS["waived"])


@every_report
def test_github_commands_are_one_line_each(report: AnyReport) -> None:
    lines = made("github", report).splitlines()
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)
    assert lines[-1].startswith("::notice ")
    assert not any("%0A" in line.replace("%250A", "") for line in lines)


def test_github_shows_ten_of_a_kind_at_most() -> None:
    many = check(*(step(f"s{number}", Status.FAIL) for number in range(30)))
    lines = made("github", many).splitlines()
    assert len(lines) == 11


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (ready(), PluginCode.OK),
        (check(step("a", Status.WARN)), PluginCode.WARNING),
        (check(), PluginCode.CRITICAL),
        (check(step("a", Status.UNKNOWN)), PluginCode.UNKNOWN),
        (gate(), PluginCode.CRITICAL),
        (gate(new=ready()), PluginCode.OK),
    ],
)
def test_nagios_codes(report: AnyReport, code: PluginCode) -> None:
    assert plugin_code(report) is code
    first = made("nagios", report).splitlines()[0]
    assert first.startswith(f"HERMES {code.name} - ")
    assert first.count("|") == 1, "hostile text began performance data"


# The page


class Page(HTMLParser):
    """What a page would load, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "action", "data", "srcset"):
                self.loads.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def page(report: AnyReport) -> Page:
    parser = Page()
    parser.feed(made("html", report))
    parser.close()
    return parser


@every_report
def test_the_page_asks_nobody_and_runs_nothing(report: AnyReport) -> None:
    shown = page(report)
    assert shown.loads == ["data:,"]
    assert "script" not in shown.tags
    assert "url(" not in made("html", report)
    assert "default-src 'none'" in made("html", report)


def test_the_page_shows_the_drift_side_by_side_the_bars_and_the_timeline() -> None:
    text = made("html", gate())
    shown = page(gate()).text
    assert "GET /v1/skills is advertised and answers 500" in shown
    assert "bMAS, Hermes-Relay, hermesctl" in shown
    assert text.count('class="bar"') == 2 * 5 - 2  # old and new, of each time that both measured
    assert "tool terminal, 0.20 s" in text
    assert "canary: started at 0.50 s, tool.started terminal 0.80 s" in shown
    assert "@media (prefers-color-scheme: dark)" in text
    assert "@media print" in text


def test_the_times_of_one_check_share_a_scale() -> None:
    """Each on its own would be as long as the others, whatever it took."""
    widths = re.findall(r'class="bar"><i[^>]*width: ([0-9.]+)%', made("html", check()))
    assert len(set(widths)) > 1, widths


def test_the_page_of_several_nodes_names_each_and_opens_the_ones_that_are_not_well() -> None:
    well, failed = check(), check()
    well.node.name, failed.node.name = "node-a", "node-b"
    well.verdict, failed.verdict = Verdict.READY, Verdict.NOT_READY
    text = made("html", FleetReport.of([well, failed]))
    assert "1 ready, 1 not ready" in text
    assert text.index("<h3>node-b ") < text.index("<h3>node-a ")
    assert '<details open><summary><h2>node-b <span class="badge bad">NOT READY</span>' in text
    assert '<details><summary><h2>node-a <span class="badge good">READY</span>' in text
    assert " s  node-a</div>" in text
    assert "</i>old</span>" not in text


def test_the_page_shows_hostile_text_as_text() -> None:
    assert "<script>alert(1)</script>" in page(check()).text
    assert HOSTILE not in made("html", check())


def test_a_verdict_that_no_step_tells_is_told_by_itself() -> None:
    report = ready()
    report.verdict = Verdict.UNDETERMINED
    for one in report.steps:
        one.status = Status.SKIP
    reason = "nothing was proved: no step was settled"
    root = ET.fromstring(made("junit", report))
    assert [one.attrib["message"] for one in root.iter("error")] == [reason]
    assert f"verdict: {reason}" in made("tap", report)
    assert made("tap", report).count("\nnot ok ") == 1


def test_the_waiver_is_in_every_form() -> None:
    for form in ("json", "junit", "markdown", "html", "sarif", "tap"):
        assert "HA" in made(form, REPORTS["waived"]), form
        assert "108967" in made(form, REPORTS["waived"]), form


@pytest.mark.parametrize("form", ["markdown", "nagios"])
def test_a_verdict_that_no_step_explains_is_explained(form: str) -> None:
    report = check(step("cache", Status.SKIP, "no adapter"))
    assert "no step was settled" in made(form, report)
