"""The configuration file as TOML: read, judged key by key, every mistake with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from hermes_ctl.contexts import Context, Contexts, KeySource, is_lab
from hermes_ctl.durations import parse_duration
from hermes_ctl.errors import ConfigurationError, UsageError
from hermes_ctl.secrets import read_private_file

VERSION = 1
KEY_SOURCES = ("key-file", "key-command", "key-environment")

_LARGEST_FILE = 4 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_KEY_LITERALS = ("key", "api-key", "token", "bearer", "password", "secret")

Place = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration file: its path, its text for the line numbers, and what TOML made of it."""

    path: Path
    text: str
    content: dict[str, Any]


def read_document(path: Path) -> Document:
    """Read the file. Raises `ConfigurationError` where others can read it, or it is not TOML."""
    source = read_private_file(path, what="configuration file", limit=_LARGEST_FILE)
    try:
        text = source.decode("utf-8-sig")
        return Document(path, text, tomllib.loads(text))
    except UnicodeDecodeError as error:
        line = source[: error.start].count(b"\n") + 1
        raise ConfigurationError(
            f"{path}:{line}: this is not UTF-8 text", hint="save the file as UTF-8"
        ) from None
    except (ValueError, RecursionError) as error:
        line_number = re.search(r"\(at line (\d+)", str(error))
        where = f":{line_number[1]}" if line_number else ""
        reason = re.sub(r" \(at .*\)$", "", str(error))
        raise ConfigurationError(
            f"{path}{where}: this is not TOML: {reason}",
            hint="hermesctl config set-context --help shows what writes a right one",
        ) from None


def contexts_of(document: Document) -> Contexts:
    """What a document says. Raises `ConfigurationError` for the first mistake in it."""
    return _Judge(document).contexts()


