"""The short session with the real API, held with providers that are not what they should be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import swink_core as swink
from swink_core.providers import text_of
from swink_testing.conformance import Outcome, Subject, run_checks
from swink_testing.conformance.live import LIVE_CHECKS, LiveSubject

Events = Sequence[swink.AssistantMessageEvent]
DONE = swink.Done(swink.StopReason.STOP, swink.Usage(3, 2, total=5, reported=True))
TEXT = [swink.TextStart(0), swink.TextDelta(0, "Hello you there."), swink.TextEnd(0)]
CALL = [
    swink.ToolCallStart(0, "c1", "look_up"),
    swink.ToolCallDelta(0, '{"word": "swink"}'),
    swink.ToolCallEnd(0),
]
CUT_CALL = [CALL[0], swink.ToolCallDelta(0, '{"wor'), CALL[2]]


def talks(answer: Events, tool: Events, tools: bool = True) -> type[Any]:
    """A provider that gives one answer to a call with tools and another to all others."""

    class Talks:
        features = frozenset({"tools"} if tools else ())

        def __init__(self, name: str) -> None:
            self.name = name

        @swink.hookimpl
        def stream(self, context: swink.Context) -> AsyncIterator[swink.AssistantMessageEvent]:
            return self._events(tool if context.tools else answer)

        async def _events(self, events: Events) -> AsyncIterator[swink.AssistantMessageEvent]:
            for event in [swink.Start(), *events]:
                yield event

    return Talks


SOUND = talks([*TEXT, DONE], [*CALL, DONE])


class Moody(SOUND):  # type: ignore[valid-type, misc]  # a class that a function made
    """Will not count."""

    @swink.hookimpl
    def stream(self, context: swink.Context) -> AsyncIterator[swink.AssistantMessageEvent]:
        if "Count" in text_of(context.messages[-1].content):
            return self._events([swink.Error.content_filtered("no")])
        return super().stream(context)  # type: ignore[no-any-return]  # as above


def live(provider: Callable[[str], Any]) -> LiveSubject:
    entry = SimpleNamespace(
        name="talks",
        group="swink.providers",
        value="no_such_package:Talks",
        load=lambda: provider,
        dist=None,
    )
    return LiveSubject(Subject("talks", swink.Host(entry_points=[entry], environ={})))


def outcomes(subject: LiveSubject) -> dict[str, Outcome]:
    return {result.name: result.outcome for result in run_checks(LIVE_CHECKS, subject)}


def test_a_sound_provider_passes_all_that_applies() -> None:
    assert outcomes(live(SOUND)) == {
        "answers": Outcome.PASSED,
        "tool_is_called": Outcome.PASSED,
        "leaving_ends": Outcome.PASSED,
        "usage_is_told": Outcome.PASSED,
        "as_recorded": Outcome.DOES_NOT_APPLY,
    }


@pytest.mark.parametrize(
    ("name", "provider", "check"),
    [
        ("no text", talks([*CALL, DONE], [*CALL, DONE]), "answers"),
        ("no usage", talks([*TEXT, swink.Done(swink.StopReason.STOP)], [*CALL, DONE]),
         "usage_is_told"),
        ("a tool ignored", talks([*TEXT, DONE], [*TEXT, DONE]), "tool_is_called"),
        ("broken arguments", talks([*TEXT, DONE], [*CUT_CALL, DONE]), "tool_is_called"),
        ("a stream with nothing to leave", Moody, "leaving_ends"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_fault_fails_its_own_check_and_no_other(name: str, provider: Any, check: str) -> None:
    found = outcomes(live(provider))

    assert [name for name, outcome in found.items() if outcome is Outcome.FAILED] == [check]


def test_a_call_that_fails_says_what_the_provider_said() -> None:
    refused = swink.Error.auth("the key has expired")

    results = {r.name: r for r in run_checks(LIVE_CHECKS, live(talks([refused], [refused])))}

    assert "auth: the key has expired" in results["answers"].detail
    assert results["usage_is_told"].outcome is Outcome.DOES_NOT_APPLY


def test_a_provider_without_tools_is_not_asked_for_one() -> None:
    found = outcomes(live(talks([*TEXT, DONE], [], tools=False)))

    assert found["tool_is_called"] is Outcome.DOES_NOT_APPLY
