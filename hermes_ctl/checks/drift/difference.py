"""One difference between two checks, and how much it matters."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from hermes_ctl.checks.model import ReportModel


class Level(StrEnum):
    """`breaking`: a client that worked may fail now. `risky`: it should be looked at. `compatible`:
    something was added, or works now that did not."""

    BREAKING = "breaking"
    RISKY = "risky"
    COMPATIBLE = "compatible"


class Difference(ReportModel):
    """One difference. Its `id` is stable from run to run, so that it can be waived by it.

    `where` is the route, event or step; `old` and `new` what was seen on each side, None for nothing.
    """

    id: str
    level: Level
    where: str
    summary: str
    old: str | None = None
    new: str | None = None
    consumers: list[str] = Field(default=[], description="Of bMAS, Hermes-Relay and hermesctl")
    waived: str | None = Field(default=None, description="The reason why it is accepted")

    @property
    def is_regression(self) -> bool:
        return self.level is Level.BREAKING and self.waived is None


_ORDER = (Level.BREAKING, Level.RISKY, Level.COMPATIBLE)


def ordered(differences: list[Difference]) -> list[Difference]:
    """The gravest first, then by id."""
    return sorted(differences, key=lambda one: (_ORDER.index(one.level), one.id))
