"""What is in the wheel: built here by hatchling alone, without a network, in a second or two."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from hermes_ctl import __version__

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    assert path.name == f"hermesctl-{__version__}-py3-none-any.whl"
    return ZipFile(path)


@pytest.mark.parametrize("folder", ["checklists", "completions"])
def test_data_goes_along(wheel: ZipFile, folder: str) -> None:
    shipped = {Path(name).name for name in wheel.namelist() if f"hermes_ctl/{folder}/" in name}
    assert shipped == {path.name for path in (PROJECT / folder).iterdir()}
    assert shipped


def test_every_module_goes_along(wheel: ZipFile) -> None:
    modules = {
        path.relative_to(PROJECT).as_posix() for path in (PROJECT / "hermes_ctl").rglob("*.py")
    }
    assert modules <= set(wheel.namelist())
    assert "hermes_ctl/py.typed" in wheel.namelist()


def test_nothing_but_the_package_is_installed(wheel: ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"hermes_ctl", f"hermesctl-{__version__}.dist-info"}


def test_the_command_is_an_entry_point(wheel: ZipFile) -> None:
    entry_points = wheel.read(f"hermesctl-{__version__}.dist-info/entry_points.txt").decode()
    assert "hermesctl = hermes_ctl.main:main" in entry_points
