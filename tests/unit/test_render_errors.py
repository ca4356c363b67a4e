"""Failures as text and as JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl import errors as tree
from hermes_ctl.render.errors import bug, known
from hermes_ctl.secrets import Secret


def test_message_url_and_hint() -> None:
    failure = known(
        tree.NoAnswer("no answer within 10 s", hint="raise --timeout", url="http://h:1/health")
    )
    assert failure.text() == (
        "error: no answer within 10 s\n  url   http://h:1/health\n  hint  raise --timeout\n"
    )


def test_what_is_not_known_is_not_shown() -> None:
    assert known(tree.Pending("waits")).text() == "error: waits\n"


@given(st.text(), st.text(), st.text())
def test_hostile_text_is_neutral_and_stays_in_its_place(message: str, hint: str, url: str) -> None:
    failure = known(tree.NotHermes(message, hint=hint, url=url))
    first, *rest = failure.text().splitlines()
    assert first.startswith("error: ")
    for line in (first, *rest):
        assert "\x1b" not in line
        assert "\r" not in line
    assert all(line.startswith("  ") or not line.strip() for line in rest)
    assert json.loads(failure.document())["error"]["kind"] == "NotHermes"


def test_no_key_leaves_by_an_error() -> None:
    key = Secret("a-key-of-some-length", "test")
    error = tree.NotHermes(
        f"said {key.reveal()}", hint=key.reveal(), url=f"http://h/{key.reveal()}"
    )
    failure = known(error)
    assert key.reveal() not in failure.text(verbose=True) + failure.document()


def test_causes_are_shown_on_request_and_bounded() -> None:
    error: Exception = ValueError("deepest")
    for depth in range(9):
        wrapper = RuntimeError(f"layer {depth}\nsecond line")
        wrapper.__cause__ = error
        error = wrapper
    failure = tree.NoAnswer("no answer")
    failure.__cause__ = error
    lines = known(failure).text(verbose=True).splitlines()
    assert len(lines) == 6
    assert lines[1] == "  cause RuntimeError: layer 8 second line"


def test_a_bug_names_its_type_and_hides_its_locals() -> None:
    def fails(password: str) -> None:
        raise KeyError("nope")

    try:
        fails("hunter2-hunter2")
    except KeyError as error:
        failure = bug(error)
    assert failure.exit_code == 70
    assert "KeyError: 'nope'" in failure.text()
    assert "Traceback" not in failure.text()
    assert "Traceback" in failure.text(verbose=True)
    assert "hunter2" not in failure.text(verbose=True).replace('fails("hunter2-hunter2")', "")
