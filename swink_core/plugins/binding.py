"""A provider with its hooks (`Binding`), and a model of a call with its options (`Target`)."""

from __future__ import annotations

import hashlib
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
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

DEFAULT = "swink-default"
"""The name of the plugin that classifies failures by the core's rules."""

INNERMOST = "swink-own-body"
"""The name of the plugin that copies the provider's request body for wrappers of the hook."""


@define(eq=False)
class Binding:
    """A loaded provider, with its hooks and those of the shared plugins."""

    name: str
    provider: Any
    manager: pluggy.PluginManager = field(repr=False)

    @property
    def hook(self) -> Any:
        """The `hook` object of pluggy, whose methods call the hooks."""
        return self.manager.hook

    def first_result(self, name: str, **arguments: Any) -> Any:
        """Call a hook, and return the first result that is not `None`.

        If no plugin wraps the hook, its implementations are called directly, in pluggy's order,
        because a call through pluggy takes three times as long.
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

    def ways(self, name: str) -> Iterator[tuple[str, bool, Callable[..., Any]]]:
        """Yield the functions to call one after another until one returns the result of a hook.

        If plugins wrap the hook, the first function calls the whole hook. Each other function is
        one implementation, in pluggy's order. Each function comes with the names of the plugins
        whose code it runs, and with whether it may return `None` to pass the call on.
        """
        implementations = [*reversed(getattr(self.manager.hook, name).get_hookimpls())]
        plain = [each for each in implementations if not (each.wrapper or each.hookwrapper)]
        if len(plain) < len(implementations):
            names = [each.plugin_name for each in implementations if each.plugin_name != DEFAULT]
            yield '" or "'.join(names), False, partial(self.first_result, name)
        for each in plain:
            yield each.plugin_name, True, partial(_called, each)

    def owner(self, module: str) -> str | None:
        """Return the name of the plugin whose package contains a module."""
        for name, plugin in self.manager.list_name_plugin():
            home = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
            if home.partition(".")[0] == module.partition(".")[0] != "swink_core":
                return name
        return None

    def blame(self, error: BaseException) -> str:
        """Describe which plugin raised an exception, and where in its code."""
        if isinstance(error.__cause__, StopIteration):  # a generator must not raise it
            who, place = raised_at(error.__cause__, self.owner)
        else:
            who, place = raised_at(error, self.owner)
        if misused := self._misused(str(error)):
            who, place = misused, ""
        return f'plugin "{who or self.name}" raised {type(error).__name__}: {error}{place}'

    def _misused(self, message: str) -> str | None:
        """Return the plugin whose wrapper pluggy's message names because it does not yield once."""
        for caller in vars(self.hook).values():
            for impl in caller.get_hookimpls():
                code = getattr(impl.function, "__code__", None)
                if code and f"{code.co_filename}:{code.co_firstlineno} " in message:
                    return str(impl.plugin_name)
        return None

    def maker(self, events: Any) -> str:
        """Return the name of the plugin that produced the events of a `stream` hook.

        This is the plugin whose code defines the iterator `events`. If that plugin cannot be
        determined, return the names of all plugins that may have produced the iterator.
        """
        frames = (getattr(events, name, None) for name in ("ag_frame", "gi_frame", "cr_frame"))
        frame = next(filter(None, frames), None)
        module = frame.f_globals.get("__name__", "") if frame else type(events).__module__
        names = [impl.plugin_name for impl in reversed(self.hook.stream.get_hookimpls())]
        return self.owner(module) or '" or "'.join(names) or self.name

    def converters(self) -> str:
        """Return the names of the plugins that may have produced the result of `convert_messages`.

        If plugins wrap this hook, return their names, outermost first; otherwise, return the names
        of all plugins that implement the hook.
        """
        impls = [*reversed(self.hook.convert_messages.get_hookimpls())]
        impls = [impl for impl in impls if impl.plugin_name != INNERMOST]
        wrappers = [impl for impl in impls if impl.wrapper or impl.hookwrapper]
        names = [impl.plugin_name for impl in wrappers or impls]
        return '" or "'.join(names) or self.name


def _called(implementation: Any, **arguments: Any) -> Any:
    return implementation.function(*map(arguments.__getitem__, implementation.argnames))


