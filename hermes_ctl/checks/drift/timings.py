"""How the speed of two checks differs.

The quickest of several is compared, not the mean: what a busy machine adds is not the release's.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.model import Report

SLOWER_BY = 3.0
"""The factor from which a release counts as slower, together with `AT_LEAST`."""
AT_LEAST = 1.0
"""Seconds that it has to be slower, so that a few milliseconds never count."""

TITLES = {
    "first_event": "first event of a run",
    "run": "shortest run",
    "poll": "status of a run",
    "stopping": "stop until stopping",
    "cancelled": "stop until cancelled",
}


ENOUGH = 2
"""Samples that a time has to have on both sides to be judged: a single one says more of a busy
moment than of the release."""


def timings(report: Report) -> dict[str, float]:
    """Seconds by name, those alone that were measured: the quickest of all samples."""
    own = report.timings
    single = {
        "first_event": own.first_event_s,
        "run": own.run_s,
        "poll": own.poll_s,
        "stopping": own.stop_to_stopping_s,
        "cancelled": own.stop_to_cancelled_s,
    }
    quickest = {name: min(values) for name, values in samples(report).items() if values}
    measured = {name: value for name, value in single.items() if value is not None} | quickest
    return {name: round(value, 3) for name, value in measured.items()}


def samples(report: Report) -> dict[str, list[float]]:
    """All that the runs of one check measured, in seconds."""
    runs = report.runs
    ended = [(run, run.ended_s) for run in runs if run.ended_s is not None]
    stops = [
        end - mark.at_s
        for run, end in ended
        for mark in run.marks
        if mark.name == "stop" and run.status == "cancelled"
    ]
    return {
        "first_event": [run.first_event_s for run in runs if run.first_event_s is not None],
        "run": [end - run.started_s for run, end in ended if run.status == "completed"],
        "cancelled": stops,
    }


def timing_changes(old: Report, new: Report) -> Iterator[Difference]:
    """What takes `SLOWER_BY` times as long as before, and `AT_LEAST` seconds more."""
    before, after = samples(old), samples(new)
    for name in before:
        if min(len(before[name]), len(after[name])) < ENOUGH:
            continue
        was, now = min(before[name]), min(after[name])
        if now < was * SLOWER_BY or now - was < AT_LEAST:
            continue
        times = f"{now / was:.1f} times" if was > 0 else "far more than"
        yield Difference(
            id=f"timing:{name}",
            level=Level.RISKY,
            where=TITLES[name],
            summary=f"{TITLES[name]} takes {times} as long: {now:.2f} s instead of {was:.2f} s",
            old=f"{was:.2f} s",
            new=f"{now:.2f} s",
        )
