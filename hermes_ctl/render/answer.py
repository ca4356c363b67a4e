"""The streamed text of a run: made safe piece by piece, and compared with the output at the end."""

from __future__ import annotations

import hashlib

from hermes_ctl.secrets import possible_start, without_known
from hermes_ctl.text import visible


class SafeText:
    """Makes pieces of text neutral, so that what is split over two of them stays harmless.

    A control character is made visible by itself; what may be the beginning of a known key, and a
    carriage return that may belong to a newline, are held back until the next piece is here.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        text = without_known(self._held + piece)
        keep = possible_start(text) or int(text.endswith("\r"))
        self._held = text[len(text) - keep :]
        return visible(text[: len(text) - keep])

    def rest(self) -> str:
        """What was held back; there is no next piece."""
        held, self._held = self._held, ""
        return visible(held)


class Segment:
    """The text since the last tool call, as a digest: it may be large.

    The output of a run is this text without the blanks around it (wire.md, 0.4).
    """

    BEGINNING = 500
    """Characters kept of it: as many as `reasoning.available` repeats."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._blanks = ""
        self.beginning = ""

    def add(self, text: str) -> None:
        if not self.beginning:
            text = text.lstrip()
        body = text.rstrip()
        if not body:
            self._blanks += text if self.beginning else ""
            return
        if len(self.beginning) < self.BEGINNING:
            self.beginning = (self.beginning + self._blanks + body)[: self.BEGINNING]
        self._digest.update((self._blanks + body).encode("utf-8", "surrogatepass"))
        self._blanks = text[len(body) :]

    def is_output(self, output: str) -> bool:
        """Whether it is the whole of `output`."""
        whole = output.strip().encode("utf-8", "surrogatepass")
        return hashlib.sha256(whole).digest() == self._digest.digest()

    def repeats(self, text: str) -> bool:
        """Whether `text` says again how this segment begins."""
        return bool(text) and self.beginning.strip().startswith(text.strip()[: self.BEGINNING])
