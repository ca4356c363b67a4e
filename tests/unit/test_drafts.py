"""A file that appears whole or not at all, and what is never replaced by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes_ctl.drafts import draft
from hermes_ctl.errors import UsageError


def test_it_appears_when_it_is_published(tmp_path: Path) -> None:
    link, place = tmp_path / "link", tmp_path / "report.json"
    link.symlink_to(place)
    made = draft(link, "the report", instead="name a file")
    made.temporary.write_text("whole")
    assert not place.exists()
    made.publish()
    made.discard()
    assert (place.read_text(), link.is_symlink()) == ("whole", True)
    assert sorted(tmp_path.iterdir()) == [link, place]


def test_it_leaves_nothing_where_it_is_discarded(tmp_path: Path) -> None:
    draft(tmp_path / "x", "the report", instead="name a file").discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["-", "/dev/null", "/"])
def test_what_cannot_be_replaced_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"is no ordinary file|is a folder"):
        draft(name, "--export:", instead="name a file")


def test_what_this_process_writes_to_is_refused(tmp_path: Path) -> None:
    """As root, /dev/stdout is a link that leads to an ordinary file where a shell redirects it."""
    code = "from hermes_ctl.drafts import draft; draft('/dev/stdout', '--export:', instead='')"
    output = tmp_path / "out.txt"
    with output.open("w") as stream:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "is no ordinary file" in done.stderr
    assert list(tmp_path.iterdir()) == [output]
