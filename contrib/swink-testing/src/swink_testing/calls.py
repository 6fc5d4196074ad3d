"""Creates clients, and `Call` objects for tests that call hooks of plugins directly."""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from swink_core import Call, Client, Context, Host, Model, StreamOptions
from swink_core.plugins.attempt import Attempt
from swink_core.plugins.binding import Binding, Target
from swink_core.plugins.host import bind_hooks
from swink_testing.clock import DatedClock

__all__ = ["call_of", "client_with", "events_of", "new_call"]


def call_of(
    provider: Any,
    model: str | Model,
    *,
    options: StreamOptions | None = None,
    context: Context | str = "Hello",
    **given: Any,
) -> Call:
    """Return a call whose first attempt has begun.

    `provider` is a plugin object, or a `Binding` of one.

    `model` is an id, or a `Model` with its data from the catalogue. `given` are further fields of
    the call, such as `http`.
    """
    if isinstance(provider, Binding):
        binding = provider
    else:
        binding = (_bound if isinstance(provider, Hashable) else _bound.__wrapped__)(provider)
    info = getattr(binding.provider, "info", None)
    name = info.name if info else getattr(binding.provider, "name", "provider")
    model = model if isinstance(model, Model) else Model(name, model)
    attempt = Attempt(Target(model, options or _NO_OPTIONS, binding, info))
    return Call(attempt, Context.of(context), attempts=1, **{"clock": DatedClock(), **given})


_NOTHING_SET: Mapping[str, Any] = MappingProxyType({})
_NO_OPTIONS = StreamOptions(headers=_NOTHING_SET, settings=_NOTHING_SET, extra=_NOTHING_SET)
"""The options of a call for which a test passes none. Calls share them: they are immutable."""


@lru_cache(maxsize=32)
def _bound(provider: Any) -> Binding:
    """Return a provider's `Binding`.

    The result is cached, because creating a `Binding` takes longer than parsing a short answer.
    """
    return bind_hooks("provider", provider)


def events_of(made: Any) -> Any:
    """Return `made`, the result of a `stream` hook, as an iterator of events.

    Raises TypeError if `made` is not an async iterator.
    """
    if hasattr(made, "__aiter__"):
        return aiter(made)
    if isinstance(made, Coroutine):
        made.close()  # nobody will wait for it
    found = f"stream returns no async iterator, but {type(made).__name__}"
    raise TypeError(f"{found}: let it be a plain def with @hookimpl")


def new_call() -> Call:
    """Return a call for tests of observers, with a provider that does nothing."""
    return call_of(_NOTHING, Model("scripted", "model"))


_NOTHING = object()


PERSONAL = ("api_key", "base_url", "headers", "settings", "extra")


def client_with(*, host: Host | None = None, plugins: Iterable[Any] = (), **options: Any) -> Client:
    """Return a client in which every provider has the same credentials and the same address.

    Other options are arguments of `Client`. The clock has a fixed date, at which no model in the
    catalogue is retired.
    """
    host = host or Host(plugins)
    options.setdefault("clock", DatedClock())
    personal = {name: options.pop(name) for name in PERSONAL if name in options}
    return Client(host=host, providers=dict.fromkeys(host.provider_names(), personal), **options)
