"""`hermesctl stop`, `steer`, `approve` and `deny`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hermes_ctl.cli import loop, suggestions
from hermes_ctl.cli.asking import confirm
from hermes_ctl.cli.chosen import RunArgument, choose, journal
from hermes_ctl.cli.options import DocumentView, NodeOptions, StreamView
from hermes_ctl.cli.run_options import Deadline, FollowOptions
from hermes_ctl.errors import UsageError

if TYPE_CHECKING:
    from hermes_ctl.cli.controlling import Answer

RequestId = Annotated[
    str | None,
    typer.Option(
        "--request-id",
        metavar="ID",
        help="Which of several approvals. Before 0.22 a node goes by their order.",
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="Answer all that are waiting.")]


def stop(
    run: RunArgument = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the run has ended.")
    ] = True,
    deadline: Deadline = None,
    *,
    node: NodeOptions,
    view: DocumentView,
) -> int:
    """Stop a run, and wait until it has ended.

    Exit with 0 if it was stopped, with 1 if it ended otherwise before that, with 6 if it had ended
    already, with 8 if it still goes on at --deadline (30s).

    Examples:

      hermesctl stop

      hermesctl stop 8c81 --no-wait
    """
    from hermes_ctl.cli.controlling import stop_run

    with journal(view.screen) as known:
        chosen = choose(run, node, known)
        return loop.run(stop_run(known, chosen, view, wait=wait, deadline=deadline))


def steer(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] TEXT",
            autocompletion=suggestions.runs,
            help="The text; before it the run, by default the last one started here.",
        ),
    ],
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the run's end: was the text delivered?")
    ] = False,
    deadline: Deadline = None,
    *,
    node: NodeOptions,
    view: StreamView,
) -> int:
    """Say something to a run while it works.

    Accepted is not delivered: the text reaches the model with its next call, if there is one. What
    was left over is told at the end of the run, by `tail`, `wait`, `status`, or here with --wait.

    Examples:

      hermesctl steer "leave the logs alone"

      hermesctl steer 8c81 "use plan B" --wait
    """
    from hermes_ctl.cli.controlling import steer_run
    from hermes_ctl.cli.following import Following

    if deadline is not None and not wait:
        raise UsageError("--deadline needs --wait", hint="add --wait")
    if len(words) > 2:
        raise UsageError("steer takes a run and one text", hint="put the text in quotes")
    name, text = (None, words[0]) if len(words) == 1 else (words[0], words[1])
    following = Following(view, FollowOptions(stream=False, deadline=deadline)) if wait else None
    with journal(view.screen) as known:
        chosen = choose(name, node, known)
        return loop.run(
            steer_run(known, chosen, view, text, following, deadline),
            on_interrupt=following.interrupt if following else None,
        )


def approve(
    run: RunArgument = None,
    once: Annotated[bool, typer.Option("--once", help="Allow this command (default).")] = False,
    session: Annotated[
        bool, typer.Option("--session", help="Allow commands of this kind in this run.")
    ] = False,
    always: Annotated[
        bool,
        typer.Option("--always", help="Allow commands of this kind on the node from now on."),
    ] = False,
    request_id: RequestId = None,
    everything: Everything = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask about --always.")] = False,
    *,
    node: NodeOptions,
    view: DocumentView,
) -> int:
    """Allow what a run waits for.

    --always writes a rule into the node's configuration that holds for every run to come; it is
    asked about, or confirmed with --yes.

    Examples:

      hermesctl approve

      hermesctl approve 8c81 --session

      hermesctl approve 8c81 --request-id 00f32dad07674492956c323f4270d2f6
    """
    chosen = [name for name, on in (("session", session), ("always", always)) if on]
    if once + len(chosen) > 1:
        raise UsageError("--once, --session and --always exclude one another", hint="choose one")
    choice = chosen[0] if chosen else "once"
    if choice == "always":
        confirm(
            view.screen,
            "always writes a rule on the node that allows commands of this kind in every run; sure?",
            yes=yes,
        )
    return _answer(run, _answer_of(choice, request_id, everything), node, view)


def deny(
    run: RunArgument = None,
    request_id: RequestId = None,
    everything: Everything = False,
    *,
    node: NodeOptions,
    view: DocumentView,
) -> int:
    """Refuse what a run waits for.

    The run goes on without it.

    Examples:

      hermesctl deny

      hermesctl deny 8c81 --all
    """
    return _answer(run, _answer_of("deny", request_id, everything), node, view)


def _answer_of(choice: str, request_id: str | None, everything: bool) -> Answer:
    from hermes_ctl.cli.controlling import Answer

    if request_id is not None and everything:
        raise UsageError("--request-id and --all exclude one another", hint="leave one of them out")
    return Answer(choice, request_id, everything)


def _answer(run: str | None, answer: Answer, node: NodeOptions, view: DocumentView) -> int:
    from hermes_ctl.cli.controlling import answer_approval

    with journal(view.screen) as known:
        chosen = choose(run, node, known)
        return loop.run(answer_approval(known, chosen, view, answer))