def check_name(name: str) -> str:
    """`name`, if it can be a context's; raises `UsageError` otherwise."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a context",
            hint="a context's name has letters, digits, dots, dashes, underscores and @",
        )
    if is_lab(name):
        raise UsageError(
            f"the name {name!r} always means a running lab", hint="give the context another name"
        )
    return name


class _Judge:
    """Turns the TOML of one document into values, and says where it cannot."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def contexts(self) -> Contexts:
        content = self._document.content
        self._version(content.get("version", VERSION))
        top: dict[str, Callable[[Place, Any], Any]] = {
            "version": self._whatever,
            "current-context": self._text,
            "journal-prompts": self._flag,
            "contexts": self._table,
        }
        read = self._fields((), content, top)
        contexts = {
            name: self._context(name, value) for name, value in read.get("contexts", {}).items()
        }
        current = read.get("current-context")
        if current is not None and current not in contexts:
            known = f"name one of {', '.join([*contexts][:12])}, or take" if contexts else "take"
            self._refuse(
                ("current-context",),
                f"there is no context {current!r} in the file",
                hint=f"{known} the line out",
            )
        return Contexts(self._document.path, current, contexts, read.get("journal-prompts", True))

    def _version(self, version: object) -> None:
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            self._refuse(("version",), f"the version is a whole number, {VERSION} so far")
        if version > VERSION:
            self._refuse(
                ("version",),
                f"a newer hermesctl wrote this file (version {version}, this one knows {VERSION})",
                hint="update hermesctl, or name another file in HERMESCTL_CONFIG",
            )

    def _context(self, name: str, value: Any) -> Context:
        place = ("contexts", name)
        try:
            check_name(name)
        except UsageError as error:
            self._refuse(place, error.message, hint=error.hint)
        fields: dict[str, Callable[[Place, Any], Any]] = {
            "url": self._text,
            "profile": self._text,
            "timeout": self._duration,
            "ca-file": self._text,
            "insecure": self._flag,
            "proxy": self._flag,
            "labels": self._labels,
            "groups": self._texts,
            "profiles": self._table,
        }
        read = self._fields(place, self._table(place, value), {**fields, **self._key_fields()})
        if "url" not in read:
            self._refuse(place, "the url is missing", hint='url = "http://node1:8642"')
        profiles = {
            profile: self._profile_key((*place, "profiles", profile), inner)
            for profile, inner in read.get("profiles", {}).items()
        }
        return Context(
            name=name,
            url=read["url"],
            profile=read.get("profile"),
            key=self._key(place, read),
            timeout=read.get("timeout"),
            ca_file=read.get("ca-file"),
            insecure=read.get("insecure", False),
            proxy=read.get("proxy", False),
            labels=read.get("labels", {}),
            groups=read.get("groups", ()),
            profiles=profiles,
        )

    def _profile_key(self, place: Place, value: Any) -> KeySource:
        source = self._key(
            place, self._fields(place, self._table(place, value), self._key_fields())
        )
        if source is None:
            self._refuse(place, f"this profile has no key: give {', '.join(KEY_SOURCES)}")
        return source

    def _key_fields(self) -> dict[str, Callable[[Place, Any], Any]]:
        return {
            "key-file": self._text,
            "key-command": self._command,
            "key-environment": self._text,
        }

    def _key(self, place: Place, read: Mapping[str, Any]) -> KeySource | None:
        given = [name for name in KEY_SOURCES if name in read]
        if len(given) > 1:
            self._refuse((*place, given[1]), f"one key has one source, and {given[0]} is another")
        if "key-file" in read:
            return KeySource("file", read["key-file"])
        if "key-command" in read:
            return KeySource("command", read["key-command"])
        return KeySource("environment", read["key-environment"]) if given else None

    def _fields(
        self, place: Place, table: Mapping[str, Any], fields: Mapping[str, Callable[..., Any]]
    ) -> dict[str, Any]:
        """Each value of `table` as its field reads it."""
        read = {}
        for name, value in table.items():
            if name not in fields:
                self._unknown((*place, name), name, fields)
            read[name] = fields[name]((*place, name), value)
        return read

    def _unknown(self, place: Place, name: str, fields: Mapping[str, object]) -> NoReturn:
        if name.lower().replace("_", "-") in _KEY_LITERALS and "key-file" in fields:
            self._refuse(
                place,
                "a key never stands in this file, only where it is to be had",
                hint='key-file = "FILE", key-command = ["pass", "show", "NAME"] '
                'or key-environment = "NAME"; make a new key if others saw this one',
            )
        from difflib import get_close_matches

        meant = get_close_matches(name.replace("_", "-"), fields, n=1)
        self._refuse(
            place,
            "there is no such key",
            hint=f"did you mean {meant[0]}?" if meant else f"known here: {', '.join(fields)}",
        )

    def _refuse(self, place: Place, what: str, hint: str | None = None) -> NoReturn:
        line = line_of(self._document.text, place)
        where = f":{line}" if line is not None else ""
        raise ConfigurationError(
            f"{self._document.path}{where}: {'.'.join(place)}: {what}",
            hint=hint or "hermesctl config set-context --help",
        )

    # One reader for each type of value

    def _whatever(self, place: Place, value: object) -> object:  # noqa: ARG002
        return value

    def _text(self, place: Place, value: object) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            self._refuse(place, "this is a text in quotes, and not an empty one")
        return value

    def _flag(self, place: Place, value: object) -> bool:
        if not isinstance(value, bool):
            self._refuse(place, "this is true or false, without quotes")
        return value

    def _table(self, place: Place, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._refuse(place, "this is a table", hint=f"[{'.'.join(place)}]")
        return value

    def _texts(self, place: Place, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            self._refuse(place, "this is a list of texts", hint=f'{place[-1]} = ["gpu"]')
        return tuple(self._text(place, item) for item in value)

    def _labels(self, place: Place, value: object) -> dict[str, str]:
        table = self._table(place, value)
        return {name: self._text((*place, name), inner) for name, inner in table.items()}

    def _command(self, place: Place, value: object) -> str | tuple[str, ...]:
        if not value or not isinstance(value, list | str):
            self._refuse(place, "this is a command", hint='key-command = ["pass", "show", "NAME"]')
        return self._text(place, value) if isinstance(value, str) else self._texts(place, value)

    def _duration(self, place: Place, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._refuse(place, 'this is a duration, such as "30s", or a number of seconds')
        try:
            seconds = parse_duration(str(value), place[-1])
        except UsageError as error:
            self._refuse(place, error.message, hint=error.hint)
        if seconds == 0:
            self._refuse(place, "nothing can be done in no time", hint='timeout = "10s"')
        return seconds


def line_of(text: str, place: Place) -> int | None:
    """The line where the key `place` stands, or the nearest table around it: tomllib does not say.

    None where no line can be told. A line inside a multi-line text may be taken for the key.
    """
    table: Place = ()
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = _dotted(line.strip().lstrip("[").split("]")[0]) if line.strip()[:1] == "[" else ()
        if header:
            table = header
        here = header or (*table, *_dotted(line.partition("=")[0] if "=" in line else ""))
        common = len(here) if here == place[: len(here)] else 0
        if common > (best[0] if best else 0):
            best = (common, number)
    return best[1] if best else None


def _dotted(text: str) -> Place:
    """The parts of a TOML key (`a."b.c"`), none where the text is no key."""
    try:
        inner: object = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    parts = []
    while isinstance(inner, dict) and inner:
        name, inner = next(iter(inner.items()))
        parts.append(name)
    return tuple(parts)
