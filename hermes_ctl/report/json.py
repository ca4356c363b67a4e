"""The report as it is: one JSON document."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import lru_cache

from hermes_ctl.checks.model import Contract, FleetReport, Report
from hermes_ctl.render.console import json_text
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.secrets import redact, redact_values

Dump = Callable[[object], str]
_NODES = "nodes"
_CONTRACT = "contract"
_TEXTS = 10_000


def text(report: AnyReport) -> str:
    """The document `hermesctl.check/1`, `hermesctl.fleet/1` for several nodes, `hermesctl.gate/1`."""
    return "".join(pieces(report))


def pieces(report: AnyReport, dump: Dump | None = None) -> Iterator[str]:
    """The same, redacted, piece by piece: that of a fleet node by node, so that a thousand nodes are
    never in memory as JSON. `dump` makes text of a value, with an indent of 2."""
    dump = dump or (lambda value: json_text(value, indent=2))
    if isinstance(report, FleetReport):
        yield from _fleet(report, dump)
    else:
        yield dump(redact_values(report.document())) + "\n"


def _fleet(report: FleetReport, dump: Dump) -> Iterator[str]:
    head = report.model_dump(mode="json", by_alias=True, exclude={_NODES})
    yield dump(redact_values(head)).removesuffix("\n}") + f',\n  "{_NODES}": ['
    contracts = _Contracts(dump)
    separator = "\n    "
    for one in report.nodes:
        yield separator + contracts.text(one).replace("\n", "\n    ")
        separator = ",\n    "
    yield "\n  ]\n}\n"


class _Contracts:
    """Nodes share contracts, which are the largest part of a report: each is made text of once, and
    put into the place that the reports keep for it. They share most of their other texts, too."""

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._place = f"contract-{secrets.token_hex(16)}"
        self._known: dict[int, str] = {}
        self._mask = lru_cache(_TEXTS)(redact)

    def text(self, report: Report) -> str:
        """The redacted report of one node, its fields in their order."""
        rest = redact_values(
            report.model_dump(mode="json", by_alias=True, exclude={_CONTRACT}), self._mask
        )
        assert isinstance(rest, dict)
        names = [field.alias or name for name, field in type(report).model_fields.items()]
        rest[_CONTRACT] = self._place
        whole = self._dump({name: rest[name] for name in names})
        return whole.replace(f'"{self._place}"', self._contract(report.contract), 1)

    def _contract(self, contract: Contract) -> str:
        known = self._known.get(id(contract))
        if known is None:
            values = redact_values(contract.model_dump(mode="json", by_alias=True))
            known = self._dump(values).replace("\n", "\n  ")
            self._known[id(contract)] = known
        return known
