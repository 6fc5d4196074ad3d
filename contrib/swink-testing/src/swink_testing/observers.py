"""The conformance checks of plugins that are not providers: observers, and wrappers of hooks.

    class TestTally(ObserverConformance):
        observer = Tally              # a class or function that returns an observer

An observer is called for every event of every call, before the caller receives the event. Therefore
an observer must not block, raise exceptions, change events or keep references to them. A wrapper
passes the events of a provider on to the caller: it must keep their order, and must close the
provider's stream when the caller abandons the call.
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
        """Return a class or function that creates the plugin."""
        raise NotImplementedError

    @classmethod
    def subject(cls) -> PluginSubject:
        """Return the plugin as the subject of the checks."""
        return PluginSubject(cls.maker())

    @classmethod
    def subject_name(cls) -> str:
        """Return the plugin's name, for the summary."""
        return getattr(cls.maker(), "__name__", repr(cls.maker()))


class ObserverConformance(_PluginConformance):
    """The conformance tests of an observer. Subclass it and set `observer` to the observer's class.

    `installed` is the object to which the observer's entry point refers, if it has one. Override
    `written` if the observer writes anything besides logs and printed output.
    """

    observer: ClassVar[Callable[[], Any]]
    installed: ClassVar[Callable[[], Any] | None] = None

    @staticmethod
    def written(observer: Any) -> str:
        """Return the text that an observer has written, for example to files.

        A test that collects the text in memory must limit it, for example to the last 100 texts,
        because the check `keeps_nothing` counts it as data that the observer keeps.
        """
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
    """The conformance tests of a wrapper. Subclass it and set `wrapper` to the wrapper's class."""

    wrapper: ClassVar[Callable[[], Any]]

    @classmethod
    def checks(cls) -> Sequence[Check[PluginSubject]]:
        """Return the checks to run."""
        return WRAPPER_CHECKS

    @classmethod
    def maker(cls) -> Callable[[], Any]:
        """Return the wrapper's class."""
        return cls.wrapper
