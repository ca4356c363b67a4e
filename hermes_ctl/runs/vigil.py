"""Watches over the signs of life of a run and of its node."""

from __future__ import annotations

from hermes_ctl.durations import format_duration
from hermes_ctl.errors import HermesctlError
from hermes_ctl.runs.happenings import Notice
from hermes_ctl.text import one_line


class Vigil:
    """When something happened last, and since when the node does not answer.

    All times are monotonic, in seconds. `quiet` is how long a run may give no sign before that is
    said; then it is said each time that has doubled.
    """

    def __init__(self, now: float, quiet: float) -> None:
        self.active_at = now
        self._quiet = self._next = quiet
        self._silent_since: float | None = None

    def quiet(self, status: str, now: float) -> Notice | None:
        """What is to be said of a run that is `status` and does nothing that shows."""
        idle = now - self.active_at
        if idle < self._quiet:
            self._next = self._quiet
        elif idle >= self._next and status != "waiting_for_approval":
            self._next = 2 * idle
            return Notice(
                "quiet",
                f"no sign of work for {format_duration(idle)}; the run is {one_line(status, 60)}, "
                "it may wait for something that no event tells",
            )
        return None

    def answered(self, now: float) -> Notice | None:
        """The node gave an answer."""
        if self._silent_since is None:
            return None
        silent, self._silent_since = now - self._silent_since, None
        return Notice("reachable", f"the node answers again, after {format_duration(silent)}")

    def failed(self, error: HermesctlError, now: float) -> Notice | None:
        """The node gave no answer, or none of use."""
        if self._silent_since is not None:
            return None
        self._silent_since = now
        return Notice("unreachable", f"{one_line(error.message)}; still asking")

    def silent(self, now: float) -> float:
        """For how long the node has given no answer."""
        return 0.0 if self._silent_since is None else now - self._silent_since
