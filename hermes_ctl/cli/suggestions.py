"""What tab completion offers for an argument: sessions, toolsets, jobs, runs, steps, checklists.

A shell waits for it, so that it is quick, silent, and never asks for anything: a node is given half
a second, its answer is kept for a while, and whatever goes wrong means that nothing is offered.
Names of servers stand in a command line then: only plain ones are offered.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from hermes_ctl import clock, config
from hermes_ctl.config import Node, NodeOptions
from hermes_ctl.contexts import Contexts, is_lab, load_contexts
from hermes_ctl.discovery import user_home

if TYPE_CHECKING:
    from hermes_ctl.api.client import Client

Offer = tuple[str, str]
"""A word, and what is said beside it."""

SECONDS: Final = 0.5
"""How long a node is waited for."""

_MOST: Final = 200
_PLAIN = re.compile(r"[\w.@%+,=-][\w.@%+,=:/-]{0,199}")
_NOT_PLAIN = re.compile(r"[^\w .,+-]+")


def sessions(context: typer.Context, incomplete: str) -> list[Offer]:
    """Ids of the node's latest sessions."""
    return _of_node(context, incomplete, _Lookup("sessions", 30.0, _ask_sessions))


def toolsets(context: typer.Context, incomplete: str) -> list[Offer]:
    """Names of the node's toolsets."""
    return _of_node(context, incomplete, _Lookup("toolsets", 3600.0, _ask_toolsets))


def jobs(context: typer.Context, incomplete: str) -> list[Offer]:
    """Ids of the node's scheduled jobs."""
    return _of_node(context, incomplete, _Lookup("jobs", 30.0, _ask_jobs))


def runs(incomplete: str) -> list[Offer]:
    """Ids of the runs in this machine's journal, the latest first."""
    with suppress(Exception):
        from hermes_ctl.runs.journal import Journal, journal_path

        path = journal_path(config.environment())
        with Journal(path, warn=lambda _: None) as journal:
            found = [(one.run_id or "", one.state) for one in journal.entries(limit=_MOST)]
        return _fitting(found, incomplete)
    return []


def steps(incomplete: str) -> list[Offer]:
    """The names of the check's steps."""
    from hermes_ctl.checks.probes import probe_names

    return _fitting([(name, "") for name in probe_names()], incomplete)


def checklists(incomplete: str) -> list[Offer]:
    """The names of the shipped checklists."""
    with suppress(Exception):
        from hermes_ctl.checks.checklist import shipped_names

        return _fitting([(name, "") for name in shipped_names()], incomplete)
    return []


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What a node is asked for, and for how many seconds its answer holds."""

    kind: str
    holds: float
    ask: Callable[[Client], Awaitable[list[Offer]]]


def _of_node(context: typer.Context, incomplete: str, lookup: _Lookup) -> list[Offer]:
    with suppress(Exception):
        node = _node(context.params)
        path = _cache_file(node, lookup.kind, config.environment())
        kept = _kept(path, lookup.holds)
        if kept is not None:
            return _fitting(kept, incomplete)
        try:
            found = asyncio.run(_asked(node, lookup))
        except Exception:
            return _fitting(_kept(path, None) or [], incomplete)
        _keep(path, found)
        return _fitting(found, incomplete)
    return []


def _fitting(offers: list[Offer], incomplete: str) -> list[Offer]:
    """The plain words that begin so. What is said beside them reaches the `eval` of a shell: it
    keeps nothing that means something there."""
    return [
        (word, _NOT_PLAIN.sub(" ", said)[:60].strip())
        for word, said in offers
        if word.startswith(incomplete) and _PLAIN.fullmatch(word)
    ]


def _node(typed: Mapping[str, Any]) -> Node:
    """The node that the options typed so far mean. No key is read from standard input, and no
    command is run for one."""
    known = {field.name for field in fields(NodeOptions)}
    options = NodeOptions(**{name: value for name, value in typed.items() if name in known})
    if options.key_file == "-":
        raise ValueError("standard input is the shell's")
    environment = config.environment()
    chosen = options.context or environment.get(config.CONTEXT_VARIABLE)
    if chosen is not None and is_lab(chosen):
        from hermes_ctl.cli import nodes

        return nodes.resolve(options)
    contexts = _without_commands(load_contexts(environment))
    return config.resolve_node(options, environment=environment, contexts=contexts)


def _without_commands(contexts: Contexts) -> Contexts:
    """The contexts without the keys that a command would have to be run for."""
    quiet = {
        name: replace(
            context,
            key=None if context.key and context.key.kind == "command" else context.key,
            profiles={
                profile: key for profile, key in context.profiles.items() if key.kind != "command"
            },
        )
        for name, context in contexts.contexts.items()
    }
    return replace(contexts, contexts=quiet)


async def _asked(node: Node, lookup: _Lookup) -> list[Offer]:
    from hermes_ctl.api.client import Client

    async with asyncio.timeout(SECONDS), Client(node) as client:
        return await lookup.ask(client)


async def _ask_sessions(client: Client) -> list[Offer]:
    return [(one.id, one.title or one.preview or "") for one in await client.sessions(limit=_MOST)]


async def _ask_toolsets(client: Client) -> list[Offer]:
    return [(one.name, one.description or "") for one in await client.toolsets()]


async def _ask_jobs(client: Client) -> list[Offer]:
    from hermes_ctl.api import jobs as api_jobs

    return [(one.id, one.name or "") for one in await api_jobs.jobs(client)]


def _cache_file(node: Node, kind: str, environment: Mapping[str, str]) -> Path:
    """A file for each address and key: what one key may see is not for another."""
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    folder = base if base.is_absolute() else user_home(environment) / ".cache"
    source = node.key.source if node.key else ""
    whose = sha256(f"{node.url}\n{source}".encode()).hexdigest()[:32]
    return folder / "hermesctl" / "completion" / f"{kind}-{whose}.json"


def _kept(path: Path, holds: float | None) -> list[Offer] | None:
    """What is in the file, unless it is older than `holds` seconds; None where there is nothing."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        document = json.loads(path.read_text("utf-8"))
        age = clock.now().timestamp() - float(document["at"])
        if holds is None or 0 <= age < holds:
            return [(str(word), str(said)) for word, said in document["offers"]]
    return None


def _keep(path: Path, offers: list[Offer]) -> None:
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{sha256(str(offers).encode()).hexdigest()[:8]}")
        temporary.write_text(
            json.dumps({"at": clock.now().timestamp(), "offers": offers[:_MOST]}), "utf-8"
        )
        temporary.chmod(0o600)
        temporary.replace(path)
