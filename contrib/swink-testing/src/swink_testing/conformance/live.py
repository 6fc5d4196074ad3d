"""A short test with the real API, which shows whether it still behaves as recorded.

Three calls are made, with the user's own key and address. Each requests a few words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import pairwise
from typing import Any

from attrs import define, field

from swink_core import (
    Client,
    Context,
    Done,
    Error,
    Event,
    Notice,
    RetryPolicy,
    StopReason,
    StreamOptions,
    UserMessage,
)
from swink_core.providers import required_features
from swink_core.vocabulary.grammar import CONTENT
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.check import Check, DoesNotApply, fail, require
from swink_testing.conformance.requests.conversations import LOOK_UP
from swink_testing.conformance.subject import Subject
from swink_testing.driver import fold

__all__ = ["LIVE_CHECKS", "LiveSubject"]

ENOUGH_TOKENS = 2048
"""The output token limit of each call: enough for a model's reasoning and a few words."""


@define
class LiveSubject:
    """A provider, and the options for its real API (by default, from the environment)."""

    subject: Subject
    options: Mapping[str, Any] = field(factory=dict, repr=False)

    def environment(self) -> AbstractContextManager[object]:
        """Return a context manager that leaves the environment variables unchanged."""
        return nullcontext()

    @cached_property
    def answer(self) -> list[Event]:
        """The events of a plain answer. The call is made only once."""
        return asyncio.run(self.ask(Context([UserMessage("Say hello in three words.")])))

    async def ask(self, context: Context, leave: bool = False, **options: Any) -> list[Event]:
        """Return the events of a call. With `leave`, the stream is closed at its first content."""
        events = []
        if "max_tokens" in getattr(self.subject.provider, "knobs", ()):
            options["max_tokens"] = ENOUGH_TOKENS
        client = Client(host=self.subject.host, retry=RetryPolicy.none())
        async with client, client.stream(
            self.subject.model, context, **{**options, **self.options}
        ) as stream:  # fmt: skip
            async for event in stream:
                events.append(event)
                if leave and type(event) in CONTENT:
                    await stream.aclose()
        if leave and stream.message.stop_reason is not StopReason.ABORTED:
            _require_done(events)
            raise DoesNotApply(
                "the answer was complete at once, so the stream could not be abandoned"
            )
        return events


def check_answers(live: LiveSubject) -> None:
    """The events of a plain answer follow the grammar."""
    _require_done(live.answer)
    require(fold(live.answer).text.strip(), "the answer has no text")


def check_usage_is_told(live: LiveSubject) -> None:
    """The answer reports its token usage."""
    usage = _done(live).usage
    require(
        usage is not None and usage.input and usage.output,
        f"the usage of a whole answer is {usage}",
    )


def check_tool_is_called(live: LiveSubject) -> None:
    """The requested tool is called, with arguments that parse."""
    options = _tool_options(live.subject)
    context = Context([UserMessage('Look the word "swink" up.')], tools=[LOOK_UP])
    events = asyncio.run(live.ask(context, **options))
    _require_done(events)
    calls = fold(events).tool_calls
    require(calls, "no tool is called")
    require(
        all(call.name == "look_up" and call.state == "complete" for call in calls),
        f"the calls are not as they should be: {calls}",
    )


def check_leaving_ends(live: LiveSubject) -> None:
    """A stream that is abandoned at its first word ends in Error(aborted)."""
    asyncio.run(live.ask(Context([UserMessage("Count from one to ten in words.")]), leave=True))


def check_as_recorded(live: LiveSubject) -> None:
    """Live events come in the same order as recorded events."""
    recordings = live.subject.answers()
    _ = _done(live)

    async def read() -> set[tuple[str, str]]:
        seen: set[tuple[str, str]] = set()
        for recording in recordings:
            seen |= _steps(await live.subject.parse(recording))
        return seen

    unseen = sorted(_steps(live.answer) - asyncio.run(read()))
    if unseen:
        steps = ", ".join(f"{before} then {after}" for before, after in unseen)
        fail(f"no recording shows {steps}: `swink record` would make one that does")


def _steps(events: Iterable[Event]) -> set[tuple[str, str]]:
    """Return the pairs of types of consecutive events; notices are left out."""
    return set(pairwise(event.type for event in events if not isinstance(event, Notice)))


def _require_done(events: list[Event]) -> None:
    if (broken := broken_rule(events)) is not None:
        fail(broken)
    terminal = events[-1]
    if isinstance(terminal, Error):
        fail(f"{terminal.error_kind}: {terminal.error_message}; {terminal.resolution}")


def _done(live: LiveSubject) -> Done:
    terminal = live.answer[-1]
    if not isinstance(terminal, Done):
        raise DoesNotApply("there is no answer")
    return terminal


def _tool_options(subject: Subject) -> dict[str, Any]:
    """Return options that require a tool call; no options if the provider cannot require one."""
    features: frozenset[str] = getattr(subject.provider, "features", frozenset())
    wanted = required_features(Context([], tools=[LOOK_UP]), StreamOptions(tool_choice="required"))
    if "tools" not in features or subject.model.lacks("tools"):
        raise DoesNotApply(f"{subject.model} has no tools")
    return {"tool_choice": "required"} if wanted <= features else {}


LIVE_CHECKS: tuple[Check[LiveSubject], ...] = (
    Check(check_answers),
    Check(check_tool_is_called),
    Check(check_leaving_ends),
    Check(check_usage_is_told),
    Check(check_as_recorded),
)
