"""Each way for the step cache to fail. Mounts are those of a made-up /proc: their text is real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from hermes_ctl.checks import mounts
from hermes_ctl.checks.agent import AgentSettings, agent_port, find_agent_process
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.mounts import can_write, locate, mount_of, parse_mountinfo
from hermes_ctl.checks.probe import Finding
from hermes_ctl.checks.probes import cache
from hermes_ctl.errors import ConfigurationError
from tests.faults.checking import FAIL, PASS, SKIP, UNKNOWN, WARN, Checker, said
from tests.faults.loopback import free_port

CACHE = "/var/lib/bmas-agent/activations"

HOST = """\
22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw
25 24 0:23 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,size=24683656k
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
31 27 0:26 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw
40 27 0:41 / /mnt/with\\040space rw,relatime - ext4 /dev/vdb rw
41 27 0:42 / /srv/team rw,relatime - nfs4 filer:/team rw,vers=4.2
42 27 0:43 / /srv/windows rw,relatime - cifs //filer/team rw
43 27 254:1 / /srv/frozen ro,relatime - ext4 /dev/vdc ro
44 27 0:44 / /srv/memory rw,relatime - tmpfs tmpfs rw
45 27 0:45 / /srv/host rw,relatime - 9p hostshare rw
"""

CONTAINER = """\
500 400 0:60 / / rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c
501 500 0:61 / /proc rw,nosuid - proc proc rw
502 500 254:0 /volumes/agent-data/_data /var/lib/bmas-agent rw,relatime - ext4 /dev/vda rw
"""


@dataclass
class Machine:
    """A made-up /proc and file tree, which `locate` takes for real."""

    proc: Path
    root: Path

    def process(self, pid: int, mountinfo: str) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mountinfo").write_text(mountinfo)
        (folder / "root").symlink_to(self.root)

    def folder(self, path: str, mode: int = 0o755) -> Path:
        made = self.root / path.lstrip("/")
        made.mkdir(parents=True)
        made.chmod(mode)
        return made


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path / "proc", tmp_path / "root")
    machine.root.mkdir()
    monkeypatch.setattr(mounts, "PROC", machine.proc)
    return machine


def judged(machine: Machine, mountinfo: str, path: str, **settings: str) -> Finding:
    """The finding for an adapter, process 7 of `machine`, whose cache is at `path`."""
    machine.process(7, mountinfo)
    environment = {"ACTIVATION_CACHE_DIR": path, **settings}
    agent = AgentSettings("process bmas-agent, environment", environment, 7, os.geteuid())
    return cache.settle(agent)


@pytest.mark.parametrize(
    ("mountinfo", "path", "status", "words"),
    [
        (HOST, CACHE, PASS, "/var/lib/bmas-agent/activations on ext4, writable"),
        (HOST, "/mnt/with space/cache", PASS, "on ext4, writable"),
        (HOST, "/tmp/bmas-trace-spool/activations", FAIL, "emptied at boot or by a timer"),
        (HOST.replace("31 27", "x"), "/tmp/cache", FAIL, "emptied at boot or by a timer"),
        (HOST, "/var/tmp/cache", FAIL, "emptied at boot"),
        (HOST, "/run/bmas/cache", FAIL, "emptied at boot"),
        (HOST, "/dev/shm/cache", FAIL, "emptied at boot"),
        (HOST, "/srv/memory/cache", FAIL, "/srv/memory/cache is in memory (tmpfs)"),
        (HOST, "/srv/frozen/cache", FAIL, "is mounted read-only"),
        (HOST, "/srv/team/cache", WARN, "on nfs4: file locks may not hold"),
        (HOST, "/srv/windows/cache", WARN, "on cifs: file locks may not hold"),
        (HOST, "/srv/host/cache", WARN, "on 9p: file locks may not hold"),
        (CONTAINER, CACHE, PASS, "on ext4, writable"),
        (CONTAINER, "/opt/cache", FAIL, "in the container's own layer (overlay): gone with it"),
        (CONTAINER.replace("overlay overlay", "fuse-overlayfs x"), "/x", FAIL, "(fuse-overlayfs)"),
        ("", CACHE, UNKNOWN, "is mounted on cannot be told"),
        (HOST, "var/cache", FAIL, "is a relative path"),
        (HOST, "", FAIL, "/tmp/bmas-trace-spool/activations is under a folder"),
    ],
)
def test_where_the_cache_lies(
    machine: Machine, mountinfo: str, path: str, status: Status, words: str
) -> None:
    finding = judged(machine, mountinfo, path)
    assert finding.status is status, finding.summary
    assert words in finding.summary
    if status is FAIL:
        assert "ACTIVATION_CACHE_DIR" in " ".join(finding.fix) or "read-write" in finding.fix[0]


def test_a_link_that_leads_to_tmp(machine: Machine) -> None:
    """The path is judged as the process itself follows it, inside its own root."""
    machine.folder("/var/lib")
    (machine.root / "var/lib/bmas-agent").symlink_to("/tmp/elsewhere")
    finding = judged(machine, HOST, CACHE)
    assert finding.status is FAIL
    assert "/tmp/elsewhere/activations" in finding.summary


def test_the_spool_folder_is_the_default(machine: Machine) -> None:
    finding = judged(machine, HOST, "", TRACE_SPOOL_DIR="/var/lib/bmas-agent/traces/")
    assert finding.status is PASS
    assert finding.summary.startswith("/var/lib/bmas-agent/traces/activations on ext4")


@pytest.mark.parametrize(
    ("settings", "status", "words"),
    [
        ({"ACTIVATION_CACHE_MAX_BYTES": str(10**18)}, FAIL, "the cache may take 1,000,000,000,000"),
        ({"ACTIVATION_CACHE_TTL_SECONDS": "600"}, WARN, "records live 600 s: less than"),
        ({"ACTIVATION_CACHE_TTL_SECONDS": "0"}, WARN, "records live 0 s"),
        ({"ACTIVATION_CACHE_TTL_SECONDS": "1h"}, FAIL, "is not a whole number: the adapter does"),
    ],
)
def test_how_large_and_how_long(
    machine: Machine, settings: dict[str, str], status: Status, words: str
) -> None:
    finding = judged(machine, HOST, CACHE, **settings)
    assert finding.status is status
    assert words in finding.summary


def test_a_file_in_its_place(machine: Machine) -> None:
    machine.folder("/var/lib/bmas-agent")
    (machine.root / CACHE.lstrip("/")).write_text("")
    finding = judged(machine, HOST, CACHE)
    assert finding.status is FAIL
    assert finding.summary == f"{CACHE} is not a folder"


# Whether the adapter may write there


@pytest.mark.parametrize(
    ("mode", "owner", "uid", "gids", "may"),
    [
        (0o700, (61000, 61000), 61000, (), True),
        (0o500, (61000, 61000), 61000, (), False),
        (0o077, (61000, 61000), 61000, (), False),  # the owner's bits count for the owner
        (0o770, (61000, 62000), 61001, (62000,), True),
        (0o770, (61000, 62000), 61001, (61001, 62000), True),
        (0o750, (61000, 62000), 61001, (62000,), False),
        (0o707, (61000, 62000), 61001, (62000,), False),
        (0o777, (61000, 61000), 61001, (), True),
        (0o755, (61000, 61000), 61001, (), False),
        (0o000, (61000, 61000), 0, (), True),
    ],
)
def test_who_may_write(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    mode: int,
    owner: tuple[int, int],
    uid: int,
    gids: tuple[int, ...],
    may: bool,
) -> None:
    folder = machine.folder("/cache")
    monkeypatch.setattr(Path, "stat", owned(folder, mode, owner))
    assert can_write(folder, uid, gids, machine.root) is may


def owned(folder: Path, mode: int, owner: tuple[int, int]) -> Callable[..., os.stat_result]:
    """`Path.stat`, by which `folder` has that mode and owner: only root could really give it away."""
    real = Path.stat

    def stat(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        fields = list(real(self, follow_symlinks=follow_symlinks))
        if self == folder:
            fields[0], fields[4], fields[5] = 0o040000 | mode, *owner
        return os.stat_result(fields)

    return stat


def test_a_folder_that_cannot_be_reached(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open to all, below one that is its owner's alone."""
    inner = machine.folder("/root/cache", 0o777)
    monkeypatch.setattr(Path, "stat", owned(inner.parent, 0o700, (0, 0)))
    assert not can_write(inner, 61001, (), machine.root)


