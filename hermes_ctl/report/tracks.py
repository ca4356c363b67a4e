"""The timeline of a run as marks on a line, in percent of the check's whole duration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hermes_ctl.checks.model import Mark, RunTrace
from hermes_ctl.report.words import clean

_KIND = {
    "message.delta": "talk",
    "approval.request": "dot ask",
    "approval.responded": "dot ask",
    "approval": "dot ask",
    "steer": "dot ask",
    "run.steered": "dot ask",
    "stop": "dot halt",
    "run.completed": "dot end",
    "run.failed": "dot end bad",
    "run.cancelled": "dot end open",
    "run.interrupted": "dot end open",
}
_NOT_SHOWN = frozenset({"reasoning.available", "tool.completed"})


@dataclass(frozen=True, slots=True)
class TrackMark:
    """`left` and `width` are percent; a width of 0 is a moment."""

    kind: str
    left: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class RunTrack:
    """`told` is the same in words."""

    name: str
    end: str
    marks: Sequence[TrackMark]
    told: str


def tracks(runs: Sequence[RunTrace], span: float) -> list[RunTrack]:
    """One track for each run; `span` is the seconds that the whole line stands for."""
    return [
        RunTrack(
            name=clean(run.purpose) or clean(run.run_id, 14),
            end=clean(run.status) or "not seen to end",
            marks=list(_marks(run, span)),
            told=_told(run),
        )
        for run in runs
    ]


def _marks(run: RunTrace, span: float) -> Iterator[TrackMark]:
    end = run.ended_s if run.ended_s is not None else _last(run)
    yield _mark("life", run.started_s, end, span, f"{run.run_id}, {end - run.started_s:.2f} s")
    tools: dict[str, Mark] = {}
    for mark in run.marks:
        if mark.name == "tool.started":
            tools[mark.detail] = mark
        elif mark.name == "tool.completed":
            began = tools.pop(mark.detail, mark)
            title = f"tool {mark.detail}, {mark.at_s - began.at_s:.2f} s"
            yield _mark("tool", began.at_s, mark.at_s, span, title)
        elif mark.name not in _NOT_SHOWN:
            kind = _KIND.get(mark.name, "dot")
            until = mark.until_s if kind == "talk" and mark.until_s else mark.at_s
            yield _mark(
                kind, mark.at_s, until, span, f"{mark.name} {mark.detail} {mark.at_s:.2f} s"
            )
    for name, began in tools.items():
        yield _mark("tool", began.at_s, end, span, f"tool {name}, not seen to end")


def _mark(kind: str, begin: float, end: float, span: float, title: str) -> TrackMark:
    left = min(max(begin / span * 100, 0.0), 100.0)
    width = min(max((end - begin) / span * 100, 0.0), 100.0 - left)
    wide = 0.0 if kind.startswith("dot") else max(width, 0.2)
    return TrackMark(kind, round(left, 2), round(wide, 2), clean(title))


def _last(run: RunTrace) -> float:
    return max([run.started_s, *(mark.until_s or mark.at_s for mark in run.marks)])


def _told(run: RunTrace) -> str:
    """`canary: started at 0.73 s, tool.started terminal 7.81 s, ..., completed at 7.86 s`."""
    parts = [f"started at {run.started_s:.2f} s"]
    parts += [
        f"{mark.name} {mark.detail} {mark.at_s:.2f} s".replace("  ", " ") for mark in run.marks
    ]
    if run.ended_s is not None:
        parts.append(f"{run.status} at {run.ended_s:.2f} s")
    return clean(f"{run.purpose or run.run_id}: {', '.join(parts)}")
