"""How long hermesctl takes to start, as ratios to a bare interpreter.

The limits (design.md, section 12), as multiples of `python -c pass`: `--version` within 3 times,
`--help` within 10 times, the first request of a command within 25 times. The runs alternate, and
medians of the processor's time are compared, so that a busy machine does not decide: until its first
request a command waits for nothing. Byte code is cached, as it is for a user, whatever the
environment says; in a folder of the measurement's own.

    python tests/bench/start_up.py [ROUNDS]
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

HERMESCTL = str(Path(sys.executable).with_name("hermesctl"))
BARE = "python -c pass"
TO_THE_END = {"--version": 3.0, "--help": 10.0}
TO_THE_FIRST_REQUEST = {"health": 25.0, "status run_1": 25.0, "run Hello": 25.0, "check": 25.0}
LIMITS = TO_THE_END | TO_THE_FIRST_REQUEST


def seconds_to_the_end(command: tuple[str, ...], environment: Mapping[str, str]) -> float:
    """What the processor needs for one run."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    taken = _processor_seconds(process)
    assert process.returncode == 0, command
    return taken


def seconds_to_the_first_request(
    command: tuple[str, ...], environment: Mapping[str, str], node: socket.socket
) -> float:
    """What the processor needs until the node has a request. It is never answered."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    connection, _ = node.accept()
    with connection:
        connection.recv(1)
        process.kill()
    return _processor_seconds(process)


def _processor_seconds(process: subprocess.Popen[bytes]) -> float:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def ratios(rounds: int, names: Iterable[str] = tuple(LIMITS)) -> dict[str, float]:
    """The median of each command's runs over the median of the bare interpreter's."""
    times: dict[str, list[float]] = {name: [] for name in (BARE, *names)}
    with TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as node:
        node.settimeout(60.0)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "PYTHONPYCACHEPREFIX": folder,
            "HERMES_GATEWAY_URL": f"http://127.0.0.1:{node.getsockname()[1]}",
            "HERMES_GATEWAY_KEY": "a-key-of-more-than-sixteen",
        }

        def once(name: str) -> float:
            if name == BARE:
                return seconds_to_the_end((sys.executable, "-c", "pass"), environment)
            command = (HERMESCTL, *name.split())
            if name in TO_THE_END:
                return seconds_to_the_end(command, environment)
            return seconds_to_the_first_request(command, environment, node)

        for name in times:
            once(name)
        for _ in range(rounds):
            for name, measured in times.items():
                measured.append(once(name))
    bare = median(times.pop(BARE))
    print(f"{BARE:24}{bare * 1000:6.0f} ms")
    found = {name: median(measured) / bare for name, measured in times.items()}
    for name, ratio in found.items():
        print(f"hermesctl {name:14}{ratio * bare * 1000:6.0f} ms  {ratio:5.2f} times")
    return found


def main() -> int:
    measured = ratios(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
    slow = [name for name, limit in LIMITS.items() if measured[name] > limit]
    for name in slow:
        print(f"hermesctl {name} takes {measured[name]:.2f} times, at most {LIMITS[name]:g}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
