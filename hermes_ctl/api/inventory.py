"""What a node is and has: its readiness, skills, toolsets, and models with their providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import (
    DetailedHealth,
    ModelEntry,
    ModelOptions,
    Provider,
    Skill,
    Toolset,
)
from hermes_ctl.api.offers import using
from hermes_ctl.api.routes import DETAILED_HEALTH, MODEL_OPTIONS, MODELS, SKILLS, TOOLSETS
from hermes_ctl.api.values import text
from hermes_ctl.errors import ObjectNotFound

PROBING_SECONDS: Final = 90.0
"""How long a refreshed inventory may take: the node then asks every provider that it has a key for."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """One model of one provider; `model` is None for a provider that has none to choose from.

    `capabilities` and `pricing` are the provider's words about this model, empty without any.
    """

    provider: Provider
    model: str | None
    is_default: bool
    capabilities: Mapping[str, Any]
    pricing: Mapping[str, Any]

    @property
    def hints(self) -> str:
        """The capabilities that it has, as one list: `reasoning,fast`."""
        return ",".join(sorted(name for name, value in self.capabilities.items() if value is True))

    def price(self, name: str) -> str | None:
        """`input`, `output` or `cache`: what a million tokens cost, as the node writes it."""
        return text(self.pricing.get(name))

    def document(self) -> dict[str, Any]:
        """This choice as one JSON object, made of the server's own values."""
        return {
            "provider": self.provider.slug,
            "model": self.model,
            "is_default": self.is_default,
            "authenticated": self.provider.authenticated,
            "capabilities": dict(self.capabilities),
            "pricing": dict(self.pricing),
        }


async def detailed_health(client: Client) -> DetailedHealth:
    """It is answered with 200 while degraded: look at `status`, and at each check."""
    async with using(client, DETAILED_HEALTH):
        return await client.detailed_health()


async def skills(client: Client) -> list[Skill]:
    """Raises `ServerFailure` on 0.22.2.post1, which answers 500 always (wire.md, 9)."""
    async with using(client, SKILLS):
        return await client.skills()


async def toolsets(client: Client) -> list[Toolset]:
    async with using(client, TOOLSETS):
        return await client.toolsets()


async def toolset(client: Client, name: str) -> Toolset:
    """The toolset of that name. Raises `ObjectNotFound` where the node has none such."""
    found = await toolsets(client)
    for one in found:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in found) or "none at all"
    raise ObjectNotFound(
        f"the node has no toolset {name!r}",
        status=404,
        hint=f"it has {known}",
        url=f"{client.node.url}{TOOLSETS.path}",
    )


async def models(client: Client) -> list[ModelEntry]:
    async with using(client, MODELS):
        return await client.models()


async def model_options(client: Client, *, refresh: bool = False) -> ModelOptions:
    """The inventory of the dashboard's model picker. `refresh` makes the node ask its providers
    anew, which may take long. Raises `NotOffered` before 0.20."""
    async with using(client, MODEL_OPTIONS):
        return await client.one(
            ModelOptions,
            "GET",
            MODEL_OPTIONS.path,
            query={"refresh": 1} if refresh else None,
            timeout=max(client.node.timeout, PROBING_SECONDS) if refresh else None,
        )


def choices(options: ModelOptions) -> Iterator[ModelChoice]:
    """Every model of every provider; one without a model for a provider that has none."""
    for provider in options.providers:
        known = provider.model_extra or {}
        capabilities, pricing = known.get("capabilities"), known.get("pricing")
        for model in [_model_name(entry) for entry in provider.models] or [None]:
            default = model == options.model and provider.slug == options.provider
            yield ModelChoice(
                provider, model, default, _of(capabilities, model), _of(pricing, model)
            )


def _model_name(entry: object) -> str | None:
    """Models are names; a newer server may give objects with an `id`."""
    if isinstance(entry, Mapping):
        return text(entry.get("id", entry.get("name")))
    return text(entry)


def _of(table: object, model: str | None) -> Mapping[str, Any]:
    row = table.get(model) if isinstance(table, Mapping) else None
    return row if isinstance(row, Mapping) else {}
