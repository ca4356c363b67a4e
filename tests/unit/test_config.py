"""Which node, which key: precedence, sources, and that a key goes only where it belongs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes_ctl.config import Node, NodeOptions, Resolver, resolve_node
from hermes_ctl.contexts import Context, Contexts, KeySource, load_contexts
from hermes_ctl.errors import ConfigurationError, ExitCode, HermesctlError, UsageError

TYPED = "typed-0123456789abcdef"
EXPORTED = "exported-0123456789abcdef"
CONTEXT = "context-0123456789abcdef"
PLANNER = "planner-0123456789abcdef"
LOCAL = "local-0123456789abcdef"
LOCAL_PLANNER = "local-planner-0123456789abcdef"


NOTHING = NodeOptions()


class Machine:
    """A user's machine: its home, its environment, its contexts, and the Hermes on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment: dict[str, str] = {
            "HOME": str(home),
            "HERMES_MANAGED_DIR": str(home / "none"),
        }

    def hermes(self, env: str, yaml: str = "", profile: str | None = None) -> Path:
        folder = self.home / ".hermes"
        if profile is not None:
            folder = folder / "profiles" / profile
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".env").write_text(env, "utf-8")
        (folder / "config.yaml").write_text(yaml, "utf-8")
        return folder

    def configuration(self, text: str) -> Path:
        path = self.home / ".config/hermesctl/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o600)
        return path

    def key_file(self, key: str, name: str = "key") -> str:
        path = self.home / name
        path.write_text(key + "\n", "utf-8")
        path.chmod(0o600)
        return str(path)

    def resolve(self, options: NodeOptions = NOTHING, /, **environment: str) -> Node:
        return resolve_node(options, environment={**self.environment, **environment})


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def key_of(node: Node) -> str | None:
    return node.key.reveal() if node.key else None


NODE1 = '[contexts.node1]\nurl = "http://node1:8642"\nkey-environment = "NODE1_KEY"\n'
CURRENT = 'current-context = "node1"\n' + NODE1
LOCAL_ENV = f"API_SERVER_KEY={LOCAL}\nAPI_SERVER_PORT=9000\n"


# Precedence


def test_without_anything_it_is_the_default_address(machine: Machine) -> None:
    node = machine.resolve()
    assert node.url == "http://127.0.0.1:8642"
    assert node.key is None
    assert node.home is None
    assert node.timeout == 10
    assert node.name == "127.0.0.1:8642"
    assert set(node.sources) == {
        "name", "url", "key", "profile", "timeout", "ca_file", "insecure", "proxy", "home",
    }  # fmt: skip
    assert node.sources["url"] == node.sources["timeout"] == "default"
    assert "HERMES_GATEWAY_KEY" in node.key_findings[0]


def test_a_node_knows_itself(machine: Machine) -> None:
    home = machine.hermes(LOCAL_ENV)
    node = machine.resolve()
    assert node.url == "http://127.0.0.1:9000"
    assert key_of(node) == LOCAL
    assert node.name == "local"
    assert node.home == home
    assert node.sources["url"] == f"{home}/.env, API_SERVER_PORT"
    assert node.sources["key"] == f"{home}/.env, API_SERVER_KEY"
    assert node.key_findings == ()


def test_the_address_of_each_source_beats_that_of_the_next(machine: Machine) -> None:
    machine.hermes(LOCAL_ENV)
    assert machine.resolve().url == "http://127.0.0.1:9000"
    path = machine.configuration(CURRENT)
    node = machine.resolve(NODE1_KEY=CONTEXT)
    assert (node.url, node.name) == ("http://node1:8642", "node1")
    assert node.sources["url"] == f"context node1 in {path}"
    exported = {"HERMES_GATEWAY_URL": "http://exported:1", "NODE1_KEY": CONTEXT}
    node = machine.resolve(**exported)
    assert node.url == "http://exported:1"
    assert node.sources["url"] == "environment variable HERMES_GATEWAY_URL"
    node = machine.resolve(NodeOptions(url="http://typed:1"), **exported)
    assert node.url == "http://typed:1"
    assert node.sources["url"] == "--url"


