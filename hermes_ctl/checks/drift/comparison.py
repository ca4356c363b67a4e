"""Two checks compared: what got better, what got worse, what changed its shape.

Pure: two reports in, a list of differences out. What is noise between two checks of one release is
no difference; `tests/live/test_gate.py` holds that against real releases.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from hermes_ctl.checks.drift import consumers
from hermes_ctl.checks.drift.difference import Difference, Level, ordered
from hermes_ctl.checks.drift.fields import FieldChange, field_changes
from hermes_ctl.checks.drift.steps import step_changes
from hermes_ctl.checks.drift.streams import KNOWN_STATES, event_changes, stream_changes
from hermes_ctl.checks.drift.timings import timing_changes
from hermes_ctl.checks.model import Contract, Report, Shape, Status
from hermes_ctl.text import one_line

ACTIVE_STATES = KNOWN_STATES - {"completed", "failed", "cancelled", "interrupted"}

GOOD_BEHAVIOUR: Mapping[str, frozenset[str]] = {
    "reopened stream": frozenset({"replayed from the start"}),
    "second reader": frozenset({"a full copy for each"}),
    "conversation of runs on one session": frozenset({"continued"}),
    "wrong approval request id": frozenset({"refused"}),
    "prefix of an unknown profile": frozenset({"refused"}),
    "key of the default profile on another": frozenset({"refused"}),
    "limit of session chat": frozenset({"limited"}),
}
"""What is better among the values that a behaviour was seen to have. Gained is compatible, lost is
breaking, any other change is risky."""

_LISTS = frozenset({"GET /api/sessions", "GET /api/jobs"})
"""Lists of what people made: whether a value in there is null says nothing of the release."""

_SHAPE_KEY = re.compile(r"(?P<route>[A-Z]+ \S+) (?P<status>\d+)(?: (?P<state>.+))?\Z")


def compare(old: Report, new: Report) -> list[Difference]:
    """All differences from `old` to `new`, the gravest first."""
    found = [
        *compare_contracts(old.contract, new.contract, asked_less=_asked_less(old, new)),
        *event_changes(old, new),
        *step_changes(old, new),
        *timing_changes(old, new),
    ]
    return ordered(list({one.id: one for one in found}.values()))


def _asked_less(old: Report, new: Report) -> bool:
    """Whether NEW left out a step that OLD settled: what only that step gets to see is not lost."""
    settled = {step.id for step in old.steps if step.status is not Status.SKIP}
    return any(
        step.id in settled and step.status is Status.SKIP and step.blocked_by is None
        for step in new.steps
    )


def compare_contracts(
    before: Contract, after: Contract, *, asked_less: bool = False
) -> list[Difference]:
    """What differs on the wire, what events a run sends left aside."""
    found = [
        *_features(before, after),
        *_endpoints(before, after),
        *_routes(before, after, asked_less=asked_less),
        *_fields(before, after),
        *_headers(before, after),
        *stream_changes(before, after),
        *_answers(before.errors, after.errors),
        *_behaviours(before.behaviours, after.behaviours),
    ]
    return ordered(found)


def _features(old: Contract, new: Contract) -> Iterator[Difference]:
    if not old.features or not new.features:
        return
    for name in sorted({*old.features, *new.features}):
        before, after = old.features.get(name), new.features.get(name)
        offered = _is_offered(before), _is_offered(after)
        if before == after or not any(offered):
            continue
        if offered == (True, False):
            level, words = Level.BREAKING, "is no longer offered"
        elif offered == (False, True):
            level, words = Level.COMPATIBLE, "is offered now"
        else:
            level, words = Level.RISKY, "has another value"
        yield Difference(
            id=f"feature:{name}",
            level=level,
            where="GET /v1/capabilities",
            summary=f"feature {name} {words}",
            old=_value(before),
            new=_value(after),
            consumers=consumers.of_feature(name),
        )


def _is_offered(value: object) -> bool:
    """An object may say itself that it is not: 0.22 lists what is not switched on."""
    if isinstance(value, Mapping):
        return value.get("supported", True) is not False and value.get("enabled", True) is not False
    return bool(value)


def _value(value: object) -> str | None:
    return None if value is None else one_line(json.dumps(value), 120)


def _endpoints(old: Contract, new: Contract) -> Iterator[Difference]:
    if not old.endpoints or not new.endpoints:
        return
    for name in sorted({*old.endpoints, *new.endpoints}):
        before, after = old.endpoints.get(name), new.endpoints.get(name)
        if before == after:
            continue
        if after is None:
            level, words = Level.BREAKING, "is no longer advertised"
        elif before is None:
            level, words = Level.COMPATIBLE, "is advertised now"
        else:
            level, words = Level.BREAKING, "has moved"
        yield Difference(
            id=f"endpoint:{name}",
            level=level,
            where="GET /v1/capabilities",
            summary=f"endpoint {name} ({before or after}) {words}",
            old=before,
            new=after,
            consumers=consumers.of_route(before or after or ""),
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """All answers of one route: shapes by status, the run states left aside."""

    by_status: Mapping[int, list[Shape]]

    @property
    def good(self) -> list[int]:
        return sorted(status for status in self.by_status if 200 <= status < 300)

    @property
    def broken(self) -> list[int]:
        """Statuses that say that the route itself does not work: a server's failure, or none."""
        return sorted(
            status
            for status, shapes in self.by_status.items()
            if status >= 500
            or (status == 404 and any(s.content_type == "text/plain" for s in shapes))
        )


