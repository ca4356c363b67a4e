"""`hermesctl sessions`: the conversations that a node keeps."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_ctl import clock
from hermes_ctl.cli import chat, conversation, suggestions
from hermes_ctl.cli.asking import ask, confirm
from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.options import ListView, NodeOptions, ResourceView, Selection, View
from hermes_ctl.durations import parse_duration
from hermes_ctl.errors import UsageError
from hermes_ctl.render.tables import Column, Table, Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hermes_ctl.api.client import Client
    from hermes_ctl.api.models import Session

app = group("The conversations that a node keeps.")

SessionId = Annotated[
    str,
    typer.Argument(
        metavar="SESSION", autocompletion=suggestions.sessions, help="The id of a session."
    ),
]
SessionIds = Annotated[
    list[str],
    typer.Argument(
        metavar="SESSION...", autocompletion=suggestions.sessions, help="Ids of sessions."
    ),
]
Title = Annotated[str | None, typer.Option(metavar="TEXT", help="Its title; titles are unique.")]
NewId = Annotated[str | None, typer.Option("--id", metavar="ID", help="Its id (made by the node).")]


def _moment(text: str) -> datetime:
    """`2h`, `7d`: so long ago; or a date or time in ISO 8601, local where it has no offset."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        pass
    try:
        return clock.now() - timedelta(seconds=parse_duration(text, "--since"))
    except (UsageError, OverflowError):
        raise UsageError(
            f"--since {text!r} is neither a time nor a duration",
            hint="for example 2h, 7d, 2026-11-30 or 2026-11-30T08:00:00Z",
        ) from None


@app.command("list")
def list_sessions(
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only from here: api_server, cli, slack, ...")
    ] = None,
    since: Annotated[
        Any,
        typer.Option(
            metavar="WHEN", parser=_moment, help="Only those active since: 2h, 7d, 2026-11-30."
        ),
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="The sessions of subagents too.")
    ] = False,
    *,
    selection: Selection,
    node: NodeOptions,
    view: ListView,
) -> None:
    """List all sessions, the one that was active last first.

    Examples:

      hermesctl sessions list --limit 20

      hermesctl sessions list --since 24h --sort -messages

      hermesctl sessions list --grep deploy -o name
    """
    from hermes_ctl.api import sessions

    wanted = selection.matcher(_TABLE)
    sheet = view.sheet(_TABLE)

    async def matching(client: Client) -> AsyncIterator[Session]:
        found = sessions.sessions(client, source=source, since=since, children=children)
        async for session in found:
            if wanted(session):
                yield session

    async def show(client: Client) -> None:
        if selection.sort is not None:
            for session in selection.ordered(_TABLE, [one async for one in matching(client)])[
                :limit
            ]:
                sheet.add(session)
            return
        shown = 0
        async for session in matching(client):
            sheet.add(session)
            shown += 1
            if shown == limit:
                return

    ask(node, show)
    sheet.close()


@app.command("show")
def show_session(session: SessionId, *, node: NodeOptions, view: ResourceView) -> None:
    """Show one session.

    Its model is that of its first run; a session that is new proves what a run used.

    Example: hermesctl sessions show api_1796038832_92c162f2
    """
    from hermes_ctl.api import sessions

    _show(ask(node, lambda client: sessions.session(client, session)), view)


app.command("messages")(conversation.messages)
app.command("chat")(chat.chat)


@app.command("create")
def create_session(
    id: NewId = None,
    title: Title = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model to use.")] = None,
    system_prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Its system prompt.")
    ] = None,
    *,
    node: NodeOptions,
    view: ResourceView,
) -> None:
    """Create an empty session.

    Example: hermesctl sessions chat "$(hermesctl sessions create -o name)" "Hello"
    """
    from hermes_ctl.api import sessions

    given = {"id": id, "title": title, "model": model, "system_prompt": system_prompt}
    fields = {name: value for name, value in given.items() if value is not None}
    _show(ask(node, lambda client: sessions.create(client, fields)), view)


@app.command("rename")
def rename_session(
    session: SessionId,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="The new title.")],
    *,
    node: NodeOptions,
    view: ResourceView,
) -> None:
    """Give a session another title. An empty one takes the title away.

    Other fields: hermesctl api PATCH /api/sessions/SESSION -f archived=true

    Example: hermesctl sessions rename s-42 "Release notes"
    """
    from hermes_ctl.api import sessions

    _show(ask(node, lambda client: sessions.update(client, session, {"title": title})), view)


