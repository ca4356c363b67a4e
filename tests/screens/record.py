"""Record the screens that the README shows, from a check of a real Hermes in the lab.

    python -m tests.screens.record

It writes `check.svg` beside this file. Run it when the look of a check has changed.
"""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from hermes_ctl.checks.checklist import load_checklist
from hermes_ctl.checks.runner import CheckEvent, CheckStarted, check_node
from hermes_ctl.checks.subject import CheckSettings
from hermes_ctl.config import environment
from hermes_ctl.lab.gateway import Lab, start
from hermes_ctl.render.console import Screen
from hermes_ctl.render.progress import CheckProgress

HERE = Path(__file__).parent
WIDTH = 100


def record_check(lab: Lab) -> str:
    """The SVG of a check of that lab, as a terminal of `WIDTH` columns shows it."""
    screen = Screen(environment={}, color="always")
    screen.out = Console(record=True, width=WIDTH, force_terminal=True, file=io.StringIO())
    screen.out.print(Text("$ hermesctl check --lab", style="bold"))
    progress = CheckProgress(screen, live=False)
    settings = CheckSettings(
        hermes_bin=lab.executable,
        hermes_home=lab.home,
        node_capacity=lab.capacity,
        other_model=lab.other_model,
        provider_requests=lab.requests,
        environment=environment(),
    )

    def observe(event: CheckEvent) -> None:
        if isinstance(event, CheckStarted):
            screen.out.print()
        progress.observe(event)

    asyncio.run(check_node(lab.node, load_checklist(), settings, observe))
    return screen.out.export_svg(title="hermesctl", theme=MONOKAI)


def main() -> None:
    with start(environment=environment()) as lab:
        # The first run of a cold gateway is slow to start: the second check is what a user sees.
        record_check(lab)
        (HERE / "check.svg").write_text(record_check(lab), encoding="utf-8")


if __name__ == "__main__":
    main()
