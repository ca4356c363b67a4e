"""A file that appears whole or not at all: it grows beside its place, and takes that at the end."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hermes_ctl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Draft:
    """A file that will be at `place`; until then it is `temporary`, readable by its owner alone."""

    place: Path
    temporary: Path

    def publish(self) -> None:
        """Put it in its place. Raises `OSError`."""
        self.temporary.replace(self.place)

    def discard(self) -> None:
        """Leave nothing behind where it was not published."""
        self.temporary.unlink(missing_ok=True)


def draft(name: str | Path, what: str, *, instead: str) -> Draft:
    """A draft for where `name` leads, made at once. What is no ordinary file (/dev/stdout, a pipe)
    would be lost by being replaced, and is refused, as is what this process writes to already.

    `what` is said before the name in errors, `instead` is the hint of that refusal. Raises
    `UsageError`.
    """
    place = Path(name).resolve()
    if place.is_dir():
        raise UsageError(f"{what} {name} is a folder", hint="name a file")
    if str(name) == "-" or (place.exists() and not place.is_file()) or _is_ours(place):
        raise UsageError(
            f"{what} {name} is no ordinary file, which can be replaced as a whole", hint=instead
        )
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    except OSError as error:
        raise UsageError(
            f"{what} {name} cannot be written: {error.strerror}", hint="name another file"
        ) from None
    os.close(handle)
    return Draft(place, Path(temporary))


def _is_ours(path: Path) -> bool:
    """Whether it is what this process reads or writes already: /dev/stdout leads to an ordinary file
    where a shell redirects it."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return True
    return False
