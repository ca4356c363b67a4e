"""The configuration file, changed: one writer at a time, whole or not at all, its owner's alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import monotonic, sleep
from typing import Any

from hermes_ctl.contexts import Contexts, configuration_file
from hermes_ctl.contexts.document import VERSION, Document, contexts_of, read_document
from hermes_ctl.errors import ConfigurationError

LOCK_SECONDS = 10.0

Change = Callable[[dict[str, Any]], None]


def change_file(environment: Mapping[str, str], change: Change) -> Contexts:
    """Let `change` work on the content of the configuration file, and write what comes of it.

    Makes the folder (0700) and the file (0600) where they do not exist. A result that could not be
    read again is refused, and the file stays as it was; so it does when the process dies in the
    middle. Comments in the file are lost. Raises `ConfigurationError`.
    """
    # A link stays one: it is the file behind it that is written.
    path = Path(os.path.realpath(configuration_file(environment)))
    if path.exists() and not path.is_file():
        raise ConfigurationError(
            f"{path} is no file that can be written", hint="name another one in HERMESCTL_CONFIG"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(path):
            content = read_document(path).content if path.exists() else {"version": VERSION}
            change(content)
            text = _toml(content)
            contexts = contexts_of(Document(path, text, content))
            _replace(path, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            f"the configuration file {path} cannot be written: {reason}",
            hint="name another one in HERMESCTL_CONFIG",
        ) from None
    return contexts


def _toml(content: Mapping[str, Any]) -> str:
    import tomli_w

    return tomli_w.dumps(content)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Keep other writers out. The lock is on a file beside it: `path` itself is replaced."""
    import fcntl

    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > deadline:
                    raise ConfigurationError(
                        f"another process has been writing {path} for {LOCK_SECONDS:g} s",
                        hint=f"fuser {lock} names it",
                    ) from None
                sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str) -> None:
    """Write to a new file in the same folder (0600), make sure it is on disk, and rename it."""
    temporary = NamedTemporaryFile(  # noqa: SIM115
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    )
    try:
        with temporary:
            temporary.write(text)
            temporary.flush()
            os.fsync(temporary.fileno())
        Path(temporary.name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary.name).unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Without this, a power cut could undo the renaming. Not every file system can do it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