def test_the_key_of_each_source_beats_that_of_the_next(machine: Machine) -> None:
    machine.hermes(f"API_SERVER_KEY={LOCAL}\n")
    url = 'url = "http://127.0.0.1:8642"\n'
    machine.configuration(f"current-context = 'here'\n[contexts.here]\n{url}")
    assert key_of(machine.resolve()) == LOCAL
    path = machine.configuration(
        f"current-context = 'here'\n[contexts.here]\n{url}key-environment = 'NODE1_KEY'\n"
    )
    node = machine.resolve(NODE1_KEY=CONTEXT)
    assert key_of(node) == CONTEXT
    assert node.sources["key"] == f"environment variable NODE1_KEY, by context here in {path}"
    exported = {"HERMES_GATEWAY_KEY": EXPORTED, "NODE1_KEY": CONTEXT}
    node = machine.resolve(**exported)
    assert key_of(node) == EXPORTED
    assert node.sources["key"] == "environment variable HERMES_GATEWAY_KEY"
    file = machine.key_file(TYPED)
    node = machine.resolve(NodeOptions(key_file=file), **exported)
    assert key_of(node) == TYPED
    assert node.sources["key"] == f"--key-file: file {file}"


def test_empty_variables_say_nothing(machine: Machine) -> None:
    machine.hermes(LOCAL_ENV)
    node = machine.resolve(HERMES_GATEWAY_URL="", HERMES_GATEWAY_KEY="", HERMESCTL_CONTEXT="")
    assert node.url == "http://127.0.0.1:9000"
    assert key_of(node) == LOCAL


def test_the_context_is_typed_exported_or_the_current_one(machine: Machine) -> None:
    machine.configuration(
        "current-context = 'a'\n" + "".join(f"[contexts.{n}]\nurl='http://{n}'\n" for n in "abc")
    )
    assert machine.resolve().name == "a"
    assert machine.resolve(HERMESCTL_CONTEXT="b").name == "b"
    assert machine.resolve(NodeOptions(context="c"), HERMESCTL_CONTEXT="b").name == "c"
    for options, variable, asked in (
        (NodeOptions(context="x"), "", "'x' in"),
        (NodeOptions(), "x", "'x', which HERMESCTL_CONTEXT names, in"),
    ):
        with pytest.raises(ConfigurationError, match=asked):
            machine.resolve(options, HERMESCTL_CONTEXT=variable)


def test_a_lab_in_the_environment_is_left_to_the_command_line(machine: Machine) -> None:
    node = machine.resolve(NodeOptions(url="http://127.0.0.1:1"), HERMESCTL_CONTEXT="lab:x")
    assert node.url == "http://127.0.0.1:1"


