"""The configuration file: read strictly, written whole or not at all."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_ctl.contexts import KeySource, configuration_file, load_contexts, store
from hermes_ctl.contexts.document import check_name, line_of
from hermes_ctl.contexts.store import ContextChange
from hermes_ctl.errors import ConfigurationError, ExitCode, UsageError

WHOLE = """
version = 1
current-context = "node1"
journal-prompts = false

[contexts.node1]
url = "http://node1:8642"   # the first
profile = "planner"
key-file = "keys/node1"
timeout = "1m30s"
ca-file = "~/ca.pem"
insecure = true
proxy = true
labels = { site = "lab", rack = "7" }
groups = ["gpu", "edge"]

[contexts.node1.profiles.planner]
key-command = ["pass", "show", "planner"]
[contexts.node1.profiles.coder]
key-environment = "CODER_KEY"

[contexts."node.2"]
url = "https://node2"
timeout = 5
key-command = "pass show node2"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "HERMESCTL_CONFIG": str(tmp_path / "config.toml"),
        "PATH": os.environ["PATH"],
    }


def write(environment: Mapping[str, str], text: str | bytes, mode: int = 0o600) -> Path:
    path = configuration_file(environment)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


def refused(environment: Mapping[str, str]) -> str | None:
    """Why the configuration file is refused, None where it is not."""
    try:
        load_contexts(environment)
    except ConfigurationError as error:
        return error.message
    return None


# Where it is


def test_where_the_configuration_is() -> None:
    home = {"HOME": "/home/u"}
    usual = Path("/home/u/.config/hermesctl/config.toml")
    assert configuration_file(home) == usual
    assert configuration_file({**home, "HERMESCTL_CONFIG": ""}) == usual
    assert configuration_file({**home, "XDG_CONFIG_HOME": "relative"}) == usual
    xdg = {**home, "XDG_CONFIG_HOME": "/xdg"}
    assert configuration_file(xdg) == Path("/xdg/hermesctl/config.toml")
    assert configuration_file({**xdg, "HERMESCTL_CONFIG": "/x/c.toml"}) == Path("/x/c.toml")


def test_no_file_is_an_empty_configuration(environment: dict[str, str]) -> None:
    contexts = load_contexts(environment)
    assert contexts.contexts == {}
    assert contexts.current is None
    assert contexts.journal_prompts
    assert load_contexts({**environment, "HERMESCTL_CONFIG": "/dev/null"}).contexts == {}


# Reading


def test_everything_that_it_can_say(environment: dict[str, str]) -> None:
    write(environment, WHOLE)
    contexts = load_contexts(environment)
    assert contexts.current == "node1"
    assert not contexts.journal_prompts
    node1 = contexts.get("node1")
    assert node1.url == "http://node1:8642"
    assert node1.profile == "planner"
    assert node1.key == KeySource("file", "keys/node1")
    assert node1.timeout == 90
    assert node1.ca_file == "~/ca.pem"
    assert node1.insecure
    assert node1.proxy
    assert node1.labels == {"site": "lab", "rack": "7"}
    assert node1.groups == ("gpu", "edge")
    assert node1.profiles == {
        "planner": KeySource("command", ("pass", "show", "planner")),
        "coder": KeySource("environment", "CODER_KEY"),
    }
    node2 = contexts.get("node.2")
    assert node2.timeout == 5
    assert node2.key == KeySource("command", "pass show node2")
    assert [context.name for context in contexts.chosen(["edge", "nowhere"])] == ["node1"]
    assert len(contexts.chosen()) == 2


def test_an_unknown_context_is_told_with_the_one_that_was_meant(
    environment: dict[str, str],
) -> None:
    path = write(environment, WHOLE)
    with pytest.raises(ConfigurationError, match="no context 'nod1'") as caught:
        load_contexts(environment).get("nod1")
    assert str(path) in caught.value.message
    assert caught.value.hint == "did you mean 'node1'?"
    assert caught.value.exit_code == ExitCode.USAGE


