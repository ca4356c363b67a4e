"""Which of the settings in a HERMES_HOME is in force.

Measured with the loaders of Hermes itself on 0.20.4.post1, the reviewed release; 0.22.2.post1
differs only where a note says so:

- `.env` wins over the process environment.
- The environment's API_SERVER_HOST and API_SERVER_PORT win over the YAML only while its
  API_SERVER_KEY is one that Hermes would start with. Otherwise what the YAML says stands, and the
  environment fills in what it does not say.
- In the YAML the settings may stand in `gateway.platforms.api_server`, `platforms.api_server` and
  `gateway.api_server`, each time also under `extra:`. The later one wins, and what stands under an
  `extra:` wins over all that does not. Host and port alone are different: the first block wins.
- The limit is read from `gateway.api_server.max_concurrent_runs` and nowhere else (wire.md, 0.15).
- API_SERVER_ENABLED is not looked at; a strong API_SERVER_KEY enables, unless the YAML says not to.
- 0.19.0 obeys the environment, whatever the key, and of the YAML knows `extra:` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes_ctl.discovery.files import REFERENCE, KeyPath, Settings, Sourced
from hermes_ctl.secrets import MINIMUM_KEY_LENGTH, Secret, would_start

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8642
DEFAULT_LIMIT = 10
OF_HERMES = "default of Hermes"

_BLOCKS: tuple[KeyPath, ...] = (
    ("gateway", "platforms", "api_server"),
    ("platforms", "api_server"),
    ("gateway", "api_server"),
)
_TOP: KeyPath = ("api_server",)  # documented nowhere, and half obeyed
_LIMIT: KeyPath = ("gateway", "api_server", "max_concurrent_runs")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")

Variables = Mapping[str, Sourced[str]]


class ServerRules:
    """The settings of the API server, from the environment and the YAML together.

    `problems` fills while they are asked for.
    """

    def __init__(self, settings: Settings, variables: Variables) -> None:
        self._settings = settings
        self._variables = variables
        self.problems: list[str] = []
        key = variables.get("API_SERVER_KEY")
        self._environment_first = key is not None and would_start(key.value)

    def host(self) -> Sourced[str]:
        for found in self._candidates("host", "API_SERVER_HOST"):
            if isinstance(found.value, str) and found.value:
                return Sourced(found.value, found.source)
            self.problems.append(f"{found.source}: this is no host name")
        return Sourced(DEFAULT_HOST, OF_HERMES)

    def port(self) -> Sourced[int]:
        for found in self._candidates("port", "API_SERVER_PORT"):
            port = _whole_number(found.value)
            if port is not None and 0 < port < 65536:
                return Sourced(port, found.source)
            self.problems.append(f"{found.source}: this is no port number")
        return Sourced(DEFAULT_PORT, OF_HERMES)

    def key(self) -> Secret | None:
        for found in self._candidates("key", "API_SERVER_KEY"):
            expanded = self._settings.expanded(found)
            if isinstance(expanded.value, str) and expanded.value:
                return Secret(expanded.value, found.source)
            if expanded.value != "":
                self.problems.append(
                    f"{found.source}: this key is no text, so Hermes does not start its API "
                    "server: put quotes around it, or set API_SERVER_KEY in .env"
                )
        return None

    def enabled(self) -> Sourced[bool]:
        found = next(iter(places(self._settings, "enabled")), None)
        stated = None if found is None else Sourced(_truth(found.value), found.source)
        if self._environment_first and (stated is None or stated.value):
            return Sourced(True, self._variables["API_SERVER_KEY"].source)
        return stated or Sourced(False, OF_HERMES)

    def _candidates(self, name: str, variable: str) -> Iterator[Sourced[object]]:
        """Where the setting stands, the one in force first. What is empty says nothing."""
        environment = self._variables.get(variable)
        stated = [environment] if environment is not None and environment.value else []
        yaml = [place for place in places(self._settings, name) if place.value is not None]
        yield from [*stated, *yaml] if self._environment_first else [*yaml, *stated]


def places(settings: Settings, name: str) -> list[Sourced[object]]:
    """Every place in the YAML where the api_server setting `name` stands, the one in force first."""
    paths = [(*block, "extra", name) for block in reversed(_BLOCKS)]
    paths += [(*block, name) for block in reversed(_BLOCKS)]
    if name in ("host", "port"):
        blocks = (block for block in (_TOP, *_BLOCKS[:2]) if _is_mapping(settings, block))
        first = next(blocks, None)
        if first is not None and settings.get((*first, "extra", name)) is None:
            paths.insert(0, (*first, name))
    elif name == "enabled":
        paths.insert(0, (*_TOP, name))
    found = (settings.get(path) for path in dict.fromkeys([*paths, (*_TOP, name)]))
    return [place for place in found if place is not None]


def _is_mapping(settings: Settings, path: KeyPath) -> bool:
    found = settings.get(path)
    return found is not None and isinstance(found.value, Mapping)


def _truth(value: object) -> bool:
    return value.strip().lower() in _TRUE if isinstance(value, str) else bool(value)


def _whole_number(value: object) -> int | None:
    """What `int()` makes of it, as Hermes does; None where it makes nothing."""
    if not isinstance(value, int | float | str):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def multiplex(settings: Settings, variables: Variables) -> Sourced[bool]:
    """Whether one gateway serves every profile under `/p/<profile>`."""
    stated = variables.get("GATEWAY_MULTIPLEX_PROFILES")
    if stated is not None and stated.value.strip().lower() in (*_TRUE, *_FALSE):
        return Sourced(_truth(stated.value), stated.source)
    for path in (("multiplex_profiles",), ("gateway", "multiplex_profiles")):
        found = settings.get(path)
        if found is not None and found.value is not None:
            return Sourced(_truth(found.value), found.source)
    return Sourced(False, OF_HERMES)


def limit(settings: Settings) -> Sourced[int]:
    """How many runs at once; 0 is no limit. What is no whole number counts as the default."""
    found = settings.get(_LIMIT)
    if found is None:
        return Sourced(DEFAULT_LIMIT, OF_HERMES)
    number = _whole_number(settings.expanded(found).value)
    if number is None:
        return Sourced(DEFAULT_LIMIT, f"{OF_HERMES}, as {found.source} is no whole number")
    return Sourced(max(0, number), found.source)


def ignored_limits(settings: Settings) -> tuple[Sourced[object], ...]:
    """The limits that stand where Hermes does not look for them."""
    found = (
        settings.get((*block, *inner, "max_concurrent_runs"))
        for block in (*_BLOCKS, _TOP)
        for inner in ((), ("extra",))
        if (*block, *inner) != _LIMIT[:-1]
    )
    return tuple(place for place in found if place is not None)


def model(settings: Settings) -> Sourced[str] | None:
    """The default model: `model.default`, else `model.model` or `model.name`, or `model` itself."""
    for name in ("default", "model", "name"):
        found = settings.text(("model", name)) or settings.text(("model", name, "model"))
        if found is not None:
            return found
    return settings.text(("model",))


def notes(
    settings: Settings,
    variables: Variables,
    *,
    host: Sourced[str],
    port: Sourced[int],
    enabled: Sourced[bool],
) -> Iterator[str]:
    """What stands there without effect, or means different things to different releases."""
    for name, in_force in (("host", host), ("port", port)):
        variable = variables.get(f"API_SERVER_{name.upper()}")
        if variable is not None and variable.value and in_force.source.endswith(f".{name}"):
            yield (
                f"{variable.source} has no effect: {in_force.source} is in force as long as there "
                "is no strong API_SERVER_KEY in the environment"
            )
        yield from _contradiction(name, places(settings, name))
    switch = variables.get("API_SERVER_ENABLED")
    if switch is not None and _truth(switch.value) and not enabled.value:
        yield (
            f"{switch.source} alone does not open the API server: Hermes wants an API_SERVER_KEY "
            f"of {MINIMUM_KEY_LENGTH} characters or more, and no enabled: false in config.yaml"
        )
    for place in places(settings, "key"):
        if isinstance(place.value, str) and REFERENCE.search(place.value):
            yield f"{place.source} refers to a variable, which Hermes before 0.22 takes literally"
    top = settings.get((*_TOP, "key"))
    if top is not None:
        yield f"{top.source} is not looked at by Hermes before 0.22: use {'.'.join(_LIMIT[:-1])}.key"
    for ignored in ignored_limits(settings):
        yield f"{ignored.source} has no effect: Hermes reads the limit only from {'.'.join(_LIMIT)}"


def _contradiction(name: str, found: list[Sourced[object]]) -> Iterator[str]:
    if len({str(place.value) for place in found}) > 1:
        sources = "; ".join(place.source for place in found)
        yield f"the {name} of the API server is set to different values, and releases differ in which they obey: {sources}"
