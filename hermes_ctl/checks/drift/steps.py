"""How the steps of two checks differ."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_ctl.checks.drift import consumers
from hermes_ctl.checks.drift.difference import Difference, Level
from hermes_ctl.checks.model import Report, Severity, Status, Step

_SETTLED_WELL = (Status.PASS, Status.WARN)


def step_changes(old: Report, new: Report) -> Iterator[Difference]:
    """Steps that came out otherwise, and new ones that did not come out well."""
    before = {step.id: step for step in old.steps}
    for step in new.steps:
        was = before.get(step.id)
        judged = _new_step(step) if was is None else _judge(was, step)
        if judged is None:
            continue
        level, words = judged
        yield Difference(
            id=f"step:{step.id}",
            level=level,
            where=f"step {step.id}",
            summary=f"{step.id}: {words}",
            old=_told(was) if was else None,
            new=_told(step),
            consumers=[consumers.BMAS] if step.severity is Severity.REQUIRED else [],
        )


def _new_step(step: Step) -> tuple[Level, str] | None:
    if step.status in (Status.FAIL, Status.UNKNOWN):
        return Level.RISKY, f"a new step, and it is {step.status}: {step.summary}"
    return None


def _judge(was: Step, now: Step) -> tuple[Level, str] | None:
    if was.status is now.status:
        return None
    if now.status is Status.FAIL:
        required = now.severity is Severity.REQUIRED and was.status in _SETTLED_WELL
        level = Level.BREAKING if required else Level.RISKY
        return level, f"fails now: {now.summary}"
    if now.status is Status.UNKNOWN:
        return Level.RISKY, f"could not be told now: {now.summary}"
    if now.status is Status.WARN and was.status is Status.PASS:
        return Level.RISKY, f"warns now: {now.summary}"
    if now.status is Status.SKIP:
        level = Level.RISKY if was.status in _SETTLED_WELL else Level.COMPATIBLE
        return level, f"is skipped now: {now.summary}"
    return Level.COMPATIBLE, f"{now.summary} (before: {was.summary})"


def _told(step: Step) -> str:
    return f"{step.status}: {step.summary}"
