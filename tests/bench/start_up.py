"""How long hermesctl takes to start, as ratios to a bare interpreter.

The limits: `--version` within 3 times `python -c pass`, `--help` within 10 times. The runs
alternate, so that a busy machine slows all of them alike, and medians are compared. Byte code is
cached, as it is for a user, whatever the environment says; in a folder of the measurement's own.

    python tests/bench/start_up.py [ROUNDS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

HERMESCTL = str(Path(sys.executable).with_name("hermesctl"))
BARE = (sys.executable, "-c", "pass")
LIMITS = {"--version": 3.0, "--help": 10.0}


def seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """The time from start to end of one run."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begun


def ratios(rounds: int) -> dict[str, float]:
    """The median of each option's runs over the median of the bare interpreter's."""
    commands = {"": BARE, **{option: (HERMESCTL, option) for option in LIMITS}}
    times: dict[str, list[float]] = {name: [] for name in commands}
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for command in commands.values():
            seconds(command, environment)
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(seconds(command, environment))
    bare = median(times[""])
    print(f"{'python -c pass':22}{bare * 1000:6.0f} ms")
    for option in LIMITS:
        taken = median(times[option])
        print(f"hermesctl {option:12}{taken * 1000:6.0f} ms  {taken / bare:5.2f} times")
    return {option: median(times[option]) / bare for option in LIMITS}


def main() -> int:
    measured = ratios(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
    slow = [option for option, limit in LIMITS.items() if measured[option] > limit]
    for option in slow:
        print(f"hermesctl {option} takes {measured[option]:.2f} times, at most {LIMITS[option]:g}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
