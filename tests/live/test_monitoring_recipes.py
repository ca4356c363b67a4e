"""The README's recipes for monitoring, executed on a real node as they stand there."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hermes_ctl.lab.gateway import Lab
from tests.recipes import recipe

UNITS = ("hermesctl-exporter.service", "hermesctl-check.service", "hermesctl-check.timer")
INSTALLED = "/usr/local/bin/hermesctl"
NOBODY = "--url http://127.0.0.1:1"


def command(line: str) -> list[str]:
    """A command line of a recipe, for the hermesctl that is tested."""
    program, *rest = shlex.split(line)
    assert program in (INSTALLED, "hermesctl"), line
    return [sys.executable, "-m", "hermes_ctl", *rest]


def on_node(lab: Lab, home: Path) -> dict[str, str]:
    """The environment of somebody on the node: address and key are in its own files."""
    return {
        "HOME": str(home),
        "HERMES_HOME": str(lab.home),
        "PATH": f"{lab.executable.parent}:{os.environ['PATH']}",
        "HERMES_MANAGED_DIR": str(home / "none"),
    }


def run(line: str, lab: Lab, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(line), env=on_node(lab, home), capture_output=True, text=True, timeout=60
    )


def unit(name: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(recipe(name))
    return parsed


def test_the_units_are_what_systemd_takes(tmp_path: Path) -> None:
    """Read by systemd itself where the machine has it, and by their sections everywhere."""
    for name in UNITS:
        sections = set(unit(name).sections())
        kind = {"service": "Service", "timer": "Timer"}[name.rpartition(".")[2]]
        assert {"Unit", kind} <= sections <= {"Unit", kind, "Install"}
        (tmp_path / name).write_text(recipe(name).replace(INSTALLED, "/bin/true"))
    assert unit("hermesctl-exporter.service")["Service"]["SuccessExitStatus"] == "143"
    systemd = shutil.which("systemd-analyze")
    if systemd is not None:
        done = subprocess.run(
            [systemd, "verify", "--man=no", *UNITS], cwd=tmp_path, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_timer_writes_what_the_textfile_collector_reads(lab: Lab, tmp_path: Path) -> None:
    line = unit("hermesctl-check.service")["Service"]["ExecStart"]
    written = re.search(r"prometheus=(\S+)", line)
    assert written is not None
    assert written.group(1).endswith(".prom"), "the collector reads no other name"
    target = tmp_path / "hermesctl.prom"
    done = run(line.replace(written.group(1), str(target)), lab, tmp_path)
    families = {one.name: one for one in text_string_to_metric_families(target.read_text())}
    assert (done.returncode, families["hermesctl_node_ready"].samples[0].value) == (0, 1.0)
    assert target.stat().st_mode & 0o004, "the collector runs as somebody else"


def test_the_service_is_scraped_and_ends_as_systemd_expects(lab: Lab, tmp_path: Path) -> None:
    line = unit("hermesctl-exporter.service")["Service"]["ExecStart"]
    process = subprocess.Popen(
        command(line.replace(":9464", ":0")),
        env=on_node(lab, tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        url = process.stderr.readline().split()[0]
        deadline = time.monotonic() + 60
        while "hermesctl_node_ready{" not in (text := urlopen(url).read().decode()):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert re.search(r"^hermesctl_node_ready\{.*\} 1\.0$", text, re.MULTILINE)
        process.terminate()
        assert process.wait(20) == 143
    finally:
        process.kill()
        process.wait()


def test_the_probe_says_yes_and_no_within_its_time(lab: Lab, tmp_path: Path) -> None:
    probe = yaml.safe_load(recipe("hermesctl-probe.yml"))["readinessProbe"]
    line = shlex.join(probe["exec"]["command"])
    deadline = int(re.findall(r"--deadline (\d+)s", line)[0])
    assert probe["timeoutSeconds"] > deadline, "the kubelet waits for the answer"
    assert probe["periodSeconds"] >= probe["timeoutSeconds"]
    # A loaded machine is no reason for a no: the time is given here, and held below.
    assert run(line.replace(f"{deadline}s", "60s"), lab, tmp_path).returncode == 0
    began = time.monotonic()
    done = run(f"{line} {NOBODY}", lab, tmp_path)
    assert done.returncode == 3
    assert time.monotonic() - began < probe["timeoutSeconds"]


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ("--node-capacity 10", 0, "OK"),
        ("", 1, "WARNING"),
        (NOBODY, 3, "UNKNOWN"),
        ("--release ==9.9", 2, "CRITICAL"),
        ("-x", 3, "UNKNOWN"),
    ],
)
def test_the_plugin_answers_by_its_convention(
    lab: Lab, tmp_path: Path, arguments: str, code: int, word: str
) -> None:
    found = re.search(r"command_line\s+(.+)", recipe("hermesctl-nagios.cfg"))
    assert found is not None
    done = run(found.group(1).replace("$ARG1$", arguments), lab, tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith(f"HERMES {word} - ")
