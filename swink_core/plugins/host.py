"""Finds plugins by their metadata, and loads a provider when it is first used.

For each provider that is used there is one `PluginManager`, with that provider and the shared
plugins only. Therefore an installed provider costs no time until a call uses it, a broken provider
affects only the calls that use it, and the hooks of a provider are called only for its own calls.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from threading import RLock
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

import pluggy
from attrs import define, field

from swink_core.failures.classification import classify_default
from swink_core.failures.exceptions import PluginError, UnknownProvider
from swink_core.failures.failure import Classification, Failure
from swink_core.plugins import hookspecs
from swink_core.plugins.binding import DEFAULT, INNERMOST, Binding, raised_at
from swink_core.plugins.hookspecs import PROJECT, hookimpl
from swink_core.plugins.installed import (
    Damage,
    damaged_metadata,
    installed_points,
    name_of,
    version_of,
)
from swink_core.plugins.level import FIRST_API_LEVEL, check_level
from swink_core.plugins.package_data import (
    USER_FILE_ENV,
    PackageCatalog,
    package_catalog,
    user_entry,
)
from swink_core.plugins.time_limits import time_limit
from swink_core.vocabulary.errors import SwinkError
from swink_core.vocabulary.models import Model, ProviderInfo

CLOSE_SECONDS = 5.0
"""How many seconds a plugin may take to close, for example to flush buffered data."""

log = logging.getLogger(__name__)

_checked: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""The plugins that `Host.add` has checked, by their identity.

A process may have many hosts, to which a cassette adds the same plugin at every test.
"""


_MARK = f"{PROJECT}_impl"
"""The attribute that `hookimpl` sets on a function."""


class DefaultClassifier:
    """Applies the core's rules to failures that no plugin classified."""

    @hookimpl(trylast=True)
    def classify_error(self, model: Model, failure: Failure) -> Classification:
        """Classify a failure that no other plugin classified."""
        return classify_default(failure)


PROVIDER_GROUP = "swink.providers"

PLUGIN_GROUP = "swink.plugins"


@define
class PluginEntry:
    """An installed plugin, described by its metadata; `error` says why loading it has failed."""

    name: str
    group: str
    value: str
    dist: Any = field(repr=False)
    load: Callable[[], Any] = field(repr=False)
    error: str | None = None

    def __str__(self) -> str:
        """Return the plugin's name as error messages show it."""
        return f'provider "{self.name}" ({self.distribution})'

    @property
    def distribution(self) -> str:
        """The name of the distribution, which is read from a metadata file on first access."""
        return "?" if self.dist is None else name_of(self.dist)

    @property
    def version(self) -> str:
        """The version of the distribution."""
        return "?" if self.dist is None else version_of(self.dist)

    @property
    def package(self) -> str:
        """The top-level package of the entry point."""
        return self.value.partition(":")[0].partition(".")[0]

    def catalog(self) -> PackageCatalog:
        """Read the package's `models.toml` without importing the package.

        If the package has no such file, the result is empty. Raises PluginError for an invalid
        file.
        """
        return package_catalog(self.package)

    def check_level(self) -> None:
        """Raise PluginError if `models.toml` states an API level that this core does not offer.

        This is checked before the plugin is imported: with a wrong level, the import could fail
        with an error that does not mention the level.
        """
        if (info := self.catalog().providers.get(self.name)) is not None:
            check_level(info.api_level, self)


