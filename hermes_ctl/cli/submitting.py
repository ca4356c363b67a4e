"""Submits the run that was typed, and sees it through where that was asked for."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import RunRequest
from hermes_ctl.cli import loop, nodes
from hermes_ctl.cli.chosen import context_of, journal, kept_key_file
from hermes_ctl.cli.following import Following
from hermes_ctl.cli.options import NodeOptions
from hermes_ctl.cli.run_options import FollowOptions
from hermes_ctl.config import Node
from hermes_ctl.errors import ExitCode
from hermes_ctl.render.views import StreamView
from hermes_ctl.runs.journal import Journal
from hermes_ctl.runs.submit import PATIENCE, Accepted, SubmitSettings, Submitter


@dataclass(frozen=True, slots=True)
class Task:
    """A run to be submitted. `keep` says whether this machine's journal is to know of it."""

    request: RunRequest
    session_key: str | None
    node: NodeOptions
    view: StreamView
    keep: bool

    def submit(self) -> int:
        """Submit, and print the run's id."""
        node = nodes.resolve(self.node)
        with journal(self.view.screen, enabled=self.keep) as kept:
            accepted = loop.run(self._submitted(node, kept))
        screen = self.view.screen
        if self.view.format == "text":
            screen.line(accepted.run_id)
            return ExitCode.YES
        document = {
            "run_id": accepted.run_id,
            "status": "started",
            "replayed": accepted.replayed,
            "session_id": self.request.session_id,
            "url": node.url,
            "warnings": list(accepted.warnings),
        }
        if self.view.format == "json":
            screen.document(document)
        else:
            screen.json_line(document)
        return ExitCode.YES

    def see_through(self, options: FollowOptions) -> int:
        """Submit, and follow the run to its end; its exit code."""
        node = nodes.resolve(self.node)
        following = Following(self.view, options)
        with journal(self.view.screen, enabled=self.keep) as kept:
            return loop.run(
                self._followed(node, kept, following, options.deadline),
                on_interrupt=following.interrupt,
                leaving_hint=following.leaving_hint,
            )

    async def _submitted(self, node: Node, kept: Journal) -> Accepted:
        async with Client(node) as client:
            return await self._accepted(self._submitter(client, kept, None))

    async def _followed(
        self, node: Node, kept: Journal, following: Following, seconds: float | None
    ) -> int:
        began = time.monotonic()
        async with Client(node) as client:
            submitter = self._submitter(client, kept, seconds)
            following.submitter = submitter
            accepted = await self._accepted(submitter)
            left = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
            return await following.follow(
                client,
                kept,
                accepted.run_id,
                number=accepted.number,
                accepted=True,
                deadline=left,
                about=self._about(),
            )

    def _about(self) -> str:
        session = f"session {self.request.session_id}  " if self.request.session_id else ""
        return f"{session}model {self.request.model or 'default'}"

    async def _accepted(self, submitter: Submitter) -> Accepted:
        accepted = await submitter.submit(self.request, session_key=self.session_key)
        for warning in accepted.warnings:
            self.view.screen.warn(warning)
        return accepted

    def _submitter(self, client: Client, kept: Journal, seconds: float | None) -> Submitter:
        node = client.node
        patience = PATIENCE if node.sources.get("timeout") == "default" else None
        settings = SubmitSettings(
            deadline=None if seconds is None else time.monotonic() + seconds,
            timeout=patience,
            context=context_of(node, self.node),
            key_file=kept_key_file(self.node),
        )
        return Submitter(client, kept, settings, self.view.screen.note)