ONE = '[contexts.node1]\nurl = "http://node1"\n'


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("contexts = 5\n", 1, "contexts: this is a table"),
        ("[contexts]\nnode1 = 5\n", 2, "contexts.node1: this is a table"),
        ("[contexts.node1]\n", 1, "contexts.node1: the url is missing"),
        ("[contexts.node1]\nurl = 5\n", 2, "contexts.node1.url: this is a text"),
        ('[contexts.node1]\nurl = ""\n', 2, "not an empty one"),
        (ONE + "timeout = true\n", 3, "contexts.node1.timeout: this is a duration"),
        (ONE + 'timeout = "forever"\n', 3, "'forever' is not a duration"),
        (ONE + "timeout = 0\n", 3, "no time"),
        (ONE + 'insecure = "yes"\n', 3, "contexts.node1.insecure: this is true or false"),
        (ONE + 'groups = "gpu"\n', 3, "this is a list of texts"),
        (ONE + "groups = [1]\n", 3, "this is a text"),
        (ONE + "labels = 5\n", 3, "this is a table"),
        (ONE + "labels = { a = 1 }\n", 3, "contexts.node1.labels.a: this is a text"),
        (ONE + "key-command = []\n", 3, "this is a command"),
        (ONE + "key-command = [1]\n", 3, "this is a text"),
        (ONE + 'key-file = "a"\nkey-environment = "B"\n', 4, "one key has one source"),
        (ONE + "# a comment\n\ntimout = 5\n", 5, "contexts.node1.timout: there is no such key"),
        (ONE + "key_file = 'x'\n", 3, "there is no such key"),
        (ONE + "[contexts.node1.profiles.x]\n", 3, "contexts.node1.profiles.x: this profile has"),
        (ONE + "[contexts.node1.profiles.x]\nurl = 'y'\n", 4, "there is no such key"),
        ("[contexts.lab]\nurl = 'http://x'\n", 1, "always means a running lab"),
        ("[contexts.'a/b']\nurl = 'http://x'\n", 1, "no name for a context"),
        ("current-context = 'nobody'\n", 1, "there is no context 'nobody'"),
        ("curent-context = 'nobody'\n", 1, "curent-context: there is no such key"),
        ("version = 2\n", 1, "a newer hermesctl wrote this"),
        ("version = '1'\n", 1, "the version is a whole number"),
        ("\n\nurl = = 5\n", 3, "this is not TOML"),
        ("url = 'a'\nurl = 'b'\n", 2, "this is not TOML"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(
    environment: dict[str, str], text: str, line: int, said: str
) -> None:
    path = write(environment, text)
    with pytest.raises(ConfigurationError, match=f"^{path}:{line}: ") as caught:
        load_contexts(environment)
    assert said in caught.value.message
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint


def test_a_current_context_that_is_not_there_is_told_with_those_that_are(
    environment: dict[str, str],
) -> None:
    write(environment, f"current-context = 'nobody'\n{ONE}")
    with pytest.raises(ConfigurationError) as caught:
        load_contexts(environment)
    assert caught.value.hint == "name one of node1, or take the line out"


@pytest.mark.parametrize("name", ["key", "api-key", "api_key", "token", "password"])
def test_a_key_in_the_file_is_refused_and_not_shown(environment: dict[str, str], name: str) -> None:
    write(environment, f'{ONE}{name} = "hunter2-hunter2"\n')
    with pytest.raises(ConfigurationError, match="a key never stands in this file") as caught:
        load_contexts(environment)
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint is not None
    assert "key-file" in caught.value.hint


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o606])
def test_a_file_that_others_can_read_is_refused(environment: dict[str, str], mode: int) -> None:
    path = write(environment, WHOLE, mode)
    with pytest.raises(ConfigurationError, match="others can read") as caught:
        load_contexts(environment)
    assert caught.value.hint == f"chmod 600 {path}"


def test_what_is_no_text_is_refused(environment: dict[str, str]) -> None:
    path = write(environment, b"version = 1\n\xff\xfe\n")
    with pytest.raises(ConfigurationError, match=f"{path}:2: this is not UTF-8"):
        load_contexts(environment)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigurationError, match="Is a directory"):
        load_contexts(environment)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=80) | st.from_regex(r'(\[[\w."]{0,12}\]\n|[\w-]{1,8} = ["\[{\w]*\n)*'))
def test_any_text_is_read_or_refused(environment: dict[str, str], text: str) -> None:
    path = write(environment, text.encode("utf-8", "replace"))
    refusal = refused(environment)
    assert refusal is None or str(path) in refusal