def raised_at(error: BaseException, owner: Callable[[str], Any]) -> tuple[Any, str]:
    """Find the plugin in whose code an exception was raised.

    `owner` returns the plugin to which a module belongs. In the traceback, find the innermost frame
    whose module belongs to a plugin. Return this plugin and the frame's position, in the form
    ` (package/file.py:line)`. If no module belongs to a plugin, return `None` and an empty string.
    """
    found: tuple[Any, str] = (None, "")
    for frame, line in traceback.walk_tb(error.__traceback__):
        if who := owner(frame.f_globals.get("__name__", "")):
            found = who, f" ({'/'.join(frame.f_code.co_filename.split(os.sep)[-2:])}:{line})"
    return found


@define(eq=False)
class Target:
    """One model of a fallback chain with the options that apply to it.

    Each call creates new targets. All attempts of a call with the same model share one `Target`
    object, so a gate can recognize a call by the identity of this object.

    `Client.target` returns a target that can be passed to `stream` in place of a model. Options
    passed to `stream` override the options in the target.

    `info` is the provider's catalogue entry. `is_last` says whether the target is the last one of
    the chain. `inherited` contains the names of the options that the client sets and the call does
    not. `extra` is the option `extra` of the call; its fields override the inherited options.
    `given` contains all options that the client or the call set, by name. `remembered` is a cache
    in which the provider stores results for this model and these options; equal targets of a client
    share it. `own_total` is the time limit for all attempts with the model, in seconds, if the
    model's own options in a fallback chain set `total`; otherwise `None`.
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
    own_total: float | None = field(default=None, repr=False)

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
            own_total=self.own_total,
        )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The catalogue's rules for the model, in the order in which they are applied."""
        return self.model.rules

    @property
    def address(self) -> str | None:
        """The base URL of requests, without secrets; `None` if not configured."""
        base_url = getattr(self.binding.provider, "base_url", None)
        if base_url is None:
            address = self._named_address()
            return public_url(address) if address else None
        try:
            return public_url(base_url(self.options))
        except ProviderFailure:
            return None

    def refusal(
        self, context: Context | str = "Hi", options: StreamOptions | None = None
    ) -> Failure | None:
        """Check a conversation without sending it; return the failure if the provider refuses it.

        `options` replace the target's options. Return `None` if the provider would send the call or
        does not check calls. The `code` of the failure is the feature that the model lacks.
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
        """Whether the call continues a conversation that the provider stores."""
        extra = self.options.extra
        settings = self.options.settings
        if not (extra or settings) or self.info is None:
            return False
        return any(extra.get(name) or settings.get(name) for name in self.info.continues)

    @property
    def has_prompt(self) -> bool:
        """Whether the model is a prompt stored by the provider, so that no message is needed."""
        return any(rule.facts.get("stored_prompt") for rule in self.model.rules)

    @property
    def key(self) -> str:
        """The key under which rate limits and circuit breakers store the state of this target.

        It consists of the model, the base URL without secrets, and a digest of the credentials, in
        whichever header the provider sends them. It is the same in every process, so processes can
        share the state.
        """
        options = self.options
        info = self.info or ProviderInfo(self.model.provider)
        address = self._named_address()
        headers = {name.lower(): value for name, value in options.headers.items()}
        named = getattr(self.binding.provider, "credential_headers", ("authorization",))
        given = next((headers[name] for name in named if headers.get(name)), None)
        key = given or options.api_key or first_set(info.api_key_env)
        secret = f"{key} {address}".encode("utf-8", "replace")
        digest = hashlib.blake2b(secret, digest_size=8).hexdigest()
        return f"{self.model} {public_url(address)} {digest}"

    def _named_address(self) -> str:
        info = self.info or ProviderInfo(self.model.provider)
        return self.options.base_url or first_set(info.base_url_env) or info.base_url or ""


def first_set(variables: Iterable[str], environ: Mapping[str, str] | None = None) -> str | None:
    """Return the value of the first of these environment variables that is set, or `None`."""
    environ = os.environ if environ is None else environ
    return next((value for name in variables if (value := environ.get(name))), None)
