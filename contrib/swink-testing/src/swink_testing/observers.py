"""The conformance checks of plugins that are not providers: observers, and wrappers of hooks.

    class TestTally(ObserverConformance):
        observer = Tally              # whatever makes one when it is called

An observer runs between the network and the caller, for every token of every call: it must not
block, raise, change events or keep them alive. A wrapper stands between a provider and its callers:
it must keep the order of events, and close the provider's stream when a caller abandons its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from swink_testing.calls import new_call
from swink_testing.conformance import Check, ConformanceSuite
from swink_testing.conformance.plugins.subject import PluginSubject
from swink_testing.observing import (
    check_closes_in_time,
    check_disturbs_no_call,
    check_fits_the_hooks,
    check_keeps_nothing,
    check_keeps_secrets,
    check_never_blocks,
    check_silent_unless_configured,
    check_times_are_the_attempts,
    set_times,
)
from swink_testing.wrapping import (
    check_calls_are_told_apart,
    check_conversations_stay,
    check_leaving_reaches_the_provider,
    check_order_is_kept,
    check_repeats_cost_nothing,
)

__all__ = [
    "OBSERVER_CHECKS",
    "WRAPPER_CHECKS",
    "ObserverConformance",
    "PluginSubject",
    "WrapperConformance",
    "new_call",
    "set_times",
]

OBSERVER_CHECKS: tuple[Check[PluginSubject], ...] = (
    Check(check_fits_the_hooks),
    Check(check_disturbs_no_call),
    Check(check_never_blocks),
    Check(check_times_are_the_attempts),
    Check(check_keeps_nothing),
    Check(check_closes_in_time),
    Check(check_keeps_secrets),
    Check(check_silent_unless_configured),
)

WRAPPER_CHECKS: tuple[Check[PluginSubject], ...] = (
    Check(check_fits_the_hooks),
    Check(check_order_is_kept),
    Check(check_leaving_reaches_the_provider),
    Check(check_conversations_stay),
    Check(check_calls_are_told_apart),
    Check(check_repeats_cost_nothing),
)


class _PluginConformance(ConformanceSuite):
    @classmethod
    def maker(cls) -> Callable[[], Any]:
        """Return the factory of the plugin."""
        raise NotImplementedError

    @classmethod
    def subject(cls) -> PluginSubject:
        """Return the plugin as the subject of the checks."""
        return PluginSubject(cls.maker())

    @classmethod
    def subject_name(cls) -> str:
        """Name the plugin in the summary."""
        return getattr(cls.maker(), "__name__", repr(cls.maker()))


class ObserverConformance(_PluginConformance):
    """The promises of every observer, as tests. Subclass it and set `observer` to its class.

    `installed` is the object that its entry point names, if it has an entry point. Override
    `written` if the observer writes anything besides logs and printed output.
    """

    observer: ClassVar[Callable[[], Any]]
    installed: ClassVar[Callable[[], Any] | None] = None

    @staticmethod
    def written(observer: Any) -> str:
        """Return, as text, all that an observer has written."""
        return str(observer)

    @classmethod
    def subject(cls) -> PluginSubject:
        """Return the observer as the subject of the checks."""
        return PluginSubject(cls.observer, cls.installed, cls.written)

    @classmethod
    def checks(cls) -> Sequence[Check[PluginSubject]]:
        """Return the checks to run."""
        return OBSERVER_CHECKS

    @classmethod
    def maker(cls) -> Callable[[], Any]:
        """Return the observer's class."""
        return cls.observer


class WrapperConformance(_PluginConformance):
    """The promises of every wrapper, as tests. Subclass it and set `wrapper` to its class."""

    wrapper: ClassVar[Callable[[], Any]]

    @classmethod
    def checks(cls) -> Sequence[Check[PluginSubject]]:
        """Return the checks to run."""
        return WRAPPER_CHECKS

    @classmethod
    def maker(cls) -> Callable[[], Any]:
        """Return the wrapper's class."""
        return cls.wrapper
