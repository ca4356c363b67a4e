"""What a node offers, by its own word: asked before a request is sent that could not succeed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from types import TracebackType

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Capabilities
from hermes_ctl.api.routes import FEATURES_SINCE, Route
from hermes_ctl.errors import (
    HermesctlError,
    NotOffered,
    RouteNotFound,
    ServerFailure,
    StatusError,
)


@dataclass(frozen=True, slots=True)
class Offers:
    """The capabilities of `client`'s node; None where it has no such route (before 0.19): then
    nothing is known, and every route is tried."""

    client: Client
    capabilities: Capabilities | None

    @classmethod
    async def of(cls, client: Client) -> Offers:
        """Ask for the capabilities. Raises what keeps them from being read."""
        try:
            return cls(client, await client.capabilities())
        except RouteNotFound:
            return cls(client, None)

    def advertises(self, route: Route) -> bool:
        """Whether the node lists `route`, by method and path or, where it lists no endpoint at all,
        by its feature. False where that is not known."""
        if self.capabilities is None:
            return False
        listed = self.capabilities.endpoints.values()
        if not listed and route.feature is not None:
            return offers(self.capabilities, route.feature)
        return any(route.matches(one.method, one.path) for one in listed)

    def may_have(self, route: Route) -> bool:
        """Whether it is worth while to ask: what is not advertised by any release has to be tried."""
        unknown = self.capabilities is None or not route.advertised
        return unknown or self.advertises(route)

    async def require(self, route: Route) -> None:
        """Raises `NotOffered` where the node does not have `route`."""
        if not self.may_have(route):
            raise await not_offered(self.client, route.title, route.since)

    def using(self, route: Route) -> Using:
        """Require `route`, and say of a failure inside that the node advertises what fails."""
        return Using(self.client, route, self)


def using(client: Client, route: Route) -> Using:
    """`Offers.using` for a command that needs one route."""
    return Using(client, route)


class Using:
    """What `using` gives. It is no generator, as iterators hold it while they are iterated over:
    one that is left in the middle (`| head -1`) is closed by asyncio, with all generators at once.
    """

    def __init__(self, client: Client, route: Route, offered: Offers | None = None) -> None:
        self._client = client
        self._route = route
        self._offered = offered

    async def __aenter__(self) -> None:
        self._offered = self._offered or await Offers.of(self._client)
        await self._offered.require(self._route)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, (ServerFailure, RouteNotFound)):
            return
        if self._offered is not None and self._offered.advertises(self._route):
            raise _advertised_and_failing(error, self._route) from error


def offers(capabilities: Capabilities, name: str) -> bool:
    """Whether the capabilities list a feature or endpoint of that name, and do not deny it."""
    value = capabilities.features.get(name)
    if isinstance(value, dict):
        return bool(value.get("supported", value.get("enabled", False)))
    return (
        value is True
        or (isinstance(value, str) and value != "")
        or (name in capabilities.endpoints)
    )


async def not_offered(client: Client, what: str, since: str | None) -> NotOffered:
    """The error for `what` the node does not have; `since` is the release that brought it.

    The version is asked for only now, and left out where it cannot be had.
    """
    facts = []
    with contextlib.suppress(HermesctlError):
        version = (await client.health()).version
        facts = [f"it is {version}"] if version else []
    if since is not None and since != "0.19":
        facts.append(f"that came with {since}")
    explained = f" ({'; '.join(facts)})" if facts else ""
    return NotOffered(
        f"this node's Hermes does not offer {what}{explained}",
        hint="what it offers: hermesctl capabilities",
        url=client.node.url,
    )


async def require_features(client: Client, names: tuple[str, ...]) -> Capabilities:
    """The capabilities, if all features or endpoints of these names are offered. Raises
    `NotOffered` naming those that are not."""
    capabilities = await client.capabilities()
    missing = [name for name in names if not offers(capabilities, name)]
    if missing:
        since = FEATURES_SINCE.get(missing[0]) if len(missing) == 1 else None
        raise await not_offered(client, ", ".join(missing), since)
    return capabilities


def _advertised_and_failing(error: StatusError, route: Route) -> StatusError:
    fails = "fails at it" if isinstance(error, ServerFailure) else "does not serve it"
    return type(error)(
        f"this node's Hermes advertises {route} and {fails}: {error.message}",
        status=error.status,
        code=error.code,
        hint=error.hint,
        url=error.url,
    )
