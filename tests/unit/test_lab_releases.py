"""Installing releases: from wheels made here, with the real pip and without a network."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_ctl.errors import LabFailure, UsageError
from hermes_ctl.lab import pythons, releases
from hermes_ctl.lab.pythons import supported_python
from hermes_ctl.lab.releases import install
from hermes_ctl.lab.state import lab_folder

MAIN = "def main(): print('Hermes Agent v1.2.3 (2026.1.1)')\n"


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    """A pure-Python wheel; `files` besides its metadata."""
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{package}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**metadata, **files}.items():
            wheel.writestr(path, text)


def entry_point(package: str, version: str, command: str) -> dict[str, str]:
    info = f"{package}-{version}.dist-info"
    return {
        f"{package}.py": MAIN,
        f"{info}/entry_points.txt": f"[console_scripts]\n{command} = {package}:main\n",
    }


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Offline: pip looks for wheels in one folder only."""
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "aiohttp", "1.0", {})
    return {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": os.defpath,
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
    }


@pytest.fixture
def wheels(environment: dict[str, str]) -> Path:
    return Path(environment["PIP_FIND_LINKS"])


def test_install_once(environment: dict[str, str], wheels: Path) -> None:
    make_wheel(wheels, "my-hermes", "1.0", entry_point("my_hermes", "1.0", "hermes"))
    notes: list[str] = []
    release = install("my-hermes==1.0", environment, notes.append)
    assert release.version == "1.2.3"
    assert release.executable.name == "hermes"
    assert release.executable.is_relative_to(lab_folder(environment) / "releases")
    assert len(notes) == 1
    shutil.rmtree(wheels)
    assert install("my-hermes==1.0", environment, notes.append) == release
    assert len(notes) == 1


def test_interrupted_installation_is_made_anew(environment: dict[str, str], wheels: Path) -> None:
    """And two at once: the second one waits for the first and uses what it made."""
    make_wheel(wheels, "my-hermes", "1.0", entry_point("my_hermes", "1.0", "hermesx"))
    folder = lab_folder(environment) / "releases" / releases._folder_name("my-hermes")
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "hermes").write_text("half a fi")
    notes: list[str] = []
    found: list[releases.Release] = []

    def run() -> None:
        found.append(install("my-hermes", environment, notes.append))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert found[0].executable.name == "hermesx"
    assert sorted(note.partition(" my-hermes")[0] for note in notes) == [
        "another hermesctl is installing",
        "installing",
    ]


def test_what_cannot_be_installed_leaves_nothing(environment: dict[str, str]) -> None:
    with pytest.raises(LabFailure, match=r"no release my-hermes==2\.0 was found"):
        install("my-hermes==2.0", environment)
    assert list((lab_folder(environment) / "releases").glob("*/")) == []


def test_package_without_a_hermes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hermes.txt").touch()
    with pytest.raises(LabFailure, match="installs no hermes command"):
        releases._hermes_in(tmp_path, "aiohttp")


@pytest.mark.parametrize("spec", ["", "  ", "-r requirements.txt", "--index-url=http://x"])
def test_option_is_no_release(environment: dict[str, str], spec: str) -> None:
    with pytest.raises(UsageError, match="names no Hermes"):
        install(spec, environment)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("
            "'<pip> Failed to establish a new connection: [Errno 111] Connection refused')\n"
            "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
            "ERROR: No matching distribution found for x",
            "no package registry was reached",
        ),
        (
            "error: Request failed after 3 retries in 7.6s\n  cause: Failed to fetch: http://x/\n"
            "  cause: tcp connect error\n  cause: Connection refused (os error 111)",
            "no package registry was reached",
        ),
        ("Temporary failure in name resolution", "no package registry was reached"),
        ("ERROR: No matching distribution found for x==9 (from versions: 1, 2)", "no release"),
        ("ERROR: Invalid requirement: 'hermes what'", "no release"),
        ("cause: Because there is no version of x==9 and you require x==9", "no release"),
        (
            "ERROR: Package 'x' requires a different Python: 3.11.7 not in '>=3.12'",
            "another Python",
        ),
        ("error: command 'gcc' failed: No such file or directory", "x could not be installed"),
    ],
)
def test_complaints_of_installers_are_told_apart(output: str, message: str) -> None:
    failure = releases._explained("x", f"{output}\nfrom https://user:hunter2@example.org/")
    assert message in failure.message
    assert output.splitlines()[-1] in str(failure.hint)
    assert "hunter2" not in str(failure.hint)


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str, str], Path]:
    """Makes an interpreter that answers the question for its version by running `script`."""

    def make(name: str, script: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


def test_our_own_python_is_used_when_hermes_supports_it() -> None:
    ours = sys.version_info[:2] in pythons.SUPPORTED
    assert not ours or supported_python({"PATH": ""}) == Path(sys.executable)


def test_another_python_is_found_past_shims_that_fail(
    tmp_path: Path, python: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(python("mine", "echo 3 14")))
    python("python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    python("python3.12", "echo 3 9")
    good = python("python3.11", "echo 3 11")
    environment = {"PATH": str(good.parent), "PYENV_ROOT": str(tmp_path / "none")}
    assert supported_python(environment) == good


def test_python_of_pyenv_is_found(
    tmp_path: Path, python: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(python("mine", "echo 3 14")))
    folder = tmp_path / "pyenv" / "versions" / "3.12.1"
    folder.mkdir(parents=True)
    good = python("python3.12", "echo 3 12")
    shutil.move(good.parent, folder / "bin")
    environment = {"PATH": "", "PYENV_ROOT": str(tmp_path / "pyenv")}
    monkeypatch.setattr(sys, "executable", str(python("mine", "echo 3 14")))
    assert supported_python(environment) == folder / "bin" / "python3.12"


def test_no_python_says_which_are_needed(
    tmp_path: Path, python: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(python("mine", "echo 3 14")))
    with pytest.raises(LabFailure, match=r"3\.11, 3\.12, 3\.13") as failure:
        supported_python({"PATH": "", "PYENV_ROOT": str(tmp_path)})
    assert "--hermes" in str(failure.value.hint)


def test_an_executable_beside_us_is_run_by_its_relative_path(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hermes = tmp_path / "hermes"
    hermes.write_text("#!/bin/sh\necho 'Hermes Agent v0.20.4 (2026.8.21)'\n")
    hermes.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert install("./hermes", environment).version == "0.20.4"
    assert install("hermes", environment).executable == hermes
