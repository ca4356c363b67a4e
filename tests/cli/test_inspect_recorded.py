"""The inspecting commands, typed against what three real releases answered (`scenes.py`)."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.config import environment
from hermes_ctl.lab.gateway import Lab, start
from hermes_ctl.main import main
from hermes_ctl.render import tables
from tests.cassettes import scenarios
from tests.cassettes.scenarios import BASE, RELEASES
from tests.cli.operators import Stream
from tests.cli.scenes import BLANK, SCENES, Shell

pytestmark = pytest.mark.vcr

CASSETTES = Path(scenarios.__file__).parent
TRANSCRIPTS = Path(__file__).parent / "transcripts"
NOW = datetime(2026, 12, 2, 12, 0, 0, tzinfo=UTC)
KEYS = {None: "cassette-key-0123456789abcdef", BLANK: "cassette-key-of-the-profile-01"}
HOSTILE = "\\e]0;owned\\a\\e[2J\\e[31mred\\e[0m \\u202egnp.exe [bold]markup[/bold]"

_TOOK = re.compile(r"(?<=completed )in [\d.]+ s")

Scene = Callable[[Shell, str], None]


@pytest.fixture(params=SCENES, ids=lambda scene: scene.__name__)
def scene(request: pytest.FixtureRequest) -> Scene:
    found: Scene = request.param
    return found


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def vcr_cassette_dir(release: str) -> str:
    return str(CASSETTES / release)


@pytest.fixture
def default_cassette_name(scene: Scene) -> str:
    return f"cli_{scene.__name__}"


@pytest.fixture(scope="module")
def vcr_config() -> dict[str, Any]:
    return {
        "filter_headers": ["authorization", "user-agent", "host"],
        "match_on": ["method", "path", "query", "body"],
        "before_record_request": scenarios.anonymous_request,
        "before_record_response": _anonymous,
    }


def _anonymous(response: dict[str, Any]) -> dict[str, Any]:
    """An answer without the port of the lab that it came from."""
    body = re.sub(rb"http://127\.0\.0\.1:\d+", BASE.encode(), response["body"]["string"])
    response["body"]["string"] = body
    return response


@pytest.fixture(scope="module")
def labs() -> Iterator[dict[str, Lab]]:
    """The labs that a recording is made of, each brought up once."""
    found: dict[str, Lab] = {}
    yield found
    for lab in found.values():
        lab.stop()


@pytest.fixture
def addresses(release: str, record_mode: str, labs: dict[str, Lab]) -> dict[str | None, Any]:
    """Address and key of the default profile and of the blank one."""
    if record_mode == "none":
        urls = {None: BASE, BLANK: f"{BASE}/p/{BLANK}"}
        return {profile: (urls[profile], KEYS[profile]) for profile in KEYS}
    if release not in labs:
        lab = labs[release] = start(RELEASES[release], environment=environment(), profiles=(BLANK,))
        _write_skills(lab.home / "skills")
    nodes = {profile: labs[release].profile_node(profile) for profile in KEYS}
    return {
        profile: (node.url, node.key.reveal() if node.key else "")
        for profile, node in nodes.items()
    }


def _write_skills(folder: Path) -> None:
    for name, description in (("ops/deploy", "Deploy a service"), ("hostile", HOSTILE)):
        place = folder / name
        place.mkdir(parents=True)
        head = f'---\nname: {place.name}\ndescription: "{description}"\n---\n# {place.name}\n'
        (place / "SKILL.md").write_text(head)


@pytest.fixture
def shell(
    scene: Scene,
    release: str,
    addresses: dict[str | None, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Shell]:
    """Types commands, and compares the transcript with the kept one at the end."""
    profile = BLANK if scene.__name__ == "nothing" else None
    url, key = addresses[profile]
    if release.startswith("0.19"):  # which authenticates every profile with the default key
        key = addresses[None][1]
    _settle(monkeypatch, tmp_path, url, key, key if profile else addresses[BLANK][1])
    transcript: list[str] = []

    def type_(line: str, *, code: int = 0, terminal: bool = False, quiet: bool = False) -> str:
        out, err = Stream(terminal), Stream(False)
        with redirect_stdout(out), redirect_stderr(err):
            got = main(shlex.split(line))
        assert got == code, f"{line}\n{out.text()}{err.text()}"
        if not quiet:
            told = f"{out.text().rstrip()}\n{err.text()}".replace(addresses[None][0], BASE)
            transcript.append(_entry(line, terminal, _TOOK.sub("in 0.0 s", told).strip("\n"), got))
        return out.text()

    yield type_
    monkeypatch.delenv("TZ")
    time.tzset()
    _compare(TRANSCRIPTS / release / f"{scene.__name__}.txt", "\n".join(transcript))


def _settle(monkeypatch: pytest.MonkeyPatch, folder: Path, url: str, key: str, other: str) -> None:
    """A machine that knows this node and nothing else, at a fixed time."""
    for name in [name for name in os.environ if name.startswith(("HERMES", "XDG_"))]:
        monkeypatch.delenv(name)
    for name, value in (("default.key", key), ("blank.key", other)):
        (folder / name).write_text(value)
        (folder / name).chmod(0o600)
    config = folder / "config.toml"
    config.write_text(
        f'version = 1\n[contexts.recorded]\nurl = "{url}"\nkey-file = "default.key"\n'
        f'[contexts.recorded.profiles.{BLANK}]\nkey-file = "blank.key"\n'
    )
    config.chmod(0o600)
    for name, value in {
        "HERMESCTL_CONFIG": str(config),
        "HERMESCTL_CONTEXT": "recorded",
        "HOME": str(folder),
        "COLUMNS": "110",
        "NO_COLOR": "1",
        "TZ": "UTC",
        "TERM": "xterm",
    }.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    monkeypatch.setattr(tables, "now", lambda: NOW)


def _entry(line: str, terminal: bool, told: str, code: int) -> str:
    """One command of the transcript; `#` in the prompt marks a terminal."""
    text = "\n".join(row.rstrip() for row in told.splitlines())
    end = f"\n[exit {code}]" if code else ""
    return f"{'#' if terminal else '$'} hermesctl {line}\n{text}{end}\n"


def _compare(path: Path, transcript: str) -> None:
    assert not set(transcript) & set("\x1b\x07\r\u202e"), "what a server sent is shown, not obeyed"
    if os.environ.get("TRANSCRIPTS") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(transcript, encoding="utf-8")
    assert transcript == path.read_text("utf-8")


def test_commands_on_recorded_releases(scene: Scene, release: str, shell: Shell) -> None:
    scene(shell, release)
