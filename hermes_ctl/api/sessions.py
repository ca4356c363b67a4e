"""Sessions: listed to the end, read message by message, created, changed, forked and deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from hermes_ctl.api.answers import Answer
from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Message, Session, WireModel, parse, rows
from hermes_ctl.api.offers import Offers, using
from hermes_ctl.api.paging import pages
from hermes_ctl.api.routes import (
    SESSION,
    SESSION_CHAT,
    SESSION_CREATE,
    SESSION_DELETE,
    SESSION_FORK,
    SESSION_MESSAGES,
    SESSION_MODEL,
    SESSION_UPDATE,
    SESSIONS,
)

PAGE: Final = 200
"""Sessions in one page: the most that Hermes gives (wire.md, 9)."""

MESSAGES_PAGE: Final = 100
"""Messages in one page. Hermes would give 500, but each may be megabytes long."""


class ModelLock(WireModel):
    """The model that a session is to use from now on. `runtime` has it, and where it came from."""

    session_id: str
    runtime: dict[str, Any] = Field(default_factory=dict)


async def sessions(
    client: Client,
    *,
    source: str | None = None,
    since: datetime | None = None,
    children: bool = False,
) -> AsyncIterator[Session]:
    """The node's sessions, the one that was active last first, each once.

    `since` leaves out what was active before, `children` adds the sessions of subagents.
    """
    query: dict[str, str | int] = {} if source is None else {"source": source}
    if children:
        query["include_children"] = "true"
    async with using(client, SESSIONS):
        async for page in pages(client, SESSIONS.path, size=PAGE, query=query):
            found = [parse(Session, row, page.answer) for row in page.rows]
            for session in found:
                if since is None or _is_since(session, since):
                    yield session
            if since is not None and _all_before(found, since):
                return


def _last_seen(session: Session) -> datetime | None:
    return session.last_active or session.ended_at or session.started_at


def _is_since(session: Session, since: datetime) -> bool:
    last = _last_seen(session)
    return last is not None and last >= since


def _all_before(page: list[Session], since: datetime) -> bool:
    """Whether the list, which is ordered by last activity in every release, has passed `since`.
    Pinned sessions stand outside of that order."""
    last = [_last_seen(session) for session in page if not session.pinned]
    return bool(last) and last[-1] is not None and last[-1] < since


async def session(client: Client, session_id: str) -> Session:
    async with using(client, SESSION):
        return await client.session(session_id)


async def messages(client: Client, session_id: str) -> AsyncIterator[Message]:
    """All messages, the oldest first. Up to 0.19 there is one page, of all."""
    async with using(client, SESSION_MESSAGES):
        async for page in pages(
            client,
            SESSION_MESSAGES.path,
            size=MESSAGES_PAGE,
            values={"session_id": session_id},
            query={"order": "oldest"},
        ):
            for row in page.rows:
                yield parse(Message, row, page.answer)


async def last_messages(client: Client, session_id: str, count: int) -> list[Message]:
    """The last `count` messages, the oldest of them first."""
    async with using(client, SESSION_MESSAGES):
        windows: list[list[Message]] = []
        missing = count
        while missing > 0:
            limit = min(missing, MESSAGES_PAGE)
            query: dict[str, str | int] = {"limit": limit, "offset": count - missing}
            page, paged = await _messages(client, session_id, {**query, "order": "latest"})
            if not paged:
                return page[-count:]
            windows.append(page)
            missing -= len(page)
            if len(page) < limit:
                break
        return [message for page in reversed(windows) for message in page]


async def _messages(
    client: Client, session_id: str, query: dict[str, str | int]
) -> tuple[list[Message], bool]:
    """The messages of one answer, and whether the server knows pages: 0.19 ignores all that is
    asked, and gives everything (wire.md, 9)."""
    values = {"session_id": session_id}
    answer = await client.expect("GET", SESSION_MESSAGES.path, values=values, query=query)
    document = answer.json()
    found = [parse(Message, row, answer) for row in rows(document, answer, "messages")]
    return found, isinstance(document, dict) and "pagination" in document


async def create(client: Client, fields: dict[str, Any]) -> Session:
    """Create a session of `id`, `title`, `model`, `system_prompt`, `source`; all may be left out."""
    async with using(client, SESSION_CREATE):
        return await _changed(client, "POST", SESSION_CREATE.path, fields)


async def update(client: Client, session_id: str, fields: dict[str, Any]) -> Session:
    """Change the fields that are named, such as `title`."""
    async with using(client, SESSION_UPDATE):
        return await _changed(client, "PATCH", SESSION.path, fields, session_id)


async def fork(client: Client, session_id: str, fields: dict[str, Any]) -> Session:
    """A copy of the session with its messages, of the `title` and `id` that are named. The source
    is marked as ended (`branched`) by that, and can still be used (wire.md, 9)."""
    async with using(client, SESSION_FORK):
        return await _changed(client, "POST", SESSION_FORK.path, fields, session_id)


async def delete(client: Client, session_id: str) -> None:
    async with using(client, SESSION_DELETE):
        await client.delete_session(session_id)


async def lock_model(client: Client, session_id: str, fields: dict[str, Any]) -> ModelLock:
    """Make the session use `model`, `provider`, `model_options`. Raises `NotOffered` before 0.20."""
    async with using(client, SESSION_MODEL):
        return await client.one(
            ModelLock, "POST", SESSION_MODEL.path, values={"session_id": session_id}, json=fields
        )


async def _changed(
    client: Client, method: str, route: str, fields: dict[str, Any], session_id: str | None = None
) -> Session:
    values = {"session_id": session_id} if session_id is not None else None
    return await client.one(Session, method, route, inside="session", values=values, json=fields)


async def chat(
    offered: Offers, session_id: str, body: dict[str, Any], headers: dict[str, str], timeout: float
) -> Answer:
    """One synchronous turn, answered when it is done; `timeout` in seconds. A refusal is raised."""
    async with offered.using(SESSION_CHAT):
        return await offered.client.expect(
            "POST",
            SESSION_CHAT.path,
            values={"session_id": session_id},
            json=body,
            headers=headers,
            timeout=timeout,
        )
