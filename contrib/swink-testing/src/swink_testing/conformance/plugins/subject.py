"""An observer or wrapper under test, and providers with fixed answers for its calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from attrs import define, field

from swink_core import (
    Context,
    Cost,
    Host,
    Model,
    PluginError,
    StopReason,
    StreamErrorKind,
    StreamOptions,
    Usage,
    dump,
    hookimpl,
)
from swink_core.plugins.binding import Binding
from swink_core.plugins.host import PROVIDER_GROUP
from swink_core.vocabulary import events as ev
from swink_testing.conformance.check import DoesNotApply

__all__ = ["CALLS", "AnsweringProvider", "PluginSubject", "ScriptedProvider", "answer"]


class ScriptedProvider:
    """A provider with a fixed answer; `is_open` is `True` while it answers."""

    def __init__(self, name: str) -> None:
        self.is_open = False

    @hookimpl
    def convert_messages(self, context: Context, options: StreamOptions) -> dict[str, Any]:
        said = {"messages": [dump(message) for message in context.messages]}
        return {**said, "stop": list(options.stop)}

    @hookimpl
    def stream(self) -> AsyncIterator[ev.AssistantMessageEvent]:
        return self._events()

    async def _events(self) -> AsyncIterator[ev.AssistantMessageEvent]:
        self.is_open = True
        try:
            for event in answer():
                await asyncio.sleep(0)
                yield event
        finally:
            self.is_open = False


class AnsweringProvider:
    """A provider that echoes the text of the request; `asked` is the number of calls."""

    def __init__(self, name: str) -> None:
        self.asked = 0

    @hookimpl
    def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncIterator[ev.AssistantMessageEvent]:
        return self._answer(f"{model} {dump(context)} {options}")

    async def _answer(self, text: str) -> AsyncIterator[ev.AssistantMessageEvent]:
        self.asked += 1  # a stream that is never read does not count
        yield ev.Start()
        yield ev.TextStart(0)
        yield ev.TextDelta(0, text)
        yield ev.TextEnd(0)
        yield ev.Done(StopReason.STOP, Usage(9, 4, total=13, reported=True), Cost(0.1, 0.2))


@define
class PluginSubject:
    """A plugin under test. `make` creates a plugin for a check; the plugin is closed afterwards.

    `installed` is the object to which the plugin's entry point refers. `written` returns the text
    that a plugin has written, for example to files, apart from logs and printed output.
    """

    make: Callable[[], Any] = field(repr=False)
    installed: Callable[[], Any] | None = field(default=None, repr=False)
    written: Callable[[Any], str] = field(default=str, repr=False)
    _open: list[Any] = field(factory=list, init=False, repr=False)

    def new(self) -> Any:
        """Make a plugin, which is closed after the check."""
        plugin = self.make()
        if hasattr(plugin, "aclose"):
            self._open.append(plugin)
        return plugin

    async def aclose(self) -> None:
        """Close the plugins that were made, if they have `aclose`."""
        while self._open:
            await self._open.pop().aclose()

    def binding(self) -> Binding:
        """Create a plugin and load it together with a provider that has a fixed answer.

        Raises PluginError if the plugin does not match the hook specifications.
        """
        return self.host().bind("scripted")

    def bound(self) -> Binding:
        """Load the plugin.

        Raises DoesNotApply if the plugin does not match the hook specifications; another check
        reports this fault.
        """
        try:
            return self.binding()
        except PluginError as error:
            raise DoesNotApply("it does not fit the hooks") from error

    @property
    def wraps(self) -> bool:
        """Whether the plugin is a wrapper: its hooks have valid signatures; none is `on_event`."""
        try:
            return not self.binding().hook.on_event.get_hookimpls()
        except PluginError:
            return False

    def observing(self) -> Binding:
        """Load the observer. Raises DoesNotApply if the plugin has no `on_event` hook."""
        binding = self.bound()
        if not binding.hook.on_event.get_hookimpls():
            raise DoesNotApply("it has no on_event hook")
        return binding

    def host(self, provider: type[Any] = ScriptedProvider) -> Host:
        """Return a host with `provider`, named "scripted", and a new plugin."""
        entry = SimpleNamespace(
            name="scripted", group=PROVIDER_GROUP, value=f"{__name__}:ScriptedProvider",
            load=lambda: provider, dist=None,
        )  # fmt: skip
        return Host([self.new()], entry_points=[entry], environ={})

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Return a context that closes the plugins of a check at its end.

        The environment variables are not changed.
        """
        try:
            yield
        finally:
            if self._open:
                asyncio.run(self.aclose())


# -- the script of calls -------------------------------------------------------------------------


def answer(deltas: int = 3) -> Iterator[ev.AssistantMessageEvent]:
    """Yield the events of a whole attempt, each created on demand."""
    yield ev.Start()
    yield ev.Notice("option_ignored", "seed was not sent")
    yield ev.ThinkingStart(0)
    yield ev.ThinkingDelta(0, "Why?")
    yield ev.ThinkingEnd(0, "signature")
    yield ev.TextStart(1)
    for number in range(deltas):
        yield ev.TextDelta(1, f"word {number} ")
    yield ev.TextEnd(1, {"citations": []})
    yield ev.ToolCallStart(2, "call_1", "look_up")
    yield ev.ToolCallDelta(2, '{"word": "x"}')
    yield ev.ToolCallEnd(2)
    yield ev.Extension(3, "scripted", "search", {"query": "x"})
    yield ev.Done(StopReason.TOOL_USE, Usage(9, 4, total=13, reported=True), Cost(0.1, 0.2))


def _restarted() -> Iterator[ev.AssistantMessageEvent]:
    yield ev.Start()
    yield ev.TextStart(0)
    yield ev.TextDelta(0, "void")
    yield ev.TextEnd(0)
    yield ev.Retry(2, 3, 0.5, "cut", "scripted/model", StreamErrorKind.NETWORK)
    yield ev.Start()
    yield ev.TextStart(0)
    yield ev.TextDelta(0, "valid")
    yield ev.TextEnd(0)
    yield ev.Done(StopReason.STOP)


def _failed() -> Iterator[ev.AssistantMessageEvent]:
    yield ev.Start()
    yield ev.Error.throttled("too many at once", 7.0)


def _aborted() -> Iterator[ev.AssistantMessageEvent]:
    yield ev.Start()
    yield ev.Error(StopReason.ABORTED, "closed by the caller")


CALLS: dict[str, Callable[[], Iterator[ev.AssistantMessageEvent]]] = {
    "an answer": answer,
    "a restarted answer": _restarted,
    "a failed call": _failed,
    "an aborted call": _aborted,
}
