"""The wall clock, in one place, so that nothing else reads it and a test can set it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The current time in UTC. Intervals are measured with `time.monotonic`, never with this."""
    return datetime.now(UTC)
