"""How nodes were chosen from many, as it was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermes_ctl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Choice:
    """How nodes were chosen from many: by group, by label, all of them; from which inventory, the
    configuration file where it is None."""

    groups: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    everything: bool = False
    inventory: str | None = None

    @property
    def by_kind(self) -> bool:
        return bool(self.groups or self.labels or self.everything)


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """Which nodes of many are checked, how many at once, and how often.

    None is the default; `interval` is in seconds, None: once; `command` runs when a verdict changes.
    """

    choice: Choice = Choice()
    jobs: int | None = None
    interval: float | None = None
    command: str | None = None

    @property
    def of_many(self) -> bool:
        """Whether many nodes are meant, however many there turn out to be."""
        return self.choice.by_kind or self.choice.inventory is not None


def parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """`K=V` each. Raises `UsageError` for anything else, and for a label that is wanted twice."""
    labels: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise UsageError(f"--label {text!r} is not K=V", hint="for example --label site=lab")
        if labels.setdefault(name, value) != value:
            raise UsageError(f"no node has two values of the label {name!r}", hint="give it once")
    return labels
