"""From names to nodes: contexts, URLs and labs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermes_ctl.cli import nodes
from hermes_ctl.config import Node, NodeOptions
from hermes_ctl.errors import ConfigurationError, UsageError
from hermes_ctl.lab import gateway
from hermes_ctl.secrets import Secret


@dataclass
class FakeState:
    kept: bool = True


@dataclass
class FakeLab:
    """As much of a running lab as naming one needs."""

    name: str
    state: FakeState = field(default_factory=FakeState)

    def profile_node(self, profile: str | None) -> Node:
        return Node(
            name=f"lab/{self.name}",
            url="http://127.0.0.1:4000" + (f"/p/{profile}" if profile else ""),
            key=Secret("the-lab-has-its-own-key", "lab"),
            profile=profile,
            sources={"name": "lab", "url": "lab", "key": "lab", "home": "lab"},
        )


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    values = {"HOME": str(tmp_path), "HERMESCTL_CONFIG": str(tmp_path / "config.toml")}
    monkeypatch.setattr("hermes_ctl.config.environment", lambda: values)
    return values


@pytest.fixture
def labs(monkeypatch: pytest.MonkeyPatch) -> list[FakeLab]:
    running: list[FakeLab] = []
    by_name = lambda name, _: next((lab for lab in running if lab.name == name), None)  # noqa: E731
    monkeypatch.setattr(gateway, "find", by_name)
    monkeypatch.setattr(gateway, "running", lambda _: list(running))
    return running


def test_a_lab_is_a_node_by_its_name(labs: list[FakeLab]) -> None:
    labs += [FakeLab("old"), FakeLab("new")]
    node = nodes.resolve(NodeOptions(context="lab:old", profile="coder", timeout=3, insecure=True))
    assert node.name == "lab/old"
    assert node.url == "http://127.0.0.1:4000/p/coder"
    assert node.key == Secret("the-lab-has-its-own-key", "test")
    assert (node.timeout, node.insecure) == (3, True)
    assert node.sources == {
        **dict.fromkeys(("name", "url", "key", "home"), "lab"),
        **{name: f"--{name}" for name in ("profile", "timeout", "insecure")},
        **dict.fromkeys(("ca_file", "proxy"), "default"),
    }


def test_the_only_lab_that_stays_needs_no_name(labs: list[FakeLab]) -> None:
    labs += [FakeLab("mine"), FakeLab("of-a-test", FakeState(kept=False))]
    assert nodes.resolve(NodeOptions(context="lab")).name == "lab/mine"


def test_which_lab_is_asked_where_there_are_more(labs: list[FakeLab]) -> None:
    labs += [FakeLab("old"), FakeLab("new")]
    with pytest.raises(ConfigurationError) as caught:
        nodes.resolve(NodeOptions(context="lab"))
    assert caught.value.hint == "name one of lab:old, lab:new"


@pytest.mark.parametrize("context", ["lab", "lab:old"])
def test_no_lab_says_how_to_bring_one_up(labs: list[FakeLab], context: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        nodes.resolve(NodeOptions(context=context))
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("hermesctl lab up")


def test_a_lab_s_key_goes_to_the_lab_alone(labs: list[FakeLab]) -> None:
    labs.append(FakeLab("old"))
    with pytest.raises(UsageError, match="its own address"):
        nodes.resolve(NodeOptions(context="lab:old", url="http://elsewhere"))


def test_another_key_for_the_lab_is_one_that_was_asked_for(
    labs: list[FakeLab], environment: dict[str, str], tmp_path: Path
) -> None:
    labs.append(FakeLab("old"))
    environment["HERMES_GATEWAY_KEY"] = "a-key-for-another-node"
    assert nodes.resolve(NodeOptions(context="lab:old")).key == labs[0].profile_node(None).key
    file = tmp_path / "key"
    file.write_text("0123456789abcdefghij")
    file.chmod(0o600)
    node = nodes.resolve(NodeOptions(context="lab:old", key_file=str(file)))
    assert node.key == Secret("0123456789abcdefghij", "test")
    assert node.sources["key"].startswith("--key-file")


def test_the_environment_may_name_a_lab(labs: list[FakeLab], environment: dict[str, str]) -> None:
    labs.append(FakeLab("old"))
    environment["HERMESCTL_CONTEXT"] = "lab:old"
    assert nodes.resolve(NodeOptions()).name == "lab/old"
    assert nodes.resolve(NodeOptions(url="http://127.0.0.1:5")).url == "http://127.0.0.1:5"
    environment["HERMES_GATEWAY_URL"] = "http://127.0.0.1:6"
    assert nodes.resolve(NodeOptions()).url == "http://127.0.0.1:6"


def test_several_nodes_are_named_by_url_or_context(labs: list[FakeLab]) -> None:
    labs.append(FakeLab("old"))
    found = nodes.resolve_all(["lab", "http://127.0.0.1:5"], NodeOptions())
    assert [node.url for node in found] == ["http://127.0.0.1:4000", "http://127.0.0.1:5"]
    assert len(nodes.resolve_all([], NodeOptions(url="http://127.0.0.1:5"))) == 1
    with pytest.raises(UsageError, match="as well"):
        nodes.resolve_all(["lab"], NodeOptions(url="http://127.0.0.1:5"))


def test_names_are_completed(labs: list[FakeLab], environment: dict[str, str]) -> None:
    labs += [FakeLab("old"), FakeLab("of-a-test", FakeState(kept=False))]
    assert nodes.complete("la") == ["lab:old"]
    assert nodes.complete("x") == []


def test_a_profile_without_a_key_of_its_own_is_no_node(environment: dict[str, str]) -> None:
    file = Path(environment["HERMESCTL_CONFIG"])
    file.write_text('[contexts.node1]\nurl = "http://node1"\n')
    file.chmod(0o600)
    with pytest.raises(
        ConfigurationError, match="node1 has no key for the profile coder"
    ) as caught:
        nodes.resolve_all(["node1/coder"], NodeOptions())
    assert "set-context node1 --for-profile coder" in (caught.value.hint or "")
