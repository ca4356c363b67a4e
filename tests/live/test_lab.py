"""The lab itself, on a real Hermes."""

from __future__ import annotations

from hermes_ctl.lab.gateway import Lab
from hermes_ctl.lab.loopback import ask


def test_shared_lab_answers(lab: Lab) -> None:
    status, answer = ask(f"{lab.node.url}/health")
    assert (status, answer["version"]) == (200, "0.20.4.post1")
