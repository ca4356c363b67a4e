"""The two sides of a gate: what is left running when one of them cannot be had."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes_ctl.checks.settings import CheckSettings
from hermes_ctl.cli.sides import NEW, OLD, bring_up
from hermes_ctl.config import Node, NodeOptions
from hermes_ctl.errors import LabFailure


@pytest.mark.parametrize("keep", [True, False])
def test_a_lab_whose_other_side_failed_is_not_kept(
    keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--keep` is for the labs of a gate that took place; nobody was told of this one."""
    stopped: list[str] = []

    def start(spec: str, **_: Any) -> Any:
        if "0.99" in spec:
            raise LabFailure("no such release")
        return SimpleNamespace(
            version="0.20.4",
            node=Node(name="lab", url="http://127.0.0.1:1"),
            executable=Path("hermes"),
            home=Path("home"),
            capacity=10,
            other_model="other",
            profiles=(),
            requests=lambda after: [],
            stop=lambda: stopped.append(spec),
        )

    monkeypatch.setattr("hermes_ctl.lab.gateway.start", start)
    with ExitStack() as stack, pytest.raises(LabFailure, match="no such release"):
        bring_up(
            [(OLD, "hermes-agent==0.20.4"), (NEW, "hermes-agent==0.99.0")],
            NodeOptions(),
            CheckSettings(),
            keep=keep,
            stack=stack,
            report=lambda line: None,
        )
    assert stopped == ["hermes-agent==0.20.4"]
