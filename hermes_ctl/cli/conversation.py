"""`hermesctl sessions messages`: a session's conversation, read or exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl.cli import suggestions
from hermes_ctl.cli.asking import ask
from hermes_ctl.cli.exporting import written
from hermes_ctl.cli.options import NodeOptions, StreamView
from hermes_ctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hermes_ctl.api.client import Client
    from hermes_ctl.api.models import Message


def messages(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", autocompletion=suggestions.sessions, help="The id of a session."
        ),
    ],
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=1, help="Only the last so many.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Shorten nothing, on a terminal too.")] = False,
    export: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="FORM FILE", help="Write them to FILE as md, json or jsonl instead."),
    ] = None,
    *,
    node: NodeOptions,
    view: StreamView,
) -> None:
    """Show the messages of a session as a conversation, the oldest first.

    In a pipe nothing is shortened. -o json and -o jsonl give the server's own objects.

    Examples:

      hermesctl sessions messages s-42 --tail 10

      hermesctl sessions messages s-42 --export md talk.md

      hermesctl sessions messages s-42 -o jsonl | jq -r .content
    """
    from hermes_ctl.render.conversation import FORMS

    if export is not None and export[0] not in FORMS:
        raise UsageError(
            f"there is no form {export[0]!r} to export", hint=f"--export {'|'.join(FORMS)} FILE"
        )

    async def wanted(client: Client) -> AsyncIterator[Message]:
        from hermes_ctl.api import sessions

        if tail is not None:
            for message in await sessions.last_messages(client, session, tail):
                yield message
            return
        async for message in sessions.messages(client, session):
            yield message

    async def show(client: Client) -> None:
        if export is not None:
            count = await _export(wanted(client), *export)
            view.screen.note(f"{export[1]} has the conversation: {count} messages")
        else:
            await _show(wanted(client), view, raw=raw)

    ask(node, show)


async def _show(messages: AsyncIterator[Message], view: StreamView, *, raw: bool) -> None:
    from hermes_ctl.render.conversation import Conversation

    if view.format == "json":
        view.screen.document([message.raw async for message in messages])
        return
    conversation = Conversation(view.screen, raw=raw)
    async for message in messages:
        if view.format == "jsonl":
            view.screen.line(view.screen.json(message.raw))
        else:
            conversation.add(message)


async def _export(messages: AsyncIterator[Message], form: str, path: Path) -> int:
    """Write them to `path`; how many there were. JSON is one list."""
    from hermes_ctl.render.conversation import FORMS

    count = 0
    with written(path, "--export") as file:
        async for message in messages:
            if form == "json":
                file.write(",\n" if count else "[\n")
            file.write(FORMS[form](message))
            count += 1
        if form == "json":
            file.write("\n]\n" if count else "[]\n")
    return count