def _by_route(contract: Contract) -> dict[str, _Seen]:
    routes: dict[str, dict[int, list[Shape]]] = defaultdict(lambda: defaultdict(list))
    for key, shape in contract.shapes.items():
        found = _SHAPE_KEY.match(key)
        if found is not None:
            routes[found["route"]][int(found["status"])].append(shape)
    return {route: _Seen(seen) for route, seen in routes.items()}


def _routes(old: Contract, new: Contract, *, asked_less: bool) -> Iterator[Difference]:
    """Routes that answered and do not any more, or the other way round. A route that one side was
    not asked for is not compared, nor, with `asked_less`, one that refused what OLD refused too."""
    before, after = _by_route(old), _by_route(new)
    nothing = _Seen({})
    for route in sorted({*before, *after}):
        was, now = before.get(route, nothing), after.get(route, nothing)
        if asked_less and was.good and not now.good and set(now.by_status) <= set(was.by_status):
            continue
        judged = _route_change(was, now, advertised=route in new.endpoints.values())
        if judged is None:
            continue
        level, words, seen_before, seen_after = judged
        yield Difference(
            id=f"route:{route}",
            level=level,
            where=route,
            summary=f"{route} {words}",
            old=seen_before,
            new=seen_after,
            consumers=consumers.of_route(route),
        )


def _route_change(
    was: _Seen, now: _Seen, *, advertised: bool
) -> tuple[Level, str, str | None, str | None] | None:
    old, new = _statuses(was), _statuses(now)
    said = "is advertised and " if advertised else ""
    if now.broken and not was.broken:
        if was.good or advertised:
            return Level.BREAKING, f"{said}answers {now.broken[0]}", old, new
        return None
    if not was.by_status or not now.by_status:
        return None
    if was.good and now.good and was.good != now.good and not set(was.good) & set(now.good):
        return Level.BREAKING, f"answers {now.good[0]} instead of {was.good[0]}", old, new
    if was.good and not now.good and min(now.by_status) >= 300:
        return (
            Level.BREAKING,
            f"{said}answers {min(now.by_status)} instead of {was.good[0]}",
            old,
            new,
        )
    if was.broken and not now.broken:
        return Level.COMPATIBLE, "is served now", old, new
    return None


def _statuses(seen: _Seen) -> str | None:
    return ", ".join(map(str, sorted(seen.by_status))) or None


