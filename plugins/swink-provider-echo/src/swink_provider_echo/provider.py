"""The echo provider: select the script, compose the answer, and yield its events with delays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, ClassVar

from swink_core import (
    AssistantMessageEvent,
    CacheStrategy,
    Call,
    Context,
    Done,
    Error,
    Failure,
    Model,
    Notice,
    ProviderFailure,
    Start,
    StopReason,
    StreamErrorKind,
    StreamOptions,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    Usage,
    UsageError,
    hookimpl,
)
from swink_core.providers import TUNING, Knobs, context_notices, folded_system, required_features
from swink_provider_echo.composition import compose, cost, count_words, heard_in
from swink_provider_echo.conversion import EchoConverter
from swink_provider_echo.script import Script, Scripts

__all__ = ["EchoProvider"]

_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)
_ENDS = (TextEnd, ThinkingEnd, ToolCallEnd)


class EchoProvider:
    """Answers with the last user message, or follows a `Script`."""

    api_level: ClassVar[int] = 1
    features = frozenset(
        {"tools", "tool_choice", "stop", "images", "documents", "audio", "json",
         "structured_output", "assistant_images", "assistant_documents", "assistant_audio"}
    )  # fmt: skip
    knobs: ClassVar[Knobs] = {"max_tokens": None, "thinking": None, "parallel_tool_calls": None}

    def __init__(self, name: str) -> None:
        self.name = name
        self._converter = EchoConverter(name)
        self._scripts = Scripts()

    @hookimpl
    def convert_messages(
        self, model: Model, context: Context, options: StreamOptions
    ) -> dict[str, Any]:
        """Return the conversation as text, and the options; see `conversion`."""
        return self._converter.payload(model, folded_system(context), options)

    @hookimpl
    def stream(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncIterator[AssistantMessageEvent]:
        """Return the events of the answer, which are always the same for the same call."""
        return self._events(model, context, options, call)

    async def _events(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncGenerator[AssistantMessageEvent, None]:
        yield Start()
        for notice in (*_notices(model, options), *context_notices(self.features, model, context)):
            yield notice
        try:
            self._check(model, context, options)
            payload = call.convert()
            script = self._scripts.script_for(call, model.id, options, heard_in(payload))
            events = compose(payload, script, model.id)
        except ProviderFailure as error:
            yield call.error(error.failure)
            return
        except UsageError as error:
            kind = StreamErrorKind.INVALID_REQUEST
            yield call.error(Failure("request", kind=kind, message=str(error), exception=error))
            return
        async for event in _played(events, script, call):
            yield event

    def _check(self, model: Model, context: Context, options: StreamOptions) -> None:
        for feature in sorted(required_features(context, options, self.name) - self.features):
            raise ProviderFailure(
                Failure(
                    "request",
                    kind=StreamErrorKind.UNSUPPORTED,
                    code=feature,
                    message=f"{model} does not support {feature.replace('_', ' ')}",
                )
            )


async def _played(
    events: list[AssistantMessageEvent], script: Script, call: Call
) -> AsyncGenerator[AssistantMessageEvent, None]:
    """Yield the events with the script's delays, up to the end or the scripted failure."""
    fails = script.fails and (
        script.fail_attempts is None or call.attempt.number <= script.fail_attempts
    )
    breaks_at = script.stall_after if script.cut_after is None else script.cut_after
    if fails:
        breaks_at = script.fail_after
    position = len(events) - 1 if breaks_at is None else _position(events, breaks_at)
    if script.first_delay:
        await call.clock.sleep(script.first_delay)
    for event in events[:position]:
        if isinstance(event, _DELTAS):
            # Each event takes at least one turn of the event loop, as with a network.
            await call.clock.sleep(script.delay)
        yield event
    if breaks_at is None:
        yield _terminal(events[-1], call)
    elif fails or script.cut_after is not None:
        for end in _missing_ends(events, position):
            yield end
        yield _failed(events, position, script, call, fails)
    else:
        await asyncio.get_running_loop().create_future()  # wait until the caller gives up


def _position(events: list[AssistantMessageEvent], deltas: int) -> int:
    """Return the index of the event after the first `deltas` deltas, or else that of `Done`."""
    said = 0
    for position, event in enumerate(events[:-1]):
        if said == deltas:
            return position
        said += isinstance(event, _DELTAS)
    return len(events) - 1


def _missing_ends(
    events: list[AssistantMessageEvent], position: int
) -> Iterator[AssistantMessageEvent]:
    open_blocks = {getattr(event, "content_index", None) for event in events[:position]}
    open_blocks -= {event.content_index for event in events[:position] if isinstance(event, _ENDS)}
    for event in events[position:]:
        if isinstance(event, _ENDS) and event.content_index in open_blocks:
            yield event


def _failed(
    events: list[AssistantMessageEvent], position: int, script: Script, call: Call, fails: bool
) -> Error:
    """Return the last event of an answer that fails.

    If `fails` is true, the event contains the scripted failure, otherwise a network failure for a
    truncated stream. If any text was sent, the event also contains the usage.
    """
    said = "".join(event.delta for event in events[:position] if isinstance(event, _DELTAS))
    done = events[-1]
    usage = None
    if said and isinstance(done, Done) and done.usage is not None:
        words = count_words(said)
        heard = done.usage.input or 0
        usage = Usage(input=heard, output=words, total=heard + words, reported=True)
    scripted = script.fail or f"status {script.fail_status}"
    failure = Failure(
        "streaming" if said else "request",
        status=script.fail_status,
        kind=script.fail,
        message=script.fail_message or f"echo failed as requested: {scripted}",
        retry_after=script.retry_after,
    )
    if not fails:
        failure = Failure(
            "streaming" if said else "first_event",
            kind=StreamErrorKind.NETWORK,
            code="cut",
            message="the stream ended before the provider completed its answer",
        )
    error = call.error(failure, usage=usage)
    error.cost = cost(script) if usage else None
    return error


def _terminal(done: AssistantMessageEvent, call: Call) -> AssistantMessageEvent:
    """Return `Done` unchanged, or an `Error` if its stop reason means a failure."""
    if not isinstance(done, Done) or done.stop_reason not in _FAILURES:
        return done
    failure = Failure(
        "finalize",
        kind=_FAILURES[done.stop_reason],
        message=f"echo stopped as requested: {done.stop_reason}",
    )
    call.attempt.learn(done.response_id, done.model, done.usage)
    error = call.error(failure, done.usage)
    error.stop_reason, error.cost = done.stop_reason, done.cost
    return error


_FAILURES = {
    StopReason.ERROR: StreamErrorKind.UNKNOWN,
    StopReason.ABORTED: StreamErrorKind.CANCELLED,
}


def _notices(model: Model, options: StreamOptions) -> Iterator[Notice]:
    for name in TUNING:
        value = getattr(options, name)
        is_asked = value is not None and value != CacheStrategy("none")
        if name in EchoProvider.knobs or not is_asked:
            continue
        what = f"{model} does not support {name}; it was not used"
        yield Notice("option_ignored", what, (f"options.{name}",))
