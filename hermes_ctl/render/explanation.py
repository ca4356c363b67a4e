"""What a step proves and how to mend it, as a page for the terminal."""

from __future__ import annotations

import textwrap

from hermes_ctl.checks.probe import Probe
from hermes_ctl.render.console import Screen

_WIDTH = 88


def write_explanation(screen: Screen, number: int, probe: Probe) -> None:
    """The step's title, what it proves, then each cause with what mends it."""
    screen.line(f"{number} {probe.name}: {probe.title}")
    screen.line("")
    screen.line(textwrap.fill(probe.proves, _WIDTH))
    screen.line("")
    screen.line("When it is not well:")
    for cause in probe.causes:
        screen.line(textwrap.fill(cause.seen, _WIDTH, initial_indent="  ", subsequent_indent="  "))
        screen.line(
            textwrap.fill(cause.mend, _WIDTH, initial_indent="      ", subsequent_indent="      ")
        )