def _fields(old: Contract, new: Contract) -> Iterator[Difference]:
    """Fields of the answers that both sides gave. What a body of an error holds is less grave."""
    found: dict[str, list[tuple[str, FieldChange]]] = defaultdict(list)
    for key, shape in old.shapes.items():
        other, parts = new.shapes.get(key), _SHAPE_KEY.match(key)
        if other is None or parts is None:
            continue
        route = parts["route"]
        if shape.content_type != other.content_type:
            yield _content_type(key, route, shape, other)
            continue
        steady = parts["state"] not in ACTIVE_STATES and "{" not in route and route not in _LISTS
        for change in field_changes(shape.paths, other.paths, steady=steady):
            level = change.level
            if shape.status >= 400 and level is Level.BREAKING:
                level = Level.RISKY
            group = f"{_resource(route)}{' refusal' if shape.status >= 400 else ''} {change.path}"
            found[group].append((key, replace(change, level=level)))
    for group, places in found.items():
        yield _field(group, places)


def _resource(route: str) -> str:
    """What several routes tell of: `/api/jobs` for all that answer with a job."""
    return "/".join(route.partition(" ")[2].split("/")[:3])


def _field(group: str, places: list[tuple[str, FieldChange]]) -> Difference:
    """One change of a resource's field, told once however many routes show it."""
    _, change = min(places, key=lambda place: list(Level).index(place[1].level))
    keys = [key for key, _ in places]
    where = keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"
    return Difference(
        id=f"field:{group}",
        level=change.level,
        where=", ".join(keys),
        summary=f"{change.path} {change.what} in {where}",
        old=change.old,
        new=change.new,
        consumers=_all_consumers(_route(key) for key in keys),
    )


def _all_consumers(routes: Iterable[str]) -> list[str]:
    found = {name for route in routes for name in consumers.of_route(route)}
    return [
        name for name in (consumers.BMAS, consumers.RELAY, consumers.HERMESCTL) if name in found
    ]


def _content_type(key: str, route: str, old: Shape, new: Shape) -> Difference:
    return Difference(
        id=f"content-type:{key}",
        level=Level.BREAKING,
        where=key,
        summary=f"{key} is {new.content_type or 'untyped'} instead of {old.content_type or 'untyped'}",
        old=old.content_type,
        new=new.content_type,
        consumers=consumers.of_route(route),
    )


def _headers(old: Contract, new: Contract) -> Iterator[Difference]:
    """A header that all answers of a kind had, and that they have no longer: told once for each
    header, with where it was seen."""
    lost: dict[str, list[str]] = defaultdict(list)
    gained: dict[str, list[str]] = defaultdict(list)
    for key, shape in old.shapes.items():
        other = new.shapes.get(key)
        if other is None or shape.content_type != other.content_type:
            continue
        for name in sorted({*shape.headers} - {*other.headers}):
            lost[name].append(key)
        for name in sorted({*other.headers} - {*shape.headers}):
            gained[name].append(key)
    for level, words, table in (
        (Level.RISKY, "is no longer sent", lost),
        (Level.COMPATIBLE, "is sent now", gained),
    ):
        for name, keys in table.items():
            yield Difference(
                id=f"header:{name}",
                level=level,
                where=", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else ""),
                summary=f"header {name} {words}",
                old="sent" if table is lost else None,
                new="sent" if table is gained else None,
                consumers=_all_consumers(_route(key) for key in keys),
            )


def _route(key: str) -> str:
    found = _SHAPE_KEY.match(key)
    return found["route"] if found else key


def _answers(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
    """The same wrong request on both sides. Another status is breaking unless it succeeds now;
    another code of the same status is risky."""
    for situation in sorted({*old} & {*new}):
        before, after = old[situation], new[situation]
        if before == after:
            continue
        same_status = before.split(" ")[0] == after.split(" ")[0]
        succeeds = after.startswith("2")
        yield Difference(
            id=f"answer:{situation}",
            level=Level.RISKY if same_status or succeeds else Level.BREAKING,
            where=situation,
            summary=f"{situation} is answered with {after} instead of {before}",
            old=before,
            new=after,
            consumers=[consumers.HERMESCTL],
        )


def _behaviours(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*old} & {*new}):
        before, after = old[name], new[name]
        if before == after:
            continue
        good = GOOD_BEHAVIOUR.get(name, frozenset())
        if after in good:
            level = Level.COMPATIBLE
        else:
            level = Level.BREAKING if before in good else Level.RISKY
        yield Difference(
            id=f"behaviour:{name}",
            level=level,
            where=name,
            summary=f"{name}: {after} instead of {before}",
            old=before,
            new=after,
        )