def test_the_other_settings_are_typed_or_the_contexts(machine: Machine) -> None:
    (machine.home / ".config/hermesctl").mkdir(parents=True)
    for name in ("ca.pem", "typed.pem"):
        (machine.home / ".config/hermesctl" / name).write_text("x")
    path = machine.configuration(
        NODE1 + "timeout = '30s'\ninsecure = true\nproxy = true\nca-file = 'ca.pem'\n"
    )
    node = machine.resolve(NodeOptions(context="node1"), NODE1_KEY=CONTEXT)
    assert (node.timeout, node.insecure, node.use_proxy) == (30, True, True)
    assert node.ca_file == path.parent / "ca.pem"
    for name in ("timeout", "insecure", "proxy", "ca_file"):
        assert node.sources[name] == f"context node1 in {path}"
    options = NodeOptions(
        url="http://other",
        timeout=5,
        insecure=True,
        proxy=True,
        ca_file=path.parent / "typed.pem",
    )
    node = machine.resolve(options)
    assert (node.timeout, node.insecure, node.use_proxy) == (5, True, True)
    assert node.ca_file == path.parent / "typed.pem"
    assert node.sources["timeout"] == "--timeout"
    assert node.sources["insecure"] == "--insecure"
    assert node.sources["proxy"] == "--proxy"
    assert node.sources["ca_file"] == "--ca-file"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (NodeOptions(url="node1:8642"), "has no scheme"),
        (NodeOptions(profile="a/b"), "no name of a profile"),
        (NodeOptions(profile=""), "no name of a profile"),
        (NodeOptions(url="http://node1/p/a", profile="b"), "two profiles"),
        (NodeOptions(timeout=0), "no time"),
        (NodeOptions(key_file="/no/such/file"), "cannot be read"),
        (NodeOptions(ca_file=Path("/no/such/file")), "cannot be read"),
        (NodeOptions(context="nobody"), "no context"),
    ],
)
def test_what_makes_no_node_is_told_in_one_sentence(
    machine: Machine, options: NodeOptions, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        machine.resolve(options)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint


def test_bad_addresses_are_told_with_their_source(machine: Machine) -> None:
    with pytest.raises(ConfigurationError, match="HERMES_GATEWAY_URL"):
        machine.resolve(HERMES_GATEWAY_URL="node1")
    machine.configuration("[contexts.node1]\nurl = 'node1'\n")
    with pytest.raises(ConfigurationError, match="from context node1 in"):
        machine.resolve(NodeOptions(context="node1"))
    machine.hermes("API_SERVER_HOST=a b\n")
    with pytest.raises(ConfigurationError, match="API_SERVER_HOST"):
        machine.resolve()
    assert machine.resolve(NodeOptions(url="http://127.0.0.1:1")).url == "http://127.0.0.1:1"


# A key goes only where it belongs


@pytest.mark.parametrize("url", ["http://other:8642", "http://node1:8643", "https://node1:8642"])
def test_a_contexts_key_and_settings_stay_with_its_origin(machine: Machine, url: str) -> None:
    machine.configuration(CURRENT + "insecure = true\ntimeout = 60\n")
    for node in (
        machine.resolve(NodeOptions(url=url), NODE1_KEY=CONTEXT),
        machine.resolve(HERMES_GATEWAY_URL=url, NODE1_KEY=CONTEXT),
    ):
        assert node.key is None
        assert not node.insecure
        assert node.timeout == 10
        assert node.name == url.split("//")[1]
        assert "No key is known" in node.key_findings[0]


def test_a_contexts_key_goes_to_its_origin_however_it_was_named(machine: Machine) -> None:
    machine.configuration(CURRENT)
    for url in ("http://node1:8642", "http://NODE1:8642/", "http://node1:8642/p/planner"):
        node = machine.resolve(NodeOptions(url=url), NODE1_KEY=CONTEXT)
        assert key_of(node) == CONTEXT
        assert node.name == "node1"


def test_a_typed_context_does_not_go_with_another_address(machine: Machine) -> None:
    machine.configuration(NODE1)
    with pytest.raises(UsageError, match="not where the context node1 leads"):
        machine.resolve(NodeOptions(context="node1", url="http://other:8642"))
    node = machine.resolve(
        NodeOptions(context="node1", url="http://node1:8642/p/x"), NODE1_KEY=CONTEXT
    )
    assert node.profile == "x"


def test_a_typed_context_beats_the_environment(machine: Machine) -> None:
    machine.configuration(NODE1 + "[contexts.keyless]\nurl = 'http://keyless'\n")
    exported = {
        "HERMES_GATEWAY_URL": "http://exported:1",
        "HERMES_GATEWAY_KEY": EXPORTED,
        "NODE1_KEY": CONTEXT,
    }
    node = machine.resolve(NodeOptions(context="node1"), **exported)
    assert (node.url, key_of(node)) == ("http://node1:8642", CONTEXT)
    # The exported key belongs to the exported address beside it ...
    assert machine.resolve(NodeOptions(context="keyless"), **exported).key is None
    # ... and to whatever is meant where there is none.
    del exported["HERMES_GATEWAY_URL"]
    assert key_of(machine.resolve(NodeOptions(context="keyless"), **exported)) == EXPORTED
    exported["HERMES_GATEWAY_URL"] = "http://keyless:80"
    assert key_of(machine.resolve(NodeOptions(context="keyless"), **exported)) == EXPORTED


def test_an_exported_key_goes_to_a_typed_address(machine: Machine) -> None:
    node = machine.resolve(NodeOptions(url="http://typed:1"), HERMES_GATEWAY_KEY=EXPORTED)
    assert key_of(node) == EXPORTED


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("http://127.0.0.1:9000", True),
        ("http://localhost:9000", True),
        ("http://[::1]:9000", True),
        ("http://127.0.0.1:9001", False),
        ("http://127.0.0.2:9000", False),
        ("http://10.0.0.1:9000", False),
        ("https://127.0.0.1:9000", False),
        ("http://localhost.evil.example:9000", False),
        ("http://127.0.0.1:9000/proxied", False),
    ],
)
def test_the_nodes_own_key_goes_to_the_node_alone(machine: Machine, url: str, known: bool) -> None:
    home = machine.hermes(LOCAL_ENV)
    for node in (
        machine.resolve(NodeOptions(url=url)),
        machine.resolve(HERMES_GATEWAY_URL=url),
    ):
        assert key_of(node) == (LOCAL if known else None)
        assert node.home == (home if known else None)


