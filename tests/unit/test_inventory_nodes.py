"""From what was typed to the nodes of a check of many."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hermes_ctl.cli.inventory import nodes_of
from hermes_ctl.config import Node, NodeOptions
from hermes_ctl.errors import ConfigurationError, UsageError
from hermes_ctl.inventory.choice import Choice, parse_labels
from hermes_ctl.secrets import Secret

CONFIGURATION = """
[contexts.node1]
url = "http://node1:8642"
key-file = "node1.key"
groups = ["gpu"]

[contexts.node2]
url = "http://node2:8642"
key-environment = "NODE2_KEY"
labels = { site = "cellar" }

[contexts.node2.profiles.planner]
key-command = ["printf", "the-key-of-the-planner"]
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "config.toml").write_text(CONFIGURATION)
    (tmp_path / "config.toml").chmod(0o600)
    (tmp_path / "node1.key").write_text("the-key-of-node-one\n")
    (tmp_path / "node1.key").chmod(0o600)
    values = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "HERMESCTL_CONFIG": str(tmp_path / "config.toml"),
        "NODE2_KEY": "the-key-of-node-two",
    }
    monkeypatch.setattr("hermes_ctl.config.environment", lambda: values)
    return values


def found(*names: str, choice: Choice | None = None, **options: object) -> list[Node]:
    return nodes_of(names, choice or Choice(), NodeOptions(**options), lambda _: None)  # type: ignore[arg-type]


def shown(nodes: list[Node]) -> list[tuple[str, str, str | None]]:
    return [(node.name, node.url, node.key.reveal() if node.key else None) for node in nodes]


ONE = ("node1", "http://node1:8642", "the-key-of-node-one")
TWO = ("node2", "http://node2:8642", "the-key-of-node-two")
PLANNER = ("node2/planner", "http://node2:8642/p/planner", "the-key-of-the-planner")


def test_every_node_and_profile_has_its_own_key() -> None:
    assert shown(found(choice=Choice(everything=True))) == [ONE, TWO, PLANNER]
    assert shown(found(choice=Choice(groups=("gpu",)))) == [ONE]
    assert shown(found(choice=Choice(labels={"site": "cellar"}))) == [TWO, PLANNER]


def test_a_profile_is_named_behind_its_node() -> None:
    assert shown(found("node2/planner", "node1")) == [PLANNER, ONE]


def test_a_typed_profile_is_asked_of_every_node() -> None:
    nodes = found(choice=Choice(everything=True), profile="coder")
    assert [node.url for node in nodes] == [
        "http://node1:8642/p/coder",
        "http://node2:8642/p/coder",
    ]


def test_an_inventory_takes_the_place_of_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "key").write_text("the-key-of-the-site\n")
    (folder / "key").chmod(0o600)
    inventory = folder / "hosts.json"
    inventory.write_text(
        '{"_meta": {"hostvars": {"web1": {"hermes_url": "http://web1", "hermes_key_file": "key"},'
        ' "db1": {}}}, "web": {"hosts": ["web1"]}}'
    )
    notes: list[str] = []
    nodes = nodes_of((), Choice(inventory=str(inventory)), NodeOptions(), notes.append)
    assert shown(nodes) == [("web1", "http://web1", "the-key-of-the-site")]
    assert notes == ["1 host has no hermes_url and is left out: db1"]
    with pytest.raises(ConfigurationError, match="node1 is not in"):
        found("node1", choice=Choice(inventory=str(inventory)))


def test_addresses_at_one_host_are_told_apart_by_the_rest() -> None:
    nodes = found("http://h:1/p/a", "http://h:1/p/b", "http://other:1")
    assert [node.name for node in nodes] == ["h:1/p/a", "h:1/p/b", "other:1"]


@pytest.mark.parametrize(
    ("names", "choice", "options", "told"),
    [
        (["node1", "node1"], Choice(), {}, "node1 is named twice"),
        (["http://h:1", "http://h:1/"], Choice(), {}, "h:1 is named twice"),
        (["node3"], Choice(), {}, "no context 'node3'"),
        (["node1"], Choice(everything=True), {}, "as well"),
        ([], Choice(everything=True), {"url": "http://h"}, "as well"),
        ([], Choice(groups=("gpu",)), {"context": "node1"}, "as well"),
        ([], Choice(groups=("cpu",)), {}, "the group 'cpu'"),
        ([], Choice(inventory="-"), {"key_file": "-"}, "both the inventory and the key"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    names: list[str], choice: Choice, options: dict[str, str], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        found(*names, choice=choice, **options)


def test_all_that_is_wrong_is_told_at_once(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "node1.key").unlink()
    with pytest.raises(ConfigurationError, match=r"node1\.key cannot be read"):
        found(choice=Choice(groups=("gpu",)))
    del environment["NODE2_KEY"]
    with pytest.raises(ConfigurationError, match=r"2 of 3 nodes cannot be checked: .*; ") as caught:
        found(choice=Choice(everything=True))
    assert "NODE2_KEY is not set" in caught.value.message


def test_key_commands_run_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    together = threading.Barrier(4, timeout=10)

    def wait_for_the_others(command: object, **_: object) -> Secret:
        together.wait()
        return Secret("a-key-that-took-its-time", "a test")

    monkeypatch.setattr("hermes_ctl.secrets.read_key_command", wait_for_the_others)
    inventory = tmp_path / "fleet.toml"
    inventory.write_text(
        "".join(
            f'[contexts.n{number}]\nurl = "http://n{number}"\nkey-command = "pass show n"\n'
            for number in range(4)
        )
    )
    assert len(found(choice=Choice(inventory=str(inventory)))) == 4


def test_labels_are_pairs() -> None:
    assert parse_labels(["a=b", "c=d=e", "a=b"]) == {"a": "b", "c": "d=e"}
    for wrong in (["a"], ["=b"], ["a=b", "a=c"]):
        with pytest.raises(UsageError):
            parse_labels(wrong)
