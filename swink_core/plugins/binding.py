"""A provider with its hooks, and one model of a fallback chain, ready to be called."""

from __future__ import annotations

import hashlib
import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import pluggy
from attrs import define, field

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.redaction import public_url
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import Model, ProviderInfo, Rule
from swink_core.vocabulary.options import StreamOptions


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

    def first_result(self, name: str, **arguments: Any) -> Any:
        """Call a hook, and return the first result that is not `None`.

        Implementations are called directly where no wrapper is among them: pluggy takes three
        times as long for the same calls in the same order.
        """
        caller = getattr(self.manager.hook, name)
        implementations = caller.get_hookimpls()
        for each in implementations:
            if each.wrapper or each.hookwrapper:
                return caller(**arguments)
        for each in reversed(implementations):
            result = each.function(*map(arguments.__getitem__, each.argnames))
            if result is not None:
                return result
        return None

    def owner(self, module: str) -> str | None:
        """Return the name of the plugin whose package a module is of."""
        for name, plugin in self.manager.list_name_plugin():
            home = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
            if home.partition(".")[0] == module.partition(".")[0] != "swink_core":
                return name
        return None

    def blame(self, error: BaseException) -> str:
        """Say which plugin raised an exception, and where in its code."""
        who, place = raised_at(error, self.owner)
        return f'plugin "{who or self.name}" raised {type(error).__name__}: {error}{place}'

    def maker(self, events: Any) -> str:
        """Return the plugin that produced the events of a `stream` hook: the outermost plugin of
        its iterator, or all plugins that may have.
        """
        frame = getattr(events, "ag_frame", None)
        module = frame.f_globals.get("__name__", "") if frame else type(events).__module__
        names = [impl.plugin_name for impl in reversed(self.hook.stream.get_hookimpls())]
        return self.owner(module) or '" or "'.join(names)

    def converters(self) -> str:
        """Return the plugins that may have made the result of `convert_messages`: its wrappers,
        outermost first, else all that implement it."""
        impls = [*reversed(self.hook.convert_messages.get_hookimpls())]
        wrappers = [impl for impl in impls if impl.wrapper or impl.hookwrapper]
        names = [impl.plugin_name for impl in wrappers or impls]
        return '" or "'.join(names) or self.name


def raised_at(error: BaseException, owner: Callable[[str], Any]) -> tuple[Any, str]:
    """Return the owner of the innermost module that has one, and where in it an exception came up,
    as ` (package/file.py:line)`; `None` and nothing where it came up in none."""
    found: tuple[Any, str] = (None, "")
    for frame, line in traceback.walk_tb(error.__traceback__):
        if who := owner(frame.f_globals.get("__name__", "")):
            found = who, f" ({'/'.join(frame.f_code.co_filename.split(os.sep)[-2:])}:{line})"
    return found


@define(eq=False)
class Target:
    """One model of a fallback chain with the options that are for it.

    Each call makes new targets. All attempts that a call makes on one model share a `Target`
    object, so a gate can tell calls apart by identity.

    `Client.target` returns one, which can be passed to `stream` in place of a model: the call's own
    options then lie over its options.

    `info` is the provider's catalogue entry. `is_last`: the target is the last one of the chain.
    `extra` belongs to the call and overrides the `inherited` options, which only the client sets.
    `given` are the names of all options set by client or call. `remembered` caches results of the
    provider for this model and these options; equal targets of a client share it.
    """

    model: Model
    options: StreamOptions = field(repr=False)
    binding: Binding = field(repr=False)
    info: ProviderInfo | None = field(default=None, repr=False)
    is_last: bool = True
    inherited: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = field(factory=dict, repr=False)
    given: Mapping[str, Any] = field(factory=dict, repr=False)
    remembered: dict[Any, Any] = field(factory=dict, repr=False)

    def again(self) -> Target:
        """Return an equal target for another call."""
        return Target(
            model=self.model,
            options=self.options,
            binding=self.binding,
            info=self.info,
            is_last=self.is_last,
            inherited=self.inherited,
            extra=self.extra,
            given=self.given,
            remembered=self.remembered,
        )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The catalogue's rules for the model, in the order in which they apply."""
        return self.model.rules

    @property
    def address(self) -> str | None:
        """The base URL of requests, without secrets; `None` if nothing names one."""
        base_url = getattr(self.binding.provider, "base_url", None)
        if base_url is None:
            return public_url(self._named_address()) or None
        try:
            return public_url(base_url(self.options))
        except ProviderFailure:
            return None

    def refusal(
        self, context: Context | str = "Hi", options: StreamOptions | None = None
    ) -> Failure | None:
        """Name the reason for which the provider refuses a conversation before it sends it.

        `options` take the place of the target's. `None`: it sends the call, or it does not say.
        `code` of the failure is the feature that the model lacks.
        """
        fit = getattr(self.binding.provider, "fit", None)
        if fit is None:
            return None
        try:
            fitted = fit(self.model, Context.of(context), options or self.options)
        except ProviderFailure as error:
            return error.failure
        failure: Failure | None = fitted.failure
        return failure

    @property
    def continues(self) -> bool:
        """Whether the call goes on with what the provider keeps of a conversation."""
        extra = self.options.extra
        settings = self.options.settings
        if not (extra or settings) or self.info is None:
            return False
        return any(extra.get(name) or settings.get(name) for name in self.info.continues)

    @property
    def has_prompt(self) -> bool:
        """Whether the model is a prompt that the provider keeps, and needs no message."""
        return any(rule.facts.get("stored_prompt") for rule in self.model.rules)

    @property
    def key(self) -> str:
        """The key of limits and circuit breakers: the model, its address, and a digest of the
        credentials.

        Equal in every process. It reveals no credential.
        """
        options = self.options
        info = self.info or ProviderInfo(self.model.provider)
        address = self._named_address()
        headers = {name.lower(): value for name, value in options.headers.items()}
        key = headers.get("authorization") or options.api_key or first_set(info.api_key_env)
        secret = f"{key} {address}".encode("utf-8", "replace")
        digest = hashlib.blake2b(secret, digest_size=8).hexdigest()
        return f"{self.model} {public_url(address)} {digest}"

    def _named_address(self) -> str:
        info = self.info or ProviderInfo(self.model.provider)
        return self.options.base_url or first_set(info.base_url_env) or info.base_url or ""


def first_set(variables: Iterable[str], environ: Mapping[str, str] | None = None) -> str | None:
    """Return the value of the first of these variables that has one."""
    environ = os.environ if environ is None else environ
    return next((value for name in variables if (value := environ.get(name))), None)
