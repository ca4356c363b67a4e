"""What a node does today, pinned as a checklist that fails when it changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_ctl.api.answers import Answer
from hermes_ctl.checks.checklist import PinnedSettings
from hermes_ctl.checks.contract import ContractRecorder
from hermes_ctl.checks.model import Contract, Shape
from hermes_ctl.discovery import NodeFiles, read_node_files
from hermes_ctl.errors import HermesctlError, Undetermined

ROUTES = (
    "/health",
    "/health/detailed",
    "/v1/capabilities",
    "/v1/models",
    "/v1/skills",
    "/v1/toolsets",
    "/api/model/options",
)
"""The read routes whose answers depend on the release and its configuration, not on what people did."""

Get = Callable[[str], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Survey:
    """What costs nothing to learn of a node. `toolsets` are the enabled ones with their tools,
    `limit` is None where the node's files are not here."""

    version: str | None
    contract: Contract
    toolsets: dict[str, list[str]]
    limit: int | None


def files_in(home: Path | None, environment: Mapping[str, str]) -> NodeFiles | None:
    """The node's own files in its HERMES_HOME, None where that is not known or not here."""
    if home is None:
        return None
    files = read_node_files({**environment, "HERMES_HOME": str(home)})
    return files if files.found and not files.unreadable else None


async def survey(get: Get, files: NodeFiles | None) -> Survey:
    """Ask all of `ROUTES`. Raises `Undetermined` for a node that does not tell its features."""
    recorder = ContractRecorder()
    answers: dict[str, Answer] = {}
    for route in ROUTES:
        answers[route] = await get(route)
        recorder.answer(answers[route])
    contract = recorder.contract
    if not contract.features:
        raise Undetermined(
            "the node does not tell its features, so there is nothing to pin",
            hint="hermesctl capabilities",
        )
    return Survey(
        version=_version(answers["/health"]),
        contract=contract,
        toolsets=_enabled(answers["/v1/toolsets"]),
        limit=files.max_concurrent_runs.value if files else None,
    )


def frozen_checklist(seen: Survey, name: str) -> dict[str, Any]:
    """The checklist as the document that goes into a file."""
    pinned: dict[str, Any] = {}
    if seen.limit is not None:
        pinned["limit"] = seen.limit
    pinned["features"] = {k: v for k, v in seen.contract.features.items() if v is not None}
    pinned["endpoints"] = seen.contract.endpoints
    pinned["toolsets"] = seen.toolsets
    pinned["shapes"] = {
        key: {
            "content-type": shape.content_type,
            "headers": shape.headers,
            "paths": _joined(shape),
        }
        for key, shape in sorted(seen.contract.shapes.items())
    }
    steps = ("release", "routes", "readiness", "auth", "pinned")
    return {
        "schema": "hermesctl.checklist/1",
        "name": name,
        "title": "What the node did when this was frozen",
        "release": f"=={seen.version}" if seen.version else ">=0",
        "pinned": pinned,
        "step": [{"id": step} for step in steps],
    }


def pinned_contract(pinned: PinnedSettings) -> Contract:
    """The pinned part as a contract that another one can be compared with."""
    return Contract(
        features=pinned.features,
        endpoints=pinned.endpoints,
        shapes={
            key: Shape(
                status=int(key.split(" ")[2]),
                content_type=shape.content_type,
                headers=shape.headers,
                paths={path: types.split(" or ") for path, types in shape.paths.items()},
            )
            for key, shape in pinned.shapes.items()
        },
    )


def _joined(shape: Shape) -> dict[str, str]:
    return {path: " or ".join(types) for path, types in shape.paths.items()}


def _version(answer: Answer) -> str | None:
    document = _document(answer)
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else None


def _enabled(answer: Answer) -> dict[str, list[str]]:
    document = _document(answer)
    rows = document.get("data") if isinstance(document, dict) else document
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {
        str(row.get("name")): sorted(map(str, row.get("tools") or []))
        for row in found
        if row.get("enabled") is True
    }


def _document(answer: Answer) -> Any:
    try:
        return answer.json()
    except HermesctlError:
        return None
