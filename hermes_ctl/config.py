"""Which node, which key: the value that every command that talks to a node starts from.

Precedence, value by value: what was typed, then the environment (HERMES_GATEWAY_URL,
HERMES_GATEWAY_KEY, HERMESCTL_CONTEXT), then the context of the configuration file, then what the
node's own files say, then `http://127.0.0.1:8642`.

A key goes only where it belongs, whatever else is set:

- A key that was typed, or exported as HERMES_GATEWAY_KEY, goes to the address that is meant.
- A context counts as a whole, and only for its own origin. `--context` is typed, so that it wins
  over both HERMES_GATEWAY_URL and, where the context has a key, HERMES_GATEWAY_KEY.
  HERMES_GATEWAY_KEY beside a HERMES_GATEWAY_URL of another origin is not for a typed context.
- The keys in a node's own files go to the origin that these files configure.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from hermes_ctl import secrets
from hermes_ctl.addresses import Address, check_profile, parse_address
from hermes_ctl.contexts import Context, Contexts, KeySource, expanded, is_lab, load_contexts
from hermes_ctl.discovery import NodeFiles, read_node_files
from hermes_ctl.errors import ConfigurationError, UsageError
from hermes_ctl.secrets import Secret, lint_key

DEFAULT_URL = "http://127.0.0.1:8642"
DEFAULT_TIMEOUT = 10.0
DEFAULT = "default"

URL_VARIABLE = "HERMES_GATEWAY_URL"
KEY_VARIABLE = "HERMES_GATEWAY_KEY"
CONTEXT_VARIABLE = "HERMESCTL_CONTEXT"


@dataclass(frozen=True, slots=True)
class Node:
    """One Hermes API server, one profile of it, and how to reach it.

    `url` has no trailing slash, no user information, and holds the `/p/<profile>` prefix already.
    `timeout` bounds one request, in seconds. `home` is the node's HERMES_HOME where this machine
    is the node. `sources` says for each field where its value came from. `key_findings` are
    sentences on a key that can be sent and yet will hardly do, or on why there is none.
    """

    name: str
    url: str = DEFAULT_URL
    key: Secret | None = None
    profile: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    ca_file: Path | None = None
    insecure: bool = False
    use_proxy: bool = False
    home: Path | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    key_findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The node options as they were typed; what was not typed is None or False.

    `key_file` is a path, or `-` for standard input; `timeout` is in seconds.
    """

    url: str | None = None
    key_file: str | None = None
    profile: str | None = None
    context: str | None = None
    timeout: float | None = None
    ca_file: Path | None = None
    insecure: bool = False
    proxy: bool = False


def environment() -> Mapping[str, str]:
    """The process environment. The only reader of it: everything else is handed this mapping."""
    return os.environ


def resolve_node(
    options: NodeOptions,
    *,
    environment: Mapping[str, str],
    contexts: Contexts | None = None,
) -> Node:
    """The node that options, environment, configuration file and node files mean together.

    Sends nothing. Raises `ConfigurationError` (or `UsageError`, for what was typed) where no node
    can be made of it, and for a key that no request could carry.
    """
    return Resolver(environment, contexts).resolve(options)