VALUES = st.recursive(
    st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["a", "url", "key-file", "key-command", "timeout", "labels", "groups", "profiles"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(context=st.dictionaries(st.sampled_from(["url", "timeout", "labels", "profiles"]), VALUES))
def test_any_types_are_read_or_refused(
    environment: dict[str, str], context: dict[str, object]
) -> None:
    write(environment, tomli_w.dumps({"contexts": {"node1": {"url": "http://x", **context}}}))
    refusal = refused(environment)
    assert refusal is None or "contexts.node1" in refusal


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("version",), 2),
        (("contexts", "node1"), 6),
        (("contexts", "node1", "url"), 7),
        (("contexts", "node1", "labels"), 14),
        (("contexts", "node1", "labels", "site"), 14),
        (("contexts", "node1", "profiles", "coder", "key-environment"), 20),
        (("contexts", "node.2", "timeout"), 24),
        (("contexts", "node.2", "missing"), 22),
        (("nowhere",), None),
    ],
)
def test_the_line_of_a_key(place: tuple[str, ...], line: int | None) -> None:
    assert line_of(WHOLE, place) == line


# Keys


def test_a_key_file_is_found_beside_the_configuration(
    environment: dict[str, str], tmp_path: Path
) -> None:
    for path in (tmp_path / "beside", tmp_path / "home"):
        path.write_text("0123456789abcdef-key\n")
        path.chmod(0o600)
    for value in ("beside", "~/home", str(tmp_path / "home")):
        key = KeySource("file", value).read(environment, tmp_path)
        assert key.reveal() == "0123456789abcdef-key"


# Writing


def new(url: str = "http://node1:8642", **change: object) -> ContextChange:
    return ContextChange(values={"url": url}, **change)  # type: ignore[arg-type]


def test_a_new_file_is_the_owners_alone(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    previous = os.umask(0)
    try:
        assert store.set_context(environment, "node1", new())
    finally:
        os.umask(previous)
    path = configuration_file(environment)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert load_contexts(environment).get("node1").url == "http://node1:8642"


def test_a_file_with_comments_is_kept_beside_the_new_one(environment: dict[str, str]) -> None:
    text = f"# of the lab\n{ONE}"
    path = write(environment, text)
    kept = path.with_name(f"{path.name}~")
    for timeout in ("3s", "4s"):
        store.set_context(environment, "node1", ContextChange(values={"timeout": timeout}))
        assert kept.read_text() == text
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_change_leaves_the_rest(environment: dict[str, str]) -> None:
    write(environment, WHOLE)
    before = load_contexts(environment)
    change = ContextChange(
        values={"timeout": "5s"},
        unset=("ca-file",),
        key=KeySource("environment", "NODE_KEY"),
        labels={"site": None, "rack": "8", "row": "2"},
        groups={"gpu": False, "new": True},
    )
    assert not store.set_context(environment, "node1", change)
    after = load_contexts(environment)
    node1 = after.get("node1")
    assert node1.timeout == 5
    assert node1.ca_file is None
    assert node1.key == KeySource("environment", "NODE_KEY")
    assert node1.labels == {"rack": "8", "row": "2"}
    assert node1.groups == ("edge", "new")
    assert node1.profiles == before.get("node1").profiles
    assert node1.insecure
    assert after.get("node.2") == before.get("node.2")
    assert after.current == "node1"
    assert not after.journal_prompts


def test_a_profile_gets_a_key_of_its_own(environment: dict[str, str]) -> None:
    store.set_context(environment, "node1", new(key=KeySource("file", "/keys/node1")))
    own = ContextChange(key=KeySource("command", ("pass", "show")), for_profile="planner")
    store.set_context(environment, "node1", own)
    node1 = load_contexts(environment).get("node1")
    assert node1.key == KeySource("file", "/keys/node1")
    assert node1.profiles == {"planner": KeySource("command", ("pass", "show"))}


def test_what_could_not_be_read_again_is_not_written(environment: dict[str, str]) -> None:
    path = write(environment, WHOLE)
    for change in (
        ContextChange(values={"timeout": "0s"}),
        ContextChange(unset=("url",)),
        ContextChange(unset=("nothing",)),
    ):
        with pytest.raises(UsageError):
            store.set_context(environment, "node1", change)
    with pytest.raises(UsageError, match="needs an address"):
        store.set_context(environment, "node3", ContextChange(values={"timeout": "5s"}))
    assert path.read_text() == WHOLE


def test_a_file_with_a_mistake_is_not_rewritten(environment: dict[str, str]) -> None:
    path = write(environment, "odd = 5\n")
    with pytest.raises(ConfigurationError, match="there is no such key"):
        store.set_context(environment, "node1", new())
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="others can read"):
        store.set_context(environment, "node1", new())
    assert path.read_text() == "odd = 5\n"


