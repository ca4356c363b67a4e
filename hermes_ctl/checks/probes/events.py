"""Step 6: the event route sends valid Server-Sent Events, as they happen, to the end."""

from __future__ import annotations

from functools import partial

from hermes_ctl.checks.long_run import first_trial
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import NOT_ANSWERED, Blocked, Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.checks.transcript import Transcript
from hermes_ctl.errors import FrameTooLarge, HermesctlError
from hermes_ctl.text import how_many, one_line

_SPREAD_TO_JUDGE = 0.5
"""Seconds between the first and the last event's own time below which buffering cannot be told."""

_HELD_BACK = 0.2
"""Events that arrive within this part of the time they took to happen were held back."""

_LINK = (
    "look at what stands between: its idle timeout (90 s at least) and whether it cuts or "
    "rewrites streams; polling is not affected"
)
_LONGER = "let step stop succeed, whose long run shows it; or give a longer canary.prompt"
_NO_BUFFERING = (
    "switch off response buffering for this route in the proxy (nginx: proxy_buffering off)"
)


async def probe(subject: Subject) -> Finding:
    """Content type, every frame, the terminal event last, the closing comment, and when it came."""
    canary = await subject.canary()
    finding = partial(
        Finding,
        expected="text/event-stream, JSON frames, a terminal event last, then a closing comment",
        observed=_observed(canary),
        evidence=_trail(canary)(),
    )
    return _broken(canary, finding) or await _arrival(subject, canary, finding)


def _broken(canary: Transcript, finding: partial[Finding]) -> Finding | None:
    """What is wrong with the stream itself, whenever it came."""
    error = canary.stream_error
    if isinstance(error, FrameTooLarge):
        return finding(Status.FAIL, error.message, fix=("find out which tool or model sends it",))
    if canary.broken:
        first = canary.broken[0]
        return finding(
            Status.FAIL,
            f"{len(canary.broken)} frame{'s' * (len(canary.broken) > 1)} cannot be read: {first.problem}",
            fix=("something between here and the node changes the stream: ask the node directly",),
        )
    if canary.terminal_event is None and canary.gave_up and error is None:
        raise Blocked("polling", "the run itself did not end")
    if canary.terminal_event is None and isinstance(canary.poll_error, NOT_ANSWERED):
        raise canary.poll_error  # the node itself went away, and its stream with it
    if canary.terminal_event is None:
        return finding(Status.FAIL, _cut(canary), fix=(_LINK,))
    if canary.events[-1] is not canary.terminal_event:
        return finding(
            Status.FAIL,
            f"{one_line(canary.events[-1].name, 60)} came after {canary.terminal_event.name}",
            fix=("two gateways answer in turn, or this release is not the reviewed one",),
        )
    return None


async def _arrival(subject: Subject, canary: Transcript, finding: partial[Finding]) -> Finding:
    """Whether events come while they happen. A run whose events spread out shows it; where the
    canary was too quick for that, or came all at once, the long run's first event decides: it has
    to come while that run still goes on."""
    live = True if _spread_out(canary) else await _long_run_live(subject)
    if live is False:
        return finding(
            Status.FAIL,
            "held back: what happened while the long run ran came only with its end",
            fix=(_NO_BUFFERING,),
        )
    if canary.stream_error is not None:
        message = canary.stream_error.message
        return finding(Status.WARN, f"complete, but then: {message}", fix=(_LINK,))
    if not canary.closed:
        return finding(Status.WARN, "complete, but without the closing comment", fix=(_LINK,))
    if live is None:
        return finding(Status.WARN, _undecided(canary), fix=(_LONGER,))
    return finding(Status.PASS, _summary(canary))


def _undecided(canary: Transcript) -> str:
    if _happened(canary) < _SPREAD_TO_JUDGE:
        return "complete, but no run streamed long enough to show that events come as they happen"
    return (
        f"events of {_happened(canary):.1f} s arrived within {_arrived(canary):.1f} s, "
        "and the long run could not show whether they are held back"
    )


async def _long_run_live(subject: Subject) -> bool | None:
    try:
        return (await first_trial(subject)).live
    except (Blocked, HermesctlError):
        return None  # step stop says what is wrong there


def _summary(canary: Transcript) -> str:
    first = canary.events[0].arrived - canary.submitted
    largest = max(event.size for event in canary.events)
    return (
        f"{how_many(len(canary.events), 'frame')}, largest {largest:,} B, "
        f"first after {first:.2f} s, closed properly"
    )


def _observed(canary: Transcript) -> str:
    kind = canary.head.get("content-type", "no stream")
    last = canary.events[-1].name if canary.events else "none"
    closing = "closing comment" if canary.closed else "no closing comment"
    return f"{kind}, {len(canary.events)} events, last {one_line(last, 60)}, {closing}"


def _trail(canary: Transcript) -> Trail:
    trail = Trail()
    source = "GET /v1/runs/{run_id}/events"
    trail.add(source, _observed(canary))
    names: dict[str, int] = {}
    for event in canary.events:
        names[event.name] = names.get(event.name, 0) + 1
    told = ", ".join(f"{one_line(name, 60)} × {count}" for name, count in names.items())
    trail.add(source, one_line(told, 500) or "no events")
    if canary.broken:
        trail.add(source, one_line(canary.broken[0].raw, 120))
    if canary.stream_error:
        trail.add(source, canary.stream_error.message)
    if len(canary.events) > 1:
        trail.add(
            "event timestamps",
            f"{_happened(canary):.2f} s, arrived within {_arrived(canary):.2f} s",
        )
    return trail


def _cut(canary: Transcript) -> str:
    after = f"after {how_many(len(canary.events), 'event')}"
    if canary.stream_error is not None:
        message = canary.stream_error.message
        return f"{message}, {after}" if canary.events else message
    in_frame = f", in the middle of a frame ({canary.remainder:,} B)" if canary.remainder else ""
    return f"the stream ended {after} without a terminal event{in_frame}"


def _happened(canary: Transcript) -> float:
    times = [event.timestamp for event in canary.events if event.timestamp is not None]
    return max(times) - min(times) if times else 0.0


def _arrived(canary: Transcript) -> float:
    return canary.events[-1].arrived - canary.events[0].arrived


def _spread_out(canary: Transcript) -> bool:
    """Whether the arrival alone proves that nothing is held back. That it all came at once proves
    nothing: a node whose first run keeps it from answering looks the same."""
    happened = _happened(canary)
    return happened >= _SPREAD_TO_JUDGE and _arrived(canary) >= happened * _HELD_BACK


PROBE = Probe(
    name="events",
    title="Event stream",
    proves=(
        "GET /v1/runs/{run_id}/events is text/event-stream, every frame parses, the terminal event "
        "comes last, the closing comment follows, and events arrive as they happen."
    ),
    causes=(
        Cause("the stream ends in the middle", _LINK),
        Cause("events are held back until the run's end", _NO_BUFFERING),
        Cause("frames cannot be read", "a proxy rewrites or compresses: ask the node directly"),
        Cause("events are missing", "another reader took them: one reader for each stream"),
    ),
    settle=probe,
    needs_runs=True,
)
