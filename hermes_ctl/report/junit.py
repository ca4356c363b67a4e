"""JUnit XML, as Jenkins and GitLab read it: a suite for each check, and one for what differs."""

from __future__ import annotations

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.gate import GateReport
from hermes_ctl.checks.model import Severity, Status, Step
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.report.words import NamedReport, checks_of, clean, clean_lines, waiver_line

_DECLARATION = '<?xml version="1.0" encoding="utf-8"?>'


def text(report: AnyReport) -> str:
    """A failed required step is a failure, one that could not be told an error; an advisory one
    passes with its text in `system-out`. A difference that is lost is a failure."""
    document = JUnitXml(name="hermesctl")
    for one in checks_of(report):
        document.add_testsuite(_suite(one))
    if isinstance(report, GateReport):
        document.add_testsuite(_differences(report))
    document.update_statistics()  # type: ignore[no-untyped-call]
    document._elem.attrib.pop("skipped", None)  # Jenkins' schema knows it of a suite alone
    raw = document.tostring()  # type: ignore[no-untyped-call]
    body = raw.decode("utf-8") if isinstance(raw, bytes) else str(raw)
    return f"{_DECLARATION}\n{body}\n"


def _suite(one: NamedReport) -> TestSuite:
    report = one.report
    suite = TestSuite(clean_lines(f"hermesctl.{report.checklist.name} {one.name}"))
    suite.timestamp = report.started_at.replace(tzinfo=None).isoformat(timespec="seconds")
    suite.add_property("node", clean_lines(clean(report.node.url)))
    suite.add_property("hermes", clean_lines(clean(report.node.hermes_version)))
    suite.add_property("verdict", report.verdict.value)
    for step in report.steps:
        suite.add_testcase(_case(step, one))
    if report.untold_reason:
        case = TestCase("verdict", classname=_class_of(one))
        case.result = [Error(clean_lines(report.untold_reason), "undetermined")]
        suite.add_testcase(case)
    return suite


def _class_of(one: NamedReport) -> str:
    side = f".{one.side}" if one.side else ""
    return clean_lines(f"hermesctl.{one.report.checklist.name}{side}")


def _case(step: Step, one: NamedReport) -> TestCase:
    case = TestCase(
        f"{step.number:02d} {step.id}",
        classname=_class_of(one),
        time=step.duration_s,
    )
    said = clean_lines(clean(step.summary))
    required = step.severity is Severity.REQUIRED
    if step.status is Status.FAIL and required:
        case.result = [_with_text(Failure(said, "fail"), step)]
    elif step.status is Status.UNKNOWN and required:
        case.result = [_with_text(Error(said, "unknown"), step)]
    elif step.status is Status.SKIP:
        case.result = [Skipped(said, "skip")]
    else:
        case.system_out = clean_lines(f"{step.status}: {step.summary}")
    return case


def _with_text(result: Failure | Error, step: Step) -> Failure | Error:
    rows = [("expected", step.expected), ("observed", step.observed)]
    lines = [f"{name}: {clean(value)}" for name, value in rows if value]
    lines += [f"{clean(item.source)}: {clean(item.value)}" for item in step.evidence]
    lines += [f"fix: {clean(line)}" for line in step.fix]
    lines.append(f"more: hermesctl explain {step.id}")
    result.text = clean_lines("\n".join(lines))
    return result


def _differences(report: GateReport) -> TestSuite:
    suite = TestSuite("hermesctl.differences")
    suite.timestamp = report.started_at.replace(tzinfo=None).isoformat(timespec="seconds")
    for number, waiver in enumerate(report.waivers, 1):
        suite.add_property(f"waiver.{number}", clean_lines(waiver_line(waiver)))
    for one in report.differences:
        suite.add_testcase(_difference(one))
    if not report.differences:
        suite.add_testcase(TestCase("no difference", classname="hermesctl.differences", time=0.0))
    return suite


def _difference(one: Difference) -> TestCase:
    case = TestCase(
        clean_lines(clean(one.id)), classname=f"hermesctl.differences.{one.level.value}", time=0.0
    )
    said = clean_lines(clean(one.summary))
    detail = clean_lines(
        f"old: {clean(one.old) or 'nothing'}\nnew: {clean(one.new) or 'nothing'}\n"
        f"consumed by: {', '.join(one.consumers) or 'nobody known'}"
    )
    if one.waived is not None:
        case.result = [Skipped(clean_lines(f"waived: {clean(one.waived)}: {said}"), "waived")]
    elif one.level is Level.BREAKING:
        failure = Failure(said, "lost")
        failure.text = detail
        case.result = [failure]
    else:
        case.system_out = f"{said}\n{detail}"
    return case