class Resolver:
    """Resolves several nodes in one environment, reading each file once."""

    def __init__(self, environment: Mapping[str, str], contexts: Contexts | None = None) -> None:
        self.environment = environment
        self._contexts = contexts
        self._files: dict[str | None, NodeFiles] = {}

    @cached_property
    def contexts(self) -> Contexts:
        """The contexts, those of the configuration file unless others were given."""
        return load_contexts(self.environment) if self._contexts is None else self._contexts

    def files(self, profile: str | None = None) -> NodeFiles:
        """What the Hermes of this machine says of itself, or of one of its profiles."""
        if profile not in self._files:
            self._files[profile] = read_node_files(self.environment, profile)
        return self._files[profile]

    def resolve(self, options: NodeOptions) -> Node:
        """See `resolve_node`."""
        return _Resolution(self, options).node()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the node is: the address that is meant and what named it; the context that counts for
    it (`typed`: by `--context`); the Hermes of this machine that answers there (`own_gateway`: it
    serves the profile that was typed, and no other)."""

    address: Address
    source: str
    context: Context | None = None
    typed: bool = False
    local: NodeFiles | None = None
    own_gateway: bool = False


class _Resolution:
    """One node, being resolved."""

    def __init__(self, resolver: Resolver, options: NodeOptions) -> None:
        self._resolver = resolver
        self._environment = resolver.environment
        self._options = options
        self._findings: list[str] = []

    def node(self) -> Node:
        place, profile, profile_source = self._with_profile(self._place())
        context, address = place.context, place.address
        key, key_source = self._key(place, profile)
        timeout, timeout_source = self._timeout(context)
        ca_file, ca_source = self._ca_file(context)
        insecure = self._switched_on("insecure", self._options.insecure, context)
        proxy = self._switched_on("proxy", self._options.proxy, context)
        home = place.local.home if place.local is not None and place.local.found else None
        named_by = self._source_of(context) if context else "this machine" if home else place.source
        return Node(
            name=context.name if context else "local" if home else address.authority,
            url=address.url,
            key=key,
            profile=profile,
            timeout=timeout,
            ca_file=ca_file,
            insecure=insecure != DEFAULT,
            use_proxy=proxy != DEFAULT,
            home=home,
            sources={
                "name": named_by,
                "url": place.source,
                "key": key_source,
                "profile": profile_source,
                "timeout": timeout_source,
                "ca_file": ca_source,
                "insecure": insecure,
                "proxy": proxy,
                "home": "this machine" if home is not None else "none",
            },
            key_findings=tuple(self._findings),
        )

    # The address

    def _place(self) -> _Place:
        context, typed = self._selected()
        if self._options.url is not None:
            address, source = parse_address(self._options.url, "--url"), "--url"
        elif not typed and self._environment.get(URL_VARIABLE):
            address, source = self._exported_address(), _variable(URL_VARIABLE)
        elif context is not None:
            address, source = self._address_of(context), self._source_of(context)
        else:
            return self._this_machine()
        if context is not None and not address.same_origin(self._address_of(context)):
            if typed:
                raise UsageError(
                    f"--url {address.url} is not where the context {context.name} leads",
                    hint=f"leave one of them out: the context leads to {context.url}",
                )
            context = None
        return _Place(address, source, context, typed)

    def _selected(self) -> tuple[Context | None, bool]:
        """The context that was chosen, and whether it was typed."""
        contexts = self._resolver.contexts
        if self._options.context is not None:
            return contexts.get(self._options.context), True
        name = self._environment.get(CONTEXT_VARIABLE)
        if name and not is_lab(name):
            return contexts.get(name, CONTEXT_VARIABLE), False
        return (None if contexts.current is None else contexts.get(contexts.current)), False

    def _address_of(self, context: Context) -> Address:
        return parse_address(context.url, self._source_of(context))

    def _exported_address(self) -> Address:
        return parse_address(self._environment[URL_VARIABLE], _variable(URL_VARIABLE))

    def _source_of(self, context: Context) -> str:
        return f"context {context.name} in {self._resolver.contexts.path}"

    def _this_machine(self) -> _Place:
        """Nobody named an address, so the node is this machine."""
        files = self._resolver.files()
        if self._options.profile is not None and not files.multiplex.value:
            own = self._resolver.files(self._options.profile)
            if own.has_own_port and own.port.value != files.port.value:
                # 0.22 settles at its start whether one gateway serves all: the files do not tell.
                other = f"{files.url}/p/{self._options.profile}"
                source = f"{own.url_source}; where one gateway serves all profiles: --url {other}"
                return _Place(_address(own), source, local=own, own_gateway=True)
        return _Place(_address(files), files.url_source, local=files)

    def _with_profile(self, place: _Place) -> tuple[_Place, str | None, str]:
        """The place with the prefix of its profile; the profile; where that came from."""
        address, profile, source = place.address, self._options.profile, "--profile"
        if profile is not None:
            check_profile(profile)
            # Where a gateway serves one profile alone, newer ones know no prefix (wire.md, 7).
            address = address if place.own_gateway else address.with_profile(profile)
        elif address.profile is not None or place.context is None:
            profile = address.profile
            source = place.source if profile is not None else DEFAULT
        else:
            profile = place.context.profile
            address = address.with_profile(profile)
            source = self._source_of(place.context) if profile is not None else DEFAULT
        local = place.local or self._answering_at(address, profile)
        return replace(place, address=address, local=local), profile, source

    def _answering_at(self, address: Address, profile: str | None) -> NodeFiles | None:
        """The Hermes of this machine whose files name that origin. A path in front of it may lead
        anywhere."""
        if address.path or not (address.is_loopback or address.is_ip):
            return None
        for name in dict.fromkeys((profile, None)):
            files = self._resolver.files(name)
            with suppress(ConfigurationError):  # what stands in the files is not what was asked for
                if address.same_origin(_address(files)):
                    return files
        return None

    # The key

    def _key(self, place: _Place, profile: str | None) -> tuple[Secret | None, str]:
        """The key, or None, and where it came from."""
        key, source = self._found_key(place, profile)
        if key is None:
            self._findings.append(
                f"No key is known for {place.address.url}. Give --key-file FILE, export "
                f"{KEY_VARIABLE}, or name its place once: hermesctl config set-context"
            )
        else:
            self._findings.extend(lint_key(key))
        return key, source

    def _found_key(self, place: _Place, profile: str | None) -> tuple[Secret | None, str]:
        if self._options.key_file is not None:
            key = secrets.read_key_file(self._options.key_file)
            return key, f"--key-file: {key.source}"
        stated = self._context_key(place.context, profile)
        exported = self._environment.get(KEY_VARIABLE)
        if exported and not self._is_for_another(place, stated):
            key = secrets.key(exported, _variable(KEY_VARIABLE))
            return key, key.source
        if stated is not None and place.context is not None:
            return self._of_context(stated, place.context, profile)
        local = None if place.local is None else self._local_key(place.local, profile)
        return local, local.source if local is not None else "none"

    def _of_context(
        self, stated: KeySource, context: Context, profile: str | None
    ) -> tuple[Secret, str]:
        named_by = self._source_of(context)
        try:
            key = stated.read(self._environment, self._resolver.contexts.path.parent)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error.message}; {named_by} names it", hint=error.hint
            ) from None
        if stated is context.key and profile not in (None, "default", context.profile):
            self._borrowed(f"The context {context.name} has no key for the profile {profile}")
        return key, f"{key.source}, by {named_by}"

    def _is_for_another(self, place: _Place, stated: KeySource | None) -> bool:
        """Whether the exported key is not for a context that was typed: it has a key of its own,
        or the exported address beside the exported key is another node's."""
        if not place.typed:
            return False
        if stated is not None:
            return True
        return bool(self._environment.get(URL_VARIABLE)) and not (
            self._exported_address().same_origin(place.address)
        )

    def _context_key(self, context: Context | None, profile: str | None) -> KeySource | None:
        if context is None:
            return None
        return context.profiles.get(profile or "", context.key)

    def _local_key(self, local: NodeFiles, profile: str | None) -> Secret | None:
        files = local
        if profile not in (None, local.profile):
            files = self._resolver.files(profile)
        if files.key is None and files.unreadable:
            raise ConfigurationError(
                f"the key of this node cannot be had: {files.unreadable[0]}",
                hint="mend that, run hermesctl as the user that Hermes runs as, or give --key-file",
            )
        if files.key is None and local.key is not None:
            self._borrowed(f"The profile {profile} has no API_SERVER_KEY in {files.home / '.env'}")
            return secrets.sendable(local.key)
        return None if files.key is None else secrets.sendable(files.key)

    def _borrowed(self, why: str) -> None:
        self._findings.append(
            f"{why}, so the default key is sent, which Hermes from 0.20 on refuses for a profile."
        )

    # The rest

    def _timeout(self, context: Context | None) -> tuple[float, str]:
        if self._options.timeout is not None:
            if self._options.timeout <= 0:
                raise UsageError("--timeout leaves no time for an answer", hint="--timeout 10s")
            return self._options.timeout, "--timeout"
        if context is not None and context.timeout is not None:
            return context.timeout, self._source_of(context)
        return DEFAULT_TIMEOUT, DEFAULT

    def _ca_file(self, context: Context | None) -> tuple[Path | None, str]:
        path, source = self._options.ca_file, "--ca-file"
        if path is None and context is not None and context.ca_file is not None:
            folder = self._resolver.contexts.path.parent
            path = expanded(context.ca_file, self._environment, folder)
            source = self._source_of(context)
        if path is None:
            return None, DEFAULT
        if not os.path.isfile(path) or not os.access(path, os.R_OK):  # noqa: PTH113
            raise ConfigurationError(
                f"the certificates that {source} names cannot be read: {path}",
                hint="give a file of certificates in PEM form",
            )
        return path, source

    def _switched_on(self, name: str, typed: bool, context: Context | None) -> str:
        """What switched the setting on, or the default, which is off."""
        if typed:
            return f"--{name}"
        on = context is not None and getattr(context, name)
        return self._source_of(context) if context is not None and on else DEFAULT


def _address(files: NodeFiles) -> Address:
    return parse_address(files.url, files.url_source)


def _variable(name: str) -> str:
    return f"environment variable {name}"
