"""Many real nodes: one command, and Ansible on each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hermes_ctl.lab.gateway import Lab
from tests.recipes import readme_playbook

BIN = Path(sys.executable).parent


def run(*command: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=240
    )


def environment_of(home: Path, **more: str) -> dict[str, str]:
    """Nothing of whoever runs the tests."""
    path = os.pathsep.join([str(BIN), "/usr/bin", "/bin"])
    return {"HOME": str(home), "TMPDIR": str(home), "PATH": path, "LC_ALL": "C.UTF-8", **more}


@pytest.fixture
def configuration(tmp_path: Path, lab: Lab, old_lab: Lab) -> Path:
    """A good node, one of another release, and the good one again with a wrong key."""
    keys = {"good": lab.node.key, "old": old_lab.node.key}
    tables = []
    for name, url in (("good", lab.node.url), ("old", old_lab.node.url), ("wrong", lab.node.url)):
        key = keys.get(name)
        path = tmp_path / f"{name}.key"
        path.write_text(key.reveal() if key else "wrong-key-of-nobody-0123456789")
        path.chmod(0o600)
        tables.append(f'[contexts.{name}]\nurl = "{url}"\nkey-file = "{path.name}"\n')
    path = tmp_path / "config.toml"
    path.write_text("".join(tables))
    path.chmod(0o600)
    return path


def test_every_form_tells_the_same_true_story(tmp_path: Path, configuration: Path) -> None:
    files = {form: tmp_path / f"report.{form}" for form in ("json", "junit", "markdown")}
    reports = [option for form in files for option in ("--report", f"{form}={files[form]}")]
    chosen = ("--skip", "release", "--skip", "capacity", "--skip", "model", "--allow-busy")
    done = run(
        *(str(BIN / "hermesctl"), "check", "--all", *chosen, *reports),
        environment=environment_of(tmp_path, HERMESCTL_CONFIG=str(configuration)),
    )
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stderr
    assert {row[0]: row[1] for row in rows} == {
        "wrong": "not_ready",
        "good": "ready",
        "old": "ready",
    }
    assert rows[0][0] == "wrong"
    assert {row[0]: row[2] for row in rows} == {
        "wrong": "0.20.4.post1",
        "good": "0.20.4.post1",
        "old": "0.19.0",
    }
    document = json.loads(files["json"].read_text())
    assert {one["node"]["name"]: one["verdict"] for one in document["nodes"]} == {
        row[0]: row[1] for row in rows
    }
    assert document["exit_code"] == done.returncode
    processes = {one["node"]["name"]: one["node"]["process"] for one in document["nodes"]}
    assert processes["good"]["pid"] != processes["old"]["pid"]
    assert processes["wrong"] is None, "a refused key learns nothing of the process"
    suites = ElementTree.fromstring(files["junit"].read_bytes())
    failed = {
        str(suite.get("name")).split()[-1]: int(str(suite.get("failures"))) for suite in suites
    }
    assert failed == {"good": 0, "old": 0, "wrong": 1}
    assert "NOT READY" in files["markdown"].read_text().splitlines()[0]
    assert done.stderr.splitlines()[-1].startswith("NOT READY  3 nodes: 2 ready, 1 not ready")


def test_ansible_checks_each_host_and_the_reports_make_a_fleet(
    tmp_path: Path, lab: Lab, old_lab: Lab
) -> None:
    hosts: dict[str, Any] = {
        name: {
            "hermes_home": str(one.home),
            "check_options": ["--no-runs", "--hermes-bin", str(one.executable)],
        }
        for name, one in (("web1", lab), ("web2", old_lab))
    }
    everywhere = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "hermesctl": str(BIN / "hermesctl"),
        "reports": str(tmp_path / "reports"),
    }
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": everywhere}}))
    playbook = tmp_path / "hermes-check.yml"
    playbook.write_text(readme_playbook())
    environment = environment_of(tmp_path, ANSIBLE_HOME=str(tmp_path / "ansible"))
    played = run(
        str(BIN / "ansible-playbook"), "-i", str(inventory), str(playbook), environment=environment
    )
    assert played.returncode == 0, played.stdout + played.stderr
    files = sorted((tmp_path / "reports").iterdir())
    assert [file.name for file in files] == ["web1.json", "web2.json"]
    merged = run(
        *(str(BIN / "hermesctl"), "report", "merge", *map(str, files)), environment=environment
    )
    fleet = json.loads(merged.stdout)
    assert merged.returncode == fleet["exit_code"] == 1
    told = {
        one["node"]["name"]: {step["id"]: step["status"] for step in one["steps"]}
        for one in fleet["nodes"]
    }
    assert {name: steps["release"] for name, steps in told.items()} == {
        "web1": "pass",
        "web2": "fail",
    }, "on the node, the CLI's release is seen too"
    assert {steps["capacity"] for steps in told.values()} == {"warn"}, "and its files are read"
    assert not list(tmp_path.glob("hermesctl.*")), "the folder on the host is removed"


def test_what_ansible_prints_is_an_inventory(tmp_path: Path, lab: Lab) -> None:
    assert lab.node.key is not None
    key = tmp_path / "keys" / "web1"
    key.parent.mkdir()
    key.write_text(lab.node.key.reveal())
    key.chmod(0o600)
    (tmp_path / "hosts.ini").write_text(
        f"[web]\nweb1 hermes_port={lab.node.url.rpartition(':')[2]}\n[db]\ndb1\n"
        "[web:vars]\nhermes_url=http://127.0.0.1:{{ hermes_port }}\n"
        f"hermes_key_file={tmp_path}/keys/{{{{ inventory_hostname }}}}\n"
    )
    playbook = tmp_path / "hermes-check.yml"
    playbook.write_text(readme_playbook())
    environment = environment_of(tmp_path, ANSIBLE_HOME=str(tmp_path / "ansible"))
    listed = run(
        *(str(BIN / "ansible-inventory"), "-i", str(tmp_path / "hosts.ini"), "--list"),
        environment=environment,
    )
    assert listed.returncode == 0, listed.stderr
    inventory = tmp_path / "inventory.json"
    inventory.write_text(listed.stdout)
    done = run(
        *(str(BIN / "hermesctl"), "check", "--inventory", str(inventory), "--group", "web"),
        *("--only", "auth", "--only", "routes"),
        environment=environment,
    )
    assert (done.returncode, done.stdout.split("\t")[:2]) == (0, ["web1", "ready"]), done.stderr
    assert "db1" in done.stderr
