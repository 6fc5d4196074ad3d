"""Deliver the events of a call to its observers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from swink_core.plugins.binding import Binding
from swink_core.plugins.call import Call
from swink_core.vocabulary.events import AssistantMessageEvent, Done, Error
from swink_core.vocabulary.outcome import StopReason

log = logging.getLogger(__name__)

Observer = Callable[[Sequence[AssistantMessageEvent]], object]
"""A function that delivers events to an observer, in order."""


class Observers:
    """The observers of a call: the `on_event` hooks of all its plugins.

    `bound` maps names to the active observers. An observer that raises an exception is removed for
    the rest of the call.
    """

    def __init__(self, call: Call, bindings: Iterable[Binding]) -> None:
        self._call = call
        # by name: a shared plugin is bound to the provider of each target, but observes once
        self.bound: dict[str, Observer] = {}
        self._others: set[str] = set()  # names of plugins with `other_events`
        for binding in bindings:
            for impl in reversed(binding.hook.on_event.get_hookimpls()):
                self.bound.setdefault(impl.plugin_name, _bind(impl.function, impl.argnames, call))
                if getattr(impl.plugin, "other_events", False):
                    self._others.add(impl.plugin_name)
        if log.isEnabledFor(logging.DEBUG):
            show = partial(log.debug, "call %s: %r", call.id)
            self.bound["debug log"] = _bind(show, ["event"], call)

    def show_other(self, event: AssistantMessageEvent) -> None:
        """Pass an event of a class from another library to observers with `other_events`."""
        self.show([event], {n: observer for n, observer in self.bound.items() if n in self._others})

    def show(
        self, batch: Sequence[AssistantMessageEvent], to: Mapping[str, Observer] | None = None
    ) -> None:
        """Pass events, in order, to the observers in `to` (`None`: to all observers)."""
        for name, observer in [*(self.bound if to is None else to).items()]:
            try:
                observer(batch)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a cancellation cannot be meant for an observer
                trace = self._call.trace(error)
                log.error(
                    "observer %s raised an exception and is disabled for this call:\n%s",
                    name,
                    trace,
                )
                del self.bound[name]


def _bind(hook: Callable[..., Any], names: Sequence[str], call: Call) -> Observer:
    if tuple(names) == ("event",):
        return lambda batch: [hook(event) for event in batch]
    if tuple(names) == ("event", "call"):
        return lambda batch: [hook(event, call) for event in batch]
    return lambda batch: [hook(**{n: e if n == "event" else call for n in names}) for e in batch]


def log_end(call: Call, terminal: Done | Error) -> None:
    """Log how a call ended."""
    if isinstance(terminal, Done):
        log.info("call %s: %s done: %s", call.id, call.model, terminal.stop_reason)
        return
    level = logging.DEBUG if terminal.stop_reason is StopReason.ABORTED else logging.ERROR
    kind = terminal.error_kind
    why = terminal.error_message
    log.log(level, "call %s: %s failed: %s: %s", call.id, call.model, kind, why)