class Host:
    """The installed plugins, which clients and threads can share.

    `plugins` are added to the installed plugins, and are called before them.

    Loaded plugins are kept until the last client of the host is closed. `entry_points` replaces the
    entry points of installed packages by objects with `name`, `group`, `value`, `load()` and
    `dist`. `providers` maps names to provider classes that need no installed package; they take
    precedence over installed providers. `environ` replaces the environment of the process, from
    which `SWINK_PLUGINS` and `SWINK_DISABLE_PLUGINS` are read.
    """

    def __init__(
        self,
        plugins: Iterable[Any] = (),
        *,
        entry_points: Iterable[Any] | None = None,
        providers: Mapping[str, Callable[[str], Any]] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._given = list({id(plugin): plugin for plugin in plugins}.values())
        self._environ = os.environ if environ is None else environ
        self._bindings: dict[str, Binding] = {}
        self._user_entries: dict[str, ProviderInfo | None] = {}
        self._shared: list[tuple[str, Any]] | None = None
        self._added: list[tuple[str, Any]] = []
        self._clients = 0
        self._lock = RLock()  # held while plugins are loaded, and while bindings change
        self._claims: dict[str, list[PluginEntry]] = {}
        self._plugins: list[PluginEntry] = []
        self._reads_metadata = entry_points is None
        self._index(_installed() if entry_points is None else entry_points)
        for name, made in (providers or {}).items():
            self._claims[name] = [_given_provider(name, made)]
        for plugin in self._given:
            check_plugin(plugin, getattr(plugin, "name", type(plugin).__name__))

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the lock, which cannot be copied."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes of a copy, and create its lock."""
        vars(self).update(state, _lock=RLock())

    def _index(self, points: Iterable[Any]) -> None:
        allowed = _names(self._environ.get("SWINK_PLUGINS"))
        blocked = _names(self._environ.get("SWINK_DISABLE_PLUGINS")) or frozenset()
        for point in points:
            if point.group not in (PROVIDER_GROUP, PLUGIN_GROUP):
                continue
            entry = PluginEntry(point.name, point.group, point.value, point.dist, point.load)
            if entry.name in blocked or (allowed is not None and entry.name not in allowed):
                continue
            provides = entry.group == PROVIDER_GROUP
            (self._claims.setdefault(entry.name, []) if provides else self._plugins).append(entry)

    def provider_names(self) -> list[str]:
        """List the names of the installed providers, sorted, without importing them."""
        return sorted(self._claims)

    def entries(self) -> list[PluginEntry]:
        """List all installed plugins, without importing them."""
        return [e for name in sorted(self._claims) for e in self._claims[name]] + self._plugins

    def damaged(self) -> list[Damage]:
        """List unreadable metadata files of installed distributions.

        Plugins of such a distribution may be missing from the host. The list is empty if the host
        was created with `entry_points`.
        """
        return damaged_metadata() if self._reads_metadata else []

    def entry(self, name: str) -> PluginEntry:
        """Return a provider's entry.

        Raises UnknownProvider if no distribution has a provider of this name, and PluginError if
        several distributions have one with this name.
        """
        if not (claims := self._claims.get(name)):
            from difflib import get_close_matches

            near = get_close_matches(name, self._claims)
            lost = "".join(f" {damage}." for damage in self.damaged())
            raise UnknownProvider(
                f'no provider "{name}"; installed: {", ".join(self.provider_names()) or "none"}'
                + (f'; did you mean "{near[0]}"?' if near else ""),
                resolution="Check the name with `swink providers`, or install its package, "
                f"usually swink-provider-NAME. `swink doctor` finds problems.{lost}",
            )
        if len(claims) > 1:
            owners = " and ".join(f"{e.distribution} {e.version}" for e in claims)
            raise PluginError(
                f'two distributions claim the provider "{name}": {owners}',
                resolution="Uninstall one of them.",
            )
        return claims[0]

    def bind(self, name: str) -> Binding:
        """Load a provider when it is first needed, and return it with its hooks.

        If the provider's entry in the user's file has changed since, a new instance is created.
        Raises UnknownProvider if the provider is not installed, and PluginError if the provider
        cannot be loaded.
        """
        users = user_entry(name)
        binding = self._bindings.get(name)
        if binding is not None and self._user_entries.get(name) == users:
            return binding  # most calls end here, without the lock
        with self._lock:
            binding = self._bindings.get(name)
            if binding is not None and self._user_entries.get(name) == users:
                return binding  # another thread has loaded it
            entry = self.entry(name)
            try:
                entry.check_level()
                binding = bind_hooks(name, _made(entry), self._shared_plugins())
                for plugin_name, plugin in self._added:
                    _register(binding.manager, plugin, plugin_name)
            except PluginError as error:
                entry.error = entry.error or error.message
                raise
            self._bindings[name] = binding
            self._user_entries[name] = users
            return binding

    def add(self, plugin: Any, name: str) -> None:
        """Add the hooks of a plugin to the calls that start from now on.

        These hooks are called before those of the other shared plugins. Adding a plugin again has
        no effect. The code that adds a plugin must also close it. Raises PluginError for a plugin
        with invalid hooks.
        """
        with self._lock:
            if any(plugin is added for _, added in self._added):
                return
            if _checked.get(id(plugin)) is not plugin:
                check_plugin(plugin, name)
                with suppress(TypeError):  # its class allows no weak references
                    _checked[id(plugin)] = plugin
            self._added.append((name, plugin))
            for binding in self._bindings.values():
                _register(binding.manager, plugin, name)

    def remove(self, plugin: Any) -> None:
        """Remove the hooks of an added plugin from the calls that start from now on."""
        with self._lock:
            self._added = [(name, added) for name, added in self._added if added is not plugin]
            for binding in self._bindings.values():
                if binding.manager.is_registered(plugin):
                    binding.manager.unregister(plugin)

    def join(self) -> None:
        """Register a client. Loaded plugins are kept until all registered clients have left."""
        with self._lock:
            self._clients += 1

    async def leave(self) -> None:
        """Unregister a client; after the last one, close the shared plugins that this host loaded.

        The `aclose()` of each plugin is awaited for at most `CLOSE_SECONDS`, and its exceptions are
        logged. A plugin object that was passed to the host must be closed by the code that created
        it.
        """
        with self._lock:
            self._clients -= 1
            if self._clients or self._shared is None:
                return
            shared, self._shared = self._shared, None
            self._bindings.clear()
        loaded = [(name, p) for name, p in shared if not any(p is g for g in self._given)]
        await asyncio.gather(*(_close(name, plugin) for name, plugin in loaded))

    def _shared_plugins(self) -> list[tuple[str, Any]]:
        """Load the shared plugins.

        If a plugin cannot be loaded, the error is stored in its entry and logged, and the plugin is
        left out.
        """
        if self._shared is None:
            shared: list[tuple[str, Any]] = []
            for entry in self._plugins:
                try:
                    plugin = entry.load()
                    if isinstance(plugin, type | FunctionType) and (plugin := plugin()) is None:
                        continue  # the plugin is not configured
                    check_plugin(plugin, entry.name, idle=True)
                    self._tell(plugin)
                except (Exception, SystemExit) as error:
                    entry.error = f"{type(error).__name__}: {error}"
                    log.error("plugin %s is disabled: %s", entry.name, entry.error)
                else:
                    # Names must be unique, but two distributions may choose the same one.
                    shared.append((f"{entry.name} ({entry.distribution})", plugin))
            for number, plugin in enumerate(self._given):
                name = getattr(plugin, "name", None) or type(plugin).__name__
                self._tell(plugin)
                shared.append((f"{name}#{number}", plugin))
            self._shared = shared
        return self._shared

    def _tell(self, plugin: Any) -> None:
        """Call a plugin's method `loaded`, if any, which may add hooks to this host later."""
        if (loaded := getattr(plugin, "loaded", None)) is not None:
            loaded(self)


def bind_hooks(name: str, provider: Any, shared: Iterable[tuple[str, Any]] = ()) -> Binding:
    """Combine the hooks of a provider and of the shared plugins.

    Raises PluginError for a plugin with invalid hooks.
    """
    manager = _Manager()
    manager.register(DefaultClassifier(), DEFAULT)
    for plugin_name, plugin in ((name, provider), *shared):
        _register(manager, plugin, plugin_name)
    return Binding(name, provider, manager)


class _Manager(pluggy.PluginManager):
    """A plugin manager with swink's hooks."""

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.add_hookspecs(hookspecs)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Ignore names that are certainly no hook, because pluggy takes long to check each.

        These are special attributes such as `__init__`, and methods of the class without a mark.
        """
        if name.startswith("__"):
            return None
        own = getattr(plugin, "__dict__", None) or ()
        unmarked = name not in own and _is_unmarked(type(plugin), name)
        return None if unmarked else super().parse_hookimpl_opts(plugin, name)

    def parse_hookspec_opts(self, specs: Any, name: str) -> Any:
        """Skip names that are not functions, because checking them all would make binding slow."""
        is_hook = inspect.isfunction(vars(specs)[name])
        return super().parse_hookspec_opts(specs, name) if is_hook else None


def _is_unmarked(kind: type, name: str) -> bool:
    """Return whether an attribute of a class is a function that no `hookimpl` marks."""
    found = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)
    return isinstance(found, FunctionType) and not hasattr(found, _MARK)


def _made(entry: PluginEntry) -> Any:
    """Import a provider and create an instance. Any exception of the plugin becomes PluginError."""
    try:
        return entry.load()(entry.name)
    except (Exception, SystemExit) as error:
        entry.error = f"{type(error).__name__}: {error}"
        reason = error.message if isinstance(error, SwinkError) else repr(error)
        owner = f"{entry.distribution} {entry.version}"
        _, place = raised_at(error, lambda name: name.partition(".")[0] == entry.package)
        advice = f"Reinstall or upgrade {entry.distribution}, or correct it if it is yours."
        if user_entry(entry.name) is not None:
            advice = (
                f"Correct its entry in the file that {USER_FILE_ENV} names. Otherwise: {advice}"
            )
        raise PluginError(
            f'provider "{entry.name}" ({owner}) cannot be loaded: {reason}{place}',
            resolution=advice,
        ) from error


def _register(manager: pluggy.PluginManager, plugin: Any, name: str) -> None:
    check_level(getattr(plugin, "api_level", FIRST_API_LEVEL), f'plugin "{name}"')
    try:
        manager.register(plugin, name)
        manager.check_pending()
    except (pluggy.PluginValidationError, ValueError, TypeError) as error:
        raise PluginError(
            f'plugin "{name}" does not match the hook specifications: {error}',
            resolution="Hooks are stream, convert_messages, classify_error and on_event.",
        ) from error
    converters = manager.hook.convert_messages.get_hookimpls()
    if any(impl.wrapper or impl.hookwrapper for impl in converters):
        if manager.has_plugin(INNERMOST):
            manager.unregister(name=INNERMOST)
        manager.register(_OwnBody(), INNERMOST)  # last, so that it is inside all other wrappers


def copied(value: Any) -> Any:
    """Copy dictionaries and lists, including all those inside them."""
    if isinstance(value, dict):
        return {name: copied(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [copied(inner) for inner in value]
    return tuple(map(copied, value)) if type(value) is tuple else value


class _OwnBody:
    """Copies the provider's request body for wrappers of `convert_messages`, which may change it.

    A body contains objects of the caller, such as the schemas of tools, and objects that calls of
    other clients share.
    """

    @hookimpl(wrapper=True, trylast=True)
    def convert_messages(self) -> Generator[None, Any, Any]:
        body = yield
        return copied(body)


async def _close(name: str, plugin: Any) -> None:
    if (close := getattr(plugin, "aclose", None)) is None:
        return
    try:
        async with time_limit(CLOSE_SECONDS):
            await close()
    except TimeoutError:
        log.error("plugin %s was not closed within %g s", name, CLOSE_SECONDS)
    except (Exception, SystemExit):
        log.exception("plugin %s failed to close", name)


def check_plugin(plugin: Any, name: str, idle: bool = False) -> None:
    """Raise PluginError if a shared plugin would break every call, or implements no hook.

    If `idle` is true, a plugin without hooks is allowed: its hooks may depend on a configuration
    that is missing. So is a plugin with a method `loaded`, which may add hooks later.
    """

    def refused(what: str, instead: str = "") -> PluginError:
        hint = f"Implement it as a plain function{instead}."
        return PluginError(f'plugin "{name}" implements {what}', resolution=hint)

    scratch = _Manager()
    _register(scratch, plugin, name)
    idle = idle or hasattr(plugin, "loaded")
    if isinstance(plugin, type) or not (idle or scratch.get_hookcallers(plugin)):
        raise refused(
            "no hook to call", " marked @swink.hookimpl, and pass an instance, not a class"
        )
    for impl in scratch.hook.stream.get_hookimpls():
        if inspect.isasyncgenfunction(impl.function):  # never a wrapper: pluggy rejects those
            why = "which never returns None and so would claim every call"
            what = f"stream as an async generator function, {why}"
            raise refused(what, " that returns an async iterator or None")
    for impl in scratch.hook.on_event.get_hookimpls():
        if impl.wrapper or impl.hookwrapper:
            raise refused("on_event as a wrapper, which has nothing to wrap")
        if inspect.iscoroutinefunction(impl.function):
            what = "on_event as a coroutine function, which is never awaited"
            raise refused(what, " that starts a task for longer work")


def _given_provider(name: str, made: Callable[[str], Any]) -> PluginEntry:
    if not callable(made):
        raise PluginError(
            f'the provider "{name}" is an object of type {type(made).__name__}',
            resolution="Pass the class of the provider, which swink calls with the provider's "
            "name.",
        )
    value = f"{made.__module__}:{getattr(made, '__qualname__', name)}"
    return PluginEntry(name, PROVIDER_GROUP, value, None, lambda: made)


def _names(value: str | None) -> frozenset[str] | None:
    return None if value is None else frozenset(n.strip() for n in value.split(",") if n.strip())


def _installed() -> list[Any]:
    """List the entry points of installed plugins, except those in damaged metadata."""
    return installed_points()[0]
