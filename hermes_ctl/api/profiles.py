"""Which profiles a node serves, and whether each is kept to its own key (contract, Profile selection).

What the releases do is measured (wire.md, 7): with multiplexing each named profile has its own key,
and the default one is refused there from 0.20 on, while 0.19 takes it everywhere; without
multiplexing a prefix is a 404 on 0.22, and up to 0.20.4 it is silently the default profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hermes_ctl.addresses import parse_address
from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.config import Node
from hermes_ctl.errors import HermesctlError
from hermes_ctl.secrets import Secret

DEFAULT: Final = "default"
NOBODY: Final = "hermesctl-no-such-profile"
"""A name that no node serves: what its prefix answers tells whether prefixes mean anything."""

_MODELS: Final = "/v1/models"


@dataclass(frozen=True, slots=True)
class ProfileState:
    """What one profile's prefix answered.

    `served` is None where it cannot be told. `own_key` and `default_key` say whether the prefix
    takes that key, None where it is not known here. `answers_as` is the name that the profile gives
    itself. A finding is a sentence on what is not as it should be.
    """

    name: str
    url: str
    served: bool | None
    own_key: bool | None
    default_key: bool | None
    answers_as: str | None
    findings: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return {
            "profile": self.name,
            "url": self.url,
            "served": self.served,
            "own_key_accepted": self.own_key,
            "default_key_accepted": self.default_key,
            "answers_as": self.answers_as,
            "findings": list(self.findings),
        }


async def profiles(default: Node, named: Sequence[Node]) -> list[ProfileState]:
    """The state of the default profile and of each of `named`, which all are the same server.

    Raises what keeps the default routes from being asked.
    """
    async with Client(default) as client:
        first = await _default(client, named)
        ignored = (await _ask(_prefixed(default, NOBODY), default.key)).status == 200
        states = [first]
        for node in named:
            states.append(await _ignored(default, node) if ignored else await _named(default, node))
        return states


async def _default(client: Client, named: Sequence[Node]) -> ProfileState:
    """The unprefixed routes: they take the default key, and no profile's."""
    node = client.node
    answer = await client.request("GET", _MODELS)
    if node.key is None and answer.status == 401:
        return ProfileState(DEFAULT, node.url, True, None, None, None)
    client.judge(answer)
    findings = []
    for other in named:
        own = _own_key(node, other)
        if own is not None and (await _ask(node, own)).status == 200:
            findings.append(f"the key of the profile {other.profile} opens the default profile")
    name = _name_in(answer)
    return ProfileState(DEFAULT, node.url, True, True, None, name, tuple(findings))


async def _ignored(default: Node, node: Node) -> ProfileState:
    """A prefix on a server that ignores prefixes."""
    answer = await _ask(node, default.key)
    finding = (
        "prefixes are ignored here: this is the default profile under another name, since "
        "gateway.multiplex_profiles is off (Hermes 0.22 and later answers 404)"
    )
    name = str(node.profile)
    return ProfileState(
        name, node.url, False, None, answer.status == 200, _name_in(answer), (finding,)
    )


async def _named(default: Node, node: Node) -> ProfileState:
    name, own = str(node.profile), _own_key(default, node)
    with_own = await _ask(node, own) if own is not None else None
    with_default = await _ask(node, default.key)
    answers = [answer for answer in (with_own, with_default) if answer is not None]
    if any(answer.status == 404 for answer in answers):
        finding = "not served: the node has no such profile, or multiplexing is off"
        return ProfileState(name, node.url, False, None, None, None, (finding,))
    states = {answer.status for answer in answers}
    opened = next((answer for answer in answers if answer.status == 200), None)
    answers_as = _name_in(opened) if opened else None
    takes_default = default.key is not None and with_default.status == 200
    return ProfileState(
        name,
        node.url,
        served=True if states <= {200, 401} else None,
        own_key=None if with_own is None else with_own.status == 200,
        default_key=None if default.key is None else takes_default,
        answers_as=answers_as,
        findings=tuple(_findings(name, with_own, takes_default, answers_as, states)),
    )


def _findings(
    name: str,
    with_own: Answer | None,
    takes_default: bool,
    answers_as: str | None,
    states: set[int],
) -> list[str]:
    found = []
    if takes_default:
        found.append("it takes the default profile's key: profiles are not kept apart")
    if with_own is not None and with_own.status == 401:
        found.append("it refuses its own key: is it the API_SERVER_KEY of this profile?")
    if answers_as not in (None, name):
        found.append(f"it answers as {answers_as}, not as {name}")
    odd = sorted(states - {200, 401})
    if odd:
        found.append(f"it answered {', '.join(map(str, odd))}")
    return found


async def _ask(node: Node, key: Secret | None) -> Answer:
    async with Client(node) as client:
        return await client.request("GET", _MODELS, key=key)


def _own_key(default: Node, node: Node) -> Secret | None:
    """The profile's own key; None where what would be sent is the default one."""
    return None if node.key is None or node.key == default.key else node.key


def _prefixed(node: Node, profile: str) -> Node:
    address = parse_address(node.url, "the node").with_profile(profile)
    return replace(node, url=address.url, profile=profile)


def _name_in(answer: Answer) -> str | None:
    """The name under which a profile lists itself as a model."""
    try:
        document = answer.json()
    except HermesctlError:
        return None
    data = document.get("data") if isinstance(document, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    name = first.get("id") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None
