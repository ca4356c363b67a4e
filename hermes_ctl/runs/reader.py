"""Reads a run's event stream, once, and says how that ended.

Hermes up to 0.20.4 has one reader for each stream and destroys it when that reader leaves, so the
stream is never opened again there. 0.22 numbers its events and replays them: only where numbers
were seen is it opened again, behind the last one (wire.md, 0.1, 0.2 and 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from hermes_ctl.api.client import Client
from hermes_ctl.api.events import BrokenFrame, Comment, Event, EventStream
from hermes_ctl.errors import FrameTooLarge, HermesctlError, NoAnswer, NotFound
from hermes_ctl.runs.result import STATE_OF_EVENT

SILENCE: Final = 75.0
"""Seconds without a byte after which the link is dead: keepalives come every 30 (field-notes 11)."""

_REOPENINGS: Final = 5
_FIRST_PAUSE: Final = 0.2
_OPENING_COMMENT: Final = "open"


@dataclass(frozen=True, slots=True)
class StreamOver:
    """No more events will come. `problem` says why, None where the run's last event was seen."""

    problem: str | None


@dataclass(frozen=True, slots=True)
class StreamResumed:
    """The stream was lost and opened again behind the last event: nothing is missing."""

    problem: str


ReadItem = Event | BrokenFrame | StreamOver | StreamResumed


class Reader:
    """Puts each event of the run's stream, and at last a `StreamOver`.

    `silence` is in seconds. It raises nothing: what goes wrong with a stream is no failure of
    the run's.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        put: Callable[[ReadItem], Awaitable[None]],
        silence: float,
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._put = put
        self._silence = silence
        self._last_id = ""
        self._lost: str | None = None
        self._replays = False
        self._terminal = False
        self._progress = False

    async def read(self) -> None:
        reopenings = 0
        while True:
            self._progress = False
            problem, final = await self._once()
            if self._terminal:
                await self._put(StreamOver(None))
                return
            reopenings = 0 if self._progress else reopenings
            if final or not self._replays or reopenings == _REOPENINGS:
                await self._put(StreamOver(problem))
                return
            await asyncio.sleep(_FIRST_PAUSE * 2**reopenings)
            reopenings += 1
            self._lost = problem

    async def _once(self) -> tuple[str, bool]:
        """Why the stream ended, and whether it is useless to open it again."""
        try:
            async with self._client.events(
                self._run_id,
                last_event_id=self._last_id or None,
                silence=self._silence,
                timeout=self._silence,
            ) as stream:
                if self._lost is not None:
                    await self._put(StreamResumed(self._lost))
                    self._lost = None
                await self._pass_on(stream)
                return _end_of(stream), False
        except NotFound:
            return "the server has none for this run: it was read already, or nobody read it", True
        except NoAnswer:
            return f"it was silent for {self._silence:g} s", False
        except FrameTooLarge as error:
            return error.message, True
        except HermesctlError as error:
            return error.message, False

    async def _pass_on(self, stream: EventStream) -> None:
        async for item in stream:
            if isinstance(item, Comment):
                self._replays = self._replays or item.text == _OPENING_COMMENT
                continue
            if isinstance(item, Event):
                if item.event_id and not self._is_new(item):
                    continue
                self._progress = True
                self._terminal = self._terminal or item.name in STATE_OF_EVENT
            await self._put(item)

    def _is_new(self, event: Event) -> bool:
        """Whether a numbered event was not passed on yet; it is the last one from now on."""
        self._replays = True
        known, number = self._last_id, event.event_id
        if known.isdecimal() and number.isdecimal() and int(number) <= int(known):
            return False
        self._last_id = number
        return True


def _end_of(stream: EventStream) -> str:
    if stream.remainder:
        return "it ended in the middle of an event"
    if stream.closed:
        return (
            "the server closed it before the run's last event: another reader may have taken that"
        )
    return "it ended before the run's last event"
