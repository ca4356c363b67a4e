"""Profiles are apart: each has its own key, and a prefix leads to no other profile."""

from __future__ import annotations

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.checks.deep import deep, odd, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.config import Node

_MODELS = "/v1/models"
_UNKNOWN = "hermesctl-no-such-profile"
_RELEASE = "install 0.20 or later: there each profile has its own key"
_UNMULTIPLEXED = "up to 0.20.4 any prefix serves the default profile while multiplexing is off"
_MULTIPLEX = "turn on gateway.multiplex_profiles, or use no prefix here; 0.22 refuses it by itself"


async def work(subject: Subject, trail: Trail) -> str:
    """A prefix that nobody has, and, where other profiles and their keys are known, each key on
    each side."""
    if subject.node.profile is None:
        await _unknown_prefix(subject, trail)
    if not subject.settings.profiles:
        return "a prefix of nobody's is refused; no other profile is known here"
    for node in subject.settings.profiles:
        await _apart(subject, trail, node)
    names = ", ".join(node.profile or node.name for node in subject.settings.profiles)
    return f"{names} and the default profile each take their own key alone"


async def _unknown_prefix(subject: Subject, trail: Trail) -> None:
    answer = await subject.client.request("GET", f"/p/{_UNKNOWN}{_MODELS}")
    trail.add("GET /p/{unknown}/v1/models", f"{answer.status} {answer.content_type}")
    refused = answer.status == 404
    value = "refused" if refused else "answered by the default profile"
    subject.recorder.behaviour("prefix of an unknown profile", value)
    if answer.status >= 500:
        raise wrong(f"a prefix of nobody's answers {answer.status}")
    if not refused:
        raise odd(f"a prefix of nobody's is {value}: {_UNMULTIPLEXED}", _MULTIPLEX)


async def _apart(subject: Subject, trail: Trail, other: Node) -> None:
    own = await _asked(other, other)
    trail.add(f"{other.profile}, its own key", str(own.status))
    crossed = await _asked(other, subject.node)
    trail.add(f"{other.profile}, the default profile's key", str(crossed.status))
    back = await _asked(subject.node, other)
    trail.add(f"the default profile, the key of {other.profile}", str(back.status))
    value = "refused" if crossed.status == 401 else f"answered with {crossed.status}"
    subject.recorder.behaviour("key of the default profile on another", value)
    if back.status != 401:
        raise wrong(f"the key of {other.profile} opens the default profile ({back.status})")
    if crossed.status != 401:
        raise wrong(f"the default profile's key opens {other.profile} ({crossed.status})")
    if own.status != 200:
        raise wrong(f"the key of {other.profile} is refused on its own prefix ({own.status})")


async def _asked(node: Node, keyholder: Node) -> Answer:
    """`node` asked with the key of `keyholder`."""
    async with Client(node) as client:
        return await client.request("GET", _MODELS, key=keyholder.key)


PROBE = Probe(
    name="profiles",
    title="Profile isolation",
    proves=(
        "A prefix that no profile has is refused, and each profile takes its own key alone: not "
        "the default profile's key, and the default profile not its."
    ),
    causes=(
        Cause("the default key opens a named profile: 0.19 with multiplexing on", _RELEASE),
        Cause(f"any prefix is answered: {_UNMULTIPLEXED}", _MULTIPLEX),
    ),
    settle=deep("each profile takes its own key alone; no other prefix answers", work, _RELEASE),
    deep=True,
)
