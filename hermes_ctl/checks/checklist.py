"""Checklists: which steps, how severe, against which release, with which prompts and limits.

A checklist is TOML. The shipped ones are found by name, a user's own by its path. Both are read by
the same code, and a mistake in either is told with file, line and key.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hermes_ctl.checks.model import Severity
from hermes_ctl.checks.probes import probe_names
from hermes_ctl.durations import parse_duration
from hermes_ctl.errors import ChecklistError, UsageError

DEFAULT_CHECKLIST = "bmas-node"


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("a duration reads 500ms, 90s, 5m, or a number of seconds")
    try:
        return parse_duration(str(value))
    except UsageError as error:
        raise ValueError(error.message) from None


def _specifier(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a release is a text such as ==0.20.4.*")
    try:
        SpecifierSet(value)
    except InvalidSpecifier:
        raise ValueError(f"{value!r} is no version specifier such as ==0.20.4.*") from None
    return value


def _probe_name(value: object) -> str:
    if value not in probe_names():
        raise ValueError(f"{value!r} is none of {', '.join(probe_names())}")
    return str(value)


Duration = Annotated[float, BeforeValidator(_duration)]
Release = Annotated[str, BeforeValidator(_specifier)]


class ChecklistModel(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
        defer_build=True,
    )


def _asks_for_token(prompt: str) -> str:
    if "{token}" not in prompt:
        raise ValueError("{token} has to stand in it: step polling looks for that word")
    return prompt


class CanarySettings(ChecklistModel):
    """The short run with a tool call. `{token}` in the prompt becomes a random word."""

    prompt: Annotated[str, AfterValidator(_asks_for_token)] = (
        "Use your terminal tool once to run exactly this command: `seq 1 20000`. "
        "When it has finished, reply with exactly this and nothing else: {token}"
    )
    deadline: Duration = 120.0


class LongRunSettings(ChecklistModel):
    prompt: str = "Count slowly from 1 to 600, one number per line, without using any tool."
    deadline: Duration = 60.0
    stop_deadline: Duration = 30.0
    slot_deadline: Duration = 5.0


class ModelRunSettings(ChecklistModel):
    prompt: str = "Reply with exactly this and nothing else: {token}"
    deadline: Duration = 60.0
    name: str | None = None


class TraceSettings(ChecklistModel):
    event_bytes: int = Field(65536, ge=1)


class ApprovalSettings(ChecklistModel):
    """`{command}` in the prompt becomes a command that Hermes flags; `unattended` is how long nobody
    answers it. 31 s let a keepalive of every release be seen."""

    prompt: str = (
        "Use your terminal tool once to run exactly this command: `{command}`. "
        "When it has finished, reply with exactly this and nothing else: {token}"
    )
    unattended: Duration = 31.0
    deadline: Duration = 90.0


class SteerSettings(ChecklistModel):
    """A run whose tool works for a while, and the `text` that it is steered with meanwhile."""

    prompt: str = (
        "Use your terminal tool once to run exactly this command: `sleep 2`. "
        "When it has finished, reply with exactly this and nothing else: {token}"
    )
    text: str = "Change of plan. Reply with exactly this and nothing else: {token}"
    deadline: Duration = 60.0


class HardeningSettings(ChecklistModel):
    """`exposed`: it is meant that other machines reach the node."""

    exposed: bool = False


class PinnedShape(ChecklistModel):
    """An answer's media type, its watched headers, and each of its paths with its types, joined by
    ` or `."""

    content_type: str
    headers: list[str] = []
    paths: dict[str, str] = {}


class PinnedSettings(ChecklistModel):
    """What a node did when the checklist was frozen: `hermesctl checklist freeze` writes it."""

    limit: int | None = None
    features: dict[str, Any] = {}
    endpoints: dict[str, str] = {}
    toolsets: dict[str, list[str]] = {}
    shapes: dict[Annotated[str, Field(pattern=r"^[A-Z]+ \S+ \d{3}( .+)?$")], PinnedShape] = {}


class StepEntry(ChecklistModel):
    """One step. `probe` is the probe that settles it, by default the one of the same name."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    probe: Annotated[str, BeforeValidator(_probe_name)] | None = None
    title: str | None = None
    severity: Annotated[Severity, Field(strict=False)] = Severity.REQUIRED

    @property
    def probe_name(self) -> str:
        return self.probe or self.id


class WaiverEntry(ChecklistModel):
    """A finding that a gate accepts: the id of a difference or of a step, and why. It counts up to
    and including the day `expires`."""

    finding: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    expires: date | None = None