def test_the_current_context_is_chosen_and_goes_with_its_context(
    environment: dict[str, str],
) -> None:
    store.set_context(environment, "node1", new())
    store.set_context(environment, "node2", new())
    assert load_contexts(environment).current is None
    store.use_context(environment, "node1")
    assert load_contexts(environment).current == "node1"
    assert not store.delete_context(environment, "node2")
    assert store.delete_context(environment, "node1")
    assert load_contexts(environment).current is None
    for act in (store.use_context, store.delete_context):
        with pytest.raises(ConfigurationError, match="no context 'node1'"):
            act(environment, "node1")


def test_a_link_stays_a_link(environment: dict[str, str], tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "hermesctl.toml"
    real.parent.mkdir()
    real.write_text("version = 1\n")
    real.chmod(0o600)
    link = configuration_file(environment)
    link.symlink_to(real)
    store.set_context(environment, "node1", new())
    assert link.is_symlink()
    assert "node1" in real.read_text()


@pytest.mark.parametrize("place", ["/dev/null", "/proc/nowhere/config.toml"])
def test_what_cannot_be_written_is_told(environment: dict[str, str], place: str) -> None:
    with pytest.raises(ConfigurationError, match="written") as caught:
        store.set_context({**environment, "HERMESCTL_CONFIG": place}, "node1", new())
    assert caught.value.exit_code == ExitCode.USAGE


KILLED = """
import os, signal, sys
from hermes_ctl.contexts import store

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(__import__(sys.argv[1]), sys.argv[2], die)
store.use_context({"HERMESCTL_CONFIG": sys.argv[3]}, "node.2")
"""


@pytest.mark.parametrize("moment", [("os", "fsync"), ("tomli_w", "dumps")])
def test_a_writer_that_is_killed_leaves_the_old_file(
    environment: dict[str, str], moment: tuple[str, str]
) -> None:
    path = write(environment, WHOLE)
    done = subprocess.run([sys.executable, "-c", KILLED, *moment, str(path)], check=False)
    assert done.returncode == -9
    assert path.read_text() == WHOLE
    store.use_context(environment, "node.2")  # the lock of the dead is free
    assert load_contexts(environment).current == "node.2"


def test_a_failed_write_leaves_nothing_behind(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(environment, WHOLE)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="No space left"):
        store.use_context(environment, "node.2")
    assert path.read_text() == WHOLE
    assert {one.name for one in path.parent.iterdir()} == {"config.toml", ".config.toml.lock"}


def _add_contexts(path: str, first: int) -> None:
    for number in range(first, first + 10):
        store.set_context({"HERMESCTL_CONFIG": path}, f"node{number}", new())


def test_two_writers_lose_nothing(environment: dict[str, str]) -> None:
    path = str(configuration_file(environment))
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_add_contexts, args=(path, first)) for first in (0, 10)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert len(load_contexts(environment).contexts) == 20


def test_a_writer_does_not_wait_for_ever(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.05)
    with (
        store._lock(configuration_file(environment)),
        pytest.raises(ConfigurationError, match="another process"),
    ):
        store.set_context(environment, "node1", new())


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", ".a", "ä", "x" * 65, "lab", "a\n"])
def test_an_odd_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)


@given(st.dictionaries(st.sampled_from("abc"), st.text(min_size=1, max_size=9).filter(str.strip)))
def test_what_is_written_reads_the_same(labels: dict[str, str]) -> None:
    context: dict[str, object] = {"url": "http://node1"}
    ContextChange(labels=labels).apply(context)
    assert tomllib.loads(tomli_w.dumps(context)).get("labels", {}) == labels
