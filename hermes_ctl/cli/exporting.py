"""A file that is written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from hermes_ctl.errors import Undetermined, UsageError


@contextmanager
def written(path: Path, what: str) -> Iterator[TextIO]:
    """A text file that becomes `path`, where that leads, when the block ends well, readable by its
    owner alone. What is no ordinary file (/dev/stdout, a pipe) would be lost by that, and is refused.

    Raises `UsageError` at once where it cannot be made, `Undetermined` where it cannot be written.
    """
    if path.is_dir():
        raise UsageError(f"{what}: {path} is a folder", hint="name a file")
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise UsageError(
            f"{what}: {path} is no ordinary file, which can be replaced as a whole",
            hint=f"name a file; without {what} it goes to standard output",
        )
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise UsageError(
            f"{what}: {path} cannot be written: {error.strerror}", hint="name another file"
        ) from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        temporary.replace(target)
    except OSError as error:
        raise Undetermined(f"{what}: {path} was not written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
