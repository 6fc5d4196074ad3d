"""A provider with its hooks, and one model of a fallback chain, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import pluggy
from attrs import define, field

from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.options import StreamOptions

if TYPE_CHECKING:
    from swink_core.plugins.call import Call
    from swink_core.vocabulary.events import AssistantMessageEvent


Observer = Callable[["AssistantMessageEvent"], None]


@define(eq=False)
class Binding:
    """A provider, loaded, and the hooks of it and of the shared plugins."""

    name: str
    provider: Any
    manager: pluggy.PluginManager = field(repr=False)

    @property
    def hook(self) -> Any:
        """The hook relay."""
        return self.manager.hook

    def observers(self, call: Call) -> list[tuple[str, Observer]]:
        """Bind each `on_event` to the arguments that it names, in pluggy's order."""
        bound: list[tuple[str, Observer]] = []
        for impl in reversed(self.manager.hook.on_event.get_hookimpls()):
            bound.append((impl.plugin_name, _bind(impl.function, impl.argnames, call)))
        return bound


def _bind(function: Callable[..., Any], names: Iterable[str], call: Call) -> Observer:
    names = tuple(names)
    if names == ("event",):
        return function
    if names == ("event", "call"):
        return lambda event: function(event, call)
    return lambda event: function(**{n: event if n == "event" else call for n in names})


@define
class Target:
    """One model of a fallback chain, ready to be called."""

    model: Model
    options: StreamOptions
    binding: Binding
    info: ProviderInfo | None

    @property
    def key(self) -> Hashable:
        """What a circuit is of: a model at one address with one key."""
        return self.model, self.options.base_url, hash(self.options.api_key)
