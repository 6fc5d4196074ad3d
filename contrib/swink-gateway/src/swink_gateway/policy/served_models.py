"""The models that the owner of a key may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from attrs import define

from swink_core import Model, ModelInfo, SwinkError
from swink_gateway.policy.routing import Routing

__all__ = ["ServedModels"]


@define(frozen=True)
class ServedModels:
    """The configured names and the providers' models that the owner of a key may use."""

    routing: Routing
    owner: str

    def names(self) -> list[str]:
        """Return the model names that the gateway's configuration defines."""
        return [name for name in self.routing.names if self.routing.allows(self.owner, name)]

    def providers(self) -> list[str]:
        """Return the names of the providers whose models clients may name."""
        return [n for n in self.routing.client.host.provider_names() if self._is_offered(n)]

    def _is_offered(self, provider: str) -> bool:
        with suppress(SwinkError):  # errors in a plugin's data are reported when the plugin is used
            info = self.routing.client.catalog.provider(provider)
            return info is None or not info.runs_commands
        return True

    def models(self) -> Iterator[ModelInfo]:
        """Yield the models that installed providers list."""
        for provider in self.providers():
            try:
                for info in self.routing.client.catalog.models(provider):
                    if self.routing.allows(self.owner, f"{provider}/{info.id}"):
                        yield info
            except SwinkError:
                continue  # errors in a plugin's data are reported when the plugin is used

    def model(self, name: str) -> Model | None:
        """Return the first model that serves a name; `None` for an unknown or forbidden name."""
        try:
            return self.routing.models(name)[0] if self.routing.allows(self.owner, name) else None
        except SwinkError:
            return None