def test_a_node_that_listens_on_its_own_address_is_known_by_it(machine: Machine) -> None:
    home = machine.hermes(f"API_SERVER_KEY={LOCAL}\nAPI_SERVER_HOST=10.0.0.7\n")
    assert machine.resolve().url == "http://10.0.0.7:8642"
    node = machine.resolve(NodeOptions(url="http://10.0.0.7:8642"))
    assert (key_of(node), node.home) == (LOCAL, home)
    assert machine.resolve(NodeOptions(url="http://127.0.0.1:8642")).key is None


# Profiles


def test_each_profile_has_its_own_key(machine: Machine) -> None:
    machine.configuration(
        CURRENT + "[contexts.node1.profiles.planner]\nkey-environment = 'PLANNER_KEY'\n"
    )
    keys = {"NODE1_KEY": CONTEXT, "PLANNER_KEY": PLANNER}
    node = machine.resolve(NodeOptions(profile="planner"), **keys)
    assert node.url == "http://node1:8642/p/planner"
    assert (node.profile, key_of(node)) == ("planner", PLANNER)
    assert node.sources["profile"] == "--profile"
    assert node.key_findings == ()
    assert key_of(machine.resolve(**keys)) == CONTEXT
    node = machine.resolve(NodeOptions(url="http://node1:8642/p/planner"), **keys)
    assert (node.profile, key_of(node)) == ("planner", PLANNER)
    assert node.sources["profile"] == "--url"


def test_a_profile_without_a_key_borrows_the_default_one_and_says_so(machine: Machine) -> None:
    machine.configuration(CURRENT)
    node = machine.resolve(NodeOptions(profile="coder"), NODE1_KEY=CONTEXT)
    assert key_of(node) == CONTEXT
    assert "no key for the profile coder" in node.key_findings[0]
    node = machine.resolve(NodeOptions(profile="default"), NODE1_KEY=CONTEXT)
    assert node.url == "http://node1:8642/p/default"
    assert node.key_findings == ()


def test_the_profile_of_a_context(machine: Machine) -> None:
    path = machine.configuration(CURRENT + "profile = 'planner'\n")
    node = machine.resolve(NODE1_KEY=CONTEXT)
    assert (node.url, node.profile) == ("http://node1:8642/p/planner", "planner")
    assert node.sources["profile"] == f"context node1 in {path}"
    assert node.key_findings == ()
    node = machine.resolve(NodeOptions(profile="coder"), NODE1_KEY=CONTEXT)
    assert node.url == "http://node1:8642/p/coder"
    node = machine.resolve(NodeOptions(url="http://node1:8642/p/coder"), NODE1_KEY=CONTEXT)
    assert node.profile == "coder"


def test_a_profile_of_this_node_under_one_gateway(machine: Machine) -> None:
    home = machine.hermes(LOCAL_ENV, "gateway: {multiplex_profiles: true}")
    machine.hermes(f"API_SERVER_KEY={LOCAL_PLANNER}\nAPI_SERVER_PORT=9001\n", profile="planner")
    node = machine.resolve(NodeOptions(profile="planner"))
    assert node.url == "http://127.0.0.1:9000/p/planner"
    assert key_of(node) == LOCAL_PLANNER
    assert node.home == home
    node = machine.resolve(NodeOptions(url="http://localhost:9000", profile="planner"))
    assert key_of(node) == LOCAL_PLANNER
    node = machine.resolve(NodeOptions(profile="coder"))
    assert key_of(node) == LOCAL
    assert "profile coder has no API_SERVER_KEY" in node.key_findings[0]


def test_a_profile_of_this_node_with_a_gateway_of_its_own(machine: Machine) -> None:
    machine.hermes(LOCAL_ENV)
    home = machine.hermes(
        f"API_SERVER_KEY={LOCAL_PLANNER}\nAPI_SERVER_PORT=9001\n", profile="planner"
    )
    node = machine.resolve(NodeOptions(profile="planner"))
    assert node.url == "http://127.0.0.1:9001"
    assert "--url http://127.0.0.1:9000/p/planner" in node.sources["url"]
    assert node.profile == "planner"
    assert key_of(node) == LOCAL_PLANNER
    assert node.home == home
    assert node.key_findings == ()


def test_a_home_that_is_a_profiles(machine: Machine) -> None:
    machine.hermes(LOCAL_ENV)
    home = machine.hermes(
        f"API_SERVER_KEY={LOCAL_PLANNER}\nAPI_SERVER_PORT=9001\n", profile="planner"
    )
    node = machine.resolve(HERMES_HOME=str(home))
    assert (node.url, key_of(node)) == ("http://127.0.0.1:9001", LOCAL_PLANNER)
    assert node.home == home


