"""Keys: where they come from, whether Hermes would take them, and the one redactor.

A `Secret` never shows its value by accident: not in `repr`, not in `str`, not in a format string,
not in a pickle. Making one teaches `redact` its value, so that no text that went through
`redact` can hold it.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NoReturn

from hermes_ctl.errors import ConfigurationError
from hermes_ctl.known_keys import KnownKeys

MASK = "***"
MINIMUM_KEY_LENGTH = 16  # wire.md, section 6: with fewer, Hermes starts no API server
KEY_COMMAND_SECONDS = 30.0
NEW_KEY = "openssl rand -hex 32"

_LONGEST_KEY = 8192  # a header line longer than about that is refused by Hermes' HTTP parser
_SHORTEST_MASKED = 4  # shorter ones would be found in every other word

_NAMES = r"(?:api[_-]?key|secret|password|passwd|access[_-]?token|auth[_-]?token)"
_PATTERNS = re.compile(
    r"(?P<keep>"
    r"(?i:\b(?:bearer|basic)\s+)(?=[\w.~+/=-]{8})"
    r"|(?i:[?&](?:key|token|" + _NAMES + r")=)"
    r"|(?i:\b\w*" + _NAMES + r"=)(?=[^\s'\"])"
    r"|\b\w*(?:_KEY|_TOKEN)=(?=[^\s'\"])"
    r")[^\s&\"'<>,;)\]}]+"
    r"|(?P<quoted>(?i:\b(?:key|token|\w*" + _NAMES + r")=|[\"']\w*" + _NAMES + r"[\"']\s*:\s*)"
    r"|\b\w*(?:_KEY|_TOKEN)=)"
    r"(?P<quote>[\"'])(?:\\.|(?!(?P=quote))[^\\])*(?P=quote)"
    r"|(?P<userinfo>://)[^/\s\"'<>]+@"
    r"|\bsk-[A-Za-z0-9_-]{8,}"
)
# One of these is in everything that `_PATTERNS` can find. Looking for them first keeps streams fast.
_TRACES = ("key", "token", "secret", "passw", "bearer", "basic", "://", "sk-")
_PLAIN = re.compile(r"[\w.~-]*", re.ASCII)
_LIKE_A_KEY = re.compile(
    r"\b(?:[0-9a-fA-F]{20,}|(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{20,})", re.ASCII
)


_known = KnownKeys()


class Secret:
    """A key. `reveal()` is the only way to its value; `source` says where it came from."""

    __slots__ = ("_value", "source")

    def __init__(self, value: str, source: str) -> None:
        self._value = value
        self.source = source
        if len(value) >= _SHORTEST_MASKED:
            _known.add(_forms(value))

    def reveal(self) -> str:
        """The key itself, to be handed to the transport and to nothing else."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK}, source={self.source!r})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not to be pickled")


def _forms(value: str) -> set[str]:
    """`value` as it looks in plain text, JSON, a Python repr, a URL and a page of HTML or XML."""
    if _PLAIN.fullmatch(value):
        return {value}
    import json
    from urllib.parse import quote, quote_plus

    entities = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    forms = {value, value.strip(), json.dumps(value)[1:-1], repr(value)[1:-1], entities}
    forms.add(entities.replace('"', "&quot;").replace("'", "&#x27;"))
    forms.add(entities.replace('"', "&quot;"))
    for encoded in (quote(value, safe=""), quote(value), quote_plus(value)):
        forms |= {encoded, re.sub("%..", lambda match: match.group().lower(), encoded)}
    return {form for form in forms if len(form) >= _SHORTEST_MASKED}


def redact(text: str) -> str:
    """`text` without any known key, bearer, URL password, `sk-` token, or value that stands
    behind a name such as `api_key=` or `?token=`."""
    text = without_known(text)
    lowered = text.lower()
    if not any(trace in lowered for trace in _TRACES):
        return text
    return without_known(_PATTERNS.sub(_mask, text))


def without_known(text: str) -> str:
    """`text` without any known key, and otherwise as it is: for what a model answered, which may
    well speak of passwords."""
    # Until nothing is found: masking one key may put together the pieces of another.
    # It ends, since the mask is shorter than every value that is looked for.
    while found := _known.found_in(text):
        for value in sorted(found, key=len, reverse=True):
            text = text.replace(value, MASK)
    return text


