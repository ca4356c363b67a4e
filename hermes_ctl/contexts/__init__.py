"""Contexts: the nodes that this user works with, kept in a TOML file as kubectl keeps its own.

    version = 1
    current-context = "node1"
    journal-prompts = true

    [contexts.node1]
    url = "http://node1:8642"
    key-file = "~/.keys/node1"
    timeout = "30s"
    labels = { site = "lab" }
    groups = ["gpu"]

    [contexts.node1.profiles.planner]
    key-command = ["pass", "show", "hermes/planner"]

The file never holds a key, only where one is to be had. Paths in it are relative to its folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hermes_ctl import secrets
from hermes_ctl.discovery import user_home
from hermes_ctl.errors import ConfigurationError
from hermes_ctl.secrets import Secret


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where a key is to be had: a file's path, a command, or an environment variable's name."""

    kind: Literal["file", "command", "environment"]
    value: str | tuple[str, ...]

    def read(self, environment: Mapping[str, str], folder: Path) -> Secret:
        """The key. A relative path is one in `folder`. Raises `ConfigurationError`."""
        if self.kind == "command":
            return secrets.read_key_command(self.value, environment=environment)
        if self.kind == "environment":
            return secrets.read_key_variable(str(self.value), environment)
        return secrets.read_key_file(expanded(str(self.value), environment, folder))

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str) else " ".join(self.value)
        return f"{self.kind} {value}"


@dataclass(frozen=True, slots=True)
class Context:
    """One node. What the file does not say is None; `timeout` is in seconds.

    `profile` is the one that is meant where the command line names none; `profiles` has the key
    of each profile that has its own.
    """

    name: str
    url: str
    profile: str | None = None
    key: KeySource | None = None
    timeout: float | None = None
    ca_file: str | None = None
    insecure: bool = False
    proxy: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    profiles: Mapping[str, KeySource] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contexts:
    """What is in the configuration file, or nothing where there is no file.

    `journal_prompts` says whether the journal of runs keeps prompts.
    """

    path: Path
    current: str | None = None
    contexts: Mapping[str, Context] = field(default_factory=dict)
    journal_prompts: bool = True

    def get(self, name: str, source: str | None = None) -> Context:
        """The context `name`; `source` says in errors who asked, where that was not the command
        line. Raises `ConfigurationError`."""
        if name in self.contexts:
            return self.contexts[name]
        from difflib import get_close_matches

        meant = get_close_matches(name, self.contexts, n=1)
        known = f"did you mean {meant[0]!r}?" if meant else "hermesctl config get-contexts"
        asked = f", which {source} names," if source else ""
        raise ConfigurationError(
            f"there is no context {name!r}{asked} in {self.path}",
            hint=known if self.contexts else "hermesctl config set-context NAME --url URL",
        )

    def chosen(self, groups: Sequence[str] = ()) -> list[Context]:
        """The contexts that are in one of `groups`, or all of them, in the order of the file."""
        found = self.contexts.values()
        return [one for one in found if not groups or set(groups) & set(one.groups)]


def configuration_file(environment: Mapping[str, str]) -> Path:
    """$HERMESCTL_CONFIG, else `hermesctl/config.toml` in $XDG_CONFIG_HOME, else in `~/.config`.

    Worked out from the mapping, not by platformdirs, which looks at the process environment.
    """
    stated = environment.get("HERMESCTL_CONFIG")
    if stated:
        return Path(stated)
    # The base directory specification has relative paths ignored.
    base = Path(environment.get("XDG_CONFIG_HOME", ""))
    folder = base if base.is_absolute() else user_home(environment) / ".config"
    return folder / "hermesctl" / "config.toml"


def is_lab(name: str) -> bool:
    """Whether a context's name means a running lab: `lab` or `lab:NAME`. Those stand in no file."""
    return name == "lab" or name.startswith("lab:")


def expanded(path: str, environment: Mapping[str, str], folder: Path) -> Path:
    """A path as the file has it: `~` is the user's home, a relative one is in `folder`."""
    if path == "~" or path.startswith("~/"):
        return user_home(environment) / path[2:]
    return folder / path


def load_contexts(environment: Mapping[str, str]) -> Contexts:
    """Read the configuration file; no file is an empty configuration.

    Raises `ConfigurationError` for a file that others can read, that is not TOML, or that says
    what nobody understands, each time with file, line and key.
    """
    path = configuration_file(environment)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return Contexts(path)
    except (OSError, ValueError):
        pass  # reading it will say what is wrong
    from hermes_ctl.contexts.document import contexts_of, read_document

    return contexts_of(read_document(path))
