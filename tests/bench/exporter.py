"""Scrapes an exporter for minutes, while its node goes down and comes back: does it grow?

    python tests/bench/exporter.py [MINUTES]

Every scrape is read by Prometheus' own parser. Memory and descriptors are those of the exporter's
process, over the second half of the time against the first: the most memory, and the descriptors
that are open between two checks, the fewest (a check opens some, and whether a look falls into one
is chance).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import psutil
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults.server import KEY, HermesServer

TURN_S = 30
MIB = 1024 * 1024


def measure(minutes: float) -> int:
    """0 where nothing grew and every state was shown, 1 otherwise."""
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        key = Path(home) / "key"
        key.write_text(KEY)
        key.chmod(0o600)
        server: HermesServer | None = stack.enter_context(HermesServer())
        assert server is not None
        url, port = server.url, server.port
        command = (sys.executable, "-m", "hermes_ctl", "exporter", url, "--key-file", str(key))
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--interval", "5s", "--skip", "capacity"],
            env={"HOME": home, "HERMES_MANAGED_DIR": home},
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        assert process.stderr is not None
        found = re.match(r"http://\S+", process.stderr.readline())
        assert found is not None
        looked: list[tuple[int, int]] = []
        seen: set[tuple[bool, bool]] = set()
        began = turned = time.monotonic()
        while time.monotonic() - began < minutes * 60:
            if time.monotonic() - turned > TURN_S:
                turned = time.monotonic()
                server = _turn(server, port)
            shown = _scrape(found.group())
            if time.monotonic() - turned > TURN_S / 2:
                seen.add((server is not None, shown))
            child = psutil.Process(process.pid)
            looked.append((child.memory_info().rss, child.num_fds()))
            time.sleep(1)
        if server is not None:
            server.close()
    return _judge(looked, seen)


def _turn(server: HermesServer | None, port: int) -> HermesServer | None:
    """Take the node down where it is up, and bring it back where it is down."""
    if server is not None:
        server.close()
        return None
    back = HermesServer()
    back.port = port
    return back.__enter__()


def _scrape(url: str) -> bool:
    """Whether the exporter says that its node is up and ready; both have to agree."""
    with urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    up, ready = values.get("hermesctl_node_up"), values.get("hermesctl_node_ready")
    return up == 1 and ready == 1


def _judge(looked: list[tuple[int, int]], seen: set[tuple[bool, bool]]) -> int:
    half = len(looked) // 2
    early, late = looked[half // 2 : half], looked[half:]
    memory = [max(rss for rss, _ in part) / MIB for part in (early, late)]
    descriptors = [min(count for _, count in part) for part in (early, late)]
    print(f"{len(looked)} scrapes; as (really up, shown up): {sorted(seen)}")
    print(f"memory       {memory[0]:.1f} MiB, then {memory[1]:.1f} MiB")
    print(f"descriptors  {descriptors[0]}, then {descriptors[1]}")
    truly = all(real == shown for real, shown in seen) and len(seen) == 2
    grew = memory[1] > memory[0] * 1.05 or descriptors[1] > descriptors[0]
    return 0 if truly and not grew else 1


if __name__ == "__main__":
    sys.exit(measure(float(sys.argv[1]) if len(sys.argv) > 1 else 10))