def redact_values(value: object, mask: Callable[[str], str] = redact) -> object:
    """`value`, made of what JSON is made of, with every text in it redacted by `mask`.

    JSON that is redacted as text may be JSON no more: a mask can take the backslash of a quote.
    """
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [redact_values(item, mask) for item in value]
    if isinstance(value, dict):
        return {
            mask(name): MASK
            if isinstance(item, str) and _names_a_secret(name)
            else redact_values(item, mask)
            for name, item in value.items()
        }
    return value


@lru_cache(4096)
def _names_a_secret(name: str) -> bool:
    pair = f'"{name}": "value"'
    return _PATTERNS.sub(_mask, pair) != pair


def possible_start(text: str) -> int:
    """How many characters at the end of `text` may be the beginning of a known key: what a stream
    holds back until the next piece is here."""
    longest = 0
    for value in _known.values:
        for size in range(min(len(value) - 1, len(text)), longest, -1):
            if text.endswith(value[:size]):
                longest = size
                break
    return longest


def _mask(match: re.Match[str]) -> str:
    if match["keep"] is not None:
        return f"{match['keep']}{MASK}"
    if match["quoted"] is not None:
        return f"{match['quoted']}{match['quote']}{MASK}{match['quote']}"
    return f"://{MASK}@" if match["userinfo"] else MASK


def key(value: str, source: str) -> Secret:
    """`value` as a key that can be sent; `source` is said in errors. Raises `ConfigurationError`."""
    return sendable(Secret(value, source))


def sendable(secret: Secret) -> Secret:
    """`secret`, if an HTTP header can carry it.

    Raises `ConfigurationError` for nothing at all, control characters, anything beyond ASCII and
    more than 8192 characters.
    """
    value, source = secret.reveal(), secret.source
    if not value.strip():
        raise ConfigurationError(f"the key from {source} is empty", hint=f"make one: {NEW_KEY}")
    if "\n" in value or "\r" in value:
        raise ConfigurationError(
            f"the key from {source} has more than one line",
            hint="a key is one line; is this the right place?",
        )
    if not value.isascii() or not value.isprintable():
        raise ConfigurationError(
            f"the key from {source} cannot be sent: it has a character that is not visible ASCII",
            hint=f"copy it again as plain text, or make a new one: {NEW_KEY}",
        )
    if len(value) > _LONGEST_KEY:
        raise ConfigurationError(
            f"the key from {source} has more than {_LONGEST_KEY} characters",
            hint="is this the right place?",
        )
    return secret


_PLACEHOLDER = re.compile(
    r"change[-_ ]?me|place[-_ ]?holder|example|dummy|your[-_ ]|replace[-_ ]?(?:with|me)"
    r"|insert[-_ ]|^<.*>$|^(?:sk-|ghp_|hf_)?[x*_ -]+$|^(?:null|none)$",
    re.IGNORECASE,
)


def would_start(value: str) -> bool:
    """Whether Hermes opens its API server with that key (`has_usable_secret`, 0.19 to 0.22)."""
    stripped = value.strip()
    # Of the words that Hermes refuses, this one alone is long enough to get that far.
    return len(stripped) >= MINIMUM_KEY_LENGTH and stripped.lower() != "your_api_key_here"


def lint_key(secret: Secret) -> tuple[str, ...]:
    """What is wrong with a key that can be sent: one sentence each, with how to mend it.

    The rules are those of Hermes' own start-up guard (wire.md, section 6; `has_usable_secret` of
    0.19 to 0.22), and of what people paste by mistake. No finding holds any part of the key.
    """
    value = secret.reveal()
    findings = []
    if len(value.strip()) < MINIMUM_KEY_LENGTH:
        findings.append(
            f"The key has {len(value.strip())} characters; with fewer than {MINIMUM_KEY_LENGTH} "
            f"Hermes does not start its API server. Make a longer one: {NEW_KEY}"
        )
    if _PLACEHOLDER.search(value.strip()):
        findings.append(f"The key reads like a placeholder. Make a real one: {NEW_KEY}")
    if value != value.strip():
        findings.append(
            "The key has blanks around it, which Hermes takes off what it receives and not off "
            "its own, so that the two never match. Take them off in both places."
        )
    elif " " in value:
        findings.append("The key has a blank in it: it may be more than one, or some other text.")
    if value.strip()[:1] in ("'", '"', "`") or value.strip()[-1:] in ("'", '"', "`"):
        findings.append("The key has quotes around it that are sent with it. Take them off.")
    if re.match(r"(?i)\s*bearer\s", value):
        findings.append("The key starts with the word Bearer, which is added when it is sent.")
    if re.match(r"\s*(?:export\s+)?[A-Z_]{3,}=", value):
        findings.append("The key is a whole NAME=VALUE line. Keep only the value.")
    return tuple(findings)


