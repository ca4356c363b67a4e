"""The table of commands, and the help of `hermesctl` itself, which is made of it.

Loads nothing but `typing`, so that `hermesctl --help` is there at once.
"""

from __future__ import annotations

from typing import NamedTuple

PROGRAM = "hermesctl"
HELP = "Learn whether a Hermes Agent node may take work, put work on it, and gate its upgrades."
HELP_OPTIONS = ("-h", "--help")

OPTIONS = (
    ("-h, --help", "Show this message and exit."),
    ("--version", "Show the version and exit."),
)
EXIT_CODES = (
    ("0 yes", "1 no", "2 usage", "3 undetermined", "4 authentication", "5 not found"),
    ("6 refused", "7 at capacity", "8 pending", "9 submission uncertain", "70 a bug"),
)


class Entry(NamedTuple):
    """One command: its section and one line in `hermesctl --help`, and where its code is.

    `target` is `module:attribute` below `hermes_ctl.cli`: a typer app for a group, a function for
    a command. `help` equals the first line of the real help: a test compares them.
    """

    section: str
    name: str
    target: str
    help: str


# The sections, in their order: Readiness, Runs, Inspect, Monitoring, Gate and lab, Configuration.
ENTRIES: tuple[Entry, ...] = (
    Entry(
        "Readiness",
        "check",
        "check:command",
        "Learn whether a node is ready: the contract's checklist, step by step.",
    ),
    Entry(
        "Readiness",
        "explain",
        "check:explain",
        "Explain what a step proves, how it can fail and how to mend it.",
    ),
    Entry("Readiness", "checklist", "checklist:app", "List, show, validate and freeze checklists."),
    Entry(
        "Runs",
        "run",
        "run:command",
        "Put work on a node: submit a run, with --follow see it through.",
    ),
    Entry(
        "Runs",
        "tail",
        "follow:tail",
        "Follow a run to its end; the exit code is the run's.",
    ),
    Entry(
        "Runs",
        "wait",
        "follow:wait",
        "Wait until runs have ended; exit with 0 if all succeeded.",
    ),
    Entry("Runs", "status", "follow:status", "Show a run's state and what it came to."),
    Entry("Runs", "stop", "control:stop", "Stop a run, and wait until it has ended."),
    Entry("Runs", "steer", "control:steer", "Say something to a run while it works."),
    Entry("Runs", "approve", "control:approve", "Allow what a run waits for."),
    Entry("Runs", "deny", "control:deny", "Refuse what a run waits for."),
    Entry(
        "Runs",
        "runs",
        "journal:runs",
        "List this machine's runs, with their state now.",
    ),
    Entry(
        "Runs",
        "approvals",
        "journal:approvals",
        "List the runs known here that wait for a human.",
    ),
    Entry(
        "Inspect", "health", "node:health", "Show a node's health; exit with 1 unless it says ok."
    ),
    Entry(
        "Inspect",
        "capabilities",
        "node:capabilities",
        "Show what a node offers: features, and routes with the command for each.",
    ),
    Entry("Inspect", "models", "inspect:models", "The models that a node offers."),
    Entry("Inspect", "skills", "inspect:skills", "The skills that a node's agent knows."),
    Entry(
        "Inspect",
        "toolsets",
        "inspect:toolsets",
        "The toolsets of a node: what its agent may use.",
    ),
    Entry("Inspect", "sessions", "sessions:app", "The conversations that a node keeps."),
    Entry("Inspect", "jobs", "jobs:app", "What a node's agent does on a schedule."),
    Entry(
        "Inspect",
        "profiles",
        "profiles:command",
        "Show which profiles a node serves, and whether each is kept to its own key.",
    ),
    Entry(
        "Inspect", "api", "api:command", "Ask any route, with the node's key and profile prefix."
    ),
    Entry(
        "Monitoring",
        "top",
        "top:command",
        "Watch nodes and runs on one screen; answer approvals, stop and steer from there.",
    ),
    Entry(
        "Monitoring",
        "exporter",
        "exporter:command",
        "Watch nodes, and tell Prometheus how they are: readiness, latency, runs.",
    ),
    Entry(
        "Gate and lab",
        "gate",
        "gate:command",
        "Learn whether a move to another Hermes release is safe, and what changes.",
    ),
    Entry(
        "Gate and lab",
        "diff",
        "gate:diff",
        "Compare two check reports: what got better, worse, or changed its shape.",
    ),
    Entry(
        "Gate and lab",
        "report",
        "report:app",
        "Show a written report in another form, or several as one.",
    ),
    Entry(
        "Gate and lab", "lab", "lab:app", "A real Hermes with a scripted model: no key, no cost."
    ),
    Entry(
        "Configuration",
        "config",
        "config:app",
        "Contexts: the nodes you work with, and where each value comes from.",
    ),
    Entry(
        "Configuration", "completion", "completion:app", "Print the completion script of a shell."
    ),
)


def help_text() -> str:
    """What `hermesctl --help` shows: each command with its one line, in sections."""
    width = max(len(name) for name in (*(entry.name for entry in ENTRIES), *dict(OPTIONS))) + 2
    sections: dict[str, list[tuple[str, str]]] = {}
    for entry in ENTRIES:
        sections.setdefault(entry.section, []).append((entry.name, entry.help))
    sections["Options"] = list(OPTIONS)
    lines = [f"Usage: {PROGRAM} COMMAND [ARGS]...", "", f"  {HELP}", ""]
    for title, rows in sections.items():
        lines += [f"{title}:", *(f"  {name:{width}}{help}" for name, help in rows), ""]
    lines += ["Exit codes:", *("  " + ", ".join(codes) for codes in EXIT_CODES)]
    return "\n".join(lines) + "\n"