class Checklist(ChecklistModel):
    schema_: Literal["hermesctl.checklist/1"] = Field(alias="schema")
    name: str = Field(min_length=1)
    title: str = ""
    release: Release
    canary: CanarySettings = Field(default={}, validate_default=True)
    long_run: LongRunSettings = Field(default={}, validate_default=True)
    model_run: ModelRunSettings = Field(default={}, validate_default=True)
    traces: TraceSettings = Field(default={}, validate_default=True)
    approval: ApprovalSettings = Field(default={}, validate_default=True)
    steer: SteerSettings = Field(default={}, validate_default=True)
    hardening: HardeningSettings = Field(default={}, validate_default=True)
    pinned: PinnedSettings | None = None
    step: list[StepEntry] = Field(min_length=1)
    waiver: list[WaiverEntry] = []

    sha256: str = Field(default="", exclude=True)

    def numbered(self) -> list[tuple[int, StepEntry]]:
        return list(enumerate(self.step, 1))


def shipped_folder() -> Path:
    """Where the checklists are: in the wheel beside the package's modules, in a checkout at the top."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "checklists"
    return inside if inside.is_dir() else package.parent / "checklists"


def shipped_names() -> list[str]:
    return sorted(path.stem for path in shipped_folder().glob("*.toml"))


def load_checklist(name_or_path: str = DEFAULT_CHECKLIST) -> Checklist:
    """A shipped checklist by its name, or a file by its path (anything with a `/` or `.toml`).

    Raises `ChecklistError` with file, line and key of the first mistake.
    """
    return read_checklist(checklist_path(name_or_path))


def checklist_path(name_or_path: str) -> Path:
    """The file of a checklist. Raises `ChecklistError` for a name that is none of the shipped."""
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return Path(name_or_path)
    if name_or_path in shipped_names():
        return shipped_folder() / f"{name_or_path}.toml"
    raise ChecklistError(
        f"there is no checklist {name_or_path!r}",
        hint=f"shipped: {', '.join(shipped_names())}; a file of your own is given by its path",
    )


def check_release(text: str) -> str:
    """`text` where it is a version specifier. Raises `UsageError` otherwise."""
    try:
        return _specifier(text)
    except ValueError as error:
        raise UsageError(f"--release: {error}", hint="for example ==0.20.4.*") from None


def read_checklist(path: Path) -> Checklist:
    """The checklist in that file. Raises `ChecklistError`."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ChecklistError(
            f"the checklist {path} cannot be read: {error.strerror}",
            hint="hermesctl checklist list",
        ) from None
    try:
        text = source.decode("utf-8")
        document = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ChecklistError(
            f"{path}: this is not TOML: {error}", hint="hermesctl checklist show bmas-node"
        ) from None
    return _validate(document, text, path, hashlib.sha256(source).hexdigest())


def _validate(document: dict[str, Any], text: str, path: Path, sha256: str) -> Checklist:
    try:
        checklist = Checklist.model_validate({**document, "sha256": sha256})
    except ValidationError as error:
        raise _mistake(error, text, path) from None
    seen: set[str] = set()
    for index, entry in enumerate(checklist.step):
        where = f"{path}:{_line_of(text, ('step', index, 'id'))}"
        if entry.id in seen:
            raise ChecklistError(f"{where}: step {entry.id!r} stands twice")
        if entry.probe is None and entry.id not in probe_names():
            raise ChecklistError(
                f"{where}: step.id: there is no probe {entry.id!r}",
                hint=f'name one with probe = "...": {", ".join(probe_names())}',
            )
        seen.add(entry.id)
    return checklist


def _mistake(error: ValidationError, text: str, path: Path) -> ChecklistError:
    first = error.errors(include_url=False, include_context=False)[0]
    place = tuple(part for part in first["loc"])
    key = ".".join(str(part) for part in place if not isinstance(part, int))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "there is no such key"
    elif first["type"] == "missing":
        message = "this key is missing"
    return ChecklistError(
        f"{path}:{_line_of(text, place)}: {key}: {message}",
        hint="hermesctl checklist show bmas-node prints one that is right",
    )


def _line_of(text: str, place: tuple[int | str, ...]) -> int:
    """The line where a key stands, or the table that should hold it: tomllib does not tell."""
    *tables, key = place
    wanted = ".".join(str(part) for part in tables if isinstance(part, str))
    index = next((part for part in tables if isinstance(part, int)), 0)
    table, seen, best = "", -1, 1
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?", line)
        if header:
            table = header[1]
            if line.lstrip().startswith("[[") and table == wanted:
                seen += 1
            if table == key or (table == wanted and seen in (-1, index)):
                best = number
            continue
        inside = table == wanted and seen in (-1, index)
        if inside and re.match(rf"\s*[\"']?{re.escape(str(key))}[\"']?\s*=", line):
            return number
    return best