@app.command("fork")
def fork_session(
    session: SessionId,
    title: Title = None,
    id: NewId = None,
    *,
    node: NodeOptions,
    view: ResourceView,
) -> None:
    """Copy a session with its messages, to go on from there in another way.

    Example: hermesctl sessions fork s-42 --title "Another way"
    """
    from hermes_ctl.api import sessions

    given = {"id": id, "title": title}
    fields = {name: value for name, value in given.items() if value is not None}
    _show(ask(node, lambda client: sessions.fork(client, session, fields)), view)
    view.screen.note(f"{session} is marked as branched by that; it can still be used")


@app.command("model")
def lock_model(
    session: SessionId,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model to use.")],
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="The provider to take it from.")
    ] = None,
    effort: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="How much to reason: low, medium, high.")
    ] = None,
    *,
    node: NodeOptions,
    view: ResourceView,
) -> None:
    """Lock the model of a session: its turns then use this one and no other (0.20 and later).

    Example: hermesctl sessions model s-42 other-model --provider custom
    """
    from hermes_ctl.api import sessions

    fields: dict[str, Any] = {"model": model}
    if provider is not None:
        fields["provider"] = provider
    if effort is not None:
        fields["model_options"] = {"reasoning_effort": effort}
    lock = ask(node, lambda client: sessions.lock_model(client, session, fields))
    known = {name: str(value) for name, value in lock.runtime.items() if isinstance(value, str)}
    view.resource(lock.session_id, lock.raw, {"session": lock.session_id, **known})


@app.command("delete")
def delete_sessions(
    sessions: SessionIds,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    node: NodeOptions,
    view: View,
) -> None:
    """Delete sessions with all their messages. Asks first.

    Up to Hermes 0.20.4 a session that a run is using comes back when the run ends.

    Example: hermesctl sessions delete s-42 --yes
    """
    from hermes_ctl.api.sessions import delete

    what = f"the session {sessions[0]}" if len(sessions) == 1 else f"{len(sessions)} sessions"
    confirm(view.screen, f"Delete {what} with all messages?", yes=yes)

    async def delete_all(client: Client) -> None:
        for session in sessions:
            await delete(client, session)
            view.screen.note(f"deleted {session}")

    ask(node, delete_all)


def _show(session: Session, view: ResourceView) -> None:
    view.resource(session.id, session.raw, _fields(session))


def _fields(session: Session) -> dict[str, Value]:
    """What is shown of one session: what is not known is left out."""
    fields: dict[str, Value] = {
        "id": session.id,
        "title": session.title,
        "source": session.source,
        "model": session.model,
        "started": session.started_at,
        "last active": session.last_active,
        "ended": session.ended_at,
        "end reason": session.end_reason,
        "messages": session.message_count,
        "tool calls": session.tool_call_count,
        "input tokens": session.input_tokens,
        "output tokens": session.output_tokens,
        "parent": session.parent_session_id,
        "pinned": session.pinned,
        "archived": session.archived,
    }
    return {name: value for name, value in fields.items() if value is not None}


_TABLE: Table[Session] = Table(
    columns=(
        Column("Id", lambda session: session.id),
        Column("Title", lambda session: session.title, free=True),
        Column("Model", lambda session: session.model),
        Column("Messages", lambda session: session.message_count, right=True),
        Column("Last active", lambda session: session.last_active or session.started_at),
        Column("Preview", lambda session: session.preview, free=True),
        Column("Source", lambda session: session.source, wide=True),
        Column("Started", lambda session: session.started_at, wide=True),
        Column("Ended", lambda session: session.ended_at, wide=True),
        Column("End reason", lambda session: session.end_reason, wide=True),
        Column("Tool calls", lambda session: session.tool_call_count, wide=True, right=True),
        Column("Input", lambda session: session.input_tokens, wide=True, right=True),
        Column("Output", lambda session: session.output_tokens, wide=True, right=True),
        Column("Parent", lambda session: session.parent_session_id, wide=True),
        Column("Pinned", lambda session: session.pinned, wide=True),
    ),
    name=lambda session: session.id,
    raw=lambda session: session.raw,
    empty="the node has no such session",
)
