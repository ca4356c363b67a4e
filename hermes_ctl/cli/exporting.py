"""A file that is written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from hermes_ctl.drafts import draft
from hermes_ctl.errors import Undetermined


@contextmanager
def written(path: Path, what: str) -> Iterator[TextIO]:
    """A text file that becomes `path`, where that leads, when the block ends well, readable by its
    owner alone.

    Raises `UsageError` at once where it cannot be made, `Undetermined` where it cannot be written.
    """
    file = draft(
        path, f"{what}:", instead=f"name a file; without {what} it goes to standard output"
    )
    try:
        with file.temporary.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        file.publish()
    except OSError as error:
        raise Undetermined(f"{what}: {path} was not written: {error.strerror}") from None
    finally:
        file.discard()
