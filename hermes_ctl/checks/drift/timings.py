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


def timings(report: Report) -> dict[str, float]:
    """Seconds by name, those alone that were measured."""
    first = [run.first_event_s for run in report.runs if run.first_event_s is not None]
    whole = [
        run.ended_s - run.started_s
        for run in report.runs
        if run.ended_s is not None and run.status == "completed"
    ]
    own = report.timings
    measured = {
        "first_event": min(first, default=own.first_event_s),
        "run": min(whole, default=own.run_s),
        "poll": own.poll_s,
        "stopping": own.stop_to_stopping_s,
        "cancelled": own.stop_to_cancelled_s,
    }
    return {name: round(value, 3) for name, value in measured.items() if value is not None}


def timing_changes(old: Report, new: Report) -> Iterator[Difference]:
    """What takes `SLOWER_BY` times as long as before, and `AT_LEAST` seconds more."""
    before, after = timings(old), timings(new)
    for name in before.keys() & after.keys():
        was, now = before[name], after[name]
        if now < was * SLOWER_BY or now - was < AT_LEAST:
            continue
        times = f"{now / was:.1f} times" if was else "far more"
        yield Difference(
            id=f"timing:{name}",
            level=Level.RISKY,
            where=TITLES[name],
            summary=f"{TITLES[name]} takes {times} as long: {now:.2f} s instead of {was:.2f} s",
            old=f"{was:.2f} s",
            new=f"{now:.2f} s",
        )
