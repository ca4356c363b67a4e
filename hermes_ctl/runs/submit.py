"""Submits a run: journalled first, never twice, patient with a node at capacity.

A submission whose answer was lost is repeated only where the node advertises idempotent submission
(`runs_idempotency`, 0.22); elsewhere it is uncertain, and stays so (design.md, section 5;
field-notes 20).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import time
import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import RunAccepted, RunRequest
from hermes_ctl.durations import format_duration
from hermes_ctl.errors import (
    AtCapacity,
    AuthenticationFailed,
    HermesctlError,
    Interrupted,
    Redirected,
    ServerFailure,
    SubmissionUncertain,
    Undetermined,
    Unreachable,
    UsageError,
)
from hermes_ctl.runs.journal import Journal, Submission
from hermes_ctl.runs.recovery import content_text, prompt_digest
from hermes_ctl.text import one_line

BODY_LIMIT: Final = 10_000_000
"""Bytes of a request body that Hermes takes; a larger one reads as bad JSON (field-notes 24)."""

SESSION_KEY_LIMIT: Final = 256
SUBMISSIONS: Final = 3
"""Submissions in all to a node at capacity."""

PATIENCE: Final = 60.0
"""Seconds that a submission is given where nobody said otherwise: a gateway that has just started
stands still for its first run, and an answer that is lost cannot be asked for again."""

_LONGEST_WAIT: Final = 60.0
_FIRST_WAIT: Final = 1.0
_RESENDS: Final = 5


@dataclass(frozen=True, slots=True)
class Accepted:
    """A run that the node took: its id, its number in the journal, and what to warn of."""

    run_id: str
    number: int | None
    replayed: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubmitSettings:
    """`submissions` is how often a node at capacity is asked in all; `deadline` a monotonic time
    beyond which no wait begins; `timeout` bounds one submission, None leaves it to the node's
    own; `key_file` and `context` are for the journal."""

    submissions: int = SUBMISSIONS
    deadline: float | None = None
    timeout: float | None = None
    context: str | None = None
    key_file: str | None = None


def check_session_key(key: str) -> str:
    """`key`, if Hermes would take it (contract, Long-term memory scope). Raises `UsageError`."""
    if not 1 <= len(key) <= SESSION_KEY_LIMIT:
        raise UsageError(
            f"--session-key has {len(key)} characters", hint="it takes 1 to 256 characters"
        )
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise UsageError("--session-key holds a control character", hint="Hermes refuses those")
    if key != key.strip():
        raise UsageError("--session-key begins or ends with a space", hint="HTTP drops those")
    return key


def check_size(request: RunRequest) -> None:
    """Raises `UsageError` for a body that Hermes would not take, or that cannot be sent."""
    try:
        size = len(json.dumps(request.body(), ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise UsageError(
            "what was typed is not UTF-8 text",
            hint="convert it: iconv -t UTF-8; nothing was sent",
        ) from None
    if size > BODY_LIMIT:
        raise UsageError(
            f"the request is {size:,} bytes large; Hermes takes {BODY_LIMIT:,}",
            hint="give the node a file to read instead of its text; nothing was sent",
        )


class Submitter:
    """Submits to one node. `tell` gets a sentence for the one who waits."""

    def __init__(
        self,
        client: Client,
        journal: Journal,
        settings: SubmitSettings,
        tell: Callable[[str], None],
    ) -> None:
        self._client = client
        self._journal = journal
        self._settings = settings
        self._tell = tell
        self._given_up = asyncio.Event()

    def give_up(self) -> None:
        """Submit no more: a wait ends at once. A submission that is under way is seen to its end."""
        self._given_up.set()

    async def submit(self, request: RunRequest, *, session_key: str | None = None) -> Accepted:
        """Submit `request` once, in the end.

        Raises `UsageError` before anything is sent; `AtCapacity` after the last attempt;
        `SubmissionUncertain` where the run may or may not exist; otherwise what the answer means,
        and then there is no run.
        """
        check_size(request)
        if session_key is not None:
            check_session_key(session_key)
        idempotency_key = uuid.uuid4().hex if await self._is_idempotent() else None
        submission = self._submission(request, idempotency_key)
        number = self._journal.begin(submission)
        attempt = _Attempt(request, session_key, idempotency_key, number)
        try:
            answer = await self._until_taken(attempt)
        except (Unreachable, Redirected):
            self._journal.forget(number)
            raise
        except Undetermined as error:
            if _was_refused(error):
                self._journal.forget(number)
                raise
            raise self._uncertain(attempt, error) from error
        except Interrupted:
            self._journal.forget(number)
            raise
        except asyncio.CancelledError:
            self._journal.uncertain(number, "interrupted before the node answered")
            raise
        except HermesctlError:
            self._journal.forget(number)
            raise
        number = self._journal.known(number, answer.run_id, submission)
        return Accepted(answer.run_id, number, answer.replayed, tuple(_doubts(answer, session_key)))

    def _submission(self, request: RunRequest, idempotency_key: str | None) -> Submission:
        prompt = request.input if isinstance(request.input, str) else _last_text(request.input)
        node = self._client.node
        return Submission(
            url=node.url,
            node=node.name,
            profile=node.profile,
            context=self._settings.context,
            key_file=self._settings.key_file,
            prompt=prompt,
            prompt_sha256=prompt_digest(prompt),
            session_id=request.session_id,
            model=request.model,
            idempotency_key=idempotency_key,
        )

    async def _is_idempotent(self) -> bool:
        """Whether the node advertises it. A node that cannot be reached fails here, before
        anything was submitted; one whose capabilities are broken is taken at its least."""
        try:
            capabilities = await self._client.capabilities()
        except (Unreachable, AuthenticationFailed, Redirected):
            raise
        except HermesctlError:
            return False
        return capabilities.supports("runs_idempotency")

    async def _until_taken(self, attempt: _Attempt) -> RunAccepted:
        """The node's yes, after as many submissions as a node at capacity is given."""
        for count in range(1, self._settings.submissions + 1):
            try:
                return await self._once(attempt)
            except AtCapacity as error:
                wait = _wait(count, error.retry_after)
                if count == self._settings.submissions or not self._has_time(wait):
                    raise _full(error, count) from error
                self._tell(
                    f"the node is at capacity{_limit(error)}; trying again in "
                    f"{format_duration(wait)} ({count + 1} of {self._settings.submissions})"
                )
                if await self._was_given_up(wait):
                    raise Interrupted(signal.SIGINT, "interrupted; the node took no run") from error
        raise AssertionError("no submission was allowed")

    async def _once(self, attempt: _Attempt) -> RunAccepted:
        """One submission; where it is idempotent, sent again when its answer was lost."""
        resends = _RESENDS if attempt.idempotency_key else 0
        for count in range(resends + 1):
            try:
                return await self._client.submit_run(
                    attempt.request,
                    session_key=attempt.session_key,
                    idempotency_key=attempt.idempotency_key,
                    timeout=self._settings.timeout,
                )
            except Redirected:
                raise
            except Undetermined as error:
                lost = attempt.was_sent or not isinstance(error, Unreachable)
                attempt.was_sent = lost
                if count == resends or not lost or _was_refused(error):
                    raise
                wait = _wait(count + 1, None)
                if not self._has_time(wait):
                    raise
                self._tell(
                    f"the answer was lost ({one_line(error.message)}); asking again with the same "
                    "idempotency key, which cannot start a second run"
                )
                if await self._was_given_up(wait):
                    raise
        raise AssertionError("no request was allowed")

    async def _was_given_up(self, within: float) -> bool:
        """Wait so many seconds, or until nothing more is to be submitted."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._given_up.wait()
        return self._given_up.is_set()

    def _has_time(self, wait: float) -> bool:
        deadline = self._settings.deadline
        return wait <= _LONGEST_WAIT and (deadline is None or time.monotonic() + wait < deadline)

    def _uncertain(self, attempt: _Attempt, error: HermesctlError) -> SubmissionUncertain:
        self._journal.uncertain(attempt.number, error.message)
        return SubmissionUncertain(
            f"the run was sent, but the answer was lost: {error.message}; it may be running",
            hint="do not submit it again before you have looked: hermesctl runs finds it by its "
            "session, hermesctl health shows how many runs are active",
            url=error.url,
        )


@dataclass(slots=True)
class _Attempt:
    """One run on its way. `was_sent` says that the node may have got it."""

    request: RunRequest
    session_key: str | None
    idempotency_key: str | None
    number: int | None
    was_sent: bool = False


def _was_refused(error: HermesctlError) -> bool:
    """A 503 of Hermes' own says that it takes no runs now; every other 5xx leaves it open, as a
    proxy between may have passed the request on."""
    return isinstance(error, ServerFailure) and error.code == "gateway_draining"


def _wait(count: int, retry_after: float | None) -> float:
    """Seconds to wait: what the server asked for, at least the backoff, with jitter on top, so that
    many clients do not come back at once."""
    least = max(retry_after or 0.0, _FIRST_WAIT * 2.0 ** (count - 1))
    return least * random.uniform(1.0, 1.25)


def _limit(error: AtCapacity) -> str:
    if error.limit is None:
        return ""
    return f" (its limit is {error.limit} run{'' if error.limit == 1 else 's'})"


def _full(error: AtCapacity, count: int) -> AtCapacity:
    """The node's 429, with what was tried and when it wants to be asked again."""
    times = "once" if count == 1 else f"{count} times"
    later = ""
    if error.retry_after:
        later = f"; it asks to come back in {format_duration(error.retry_after)}"
    return AtCapacity(
        f"the node is at capacity{_limit(error)}: it was asked {times}{later}. {error.message}",
        status=error.status,
        code=error.code,
        hint=error.hint,
        url=error.url,
        retry_after=error.retry_after,
        limit=error.limit,
    )


def _doubts(answer: RunAccepted, session_key: str | None) -> list[str]:
    doubts = []
    if session_key is not None and answer.session_key_echo != session_key:
        echo = answer.session_key_echo
        seen = "no session key" if echo is None else f"the session key {one_line(echo, 80)!r}"
        doubts.append(
            f"the node echoed {seen} instead of the one that was sent: its memory may go elsewhere"
        )
    return doubts


def _last_text(messages: list[dict[str, object]]) -> str:
    return content_text(messages[-1].get("content")) if messages else ""


def with_deadline(settings: SubmitSettings, seconds: float | None) -> SubmitSettings:
    """`settings` with a deadline that many seconds from now."""
    if seconds is None:
        return settings
    return replace(settings, deadline=time.monotonic() + seconds)
