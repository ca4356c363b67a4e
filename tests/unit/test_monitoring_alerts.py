"""The README's alert rules and table of metrics against what the exporter really tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hermes_ctl.checks.model import (
    ChecklistDescription,
    Counts,
    NodeDescription,
    Report,
    Status,
    Step,
    Tool,
    Verdict,
)
from hermes_ctl.clock import now
from hermes_ctl.config import Node
from hermes_ctl.durations import parse_duration
from hermes_ctl.monitor.board import Board
from hermes_ctl.monitor.metrics import registry
from hermes_ctl.monitor.pulse import Pulse
from tests.recipes import recipe, section

SCRAPED = {"job", "instance"}
"""Labels that Prometheus itself adds to everything."""


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, set[str]]]:
    """Each sample of a full scrape: its labels, with their values."""
    step = Step(number=1, id="release", title="t", summary="s", status=Status.PASS)
    report = Report(
        tool=Tool(version="1"),
        node=NodeDescription(name="one", url="http://one:8642"),
        checklist=ChecklistDescription(name="bmas-node", release="==0.20.4.*", sha256="0"),
        started_at=now(),
        duration_s=1.0,
        verdict=Verdict.READY,
        exit_code=0,
        counts=Counts(),
        steps=[step],
    )
    board = Board([Node("one", "http://one:8642")])
    board.looked("one", Pulse(now(), 0.1, "0.20.4", "ok", "running", 1))
    board.checked("one", report)
    board.surveyed([])
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(generate_latest(registry(board, 60.0)).decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(recipe("hermesctl-alerts.yml"))
    assert document.keys() == {"groups"}
    (group,) = document["groups"]
    assert group.keys() == {"name", "rules"}
    found: list[dict[str, Any]] = group["rules"]
    return found


def selectors(expression: Any) -> Iterator[Any]:
    """Every selector in a parsed expression, however deep."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("lhs", "rhs", "expr", "args", "vector_selector"):
        inner = getattr(expression, name, None)
        for one in inner if isinstance(inner, list) else [inner] if inner is not None else []:
            yield from selectors(one)


def test_every_rule_is_whole() -> None:
    found = rules()
    assert len({rule["alert"] for rule in found}) == len(found) >= 5
    for rule in found:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert parse_duration(rule["for"]) >= 60, "one bad scrape wakes nobody"
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary"}


def test_every_expression_asks_for_what_is_told(told: dict[str, dict[str, set[str]]]) -> None:
    for rule in rules():
        asked = list(selectors(promql_parser.parse(rule["expr"])))
        assert asked, rule
        for selector in asked:
            assert selector.name in told, f"{rule['alert']}: nothing tells {selector.name}"
            for matcher in selector.matchers.matchers:
                values = told[selector.name].get(matcher.name, set())
                assert matcher.value in values, f"{rule['alert']}: {matcher.name}={matcher.value}"


def test_every_summary_names_labels_that_are_there(told: dict[str, dict[str, set[str]]]) -> None:
    for rule in rules():
        names = {one.name for one in selectors(promql_parser.parse(rule["expr"]))}
        there = set.union(SCRAPED, *(set(told[name]) for name in names))
        wanted = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert wanted <= there, rule["alert"]


def test_every_metric_of_the_table_is_told(told: dict[str, dict[str, set[str]]]) -> None:
    table = [line.split("|")[1] for line in section().splitlines() if line.startswith("| `hermes")]
    named = {
        name: set(filter(None, labels.split(",")))
        for cell in table
        for name, labels in re.findall(r"`(\w+)(?:\{([\w,]*)\})?`", cell)
    }
    assert len(named) > 10
    for name, labels in named.items():
        assert name in told, f"nothing tells {name}"
        assert labels <= told[name].keys(), f"{name} has not the labels {labels}"
