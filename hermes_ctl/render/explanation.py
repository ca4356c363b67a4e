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
    width = min(screen.out.width, _WIDTH)
    screen.line(_paragraph(probe.proves, width))
    screen.line("")
    screen.line("When it is not well:")
    for cause in probe.causes:
        screen.line(_paragraph(cause.seen, width, 2))
        screen.line(_paragraph(cause.mend, width, 6))


def _paragraph(text: str, width: int, indent: int = 0) -> str:
    """`text` in lines; commands and paths with dashes stay whole, so that they can be copied."""
    margin = " " * indent
    return textwrap.fill(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
        break_long_words=False,
    )
