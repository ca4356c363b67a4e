"""The last line of a followed run: what it came to, how long it took, what it cost."""

from __future__ import annotations

from hermes_ctl.durations import format_duration
from hermes_ctl.render.console import Screen, cell
from hermes_ctl.runs.result import Result, Verdict


def write_end(screen: Screen, result: Result, waited: float, *, more: str | None = None) -> None:
    """What a run came to, in one line on standard error, and what has to be known besides."""
    from rich.text import Text

    if result.verdict is Verdict.SUCCESS and screen.quiet:
        return
    notes = list(result.notes)
    if result.pending_steer:
        notes.append(f"left over, never delivered: the steer {cell(result.pending_steer, 200)!r}")
    for note in notes:
        screen.note(f"  {screen.error_marks.warned} {note}")
    line = Text(_word(result), style=_STYLES[result.verdict])
    seconds = result.seconds if result.seconds is not None else waited
    line.append(f" in {format_duration(seconds)}", style="not bold")
    if result.usage is not None:
        usage = result.usage
        line.append(f" · {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if result.model:
        line.append(f" · {cell(result.model, 60)}")
    if result.reason and result.verdict is not Verdict.CANCELLED:
        reason = cell(result.reason)
        for said_already in ("the run failed: ", "the run was interrupted: "):
            reason = reason.removeprefix(said_already)
        line.append(f" · {reason}")
    line.append(f" · {cell(more or f'hermesctl status {result.run_id}')}", style="dim")
    screen.err.print(line, soft_wrap=True)


_STYLES = {
    Verdict.SUCCESS: "bold green",
    Verdict.SUSPECT: "bold yellow",
    Verdict.FAILED: "bold red",
    Verdict.CANCELLED: "bold yellow",
    Verdict.INTERRUPTED: "bold red",
    Verdict.GONE: "bold red",
    Verdict.UNKNOWN: "bold magenta",
}


def _word(result: Result) -> str:
    if result.verdict is Verdict.SUSPECT:
        return "SUSPECT"
    if result.verdict is Verdict.UNKNOWN:
        return "NOT KNOWN"
    return cell(result.state, 60)