def test_unwritable_for_the_adapter(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.process(7, HOST)
    folder = machine.folder("/var/lib/bmas-agent")
    monkeypatch.setattr(Path, "stat", owned(folder, 0o755, (0, 0)))
    other = os.geteuid() + 1
    agent = AgentSettings("process x", {"ACTIVATION_CACHE_DIR": CACHE}, 7, other)
    finding = cache.settle(agent)
    assert finding.status is FAIL
    assert finding.summary == f"/var/lib/bmas-agent is not writable for the adapter (uid {other})"
    assert finding.fix == (f"chown {other} /var/lib/bmas-agent",)


def test_unwritable_for_us_says_nothing_of_the_adapter(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the environment file alone nobody knows as whom the adapter runs."""
    (machine.proc / "self").mkdir(parents=True)
    (machine.proc / "self" / "mountinfo").write_text(HOST)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    finding = cache.settle(AgentSettings("file x", {"ACTIVATION_CACHE_DIR": "/etc"}))
    assert finding.status is UNKNOWN
    assert "whether it is for the adapter's cannot be told" in finding.summary


# Where the adapter is found


def test_no_adapter(checker: Checker) -> None:
    step = checker.check(only=("cache",)).step("cache")
    assert step.status is SKIP
    assert step.summary == "no bMAS adapter on this node (--agent-env FILE or --agent-url URL)"
    assert not checker.server.requests, "the node was not even asked"


def test_no_adapter_where_one_was_named(checker: Checker) -> None:
    report = checker.check(only=("cache",), agent_url=f"http://127.0.0.1:{free_port()}")
    assert report.step("cache").status is UNKNOWN
    assert "not visible on this machine" in report.step("cache").summary
    assert report.verdict == "undetermined"


def test_adapter_on_another_machine(checker: Checker) -> None:
    report = checker.check(only=("cache",), agent_url="http://192.0.2.1:8090")
    assert report.step("cache").status is UNKNOWN
    assert "not verifiable from here" in report.step("cache").summary


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[tuple[int, psutil.Process]]:
    """A process that listens on a port, with an environment of its own."""
    port = free_port()
    program = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    program += "print('ready', flush=True); sys.stdin.read()"
    environment = {"PATH": os.defpath, "ACTIVATION_CACHE_DIR": str(tmp_path / "activations")}
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(port)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield port, psutil.Process(process.pid)
    process.communicate("")


def test_adapter_seen_as_a_process(
    checker: Checker, adapter: tuple[int, psutil.Process], tmp_path: Path
) -> None:
    """Its own environment wins over the file that is named for it."""
    port, process = adapter
    file = tmp_path / "agent.env"
    file.write_text("ACTIVATION_CACHE_DIR=/var/lib/from-the-file\n")
    report = checker.check(only=("cache",), agent_url=f"http://localhost:{port}", agent_env=file)
    step = report.step("cache")
    assert str(tmp_path / "activations") in said(step)
    assert "its own mounts" in said(step)
    found = find_agent_process(port)
    assert found is not None
    assert (found.pid, found.uid) == (process.pid, os.geteuid())
    assert set(os.getgroups()) <= set(found.gids)


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://127.0.0.1:8090", 8090),
        ("http://localhost", 80),
        ("https://[::1]", 443),
        ("http://127.8.8.8:1/", 1),
        ("http://node1:8090", None),
    ],
)
def test_the_port_of_an_adapter(url: str, port: int | None) -> None:
    assert agent_port(url) == port


@pytest.mark.parametrize("url", ["localhost:8090", "http://", "http://127.0.0.1:99999", "ftp://x"])
def test_what_is_no_address_of_an_adapter(url: str) -> None:
    with pytest.raises(ConfigurationError, match="from --agent-url"):
        agent_port(url)


# Mounts


def test_mounts_as_the_kernel_writes_them() -> None:
    found = parse_mountinfo(HOST + "garbage\n1 2 3\n")
    assert len(found) == 10
    assert mount_of("/mnt/with space/x", found).point == "/mnt/with space"
    assert mount_of("/srv/teams", found).point == "/", "a prefix ends at a slash"
    assert mount_of("/srv/frozen", found).read_only
    assert not mount_of("/srv/team/x", found).read_only


def test_the_later_mount_hides_the_earlier() -> None:
    twice = HOST + "99 27 0:99 / /srv/memory rw - ext4 /dev/vdz rw\n"
    assert mount_of("/srv/memory/x", parse_mountinfo(twice)).type == "ext4"


def test_links_in_circles_end(machine: Machine) -> None:
    machine.process(7, HOST)
    (machine.root / "a").symlink_to("/b")
    (machine.root / "b").symlink_to("/a")
    assert locate("/a/x", pid=7).existing == "/"


def test_links_that_climb_out_stay_inside(machine: Machine) -> None:
    machine.process(7, HOST)
    (machine.root / "up").symlink_to("../../../../etc")
    assert locate("/up/passwd", pid=7).real == "/etc/passwd"


def test_this_process_itself() -> None:
    assert locate("/").mount.point == "/"
