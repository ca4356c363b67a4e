"""`hermesctl sessions chat`: one turn in a session."""

from __future__ import annotations

from typing import Annotated

import typer

from hermes_ctl.cli import suggestions
from hermes_ctl.cli.options import NodeOptions, StreamView
from hermes_ctl.cli.reading import text_argument
from hermes_ctl.cli.run import model_options
from hermes_ctl.cli.run_options import Deadline, OnApproval, ShowReasoning
from hermes_ctl.errors import UsageError


def chat(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", autocompletion=suggestions.sessions, help="The id of a session."
        ),
    ],
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE|-", help="What to say; - reads standard input.")
    ],
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model of this turn (0.20 and later).")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="The provider to take it from.")
    ] = None,
    model_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Such as reasoning_effort=high (repeatable)."),
    ] = None,
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Added to the system prompt.")
    ] = None,
    session_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Scope of long-term memory.")
    ] = None,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Wait for the whole answer in one piece.")
    ] = False,
    deadline: Deadline = None,
    on_approval: OnApproval = None,
    show_reasoning: ShowReasoning = False,
    *,
    node: NodeOptions,
    view: StreamView,
) -> int:
    """Say something in a session, and show the answer while it is written.

    The answer alone goes to standard output; the exit code is 0 if the turn succeeded and 1 if
    not. Ctrl-C stops the turn; Hermes up to 0.19 cannot stop it, and works on by itself.

    A node that does not offer streaming is asked for the answer in one piece.

    Examples:

      hermesctl sessions chat s-42 "What did we decide?"

      git diff | hermesctl sessions chat s-42 - --model other-model > review.md

      hermesctl sessions chat s-42 "Go on" -o jsonl
    """
    from hermes_ctl.cli.chatting import Chatting
    from hermes_ctl.runs.turns import TurnRequest

    text = text_argument(message, "MESSAGE")
    if not text.strip():
        raise UsageError("there is nothing to say", hint="hermesctl sessions chat SESSION MESSAGE")
    request = TurnRequest(
        session_id=session,
        message=text,
        model=model,
        provider=provider,
        model_options=model_options(model_option or []),
        instructions=instructions,
        session_key=session_key,
    )
    chatting = Chatting(
        view, request, node, stream=not no_stream, rule=on_approval, show_reasoning=show_reasoning
    )
    return chatting.run(deadline)
