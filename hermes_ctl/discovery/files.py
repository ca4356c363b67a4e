"""The files of a HERMES_HOME, read without judging what they say."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value", covariant=True)
KeyPath = tuple[str, ...]

_MANAGED_FOLDER = "/etc/hermes"
_LARGEST_FILE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sourced(Generic[Value]):
    """A value and where it stands: `FILE, KEY`, an environment variable, or a default."""

    value: Value
    source: str


def user_home(environment: Mapping[str, str]) -> Path:
    """The user's home folder: HOME, else what the system's list of users says."""
    if environment.get("HOME"):
        return Path(environment["HOME"])
    import pwd

    return Path(pwd.getpwuid(os.geteuid()).pw_dir)


def hermes_home(environment: Mapping[str, str], profile: str | None = None) -> Path:
    """The folder where Hermes keeps what belongs to it, or to one profile of it.

    HERMES_HOME may itself name a profile's folder (`.../profiles/NAME`); other profiles are then
    its neighbours.
    """
    stated = environment.get("HERMES_HOME", "").strip()
    home = Path(stated) if stated else user_home(environment) / ".hermes"
    if profile is None:
        return home
    root = home.parent.parent if home.parent.name == "profiles" else home
    return root if profile == "default" else root / "profiles" / profile


class HomeReader:
    """Reads the files of one home and those of the managed folder, and keeps what went wrong.

    What an administrator put into the managed folder ($HERMES_MANAGED_DIR, else /etc/hermes) wins
    over the home's own files, value by value.
    """

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        managed = environment.get("HERMES_MANAGED_DIR", "").strip() or _MANAGED_FOLDER
        self._folders = (Path(managed), home)
        self.found = False
        self.problems: list[str] = []
        self.unreadable: list[str] = []

    def variables(self, environment: Mapping[str, str]) -> dict[str, Sourced[str]]:
        """Every variable that Hermes would see, those of the files over those of the process."""
        values = {
            name: Sourced(value, f"environment variable {name}")
            for name, value in environment.items()
        }
        for folder in reversed(self._folders):
            content = self._read(folder / ".env")
            if content is not None:
                self._add_variables(values, folder / ".env", content)
        return values

    def _add_variables(self, values: dict[str, Sourced[str]], path: Path, content: bytes) -> None:
        from dotenv.parser import parse_stream
        from dotenv.variables import parse_variables

        known: dict[str, str | None] = {name: known.value for name, known in values.items()}
        for binding in parse_stream(StringIO(_decoded(content))):
            if binding.error:
                self.problems.append(
                    f"{path}, line {binding.original.line}: this is not NAME=VALUE, so it is ignored"
                )
            if binding.key is None or binding.value is None:
                continue
            value = "".join(atom.resolve(known) for atom in parse_variables(binding.value))
            if binding.key.endswith("_KEY") and not value.isascii():
                self.problems.append(
                    f"{path}: {binding.key} has characters beyond ASCII, which Hermes leaves out"
                )
                value = value.encode("ascii", "ignore").decode("ascii")
            known[binding.key] = value
            values[binding.key] = Sourced(value, f"{path}, {binding.key}")

    def documents(self) -> list[tuple[Path, Mapping[str, object]]]:
        """The YAML files as mappings, the one that wins first."""
        documents = []
        for folder in self._folders:
            path = folder / "config.yaml"
            content = self._read(path)
            document = None if content is None else self._mapping(path, content)
            if document is not None:
                documents.append((path, document))
        return documents

    def _mapping(self, path: Path, content: bytes) -> Mapping[str, object] | None:
        import yaml

        try:
            document = yaml.safe_load(content)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark is not None else ""
            what = getattr(error, "problem", None) or type(error).__name__
            self.unreadable.append(f"{path}{line}: this is not YAML: {what}")
            return None
        if document is None:
            return {}
        if not isinstance(document, dict):
            self.unreadable.append(f"{path}: the top level is not a mapping of keys to values")
            return None
        return document

    def _read(self, path: Path) -> bytes | None:
        try:
            with path.open("rb") as file:
                content = file.read(_LARGEST_FILE + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self.unreadable.append(f"{path} cannot be read: {reason}")
            return None
        self.found = True
        if len(content) > _LARGEST_FILE:
            self.unreadable.append(f"{path} is larger than {_LARGEST_FILE} bytes")
            return None
        return content


def _decoded(content: bytes) -> str:
    """The text of an `.env` in the encodings that Hermes puts up with, without NUL characters."""
    utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = content.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\0", "")


class Settings:
    """The YAML documents as one, each leaf from the first document that has it."""

    def __init__(
        self,
        documents: Sequence[tuple[Path, Mapping[str, object]]],
        variables: Mapping[str, Sourced[str]],
    ) -> None:
        self._documents = documents
        self._variables = variables

    def get(self, path: KeyPath) -> Sourced[object] | None:
        """What stands at that place, None where nothing does."""
        for file, document in self._documents:
            inner: object = document
            for part in path:
                if not isinstance(inner, Mapping) or part not in inner:
                    break
                inner = inner[part]
            else:
                return Sourced(inner, f"{file}, {'.'.join(path)}")
        return None

    def text(self, path: KeyPath) -> Sourced[str] | None:
        """The text at that place, None where nothing, something else or an empty one stands."""
        found = self.get(path)
        if found is None or not isinstance(found.value, str) or not found.value:
            return None
        return Sourced(found.value, found.source)

    def expanded(self, sourced: Sourced[object]) -> Sourced[object]:
        """`${NAME}` and `${env:NAME}` in a text replaced, unknown names left as they are."""
        if not isinstance(sourced.value, str):
            return sourced

        def variable(match: re.Match[str]) -> str:
            known = self._variables.get(match[1].removeprefix("env:"))
            return known.value if known is not None else match[0]

        return Sourced(REFERENCE.sub(variable, sourced.value), sourced.source)


REFERENCE = re.compile(r"\$\{([^}]+)\}")
