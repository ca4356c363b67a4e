"""A node's address: taken apart, or refused in one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_ctl.addresses import Address, check_profile, parse_address
from hermes_ctl.errors import ConfigurationError, ExitCode, UsageError


@pytest.mark.parametrize(
    ("text", "url", "profile"),
    [
        ("http://node1:8642", "http://node1:8642", None),
        ("http://node1:8642/", "http://node1:8642", None),
        ("HTTPS://Node1.Example/", "https://node1.example", None),
        ("http://127.0.0.1:8642", "http://127.0.0.1:8642", None),
        ("http://[::1]:8642", "http://[::1]:8642", None),
        ("http://node_1", "http://node_1", None),
        ("http://node1/hermes/", "http://node1/hermes", None),
        ("http://node1/p/planner", "http://node1/p/planner", "planner"),
        ("http://node1/hermes/p/planner/", "http://node1/hermes/p/planner", "planner"),
    ],
)
def test_an_address_is_read(text: str, url: str, profile: str | None) -> None:
    address = parse_address(text, "--url")
    assert address.url == url
    assert address.profile == profile
    assert parse_address(address.url, "--url") == address


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("node1:8642", "has no scheme", "http://node1:8642"),
        ("node1", "has no scheme", "http://node1"),
        ("127.0.0.1:8642", "has no scheme", "http://127.0.0.1:8642"),
        ("//node1", "has no scheme", "http://node1"),
        ("http:/node1", "has no scheme", "http://node1"),
        ("", "has no scheme", "http://127.0.0.1:8642"),
        ("ftp://node1", "not an http or https one but 'ftp'", None),
        ("http://", "names no host", None),
        ("http:///path", "names no host", None),
        ("http://:8642", "names no host", None),
        ("http://node1:99999", "no valid port", None),
        ("http://node1:0", "no valid port", None),
        ("http://node1:x", "no valid port", None),
        ("http://node1:", "no valid port", None),
        ("http://[::1", "no valid host", None),
        ("http://-node", "no valid host", None),
        ("http://a%2eb", "no valid host", None),
        ("http://node1?x=1", "a query or a fragment", None),
        ("http://node1/#x", "a query or a fragment", None),
        ("http://node1/../x", "no valid path", None),
        ("http://node1//x", "no valid path", None),
        ("http://node1/v1", "adds itself", "http://node1"),
        ("http://node1/hermes/v1/", "adds itself", "http://node1/hermes"),
        ("http://node1/p/planner/v1/runs", "adds itself", "http://node1/p/planner"),
        ("http://node1/p", "no profile", None),
        ("http://node1/p/a/p/b", "more than one", None),
        ("http://node 1", "characters that no address has", None),
        ("http://node1\n", "characters that no address has", None),
        ("http://nöde", "characters that no address has", None),
        ("http://node1\\x", "characters that no address has", None),
    ],
)
def test_what_is_no_address_is_refused(text: str, said: str, hint: str | None) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        parse_address(text, "--url")
    assert "--url" in caught.value.message
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint
    assert hint is None or caught.value.hint == hint


@pytest.mark.parametrize(
    "text",
    [
        "http://user:hunter2@node1",
        "http://user:hun/hunter2@node1",
        "user:hunter2@node1",
        "http:/user:hunter2@node1",
        "http://user:a@hunter2@node1:x",
        "http://node1/?secret=hunter2",
        "http://node1/#hunter2",
    ],
)
def test_what_may_be_secret_in_an_address_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_address(text, "--url")
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"


@given(st.text(max_size=40) | st.from_regex(r"https?://[\w.:@/\[\]?#%-]{0,40}"))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_address(text, "--url")
    except UsageError:
        return
    assert address.url.isascii()
    assert address.url.startswith(("http://", "https://"))
    assert "@" not in address.authority
    assert not address.url.endswith("/")
    assert parse_address(address.url, "--url") == address


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://localhost:8642", "http://127.0.0.1:8642", True),
        ("http://[::1]:8642", "http://127.0.0.1:8642", True),
        ("http://node1", "http://node1:80/p/x", True),
        ("https://node1", "https://NODE1:443", True),
        ("http://node1", "https://node1", False),
        ("http://node1:8642", "http://node1:8643", False),
        ("http://127.0.0.2:8642", "http://127.0.0.1:8642", False),
        ("http://node1", "http://node1.evil.example", False),
    ],
)
def test_one_origin_has_several_names(one: str, other: str, same: bool) -> None:
    assert parse_address(one, "a").same_origin(parse_address(other, "b")) is same


def test_a_profile_is_added_once() -> None:
    address = Address("http", "node1", 8642)
    assert address.with_profile("planner").url == "http://node1:8642/p/planner"
    assert address.with_profile("planner").with_profile("planner").profile == "planner"
    assert address.with_profile(None) == address
    with pytest.raises(UsageError, match="two profiles"):
        address.with_profile("planner").with_profile("coder")


@pytest.mark.parametrize(
    "name", ["", "a/b", "../x", "A", "-x", "a b", "ä", "a%2f", "x" * 65, "a\n"]
)
def test_an_odd_profile_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name of a profile") as caught:
        check_profile(name)
    assert caught.value.exit_code == ExitCode.USAGE
