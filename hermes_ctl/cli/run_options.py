"""The options of the commands that follow a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from hermes_ctl.cli.options import duration

Rule = Literal["ask", "deny", "once", "session", "fail"]
OnInterrupt = Literal["stop", "detach"]

Deadline = Annotated[
    float | None, duration("--deadline", help="Longest time for the whole command.")
]
OnApproval = Annotated[
    Rule | None,
    typer.Option(
        "--on-approval",
        metavar="RULE",
        show_default=False,
        help="ask, deny, once, session, or fail (leave it waiting, exit 8).",
    ),
]
OnInterruptOption = Annotated[
    OnInterrupt | None,
    typer.Option(
        "--on-interrupt",
        metavar="WHAT",
        show_default=False,
        help="What Ctrl-C does to the run: stop, or detach.",
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Write every event to FILE, with its time of arrival, as JSON lines.",
    ),
]
ShowReasoning = Annotated[
    bool,
    typer.Option(
        "--show-reasoning",
        help="Show reasoning that is not the answer again (known releases send none).",
    ),
]


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How a run is followed, as it was typed. `rule_in_pipe` is the rule for approvals where nobody
    can be asked and none was typed; None leaves them to others. `deadline` is in seconds; at it the
    run is stopped where `stops_at_deadline`, else left alone."""

    stream: bool = True
    deadline: float | None = None
    stops_at_deadline: bool = False
    on_approval: Rule | None = None
    rule_in_pipe: Rule | None = None
    on_interrupt: OnInterrupt = "detach"
    record: Path | None = None
    show_reasoning: bool = False
