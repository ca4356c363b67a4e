"""`hermesctl run`: put work on a node."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_ctl.cli.options import NodeOptions, StreamView
from hermes_ctl.cli.run_options import (
    Deadline,
    FollowOptions,
    OnApproval,
    OnInterruptOption,
    Record,
    ShowReasoning,
)
from hermes_ctl.errors import UsageError

if TYPE_CHECKING:
    from hermes_ctl.api.models import RunRequest

STDIN = "-"


def command(
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT|-]",
            show_default=False,
            help="What is to be done; - reads it from stdin.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show the run; exit with its result.")
    ] = False,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="FILE", help="Read the prompt from FILE.")
    ] = None,
    instructions: Annotated[
        str | None,
        typer.Option(metavar="TEXT|@FILE", help="Added to the agent's system prompt."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model of this run.")] = None,
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Provider of this run.")
    ] = None,
    model_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Model option, such as reasoning_effort=high (repeatable)."
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Session that the run belongs to.")
    ] = None,
    session_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Scope of long-term memory, 1 to 256 characters."),
    ] = None,
    previous_response: Annotated[
        str | None, typer.Option(metavar="ID", help="Response to go on from.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Earlier messages, as a JSON list of role and content."),
    ] = None,
    no_journal: Annotated[
        bool, typer.Option("--no-journal", help="Keep nothing of this run on this machine.")
    ] = False,
    deadline: Deadline = None,
    on_approval: OnApproval = None,
    on_interrupt: OnInterruptOption = None,
    record: Record = None,
    show_reasoning: ShowReasoning = False,
    *,
    node: NodeOptions,
    view: StreamView,
) -> int:
    """Put work on a node: submit a run, with --follow see it through.

    Without --follow the run's id is printed and the run goes on by itself; `tail`, `wait` and
    `stop` find it again. With --follow the answer alone goes to standard output, the exit code is
    0 if the run succeeded and 1 if not; Ctrl-C stops the run, and so does --deadline.

    Examples:

      hermesctl run "Tidy the build folder" --follow

      hermesctl run - --follow --on-approval deny < task.txt > answer.txt

      hermesctl wait $(hermesctl run "Summarize the log of today")
    """
    typed = {
        "--deadline": deadline is not None,
        "--on-approval": on_approval is not None,
        "--on-interrupt": on_interrupt is not None,
        "--record": record is not None,
        "--show-reasoning": show_reasoning,
    }
    _check_follow(follow, typed)
    request = _request(
        input=_prompt(prompt, input_file, node),
        instructions=_text_or_file(instructions),
        model=model,
        provider=provider,
        model_options=model_options(model_option or []),
        session_id=session,
        previous_response_id=previous_response,
        conversation_history=_history(history),
    )
    from hermes_ctl.cli.submitting import Task

    task = Task(request, session_key, node, view, keep=not no_journal)
    if not follow:
        return task.submit()
    options = FollowOptions(
        deadline=deadline,
        stops_at_deadline=True,
        on_approval=on_approval,
        rule_in_pipe="fail",
        on_interrupt=on_interrupt or "stop",
        record=record,
        show_reasoning=show_reasoning,
    )
    return task.see_through(options)


def _check_follow(follow: bool, typed: dict[str, bool]) -> None:
    names = [name for name, is_typed in typed.items() if is_typed]
    if names and not follow:
        raise UsageError(
            f"{', '.join(names)} needs --follow: without it nobody is there when it matters",
            hint="add --follow",
        )


def _request(**fields: Any) -> RunRequest:
    from hermes_ctl.api.models import RunRequest

    return RunRequest(**fields)


def _prompt(prompt: str | None, file: Path | None, node: NodeOptions) -> str:
    """The prompt from where it was said to be. Raises `UsageError` for none, or for two."""
    if (prompt is None) == (file is None):
        raise UsageError(
            "give the prompt once: as PROMPT, as - for standard input, or by --input FILE",
            hint='hermesctl run "PROMPT"',
        )
    if file is not None:
        if str(file) == STDIN:
            raise UsageError("--input takes a file", hint="hermesctl run - reads standard input")
        text = _read(file, "--input")
    elif prompt == STDIN:
        if node.key_file == STDIN:
            raise UsageError("prompt and key cannot both come from standard input")
        if sys.stdin is None:
            raise UsageError("standard input is closed", hint="--input FILE reads a file")
        text = _decoded(sys.stdin.buffer.read(), "standard input")
    else:
        text = str(prompt)
    if not text.strip():
        raise UsageError("the prompt is empty", hint='hermesctl run "PROMPT"')
    return text


def _text_or_file(value: str | None) -> str | None:
    if value is None or not value.startswith("@"):
        return value
    return _read(Path(value[1:]), "--instructions")


def _read(path: Path, option: str) -> str:
    try:
        return _decoded(path.read_bytes(), f"{option} {path}")
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be read: {error.strerror}") from None


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{what} is not UTF-8 text (byte {error.start})", hint="convert it: iconv -t UTF-8"
        ) from None


def model_options(pairs: list[str]) -> dict[str, Any] | None:
    """`a.b=1` as {"a": {"b": 1}}: dots nest, values are JSON where they can be read as such."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        *parents, last = name.split(".")
        if not found or not all((*parents, last)):
            raise UsageError(
                f"--model-option {pair!r} is not KEY=VALUE",
                hint="--model-option reasoning_effort=high",
            )
        place = options
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise UsageError(f"--model-option {pair!r} needs an object where a value was given")
        place[last] = _json_or_text(value)
    return options or None


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _history(path: Path | None) -> list[dict[str, Any]] | None:
    """The messages in a file. Raises `UsageError` for anything that Hermes would not take."""
    if path is None:
        return None
    text = _read(path, "--history")
    try:
        messages = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--history {path} is not JSON: {error}") from None
    if not isinstance(messages, list):
        raise UsageError(f"--history {path} is not a list of messages", hint=_MESSAGES)
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not message.get("role") or "content" not in message:
            raise UsageError(
                f"--history {path}: message {number} has no role and content", hint=_MESSAGES
            )
    return messages


_MESSAGES = '[{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]'