def read_private_file(path: Path, *, what: str, limit: int) -> bytes:
    """What is in a file that must be its owner's alone; `what` names it in errors.

    Refuses, as OpenSSH does, an own file that others can read. Pipes and devices have no such
    mode to speak of (`--key-file <(pass show node)`). Raises `ConfigurationError`.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            readable_by_others = stat.S_ISREG(status.st_mode) and status.st_mode & 0o077
            if readable_by_others and status.st_uid == os.geteuid():
                raise ConfigurationError(
                    f"others can read the {what} {path} (mode {status.st_mode & 0o777:04o})",
                    hint=f"chmod 600 {_quoted(path)}",
                )
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            f"the {what} {path} cannot be read: {reason}", hint=f"ls -l {_quoted(path)}"
        ) from None
    if len(content) > limit:
        raise ConfigurationError(
            f"the {what} {path} is larger than {limit} bytes", hint="is this the right file?"
        )
    return content


def _quoted(path: Path) -> str:
    from shlex import quote

    return quote(str(path))


@cache
def wrong_key() -> Secret:
    """A key that no node has. One for the whole process: every key that was made is masked for ever."""
    return Secret(f"hermesctl-wrong-{os.urandom(16).hex()}", "made up by hermesctl")


def read_key_file(path: Path | str) -> Secret:
    """The key in a file, or on standard input for `-`; newlines at its end are taken off.

    Raises `ConfigurationError` where it cannot be read, others can read it, or it is no key.
    """
    if str(path) == "-":
        return key(_standard_input(), "standard input")
    content = read_private_file(Path(path), what="key file", limit=_LONGEST_KEY + 2)
    return key(_one_line(content, f"the key file {path}"), f"file {path}")


@cache
def _standard_input() -> str:
    """Standard input, read once however many nodes are given the key of it."""
    if sys.stdin is None:
        raise ConfigurationError(
            "there is no standard input to read the key from", hint="give --key-file FILE"
        )
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("API key: ")
    return _one_line(sys.stdin.buffer.read(_LONGEST_KEY + 2), "standard input")


def _one_line(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"{source} holds no key: it is not text", hint="is this the right file?"
        ) from None


def read_key_variable(name: str, environment: Mapping[str, str]) -> Secret:
    """The key in an environment variable. Raises `ConfigurationError` where it is not set."""
    value = environment.get(name)
    if value is None:
        raise ConfigurationError(
            f"the environment variable {name} is not set, and the key is said to be there",
            hint=f"export {name}, or name another source: hermesctl config set-context --help",
        )
    return key(value, f"environment variable {name}")


def read_key_command(
    command: str | Sequence[str],
    *,
    environment: Mapping[str, str],
    timeout: float = KEY_COMMAND_SECONDS,
) -> Secret:
    """What a command (`pass show hermes`) prints: its arguments as a list, or a text that is cut
    into words as a shell would, without any shell running.

    `timeout` is in seconds. Raises `ConfigurationError` where it cannot be started, fails, takes
    longer, or prints no key.
    """
    import shlex
    import subprocess

    try:
        arguments = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise ConfigurationError(f"the key command cannot be read: {error}") from None
    if not arguments:
        raise ConfigurationError("the key command is empty", hint='key-command = ["pass", "show"]')
    program = arguments[0]
    try:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigurationError(
            f"the key command {program} gave no key within {timeout:g} s",
            hint="run it once by hand: it may be waiting for a password",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            f"the key command {program} cannot be started: {reason}",
            hint="key-command names a program and its arguments; no shell reads it",
        ) from None
    if done.returncode != 0:
        raise _failed(program, done.returncode, done.stderr)
    source = f"key command {program}"
    return key(_one_line(done.stdout, source), source)


def _failed(program: str, code: int, stderr: bytes) -> ConfigurationError:
    from hermes_ctl.text import one_line

    # No key was had, so that none is known to the redactor: what looks like one is not shown.
    said = _LIKE_A_KEY.sub(MASK, redact(stderr.decode("utf-8", "replace")))
    said = one_line(said, limit=300)
    how = f"ended with {code}" if code > 0 else f"was ended by signal {-code}"
    return ConfigurationError(
        f"the key command {program} {how}{f': {said}' if said else ''}",
        hint="run it once by hand",
    )
