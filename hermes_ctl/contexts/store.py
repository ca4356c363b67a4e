"""The configuration file, changed: one writer at a time, whole or not at all, its owner's alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import monotonic, sleep
from typing import Any

from hermes_ctl.contexts import Contexts, KeySource, configuration_file, load_contexts
from hermes_ctl.contexts.document import (
    KEY_SOURCES,
    VERSION,
    Document,
    check_name,
    contexts_of,
    read_document,
)
from hermes_ctl.errors import ConfigurationError, UsageError

LOCK_SECONDS = 10.0

Change = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class ContextChange:
    """What is to be different in one context; what is not named here stays as it is.

    `values` are keys of the file with their new values, `unset` those to take out. `key` becomes
    the key of the context, or of the profile `for_profile` of it. A label of None is taken out, as
    is a group that is False.
    """

    values: Mapping[str, str | float | bool] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    key: KeySource | None = None
    for_profile: str | None = None
    labels: Mapping[str, str | None] = field(default_factory=dict)
    groups: Mapping[str, bool] = field(default_factory=dict)

    def apply(self, context: dict[str, Any]) -> None:
        """Change the TOML table of a context in place."""
        for name in self.unset:
            if name not in context:
                raise UsageError(
                    f"the context has no {name} to take out",
                    hint=f"it has {', '.join(context) or 'nothing'}",
                )
            del context[name]
        context.update(self.values)
        if self.key is not None:
            self._set_key(context, self.key)
        labels = {**context.get("labels", {}), **self.labels}
        _put(context, "labels", {name: value for name, value in labels.items() if value})
        wanted = dict.fromkeys(context.get("groups", ()), True) | dict(self.groups)
        _put(context, "groups", [name for name, is_in in wanted.items() if is_in])

    def _set_key(self, context: dict[str, Any], key: KeySource) -> None:
        if self.for_profile is not None:
            profiles = context.setdefault("profiles", {})
            context = profiles.setdefault(self.for_profile, {})
        for name in KEY_SOURCES:
            context.pop(name, None)
        value = key.value
        context[f"key-{key.kind}"] = value if isinstance(value, str) else list(value)


def _put(table: dict[str, Any], name: str, value: Any) -> None:
    """Set `name`, or take it out where there is nothing to say."""
    table.pop(name, None)
    if value:
        table[name] = value


def set_context(environment: Mapping[str, str], name: str, change: ContextChange) -> bool:
    """Make the context `name`, or change it. Says whether it is a new one."""
    check_name(name)
    made = False

    def apply(content: dict[str, Any]) -> None:
        nonlocal made
        contexts = content.setdefault("contexts", {})
        made = name not in contexts
        if made and "url" not in change.values:
            raise UsageError(
                f"there is no context {name!r} yet, and a new one needs an address",
                hint=f"hermesctl config set-context {name} --url http://node:8642",
            )
        change.apply(contexts.setdefault(name, {}))

    change_file(environment, apply)
    return made


def use_context(environment: Mapping[str, str], name: str) -> None:
    """Make `name` the context that is meant where none is named."""
    load_contexts(environment).get(name, "the command line")
    change_file(environment, lambda content: content.update({"current-context": name}))


def delete_context(environment: Mapping[str, str], name: str) -> bool:
    """Take the context `name` out. Says whether it was the current one, of which none is left."""
    contexts = load_contexts(environment)
    contexts.get(name, "the command line")

    def apply(content: dict[str, Any]) -> None:
        content.get("contexts", {}).pop(name, None)
        if content.get("current-context") == name:
            del content["current-context"]

    change_file(environment, apply)
    return contexts.current == name


def change_file(environment: Mapping[str, str], change: Change) -> Contexts:
    """Let `change` work on the content of the configuration file, and write what comes of it.

    Makes the folder (0700) and the file (0600) where they do not exist. A result that could not be
    read again is refused, and the file stays as it was; so it does when the process dies in the
    middle. Comments are not kept: a file that has some is kept beside it, as `config.toml~`.
    Raises `ConfigurationError`.
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
            content: dict[str, Any] = {"version": VERSION}
            if path.exists():
                document = read_document(path)
                contexts_of(document)
                content = document.content
                if "#" in document.text:
                    _replace(path.with_name(f"{path.name}~"), document.text)
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
