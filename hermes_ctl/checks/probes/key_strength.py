"""The node's key is long, and not a word that people guess."""

from __future__ import annotations

import math
from collections import Counter

from hermes_ctl.checks.deep import deep, odd, unsettled, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.secrets import NEW_KEY, lint_key

_BITS = 96
"""Bits that the key's own characters make likely: 24 hexadecimal digits."""

_MAKE = f"make a new one: {NEW_KEY}"


async def work(subject: Subject, trail: Trail) -> str:
    """What Hermes itself accepts is not strong: it starts with `change-me-local-dev` (wire.md, 0.25)."""
    key = subject.node.key
    if key is None:
        raise unsettled("no key is known for this node, so none can be judged")
    findings = lint_key(key)
    for finding in findings:
        trail.add(key.source, finding)
    if findings:
        raise wrong(findings[0].rstrip("."))
    bits = _bits(key.reveal())
    trail.add(key.source, f"about {bits:.0f} bits")
    if bits < _BITS:
        raise odd(f"the key has about {bits:.0f} bits; {_BITS} and more cannot be guessed")
    return f"about {bits:.0f} bits, and no placeholder"


def _bits(value: str) -> float:
    """The information in the key by the frequencies of its own characters: an upper bound for a
    word, about right for a random one."""
    counts = Counter(value).values()
    return -sum(count * math.log2(count / len(value)) for count in counts)


PROBE = Probe(
    name="key-strength",
    title="Key strength",
    proves=(
        "The key is one that Hermes starts with, is no placeholder and no quoted or pasted line, and "
        "has enough different characters not to be guessed."
    ),
    causes=(
        Cause("a placeholder from the documentation", _MAKE),
        Cause("too short, or a word", _MAKE),
    ),
    settle=deep("no placeholder, and not to be guessed", work, _MAKE),
    offline=True,
)