# Findings and trouble with keys


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("weak", "4 characters"),
        ("change-me-local-dev", "placeholder"),
        ("'quoted-0123456789'", "quo"),
    ],
)
def test_a_doubtful_key_is_carried_with_its_finding(machine: Machine, key: str, said: str) -> None:
    for node in (
        machine.resolve(HERMES_GATEWAY_KEY=key),
        machine.resolve(NodeOptions(key_file=machine.key_file(key))),
    ):
        assert key_of(node) == key
        assert said in node.key_findings[0]


def test_a_key_that_cannot_be_sent_is_refused(machine: Machine) -> None:
    with pytest.raises(ConfigurationError, match="HERMES_GATEWAY_KEY cannot be sent"):
        machine.resolve(HERMES_GATEWAY_KEY="sécret-0123456789abcdef")
    machine.hermes("", 'gateway: {api_server: {key: "sécret-0123456789abcdef"}}')
    with pytest.raises(ConfigurationError, match=r"config\.yaml, gateway\.api_server\.key cannot"):
        machine.resolve()


def test_a_key_that_a_context_names_in_vain_is_told_with_the_context(machine: Machine) -> None:
    machine.configuration(CURRENT)
    with pytest.raises(ConfigurationError, match=r"NODE1_KEY is not set.*; context node1 in"):
        machine.resolve()
    assert key_of(machine.resolve(HERMES_GATEWAY_KEY=EXPORTED)) == EXPORTED


def test_a_key_command_runs_only_when_its_key_is_needed(machine: Machine) -> None:
    made = machine.home / "made"
    machine.configuration(
        f"current-context = 'a'\n[contexts.a]\nurl = 'http://a'\nkey-command = 'touch {made}'\n"
    )
    path = {"PATH": "/usr/bin:/bin"}
    machine.resolve(HERMES_GATEWAY_KEY=EXPORTED, **path)
    machine.resolve(NodeOptions(url="http://b"), **path)
    assert not made.exists()
    with pytest.raises(ConfigurationError, match="key command touch is empty"):
        machine.resolve(**path)
    assert made.exists()


def test_broken_node_files_matter_only_where_the_key_would_come_from_them(
    machine: Machine,
) -> None:
    machine.hermes("", "gateway: [")
    with pytest.raises(ConfigurationError, match=r"config\.yaml, line 1: this is not YAML"):
        machine.resolve()
    assert key_of(machine.resolve(HERMES_GATEWAY_KEY=EXPORTED)) == EXPORTED
    assert machine.resolve(NodeOptions(url="http://node1")).url == "http://node1"
    machine.hermes(LOCAL_ENV, "gateway: [")
    assert key_of(machine.resolve()) == LOCAL


# Several at once


def test_contexts_may_be_given(machine: Machine) -> None:
    contexts = Contexts(
        machine.home / "config.toml",
        current="a",
        contexts={"a": Context("a", "http://a", key=KeySource("environment", "A"))},
    )
    node = resolve_node(NodeOptions(), environment={"A": CONTEXT}, contexts=contexts)
    assert (node.url, key_of(node)) == ("http://a", CONTEXT)


def test_files_are_read_once_for_many_nodes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str | None] = []
    loaded: list[object] = []

    def read_node_files(environment: Mapping[str, str], profile: str | None = None) -> object:
        from hermes_ctl import discovery

        read.append(profile)
        return discovery.read_node_files(environment, profile)

    def load(environment: Mapping[str, str]) -> Contexts:
        loaded.append(environment)
        return load_contexts(environment)

    monkeypatch.setattr("hermes_ctl.config.read_node_files", read_node_files)
    monkeypatch.setattr("hermes_ctl.config.load_contexts", load)
    machine.hermes(LOCAL_ENV)
    resolver = Resolver(machine.environment)
    for port in range(9000, 9100):
        resolver.resolve(NodeOptions(url=f"http://127.0.0.1:{port}"))
    assert read == [None]
    assert len(loaded) == 1


def test_no_key_is_in_what_a_node_shows(machine: Machine) -> None:
    machine.hermes(LOCAL_ENV)
    node = machine.resolve()
    assert LOCAL not in f"{node!r} {node} {node.sources} {node.key_findings}"


@pytest.mark.parametrize("text", ["broken = = 1", "odd = 1"])
def test_a_broken_configuration_is_always_told(machine: Machine, text: str) -> None:
    machine.configuration(text)
    with pytest.raises(HermesctlError) as caught:
        machine.resolve(NodeOptions(url="http://node1"))
    assert caught.value.exit_code == ExitCode.USAGE
