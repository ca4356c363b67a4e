"""Addresses of nodes: `http://node1:8642`, with a path and a `/p/<profile>` prefix where there is one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import urlsplit

from hermes_ctl.errors import ConfigurationError, UsageError
from hermes_ctl.secrets import MASK, redact

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?")
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")
_PROFILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")  # hermes_cli.profiles, 0.19 to 0.22
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Address:
    """An origin, the path below it where Hermes is served, and the profile that is meant.

    `host` is lower-case and without brackets; `path` has no trailing slash and does not hold the
    prefix of the profile.
    """

    scheme: str
    host: str
    port: int | None
    path: str = ""
    profile: str | None = None

    @property
    def authority(self) -> str:
        """`node1:8642`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """`http://node1:8642`."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """`http://node1:8642/p/planner`: what every route is appended to."""
        prefix = "" if self.profile is None else f"/p/{self.profile}"
        return f"{self.origin}{self.path}{prefix}"

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    @property
    def is_ip(self) -> bool:
        """Whether the host is an IP address and no name."""
        return _is_ip_address(self.host)

    def same_origin(self, other: Address) -> bool:
        """Whether both lead to one server. The three names of this machine count as one."""
        return self._place == other._place

    @property
    def _place(self) -> tuple[str, str, int]:
        host = "localhost" if self.host in _THIS_MACHINE else self.host
        return self.scheme, host, self.port or _PORTS[self.scheme]

    def with_profile(self, profile: str | None) -> Address:
        """This address for `profile`, None for the one that it names already.

        Raises `UsageError` where it already names another.
        """
        if profile is None or profile == self.profile:
            return self
        check_profile(profile)
        if self.profile is not None:
            raise UsageError(
                f"--profile {profile} and the address {self.url} name two profiles",
                hint=f"give one of them: {replace(self, profile=None).url}",
            )
        return replace(self, profile=profile)


def check_profile(name: str) -> str:
    """`name`, if it can be a profile of Hermes; raises `UsageError` otherwise."""
    if _PROFILE.fullmatch(name):
        return name
    raise UsageError(
        f"{name!r} is no name of a profile",
        hint="a profile's name has up to 64 lower-case letters, digits, dashes and underscores",
    )


def parse_address(text: str, source: str) -> Address:
    """Take a node's address apart; `source` says in errors where it came from.

    Raises `ConfigurationError` for everything that is none: nothing is ever guessed, a key that is
    sent to a wrong place is lost.
    """
    shown = _without_secrets(text)
    if not text.isascii() or not text.isprintable() or re.search(r"[\s\\<>\"]", text):
        raise _bad(shown, source, "has characters that no address has")
    if "://" not in text:
        guess = re.sub(r"(?i)^https?:", "", shown).lstrip("/:") or "127.0.0.1:8642"
        raise _bad(shown, source, "has no scheme", hint=f"http://{guess}")
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if scheme not in _PORTS:
        raise _bad(shown, source, f"is not an http or https one but {scheme or 'nothing'!r}")
    if "?" in rest or "#" in rest:
        raise _bad(
            shown, source, "has a query or a fragment", hint="leave out ? and # and the rest"
        )
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        raise _bad(
            shown,
            source,
            "has a user name or a password in it",
            hint="give the key by --key-file, or by HERMES_GATEWAY_KEY in the environment",
        )
    host, port = _host_and_port(f"{scheme}://{authority}", shown, source)
    path, profile = _path_and_profile((slash + path).rstrip("/"), shown, source)
    return Address(scheme, host, port, path, profile)


def _without_secrets(text: str) -> str:
    """`text` for an error message: what stands before an @ or behind a ? may be a secret."""
    head, at, tail = text.rpartition("@")
    if at:
        scheme, separator, _ = head.partition("://")
        text = f"{scheme if separator else ''}{separator}{MASK}@{tail}"
    return re.sub(r"([?#]).*", r"\1" + MASK, redact(text))


def _host_and_port(origin: str, shown: str, source: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError as error:
        what = "port" if "ort" in str(error) else "host"
        raise _bad(shown, source, f"has no valid {what}") from None
    if port == 0 or parts.netloc.endswith(":"):
        raise _bad(shown, source, "has no valid port")
    host = (parts.hostname or "").lower()
    if not host:
        raise _bad(shown, source, "names no host", hint="http://127.0.0.1:8642")
    if not _HOST.fullmatch(host) and not _is_ip_address(host):
        raise _bad(shown, source, f"has no valid host: {host!r}")
    return host, port


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _path_and_profile(path: str, shown: str, source: str) -> tuple[str, str | None]:
    segments = path.split("/")
    if not _PATH.fullmatch(path) or "." in segments or ".." in segments:
        raise _bad(shown, source, "has no valid path")
    if "v1" in segments:
        base = shown[: shown.rindex("/v1")]
        raise _bad(shown, source, "goes on with /v1, which hermesctl adds itself", hint=base)
    if segments[-1] == "p" or "p" in segments[:-2]:
        raise _bad(shown, source, "has a /p/ that no profile, or more than one, comes after")
    if segments[-2:-1] != ["p"]:
        return path, None
    return "/".join(segments[:-2]), check_profile(segments[-1])


def _bad(shown: str, source: str, what: str, hint: str | None = None) -> ConfigurationError:
    return ConfigurationError(
        f"the address {shown!r} from {source} {what}",
        hint=hint or "an address reads http://node:8642",
    )
