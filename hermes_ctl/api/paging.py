"""Lists that come in pages, read to their end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.api.models import rows
from hermes_ctl.api.transport import OWN_KEY, OwnKey
from hermes_ctl.secrets import Secret

KNOWN_NAMES: Final = ("sessions", "messages", "jobs", "models", "skills", "toolsets")
"""Under what older servers put a list, besides `data` and `items`."""


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one answer that no page before had."""

    rows: list[Any]
    answer: Answer


async def pages(
    client: Client,
    route: str,
    *,
    size: int,
    values: Mapping[str, str] | None = None,
    query: Mapping[str, str | int] | None = None,
    headers: Mapping[str, str] | None = None,
    key: Secret | OwnKey | None = OWN_KEY,
) -> AsyncIterator[Page]:
    """The pages of a list that takes `limit` and `offset`, each row once.

    `has_more` is wrong from 0.20 on, and pinned sessions come on every page (wire.md, 0.18), so
    that the list ends where a page brings no new row, or is shorter than the limit that the server
    states. Where it states none, a page that has not just `size` rows is the last one: a longer one
    means that the server knows no pages, and gave everything (messages of 0.19).
    """
    seen: set[str] = set()
    offset = 0
    while True:
        asked = {**(query or {}), "limit": size, "offset": offset}
        answer = await client.expect(
            "GET", route, values=values, query=asked, headers=headers, key=key
        )
        document = answer.json()
        found = rows(document, answer, *KNOWN_NAMES)
        new = [row for row in found if _identity(row) not in seen]
        seen.update(identity for row in new if (identity := _identity(row)) is not None)
        yield Page(new, answer)
        stated = _stated_limit(document)
        is_last = len(found) != size if stated is None else len(found) < stated
        if not new or is_last:
            return
        offset += min(stated or size, len(found))


def _identity(row: Any) -> str | None:
    """What tells a row from another; None where nothing does."""
    identity = row.get("id") if isinstance(row, Mapping) else None
    return None if identity is None else f"{type(identity).__name__} {identity}"


def _stated_limit(document: Any) -> int | None:
    """How many rows a page holds, as the server says: in the list, or in its `pagination`."""
    if not isinstance(document, Mapping):
        return None
    pagination = document.get("pagination")
    holder = pagination if isinstance(pagination, Mapping) else document
    limit = holder.get("limit")
    return limit if isinstance(limit, int) and limit > 0 else None
