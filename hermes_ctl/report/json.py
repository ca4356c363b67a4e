"""The report as it is: one JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hermes_ctl.checks.model import Contract, FleetReport, Report
from hermes_ctl.render.console import json_text
from hermes_ctl.report.forms import AnyReport
from hermes_ctl.secrets import redact_values

Dump = Callable[[object], str]
_NODES = "nodes"
_CONTRACT = "contract"


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
    contracts = _Contracts()
    separator = "\n    "
    for one in report.nodes:
        yield separator + dump(contracts.document(one)).replace("\n", "\n    ")
        separator = ",\n    "
    yield "\n  ]\n}\n"


class _Contracts:
    """Nodes share contracts, which are the largest part of a report: each is redacted once."""

    def __init__(self) -> None:
        self._known: dict[int, object] = {}

    def document(self, report: Report) -> dict[str, Any]:
        """The report as plain, redacted values, its fields in their order."""
        document = redact_values(report.model_dump(mode="json", by_alias=True, exclude={_CONTRACT}))
        assert isinstance(document, dict)
        names = [field.alias or name for name, field in type(report).model_fields.items()]
        document[_CONTRACT] = self._contract(report.contract)
        return {name: document[name] for name in names}

    def _contract(self, contract: Contract) -> object:
        known = self._known.get(id(contract))
        if known is None:
            known = redact_values(contract.model_dump(mode="json", by_alias=True))
            self._known[id(contract)] = known
        return known
