"""Inventories: three forms, one meaning; and who is chosen from them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes_ctl.contexts import Context, Contexts, KeySource
from hermes_ctl.errors import ConfigurationError, UsageError
from hermes_ctl.inventory import (
    Entry,
    Inventory,
    chosen,
    entries_of,
    listing_of,
    load_inventory,
    named,
    parse_inventory,
    refuse_twice,
)

PATH = Path("fleet.any")


def parse(text: str) -> Inventory:
    return parse_inventory(text.encode(), PATH)


def refused(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    return caught.value


def ansible(hostvars: dict[str, Any], **groups: Any) -> str:
    return json.dumps({"_meta": {"hostvars": hostvars}, **groups})


# The three forms


def test_own_form_is_that_of_the_configuration_file() -> None:
    inventory = parse(
        """
        # the lab
        [contexts.node1]
        url = "http://node1:8642"
        key-file = "node1.key"
        groups = ["gpu", "lab"]
        labels = { site = "cellar" }
        [contexts.node1.profiles.planner]
        key-environment = "PLANNER"
        """
    )
    node = inventory.contexts.contexts["node1"]
    assert node.key == KeySource("file", "node1.key")
    assert (node.groups, node.labels) == (("gpu", "lab"), {"site": "cellar"})
    assert node.profiles == {"planner": KeySource("environment", "PLANNER")}


def test_a_list_names_each_node_by_what_is_different_in_it() -> None:
    inventory = parse(
        "\ufeff# nodes\n\nhttp://node1:8642\nhttps://Node2/p/planner  # behind the proxy\n"
    )
    assert inventory.contexts.contexts == {
        "node1:8642": Context("node1:8642", "http://node1:8642"),
        "node2/p/planner": Context("node2/p/planner", "https://node2/p/planner", profile="planner"),
    }


def test_ansible_hosts_are_nodes_where_they_have_an_address() -> None:
    inventory = parse(
        ansible(
            {
                "web1": {
                    "hermes_url": "http://{{ ansible_host }}:{{hermes_port}}",
                    "ansible_host": "10.0.0.1",
                    "hermes_port": 8642,
                    "hermes_key_file": "keys/{{ inventory_hostname }}",
                    "hermes_timeout": 30,
                    "hermes_insecure": True,
                    "hermes_labels": {"rack": 7},
                    "hermes_profiles": {"planner": {"key_command": ["pass", "show", "planner"]}},
                    "hermes_version": "0.20.4",
                },
                "web2": {"hermes_url": "http://web2:8642", "hermes_profile": "coder"},
                "db1": {"ansible_host": "10.0.0.9"},
            },
            all={"children": ["ungrouped", "site"]},
            site={"children": ["web", "db"]},
            web={"hosts": ["web1", "web2"]},
            db={"hosts": ["db1", "db2"]},
        )
    )
    assert inventory.left_out == ("db1", "db2")
    assert inventory.contexts.contexts == {
        "web1": Context(
            name="web1",
            url="http://10.0.0.1:8642",
            key=KeySource("file", "keys/web1"),
            timeout=30.0,
            insecure=True,
            labels={"rack": "7"},
            groups=("all", "site", "web"),
            profiles={"planner": KeySource("command", ("pass", "show", "planner"))},
        ),
        "web2": Context(
            name="web2",
            url="http://web2:8642",
            profile="coder",
            groups=("all", "site", "web"),
        ),
    }


def test_groups_that_contain_each_other_end() -> None:
    text = ansible(
        {"a": {"hermes_url": "http://a"}},
        one={"children": ["two"], "hosts": ["a"]},
        two={"children": ["one"]},
    )
    assert parse(text).contexts.contexts["a"].groups == ("one", "two")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON"),
        ('{"all": {}}', "no variables of hosts"),
        ('{"_meta": {"hostvars": {"a": 1}}}', "no variables of hosts"),
        (ansible({}, web=["a"]), "'web' is no JSON object"),
        (ansible({}, web={"hosts": [1]}), "hosts of the group 'web'"),
        (ansible({}, web={"vars": {"hermes_url": "http://a"}}), "'web' apart"),
        (ansible({"a": {"hermes_url": "http://{{ x.y }}"}}), "template that is not filled in"),
        (ansible({"a": {"hermes_url": "http://{{ other }}"}}), "template that is not filled in"),
        (ansible({"a": {"hermes_url": "http://a", "hermes_keyfile": "k"}}), "hermes_keyfile"),
        (
            ansible({"a": {"hermes_url": "http://a", "hermes_timeout": "soon"}}),
            "contexts.a.timeout",
        ),
        (ansible({"a b": {"hermes_url": "http://a"}}), "no name for a context"),
        ("[contexts.node1\n", "is not TOML"),
        ('[contexts.node1]\nkey = "x"', "never stands in this file"),
        ("http://a\n\nhttp://a/\n", "fleet.any:3: the address http://a stands twice"),
        ("http://a\nnode2:8642\n", "'node2:8642' from fleet.any:2 has no scheme"),
    ],
)
def test_mistakes_are_told(text: str, told: str) -> None:
    error = refused(text)
    assert told in error.message
    assert error.hint


def test_not_text_is_told() -> None:
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        parse_inventory(b"http://a\xff", PATH)


# Reading


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fleet.txt"
    path.write_text("http://a\n")
    path.chmod(0o666)
    with pytest.raises(ConfigurationError, match="others can write"):
        load_inventory(str(path))
    path.chmod(0o644)
    assert list(load_inventory(str(path)).contexts.contexts) == ["a"]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load_inventory(str(tmp_path / "none"))


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"http://a\n")))
    assert list(load_inventory("-").contexts.contexts) == ["a"]
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigurationError, match="no standard input"):
        load_inventory("-")


def test_a_huge_inventory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_ctl.inventory._LARGEST", 10)
    path = tmp_path / "fleet.txt"
    path.write_text("http://a\n" * 10)
    with pytest.raises(ConfigurationError, match="larger than"):
        load_inventory(str(path))


# Choosing

KEY = KeySource("file", "k")
FLEET = Contexts(
    PATH,
    contexts={
        "a": Context("a", "http://a", groups=("gpu",), labels={"site": "x", "rack": "1"}),
        "b": Context(
            "b",
            "http://b",
            profile="coder",
            groups=("gpu", "old"),
            labels={"site": "x"},
            profiles={"coder": KEY, "planner": KEY},
        ),
        "c": Context("c", "http://c", labels={"site": "y"}),
    },
)


def names(entries: list[Entry]) -> list[str]:
    return [entry.name for entry in entries]


def test_every_profile_with_its_own_key_is_a_node() -> None:
    assert names(entries_of(FLEET.contexts.values())) == ["a", "b", "b/planner", "c"]


@pytest.mark.parametrize(
    ("groups", "labels", "found"),
    [
        ((), {}, ["a", "b", "b/planner", "c"]),
        (("gpu",), {}, ["a", "b", "b/planner"]),
        (("old", "gpu"), {}, ["a", "b", "b/planner"]),
        ((), {"site": "x"}, ["a", "b", "b/planner"]),
        ((), {"site": "x", "rack": "1"}, ["a"]),
        (("old",), {"site": "x"}, ["b", "b/planner"]),
    ],
)
def test_groups_add_and_labels_narrow(
    groups: tuple[str, ...], labels: dict[str, str], found: list[str]
) -> None:
    assert names(chosen(FLEET, groups, labels)) == found


def test_an_unknown_group_and_an_empty_choice_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the group 'gpus'") as caught:
        chosen(FLEET, ["gpu", "gpus"])
    assert caught.value.hint == "its groups: gpu, old"
    with pytest.raises(ConfigurationError) as caught:
        chosen(Contexts(Path("inventory"), contexts={"a": Context("a", "http://a")}), ["gpu"])
    assert caught.value.hint == "hermesctl config set-context NAME --group GROUP puts one into it"
    with pytest.raises(ConfigurationError, match="no node in old with site=y"):
        chosen(FLEET, ["old"], {"site": "y"})
    with pytest.raises(ConfigurationError, match="no node in fleet"):
        chosen(Contexts(PATH))


def test_names_are_those_of_entries() -> None:
    assert named(FLEET, ["c", "b/planner"]) == [Entry("c"), Entry("b", "planner")]
    with pytest.raises(ConfigurationError, match="b/plannr, z are not in") as caught:
        named(FLEET, ["a", "b/plannr", "z"])
    assert caught.value.hint == "did you mean 'b/planner'?"
    with pytest.raises(ConfigurationError, match="b/coder is not in"):
        named(FLEET, ["b/coder"])


def test_a_name_that_stands_twice_is_refused() -> None:
    refuse_twice(["a", "b"])
    with pytest.raises(UsageError, match="a, b are named twice"):
        refuse_twice(["a", "b", "a", "c", "b"])


def test_long_lists_are_cut_and_hostile_names_made_visible() -> None:
    assert listing_of([f"n{number}" for number in range(14)]).endswith("n11 and 2 more")
    assert listing_of(["a\x1b[31m"]) == "a\\x1b[31m"
