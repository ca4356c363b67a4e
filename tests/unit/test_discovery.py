"""What a node's own files say, as Hermes itself reads them.

The table was measured: the same files were given to `gateway.config.load_gateway_config` and
`APIServerAdapter` of 0.20.4.post1 and 0.22.2.post1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_ctl.discovery import NodeFiles, hermes_home, read_node_files

ENV = "env-key-0123456789abcdef"
YAML = "yaml-key-0123456789abcdef"


@dataclass(frozen=True)
class Case:
    """Files, and what a gateway that was started with them did."""

    yaml: str = ""
    env: str = ""
    process: dict[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 8642
    key: str | None = ENV
    enabled: bool = True
    limit: int = 10


CASES = {
    "nothing": Case(key=None, enabled=False),
    "env only": Case(env=f"API_SERVER_KEY={ENV}\nAPI_SERVER_PORT=9200\n", port=9200),
    "gateway.api_server": Case(
        yaml=f"gateway: {{api_server: {{enabled: true, port: 9101, host: 127.0.0.2, key: {YAML},"
        " max_concurrent_runs: 3}}",
        host="127.0.0.2",
        port=9101,
        key=YAML,
        limit=3,
    ),
    "gateway.platforms.api_server": Case(
        yaml=f"gateway: {{platforms: {{api_server: {{enabled: true, port: 9102, key: {YAML},"
        " max_concurrent_runs: 3}}}",
        port=9102,
        key=YAML,
    ),
    "platforms.api_server": Case(
        yaml=f"platforms: {{api_server: {{enabled: true, port: 9103, key: {YAML},"
        " max_concurrent_runs: 3}}",
        port=9103,
        key=YAML,
    ),
    "extra": Case(
        yaml=f"platforms: {{api_server: {{enabled: true, extra: {{port: 9105, key: {YAML}}}}}}}",
        port=9105,
        key=YAML,
    ),
    "extra wins in one block": Case(
        yaml="platforms: {api_server: {enabled: true, port: 8, key: flat-0123456789abcdef,"
        f" extra: {{port: 7, key: {YAML}}}}}}}",
        port=7,
        key=YAML,
    ),
    "extra wins over a later block": Case(
        yaml=f"gateway: {{platforms: {{api_server: {{extra: {{port: 7, key: {YAML}}}}}}},"
        " api_server: {enabled: true, port: 8, key: flat-0123456789abcdef}}",
        port=7,
        key=YAML,
    ),
    "later blocks win for the key": Case(
        yaml="gateway: {platforms: {api_server: {key: gp-key-0123456789abcdef}},"
        f" api_server: {{enabled: true, key: {YAML}}}}}\n"
        "platforms: {api_server: {key: pl-key-0123456789abcdef}}",
        key=YAML,
    ),
    "the first block wins for host and port": Case(
        yaml=f"gateway: {{platforms: {{api_server: {{port: 2, host: 127.0.0.2}}}},"
        f" api_server: {{enabled: true, port: 1, key: {YAML}}}}}\n"
        "platforms: {api_server: {port: 3, host: 127.0.0.3}}",
        host="127.0.0.2",
        port=2,
        key=YAML,
    ),
    "a first block without a port": Case(
        yaml=f"gateway: {{platforms: {{api_server: {{enabled: true, key: {YAML}}}}},"
        " api_server: {port: 1}}\nplatforms: {api_server: {port: 3}}",
        port=1,
        key=YAML,
    ),
    "enabled of the last block": Case(
        yaml=f"gateway: {{api_server: {{enabled: false, key: {YAML}}}}}\n"
        "platforms: {api_server: {enabled: true}}",
        key=YAML,
        enabled=False,
    ),
    "no word of enabled": Case(
        yaml=f"gateway: {{api_server: {{key: {YAML}}}}}", key=YAML, enabled=False
    ),
    "enabled as a text": Case(
        yaml=f"gateway: {{api_server: {{enabled: 'no', key: {YAML}}}}}", key=YAML, enabled=False
    ),
    "env over yaml": Case(
        yaml=f"gateway: {{api_server: {{enabled: true, port: 9101, host: 127.0.0.2, key: {YAML}}}}}",
        env=f"API_SERVER_KEY={ENV}\nAPI_SERVER_PORT=9200\nAPI_SERVER_HOST=127.0.0.9\n",
        host="127.0.0.9",
        port=9200,
    ),
    "env port without env key": Case(
        yaml=f"gateway: {{api_server: {{enabled: true, port: 9101, host: 127.0.0.2, key: {YAML}}}}}",
        env="API_SERVER_PORT=9200\nAPI_SERVER_HOST=127.0.0.9\n",
        host="127.0.0.2",
        port=9101,
        key=YAML,
    ),
    "env fills in": Case(
        yaml=f"gateway: {{api_server: {{enabled: true, key: {YAML}}}}}",
        env="API_SERVER_PORT=9200\n",
        port=9200,
        key=YAML,
    ),
    "weak env key": Case(
        yaml=f"gateway: {{api_server: {{enabled: true, port: 9101, key: {YAML}}}}}",
        env="API_SERVER_KEY=short\nAPI_SERVER_PORT=9200\n",
        port=9101,
        key=YAML,
    ),
    "API_SERVER_ENABLED alone": Case(
        yaml=f"gateway: {{api_server: {{key: {YAML}}}}}",
        env="API_SERVER_ENABLED=true\n",
        key=YAML,
        enabled=False,
    ),
    "API_SERVER_ENABLED=false": Case(env=f"API_SERVER_ENABLED=false\nAPI_SERVER_KEY={ENV}\n"),
    "disabled in yaml": Case(
        yaml="gateway: {api_server: {enabled: false}}",
        env=f"API_SERVER_KEY={ENV}\n",
        enabled=False,
    ),
    "quotes and comments": Case(
        env=f"API_SERVER_KEY=\"{ENV}\" # c\nAPI_SERVER_PORT='9201'\nexport API_SERVER_HOST=127.0.0.4\n",
        host="127.0.0.4",
        port=9201,
    ),
    "references in .env": Case(
        env="BASE=abcdefgh\nAPI_SERVER_KEY=${BASE}-${BASE}-${NOPE:-d}$BASE\n",
        key="abcdefgh-abcdefgh-d$BASE",
    ),
    "the last line wins": Case(
        env=f"API_SERVER_KEY=first-0123456789abcdef\nAPI_SERVER_KEY={ENV}\n"
    ),
    "a port that is none": Case(
        yaml="gateway: {api_server: {port: 9101}}",
        env=f"API_SERVER_KEY={ENV}\nAPI_SERVER_PORT=abc\n",
        port=9101,
    ),
    "a yaml port that is none": Case(
        yaml=f"gateway: {{api_server: {{port: abc, enabled: true, key: {YAML}}}}}", key=YAML
    ),
    "a key with blanks": Case(env=f"API_SERVER_KEY='  {ENV} '\n", key=f"  {ENV} "),
    "a byte order mark": Case(env=f"\ufeffAPI_SERVER_KEY={ENV}\n"),
    "beyond ASCII": Case(
        env="API_SERVER_KEY=sécret-0123456789abcdef\n", key="scret-0123456789abcdef"
    ),
    "limit as a text": Case(
        yaml=f"gateway: {{api_server: {{enabled: true, key: {YAML}, max_concurrent_runs: '7'}}}}",
        key=YAML,
        limit=7,
    ),
    "limit with a fraction": Case(
        yaml="gateway: {api_server: {max_concurrent_runs: 7.9}}", key=None, enabled=False, limit=7
    ),
    "limit below zero": Case(
        yaml="gateway: {api_server: {max_concurrent_runs: -4}}", key=None, enabled=False, limit=0
    ),
    "limit that is none": Case(
        yaml="gateway: {api_server: {max_concurrent_runs: many}}", key=None, enabled=False
    ),
    "limit by reference": Case(
        yaml="gateway: {api_server: {max_concurrent_runs: '${MOST}'}}",
        env="MOST=5\n",
        key=None,
        enabled=False,
        limit=5,
    ),
    "broken yaml": Case(
        yaml="gateway: [", env=f"API_SERVER_KEY={ENV}\nAPI_SERVER_PORT=9200\n", port=9200
    ),
    "the process environment": Case(
        process={"API_SERVER_KEY": ENV, "API_SERVER_PORT": "9300"}, port=9300
    ),
    ".env over the process": Case(
        env=f"API_SERVER_KEY={ENV}\n",
        process={"API_SERVER_KEY": "process-0123456789abcdef", "API_SERVER_PORT": "9300"},
        port=9300,
    ),
    "empty in .env over the process": Case(
        env="API_SERVER_KEY=\n", process={"API_SERVER_KEY": ENV}, key=None, enabled=False
    ),
}


def make(home: Path, yaml: str = "", env: str = "") -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(yaml, "utf-8")
    (home / ".env").write_text(env, "utf-8")


def read(home: Path, profile: str | None = None, **process: str) -> NodeFiles:
    environment = {"HERMES_HOME": str(home), "HERMES_MANAGED_DIR": str(home / "none"), **process}
    return read_node_files(environment, profile)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_files_mean_what_hermes_makes_of_them(tmp_path: Path, case: Case) -> None:
    make(tmp_path, case.yaml, case.env)
    files = read(tmp_path, **case.process)
    assert files.host.value == case.host
    assert files.port.value == case.port
    assert (files.key.reveal() if files.key else None) == case.key
    assert files.enabled.value is case.enabled
    assert files.max_concurrent_runs.value == case.limit


def test_each_value_says_where_it_stands(tmp_path: Path) -> None:
    make(
        tmp_path,
        "gateway: {api_server: {port: 9101, max_concurrent_runs: 4}}\nmodel: {default: opus}\n",
        f"API_SERVER_KEY={ENV}\n",
    )
    files = read(tmp_path, API_SERVER_HOST="0.0.0.0")
    assert files.port.source == f"{tmp_path}/config.yaml, gateway.api_server.port"
    assert files.host.source == "environment variable API_SERVER_HOST"
    assert files.key is not None
    assert files.key.source == f"{tmp_path}/.env, API_SERVER_KEY"
    assert files.enabled.source == f"{tmp_path}/.env, API_SERVER_KEY"
    assert (
        files.max_concurrent_runs.source
        == f"{tmp_path}/config.yaml, gateway.api_server.max_concurrent_runs"
    )
    assert files.model is not None
    assert files.model.value == "opus"
    assert files.multiplex.source == "default of Hermes"
    assert files.url_source == f"{files.host.source} and {files.port.source}"
    assert files.problems == ()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8642"),
        ("::", "http://[::1]:8642"),
        ("::1", "http://[::1]:8642"),
        ("localhost", "http://localhost:8642"),
        ("10.0.0.7", "http://10.0.0.7:8642"),
    ],
)
def test_a_server_on_every_address_is_asked_on_loopback(
    tmp_path: Path, host: str, url: str
) -> None:
    make(tmp_path, env=f"API_SERVER_KEY={ENV}\nAPI_SERVER_HOST={host}\n")
    assert read(tmp_path).url == url


@pytest.mark.parametrize(
    ("yaml", "model"),
    [
        ("model: opus", "opus"),
        ("model: {default: opus, name: other}", "opus"),
        ("model: {model: opus}", "opus"),
        ("model: {name: opus}", "opus"),
        ("model: {default: {provider: p, model: opus}}", "opus"),
        ("model: {default: ''}", None),
        ("model: 5", None),
        ("", None),
    ],
)
def test_the_default_model(tmp_path: Path, yaml: str, model: str | None) -> None:
    make(tmp_path, yaml)
    found = read(tmp_path).model
    assert (found.value if found else None) == model


@pytest.mark.parametrize(
    ("yaml", "env", "said"),
    [
        (
            "gateway: {platforms: {api_server: {max_concurrent_runs: 3}}}",
            "",
            "only from gateway.api",
        ),
        ("platforms: {api_server: {extra: {max_concurrent_runs: 3}}}", "", "only from gateway.api"),
        (f"gateway: {{api_server: {{key: {YAML}, port: 1}}}}", "API_SERVER_PORT=2\n", "no effect"),
        ("", "API_SERVER_ENABLED=true\n", "alone does not open"),
        ("", "API_SERVER_ENABLED=1\nAPI_SERVER_KEY=weak\n", "alone does not open"),
        (
            "gateway: {api_server: {port: 1}}\nplatforms: {api_server: {port: 2}}",
            "",
            "releases differ",
        ),
        ("gateway: {api_server: {key: '${K}'}}", f"K={ENV}\n", "before 0.22 takes literally"),
        (f"api_server: {{key: {YAML}}}", "", "before 0.22"),
        ("gateway: {api_server: {key: 12345678901234567890}}", "", "is no text"),
        ("", "API_SERVER_KEY=sécret-0123456789abcdef\n", "beyond ASCII"),
        ("", "API_SERVER_PORT=70000\n", "no port number"),
        ("", f"API_SERVER_KEY={ENV}\nsome words\n='x\n", "line 3"),
        ("a: [", "", "config.yaml, line 1: this is not YAML"),
        ("- a list", "", "not a mapping"),
    ],
)
def test_what_has_no_effect_or_is_broken_is_told(
    tmp_path: Path, yaml: str, env: str, said: str
) -> None:
    make(tmp_path, yaml, env)
    problems = read(tmp_path).problems
    assert any(said in problem for problem in problems), problems
    assert not any(ENV in problem or YAML in problem for problem in problems)


def test_limits_where_nobody_looks_are_listed_with_their_place(tmp_path: Path) -> None:
    make(
        tmp_path,
        "gateway: {api_server: {max_concurrent_runs: 4},"
        " platforms: {api_server: {max_concurrent_runs: 7}}}",
    )
    files = read(tmp_path)
    assert files.max_concurrent_runs.value == 4
    assert [(place.value, place.source) for place in files.ignored_limits] == [
        (7, f"{tmp_path}/config.yaml, gateway.platforms.api_server.max_concurrent_runs")
    ]


def test_the_managed_folder_wins(tmp_path: Path) -> None:
    managed, home = tmp_path / "managed", tmp_path / "home"
    make(managed, "gateway: {api_server: {max_concurrent_runs: 2}}", f"API_SERVER_KEY={ENV}\n")
    make(
        home,
        "gateway: {api_server: {max_concurrent_runs: 9, port: 9101}}",
        "API_SERVER_KEY=users-0123456789abcdef\n",
    )
    files = read(home, HERMES_MANAGED_DIR=str(managed))
    assert files.key is not None
    assert files.key.reveal() == ENV
    assert files.max_concurrent_runs.value == 2
    assert files.max_concurrent_runs.source.startswith(str(managed))
    assert files.port.value == 9101


# Homes and profiles


def test_the_home_of_hermes_and_of_its_profiles() -> None:
    assert hermes_home({"HOME": "/home/u"}) == Path("/home/u/.hermes")
    assert hermes_home({"HOME": "/home/u", "HERMES_HOME": " "}) == Path("/home/u/.hermes")
    root = {"HERMES_HOME": "/data"}
    assert hermes_home(root) == Path("/data")
    assert hermes_home(root, "default") == Path("/data")
    assert hermes_home(root, "planner") == Path("/data/profiles/planner")
    profile = {"HERMES_HOME": "/data/profiles/coder"}
    assert hermes_home(profile) == Path("/data/profiles/coder")
    assert hermes_home(profile, "planner") == Path("/data/profiles/planner")
    assert hermes_home(profile, "default") == Path("/data")


def test_a_profile_has_its_own_files_and_nothing_of_our_environment(tmp_path: Path) -> None:
    make(tmp_path, env=f"API_SERVER_KEY={ENV}\n")
    make(tmp_path / "profiles/planner", env="API_SERVER_KEY=planner-0123456789abcdef\n")
    files = read(tmp_path, "planner", API_SERVER_PORT="9300")
    assert files.profile == "planner"
    assert files.key is not None
    assert files.key.reveal() == "planner-0123456789abcdef"
    assert files.port.value == 8642
    assert not files.has_own_port
    nobody = read(tmp_path, "nobody", API_SERVER_KEY=ENV)
    assert nobody.key is None
    assert not nobody.found


@pytest.mark.parametrize(
    ("yaml", "env", "multiplex"),
    [
        ("gateway: {multiplex_profiles: true}", "", True),
        ("multiplex_profiles: 'yes'", "", True),
        ("multiplex_profiles: false\ngateway: {multiplex_profiles: true}", "", False),
        ("gateway: {multiplex_profiles: true}", "GATEWAY_MULTIPLEX_PROFILES=off\n", False),
        ("gateway: {multiplex_profiles: true}", "GATEWAY_MULTIPLEX_PROFILES=\n", True),
        ("", "", False),
    ],
)
def test_whether_one_gateway_serves_all_profiles(
    tmp_path: Path, yaml: str, env: str, multiplex: bool
) -> None:
    make(tmp_path, yaml, env)
    assert read(tmp_path).multiplex.value is multiplex


def test_a_sticky_profile_is_told(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "active_profile").write_text("coder\n", "utf-8")
    assert any("--profile coder" in problem for problem in read(tmp_path).problems)
    (tmp_path / "active_profile").write_text("default\n", "utf-8")
    assert read(tmp_path).problems == ()


def test_nothing_at_all_is_no_trouble(tmp_path: Path) -> None:
    files = read(tmp_path / "nowhere")
    assert not files.found
    assert files.url == "http://127.0.0.1:8642"
    assert files.problems == files.unreadable == ()


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    (tmp_path / "config.yaml").symlink_to("config.yaml")
    files = read(tmp_path)
    assert files.found
    assert "Is a directory" in files.unreadable[0]
    assert "symbolic links" in files.unreadable[1]
    assert files.problems == files.unreadable


# Hostile files


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(env=st.binary(max_size=200), yaml=st.binary(max_size=200))
def test_any_bytes_are_read_without_a_crash(tmp_path: Path, env: bytes, yaml: bytes) -> None:
    (tmp_path / ".env").write_bytes(env)
    (tmp_path / "config.yaml").write_bytes(yaml)
    files = read(tmp_path)
    assert 0 < files.port.value < 65536
    assert files.max_concurrent_runs.value >= 0


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "gateway",
                    "platforms",
                    "api_server",
                    "extra",
                    "port",
                    "host",
                    "key",
                    "enabled",
                    "max_concurrent_runs",
                    "model",
                    "default",
                    "multiplex_profiles",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=JUNK)
def test_any_types_are_read_without_a_crash(tmp_path: Path, document: object) -> None:
    import yaml

    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document), "utf-8")
    files = read(tmp_path)
    assert isinstance(files.host.value, str)
    assert 0 < files.port.value < 65536
    assert files.max_concurrent_runs.value >= 0
    assert files.url.startswith("http://")
