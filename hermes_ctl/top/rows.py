"""What the screen of `top` says, line by line: a board as neutral text, and nothing of the terminal.

Every text of a node, a model or a user is made visible and redacted here. A sign or a word carries
what a colour says as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.text import Text

from hermes_ctl.checks.model import Report, Status, Verdict
from hermes_ctl.monitor.board import NodeState
from hermes_ctl.runs.survey import Live, Waiting
from hermes_ctl.secrets import redact
from hermes_ctl.text import one_line, visible

BARS = "▁▂▃▄▅▆▇█"
NO_ANSWER = "×"
FIGURE = 9
"""The width of a latency's figure, and the space behind it."""

_QUICK_S = 0.05
"""A latency is drawn against the longest one shown, and at least this: noise is no mountain."""

GOOD, BAD, OPEN, QUIET = "green", "bold red", "yellow", "dim"
MARK = {
    Status.PASS: ("✓", GOOD),
    Status.WARN: ("!", OPEN),
    Status.FAIL: ("✗", BAD),
    Status.SKIP: ("–", QUIET),
    Status.UNKNOWN: ("?", OPEN),
}
_VERDICT = {
    Verdict.READY: ("✓ ready", GOOD),
    Verdict.NOT_READY: ("✗ not ready", BAD),
    Verdict.UNDETERMINED: ("? undetermined", OPEN),
}
_TOLD = {Verdict.NOT_READY: Status.FAIL, Verdict.UNDETERMINED: Status.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Asking:
    """An approval that waits, with the run that waits for it."""

    live: Live
    waiting: Waiting

    @property
    def key(self) -> str:
        """The same for the same approval in every survey."""
        approval = self.waiting.approval
        return f"{key_of(self.live)} {approval.request_id or approval.command or ''}"


def neutral(text: str | None, limit: int | None = None) -> str:
    """One line of anybody's text, safe to show."""
    return one_line(redact(text or ""), limit)


def cell(text: str, style: str = "") -> Text:
    """A table's cell: cut where the column ends, never wrapped, never read as markup."""
    return Text(text, style, no_wrap=True, overflow="ellipsis", end="")


def paragraph(text: str) -> Text:
    """Anybody's text with its lines, safe to show."""
    return Text(visible(redact(text)), overflow="fold")


def node_cells(state: NodeState, bars: int) -> tuple[Text, Text, Text, Text, Text]:
    """Name, verdict, version, active runs, and latency with its last `bars` values drawn."""
    pulse, report = state.pulse, state.report
    version = (pulse and pulse.version) or (report and report.node.hermes_version) or ""
    active = "" if pulse is None or pulse.active_runs is None else str(pulse.active_runs)
    return (
        cell(neutral(state.node.name)),
        _verdict(state),
        cell(neutral(version, 40)),
        Text(active, justify="right", end=""),
        _latency(state, bars),
    )


def _verdict(state: NodeState) -> Text:
    """The verdict with the steps that made it; what the last look saw comes first, being newer."""
    pulse, report = state.pulse, state.report
    if pulse is not None and not pulse.is_up:
        reason = pulse.trouble.message if pulse.trouble else ""
        return cell(f"✗ down: {neutral(reason, 100)}", BAD)
    if report is None:
        return cell("… checking" if state.is_checking else "…", QUIET)
    words, style = _VERDICT[report.verdict]
    told = [step.id for step in report.steps if step.status is _TOLD.get(report.verdict)]
    if pulse is not None and pulse.gateway_state == "draining":
        words, style = "! draining", OPEN
    return cell(f"{words}: {', '.join(told)}" if told else words, style)


def _latency(state: NodeState, bars: int) -> Text:
    last = state.latencies[-1] if state.latencies else None
    figure = "" if last is None else f"{last * 1000:.0f} ms"
    return cell(f"{figure:>{FIGURE - 1}} {sparkline(state.latencies, bars)}")


def sparkline(seconds: Iterable[float | None], width: int) -> str:
    """The last `width` values as bars, the newest at the right; a cross where nothing answered."""
    shown = list(seconds)[-width:]
    longest = max([value for value in shown if value is not None] + [_QUICK_S])
    top = len(BARS) - 1
    return "".join(
        NO_ANSWER if value is None else BARS[round(value / longest * top)] for value in shown
    )


def approval_cells(asking: Asking, now: datetime) -> tuple[Text, Text, Text, Text]:
    """Run, node, for how long it waits, command and reason."""
    entry, approval = asking.live.entry, asking.waiting.approval
    command = neutral(approval.command, 300) if approval.command else "a command not known here"
    reason = f"  ({neutral(approval.description, 100)})" if approval.description else ""
    return (
        cell(f"▲ {short_id(entry.run_id)}", "bold"),
        cell(neutral(entry.node)),
        cell(age(now - asking.waiting.since)),
        cell(f"{command}{reason}"),
    )


def run_cells(live: Live, now: datetime) -> tuple[Text, Text, Text, Text, Text]:
    """Run, node, state, how long it has worked, and its prompt, or why it could not be asked."""
    entry = live.entry
    until = entry.ended_at or (now if live.is_active else entry.seen_at)
    told = (
        cell(neutral(live.problem, 300), OPEN) if live.problem else cell(neutral(entry.prompt, 300))
    )
    return (
        cell(short_id(entry.run_id)),
        cell(neutral(entry.node)),
        _state(live),
        cell(age(until - entry.submitted_at)),
        told,
    )


def _state(live: Live) -> Text:
    if live.problem is not None:
        return cell(f"? {neutral(live.state, 30)}", OPEN)
    if live.waiting or live.state == "waiting_for_approval":
        return cell("▲ approval", "bold")
    if live.is_active:
        return cell(f"● {neutral(live.state, 30)}")
    verdict = live.entry.verdict
    sign, style = ("✓", GOOD) if verdict == "success" else ("✗", QUIET)
    word = "suspect" if verdict == "suspect" else live.state
    return cell(f"{sign} {neutral(word, 30)}", style)


def asked(runs: Iterable[Live]) -> list[Asking]:
    """The approvals that wait, the oldest first."""
    found = [Asking(live, waiting) for live in runs for waiting in live.waiting]
    return sorted(found, key=lambda asking: asking.waiting.since)


def ordered(runs: Iterable[Live]) -> list[Live]:
    """Runs that go on before those that have ended, each the newest first."""
    return sorted(runs, key=lambda live: (not live.is_active, -live.entry.number))


def headline(states: list[NodeState], runs: Iterable[Live] | None) -> str:
    """`3 nodes: 2 ready, 1 down · 4 runs active · 1 approval waits`."""
    words = [_word(state) for state in states]
    kinds = ("ready", "not ready", "undetermined", "down", "checking")
    counted = ", ".join(f"{words.count(kind)} {kind}" for kind in kinds if kind in words)
    parts = [f"{_number(len(states), 'node')}: {counted}"]
    if runs is not None:
        runs = list(runs)
        active = sum(live.is_active for live in runs)
        waiting = len(asked(runs))
        parts.append(f"{_number(active, 'run')} active")
        if waiting:
            parts.append(f"{_number(waiting, 'approval')} wait{'s' if waiting == 1 else ''}")
    return " · ".join(parts)


def runs_title(runs: Iterable[Live] | None) -> str:
    if runs is None:
        return "runs …"
    return "runs" if any(True for _ in runs) else "no runs in this machine's journal"


def key_of(live: Live) -> str:
    """The same for the same run in every survey."""
    return str(live.entry.number)


def _word(state: NodeState) -> str:
    if state.pulse is not None and not state.pulse.is_up:
        return "down"
    if state.report is None:
        return "checking"
    return state.report.verdict.value.replace("_", " ")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def node_details(state: NodeState) -> Text:
    """Where the node is, what the last look saw, and the steps of its last check, with what mends
    those that are not well."""
    text = Text(f"{neutral(state.node.url)}\n", overflow="fold")
    if state.pulse is not None and state.pulse.trouble is not None:
        text.append(f"{neutral(state.pulse.trouble.message)}\n", BAD)
    if state.report is not None:
        text.append_text(_steps(state.report))
    return text


def run_details(live: Live) -> Text:
    """Where a run is, how it is, and what it was asked to do."""
    entry = live.entry
    lines = [
        ("node", neutral(f"{entry.node}  {entry.url}")),
        ("state", neutral(live.state)),
        ("problem", neutral(live.problem or entry.reason)),
        ("since", entry.submitted_at.isoformat(timespec="seconds")),
        ("session", neutral(entry.session_id)),
    ]
    text = Text("\n".join(f"{name:<8} {value}" for name, value in lines if value), overflow="fold")
    prompt = paragraph(entry.prompt or "(its prompt is not kept)")
    return text.append("\n\n").append_text(prompt)


def _steps(report: Report) -> Text:
    text = Text(overflow="fold")
    for step in report.steps:
        sign, style = MARK[step.status]
        text.append(f"{sign} {step.number:>2} {step.id:<10} ", style)
        text.append(f"{neutral(step.summary, 500)}\n")
        if step.status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
            for line in step.fix:
                text.append(f"     fix  {neutral(line, 500)}\n", QUIET)
    return text


def short_id(run_id: str | None) -> str:
    """Enough of a run's id to name it to any command."""
    if not run_id:
        return "(no id yet)"
    line = neutral(run_id)
    return line if len(line) <= 12 else line[:12]


def age(passed: timedelta) -> str:
    """`12s`, `3m`, `2h`, `5d`."""
    seconds = max(0, round(passed.total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
