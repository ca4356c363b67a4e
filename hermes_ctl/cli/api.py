"""`hermesctl api`: any route of a node, authenticated, as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hermes_ctl.cli.asking import ask
from hermes_ctl.cli.exchange import Request, request_of
from hermes_ctl.cli.options import NodeOptions, View
from hermes_ctl.errors import UsageError

if TYPE_CHECKING:
    from hermes_ctl.api.answers import Answer
    from hermes_ctl.api.client import Client
    from hermes_ctl.api.events import EventStream, StreamItem

TURN_SECONDS: Final = 3600.0
"""How long the work of an agent is waited for where no --timeout was typed."""


def command(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="GET, POST, PATCH, DELETE, ...")],
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The path, such as /v1/models, or its whole URL.")
    ],
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            "-f",
            metavar="KEY=VALUE",
            help="A field of the body, or of the query of a GET; JSON where it is (repeatable).",
        ),
    ] = None,
    raw_fields: Annotated[
        list[str] | None,
        typer.Option(
            "--raw-field", metavar="KEY=TEXT", help="A field that is text, whatever it is."
        ),
    ] = None,
    input: Annotated[
        str | None, typer.Option("--input", metavar="FILE|-", help="The body, as it is.")
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME: VALUE|@FILE", help="A header (repeatable)."),
    ] = None,
    include: Annotated[
        bool, typer.Option("--include", "-i", help="Show status and headers of the answer too.")
    ] = False,
    paginate: Annotated[
        bool, typer.Option("--paginate", help="All pages of a list, one object a line.")
    ] = False,
    query: Annotated[
        str | None,
        typer.Option("--query", metavar="JMESPATH", help="Show this part of the JSON alone."),
    ] = None,
    no_key: Annotated[
        bool, typer.Option("--no-key", help="Send no key, to a dashboard for example.")
    ] = False,
    *,
    node: NodeOptions,
    view: View,
) -> None:
    """Ask any route, with the node's key and profile prefix.

    A body is sent as JSON, an event stream comes as JSON lines. In a pipe the answer's bytes come
    as they are. The exit code follows the status: 4 for 401, 5 for 404, 6 for 409, 7 for 429, ...

    The work of an agent (chat completions, responses, session chat) is waited for up to an hour,
    all else for --timeout. Secrets in a header belong into a file: -H @FILE.

    Examples:

      hermesctl api GET /v1/models --query 'data[].id'

      hermesctl api GET /api/sessions -f source=cli --paginate

      hermesctl api POST /v1/responses -f input=Hi --query id

      hermesctl api POST /v1/responses -f input=Hi -f stream=true --query delta

      hermesctl api PATCH /api/sessions/s-42 -f archived=true

      hermesctl api GET /api/status -u http://node1:9119 --no-key
    """
    select = _selector(query)
    request = request_of(method, path, fields or (), raw_fields or (), input, headers or ())
    if paginate and (request.method != "GET" or include):
        raise UsageError("--paginate goes with GET, and without -i", hint="leave one of them out")
    shown = _Shown(view, select, include=include)

    async def send(client: Client) -> None:
        place = request.within(client.node)
        if paginate:
            await _paginate(client, place, shown, key=not no_key)
        else:
            await _exchange(client, place, shown, key=not no_key, patient=node.timeout is None)

    ask(node, send)


async def _exchange(
    client: Client, request: Request, shown: _Shown, *, key: bool, patient: bool
) -> None:
    from hermes_ctl.api.routes import route_of
    from hermes_ctl.api.transport import OWN_KEY

    route = route_of(request.method, request.route)
    timeout = TURN_SECONDS if patient and route is not None and route.turn else None
    sent = OWN_KEY if key else None
    exchange = client.exchange(
        request.method,
        request.path,
        content=request.body,
        headers=request.headers,
        key=sent,
        timeout=timeout,
    )
    async with exchange as (stream, answer):
        shown.head(answer)
        if stream is not None:
            await shown.stream(stream)
            return
        shown.whole(answer)
        client.judge(answer, key=sent)


async def _paginate(client: Client, request: Request, shown: _Shown, *, key: bool) -> None:
    from hermes_ctl.api.paging import pages
    from hermes_ctl.api.transport import OWN_KEY

    query = dict(request.query)
    size = query.pop("limit", "100")
    if not size.isdecimal() or int(size) < 1:
        raise UsageError(f"limit={size} is no size of a page", hint="-f limit=200")
    found = pages(
        client,
        request.route,
        size=int(size),
        query=query,
        headers=request.headers,
        key=OWN_KEY if key else None,
    )
    async for page in found:
        for row in page.rows:
            shown.value(row)


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where an answer goes: whole, or what `select` makes of it."""

    view: View
    select: Callable[[Any], Any] | None
    include: bool

    def head(self, answer: Answer) -> None:
        if self.include:
            lines = [f"HTTP {answer.status}", *(f"{k}: {v}" for k, v in answer.headers.items())]
            self.view.screen.line("\n".join([*lines, ""]))

    def whole(self, answer: Answer) -> None:
        """The body: its bytes in a pipe; on a terminal as JSON or text that is safe there."""
        screen = self.view.screen
        if self.select is not None and 200 <= answer.status < 300:
            self._selected(self.select(answer.json()), indent=True)
        elif not screen.is_terminal:
            screen.pass_through(answer.body)
        elif answer.content_type.endswith("json") and answer.body:
            screen.document(answer.json())
        elif answer.body.isascii() or answer.content_type.startswith("text/"):
            screen.line(answer.body.decode("utf-8", "replace").rstrip("\n"))
        else:
            kind = answer.content_type or "no known type"
            screen.note(f"{len(answer.body):,} bytes of {kind}: redirect them into a file")

    async def stream(self, stream: EventStream) -> None:
        async for item in stream:
            self._item(item)

    def value(self, value: Any) -> None:
        """One of many JSON values, on a line."""
        if self.select is None:
            self.view.screen.json_line(value)
        else:
            self._selected(self.select(value), indent=False)

    def _item(self, item: StreamItem) -> None:
        """An event as one line; its name is put in where only its `event:` line has it."""
        from hermes_ctl.api.events import BrokenFrame, Event

        if isinstance(item, Event):
            named = item.name == "message" or "event" in item.data
            self.value(item.data if named else {"event": item.name, **item.data})
        elif isinstance(item, BrokenFrame) and item.raw != "[DONE]":
            self.value({"data": item.raw, "problem": item.problem})

    def _selected(self, value: Any, *, indent: bool) -> None:
        """Text as it is, without quotes; nothing for nothing, among many; else JSON."""
        screen = self.view.screen
        if isinstance(value, str):
            screen.line(value)
        elif indent:
            screen.document(value)
        elif value is not None:
            screen.json_line(value)


def _selector(query: str | None) -> Callable[[Any], Any] | None:
    """What `--query` selects from a JSON value. Raises `UsageError` for an expression that is none."""
    if query is None:
        return None
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        compiled = jmespath.compile(query)
    except JMESPathError as error:
        raise UsageError(
            f"--query {query!r} is no JMESPath expression: {' '.join(str(error).split())}",
            hint="for example 'data[].id' or 'choices[0].message.content'; see jmespath.org",
        ) from None

    def select(value: Any) -> Any:
        try:
            return compiled.search(value)
        except JMESPathError as error:
            raise UsageError(
                f"--query {query!r} does not fit the answer: {' '.join(str(error).split())}",
                hint="look at the whole answer first, without --query",
            ) from None

    return select
