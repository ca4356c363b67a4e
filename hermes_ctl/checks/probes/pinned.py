"""The node still is what it was when its checklist was frozen."""

from __future__ import annotations

from hermes_ctl.checks.deep import deep, unsettled, wrong
from hermes_ctl.checks.drift.comparison import compare_contracts
from hermes_ctl.checks.drift.difference import Difference
from hermes_ctl.checks.freeze import files_in, pinned_contract, survey
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject

_AGAIN = "if that was meant: hermesctl checklist freeze --from NODE > FILE"
_SHOWN = 3


async def work(subject: Subject, trail: Trail) -> str:
    """Features, routes, shapes, toolsets and the limit, against those in `[pinned]`."""
    pinned = subject.checklist.pinned
    if pinned is None:
        raise unsettled("the checklist pins nothing: it has no [pinned] table")
    settings = subject.settings
    seen = await survey(subject.get, files_in(settings.hermes_home, settings.environment))
    changes = [_told(one) for one in compare_contracts(pinned_contract(pinned), seen.contract)]
    changes += _toolsets(pinned.toolsets, seen.toolsets)
    if pinned.limit is not None and seen.limit is not None and pinned.limit != seen.limit:
        changes.append(f"the limit of concurrent runs is {seen.limit}, not {pinned.limit}")
    for change in changes:
        trail.add("changed", change)
    if changes:
        more = f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        raise wrong("; ".join(changes[:_SHOWN]) + more)
    return (
        f"{len(pinned.features)} features, {len(pinned.endpoints)} routes, {len(pinned.shapes)} shapes "
        f"and {len(pinned.toolsets)} toolsets as they were"
    )


def _told(one: Difference) -> str:
    return one.summary


def _toolsets(pinned: dict[str, list[str]], seen: dict[str, list[str]]) -> list[str]:
    changes = [f"toolset {name} is gone" for name in pinned.keys() - seen.keys()]
    changes += [f"toolset {name} is new" for name in seen.keys() - pinned.keys()]
    for name in pinned.keys() & seen.keys():
        lost, won = set(pinned[name]) - set(seen[name]), set(seen[name]) - set(pinned[name])
        changes += [f"toolset {name} lost {', '.join(sorted(lost))}"] if lost else []
        changes += [f"toolset {name} gained {', '.join(sorted(won))}"] if won else []
    return sorted(changes)


PROBE = Probe(
    name="pinned",
    title="Frozen contract",
    proves=(
        "Features, routes, shapes of the read routes, enabled toolsets with their tools and the "
        "limit of concurrent runs are what they were when the checklist was frozen."
    ),
    causes=(
        Cause("something was added or is gone after an update", _AGAIN),
        Cause(
            "tools vanished, and everything else is green", "look at the node's own configuration"
        ),
    ),
    settle=deep("all as it was frozen", work, _AGAIN),
)
