"""`hermesctl capabilities` and `hermesctl health`: what a node says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_ctl.cli.asking import ask
from hermes_ctl.cli.options import DocumentView, ListView, NodeOptions, Selection
from hermes_ctl.render.tables import Column, Table, Value

if TYPE_CHECKING:
    from hermes_ctl.api.models import Capabilities, DetailedHealth


@dataclass(frozen=True, slots=True)
class Capability:
    """One line of the capabilities: a feature with its value, or a route."""

    kind: str
    name: str
    value: Any
    since: str
    command: str | None

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "value": self.value}


def capabilities(
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FEATURE", help="Exit with 1 unless the node offers this (repeatable)."
        ),
    ] = None,
    *,
    selection: Selection,
    node: NodeOptions,
    view: ListView,
) -> None:
    """Show what a node offers: features, and routes with the command for each.

    With -o json the answer is the server's own document. --require takes the names of features
    and of routes, and shows those alone.

    Examples:

      hermesctl capabilities --grep session

      hermesctl capabilities --require run_steer && echo it does
    """
    from hermes_ctl.api.offers import require_features

    names = tuple(require or ())
    found = ask(node, lambda client: require_features(client, names))
    if view.format == "json":
        view.screen.document(found.raw)
        return
    rows = [row for row in _capabilities(found) if not names or row.name in names]
    view.rows(_CAPABILITIES, selection.of(_CAPABILITIES, rows))


def _capabilities(found: Capabilities) -> Iterator[Capability]:
    from hermes_ctl.api.routes import FEATURES_SINCE, route_of

    for name, value in found.features.items():
        yield Capability("feature", name, value, FEATURES_SINCE.get(name, "0.19"), None)
    for name, endpoint in found.endpoints.items():
        known = route_of(endpoint.method, endpoint.path)
        yield Capability(
            "route",
            name,
            f"{endpoint.method} {endpoint.path}",
            known.since if known else "",
            known.command if known else f"api {endpoint.method} {endpoint.path}",
        )


def health(
    detailed: Annotated[
        bool, typer.Option("--detailed", help="The readiness checks too; needs the key.")
    ] = False,
    *,
    node: NodeOptions,
    view: DocumentView,
) -> int:
    """Show a node's health; exit with 1 unless it says ok.

    Without --detailed this only says that the server runs: no key is sent, and none is checked.
    Whether the node can work is what `hermesctl check` proves.

    Examples:

      hermesctl health && echo up

      hermesctl health --detailed -o json
    """
    from hermes_ctl.api import inventory

    if not detailed:
        seen = ask(node, lambda client: client.health())
        known = {"status": seen.status, "version": seen.version, "platform": seen.platform}
        view.show(seen.raw, known)
        return 0 if seen.status == "ok" else 1

    found = ask(node, inventory.detailed_health)
    view.show(found.raw, _details(found))
    return 0 if found.status == "ok" and not _not_ok(found) else 1


def _not_ok(found: DetailedHealth) -> list[str]:
    """The checks that are not ok; the server may call itself ok all the same."""
    checks = found.readiness.checks if found.readiness else {}
    return [name for name, check in checks.items() if check.status != "ok"]


def _details(found: DetailedHealth) -> Mapping[str, Value]:
    fields: dict[str, Value] = {
        "status": found.status,
        "version": found.version,
        "gateway state": found.gateway_state,
        "pid": found.pid,
        "active runs": found.active_api_runs,
    }
    for name, check in (found.readiness.checks if found.readiness else {}).items():
        more = ", ".join(f"{key} {value}" for key, value in (check.model_extra or {}).items())
        fields[name] = f"{check.status} ({more})" if more else check.status
    return fields


_CAPABILITIES: Table[Capability] = Table(
    columns=(
        Column("Kind", lambda row: row.kind),
        Column("Name", lambda row: row.name),
        Column("Value", lambda row: _shown(row.value), styles={"no": "dim"}),
        Column("Command", lambda row: row.command),
        Column("Since", lambda row: row.since, wide=True),
    ),
    name=lambda row: row.name,
    raw=lambda row: row.document(),
    empty="the node lists no such feature or route",
)


def _shown(value: Any) -> Value:
    """A feature's value in one cell: an object by whether it is supported or enabled."""
    if isinstance(value, dict):
        return bool(value.get("supported", value.get("enabled", False)))
    return value if isinstance(value, (bool, str, int, float)) else str(value)
