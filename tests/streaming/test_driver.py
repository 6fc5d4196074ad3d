"""A call under way: what plugins may do to it, what observers see of it, what it is held to."""

import asyncio
import gc
import logging
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from functools import partial
from math import inf
from typing import Any

import pytest
from fakes import (
    AT_ONCE,
    HELLO,
    MODEL,
    Observer,
    Pipe,
    PipeClient,
    Toy,
    ToyParser,
    Yielding,
    broken_rules,
    client_of,
    collect,
    cut_after,
    dropped,
    frame,
    settled,
    types,
)

import swink_core as swink
from swink_core import (
    Done,
    Error,
    Extension,
    ModelInfo,
    Notice,
    Retry,
    Start,
    StopReason,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from swink_core import StreamErrorKind as Kind
from swink_core.vocabulary.prices import PriceCase, Prices
from swink_testing.clock import ManualClock

ANSWER: list[Any] = [
    Start(),
    Notice("hint", "nothing of note"),
    TextStart(0),
    TextDelta(0, "Hi"),
    TextEnd(0),
    ToolCallStart(1, "a", "f"),
    ToolCallDelta(1, "{}"),
    ToolCallEnd(1),
    Extension(2, "toy", "search", {"q": 1}),
    Done(StopReason.TOOL_USE, swink.Usage(input=1, reported=True)),
]


async def events_of(*items: Any) -> AsyncIterator[Any]:
    """Yields the items; exceptions among them are raised."""
    for item in items:
        if isinstance(item, BaseException):
            raise item
        yield item


async def run_of(make: Callable[[], Any], *plugins: Any, **options: Any) -> list[Any]:
    """The events of a call whose provider's stream hook is `make`."""
    async with client_of(*plugins, providers={"toy": Yielding(make)}, **options) as client:
        return await collect(client.stream(MODEL, "Hi"))


# -- events that plugins yield themselves --------------------------------------------------------


async def test_events_of_a_stream_hook_are_handed_on_as_they_are() -> None:
    assert await run_of(lambda: events_of(*ANSWER)) == ANSWER


async def test_a_stream_hook_may_return_any_async_iterable() -> None:
    class Iterable:
        def __aiter__(self) -> AsyncIterator[Any]:
            return events_of(*ANSWER)

    assert await run_of(Iterable) == ANSWER


# (name, events, the rule that is named)
VIOLATIONS: list[tuple[str, list[Any], str]] = [
    ("no_start", [TextStart(0)], "text_start before start"),
    ("two_starts", [Start(), Start()], "start inside an attempt"),
    ("a_delta_without_a_block", [Start(), TextDelta(0, "x")], "text_delta names block 0"),
    ("a_block_of_another_kind", [Start(), TextStart(0), ToolCallEnd(0)], "which is a text block"),
    ("a_number_left_out", [Start(), TextStart(1)], "content_index 1, expected 0"),
    ("an_end_with_open_blocks", [Start(), TextStart(0), Done(StopReason.STOP)], "open blocks: 0"),
    ("something_else", [Start(), "text"], "str is not an event"),
    ("none", [Start(), None], "NoneType is not an event"),
    (
        "a_delta_that_is_no_text",
        [Start(), TextStart(0), TextDelta(0, None)],
        "whose delta is of type NoneType",
    ),  # type: ignore[arg-type]  # on purpose
    ("an_index_that_is_no_number", [Start(), TextStart("0")], "content_index '0'"),  # type: ignore[arg-type]  # on purpose
    ("a_wait_as_text", [Start(), Error(retry_after="5")], "whose retry_after is of type str"),  # type: ignore[arg-type]  # on purpose
    ("a_wait_without_end", [Start(), Error.throttled("busy", inf)], "whose retry_after is inf"),
    ("an_unknown_kind", [Start(), Error(error_kind="tired")], "whose error_kind is of type str"),  # type: ignore[arg-type]  # on purpose
    ("a_message_as_bytes", [Start(), Error(error_message=b"busy")], "error_message is of type byt"),  # type: ignore[arg-type]  # on purpose
]


@pytest.mark.parametrize(
    ("given", "rule"), [case[1:] for case in VIOLATIONS], ids=[case[0] for case in VIOLATIONS]
)
async def test_a_violation_of_the_grammar_ends_the_stream_and_names_rule_and_plugin(
    given: list[Any], rule: str
) -> None:
    observer = Observer()
    events = await run_of(lambda: events_of(*given, *ANSWER), observer)
    assert broken_rules(events) == []
    assert events == observer.events
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.PROTOCOL
    assert (events[-1].phase, events[-1].code) == ("streaming", "grammar")
    assert rule in events[-1].error_message
    assert 'plugin "toy"' in events[-1].error_message


@pytest.mark.parametrize("count", range(len(ANSWER)))
async def test_events_without_a_terminal_are_the_plugins_fault(count: int) -> None:
    events = await run_of(lambda: events_of(*ANSWER[:count]))
    assert broken_rules(events) == []
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.PROTOCOL
    assert "the stream ended without Done or Error" in events[-1].error_message


async def test_a_moment_to_wait_for_that_has_passed_is_no_wait() -> None:
    async with client_of(
        providers={"toy": Yielding(lambda: events_of(Start(), Error.throttled("busy", -5)))},
        retry=False,
    ) as client:
        with pytest.raises(swink.ModelThrottled, match="Wait a moment and try again") as caught:
            await client.complete(MODEL, "Hi")
    assert caught.value.retry_after == 0.0


async def test_nothing_is_read_after_the_terminal_event() -> None:
    events = await run_of(lambda: events_of(*ANSWER, ZeroDivisionError(), *ANSWER))
    assert events == ANSWER


# -- plugins that raise --------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(len(ANSWER)))
async def test_a_plugin_that_raises_at_any_point_ends_the_stream_as_internal(count: int) -> None:
    observer = Observer()
    events = await run_of(lambda: events_of(*ANSWER[:count], ZeroDivisionError("oops")), observer)
    assert broken_rules(events) == []
    assert events == observer.events
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.INTERNAL
    assert "ZeroDivisionError: oops" in events[-1].error_message


def raises(error: BaseException) -> Callable[[], Any]:
    def make() -> Any:
        raise error

    return make


FAILURE = swink.ProviderFailure(swink.Failure("request", 429, message="slow down"))

# (name, what the stream hook does, the kind, part of the message)
RAISED: list[tuple[str, Callable[[], Any], Kind, str]] = [
    ("an_exception", raises(ZeroDivisionError("oops")), Kind.INTERNAL, "oops"),
    ("nothing_to_iterate", lambda: 5, Kind.INTERNAL, "an async iterator, not int"),
    ("no_answer", lambda: None, Kind.INTERNAL, "the stream hook must return"),
    ("a_failure", raises(FAILURE), Kind.THROTTLED, "slow down"),
    ("a_failure_later", lambda: events_of(Start(), FAILURE), Kind.THROTTLED, "slow down"),
    (
        "a_mistake_of_the_callers",
        lambda: events_of(Start(), swink.MediaError("a.png: no such file")),
        Kind.INVALID_REQUEST,
        "a.png: no such file",
    ),
    (
        "a_mistake_found_by_the_hook",
        raises(swink.MediaError("a.png: no such file")),
        Kind.INVALID_REQUEST,
        "a.png: no such file",
    ),
    ("no_memory", lambda: events_of(Start(), MemoryError()), Kind.RESOURCE, "memory ran out"),
    ("an_exit", lambda: events_of(Start(), StopAsyncIteration()), Kind.INTERNAL, ""),
]


@pytest.mark.parametrize(
    ("make", "kind", "message"), [case[1:] for case in RAISED], ids=[case[0] for case in RAISED]
)
async def test_an_exception_of_a_stream_hook_becomes_an_error_event(
    make: Callable[[], Any], kind: Kind, message: str
) -> None:
    events = await run_of(make)
    assert types(events) == ["start", "error"]
    assert events[-1].error_kind is kind
    assert message in events[-1].error_message


ENGINE_LOST = swink.ProviderFailure(
    swink.Failure("streaming", kind=Kind.INTERNAL, code="engine", message="the engine ended")
)


@pytest.mark.parametrize(
    ("error", "logged"), [(ZeroDivisionError("oops"), True), (ENGINE_LOST, False)]
)
async def test_a_trace_is_logged_of_a_fault_and_not_of_a_failure_that_was_reported(
    error: Exception, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    events = await run_of(lambda: events_of(Start(), error))
    assert events[-1].error_kind is Kind.INTERNAL
    assert ("Traceback" in caplog.text) is logged


async def test_an_exception_in_a_plugins_close_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stream() -> AsyncIterator[Any]:
        try:
            for event in ANSWER:
                yield event
        finally:
            raise ZeroDivisionError("while closing")

    observer = Observer()
    provider = Yielding(stream)
    async with client_of(observer, providers={"toy": provider}) as client:
        assert await collect(client.stream(MODEL, "Hi")) == ANSWER
        async with client.stream(MODEL, "Hi") as left:
            async for _ in left:
                break
    assert types(observer.terminals) == ["done", "error"]
    assert caplog.text.count("while closing") >= 2


async def test_a_plugin_that_ignores_being_closed_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stream() -> AsyncIterator[Any]:
        try:
            yield Start()
            await asyncio.Event().wait()
        finally:
            yield TextStart(0)

    observer = Observer()
    async with client_of(observer, providers={"toy": Yielding(stream)}) as client:
        left = client.stream(MODEL, "Hi")
        async with left:
            async for _ in left:
                break
    assert types(observer.events) == ["start", "error"]
    assert "ignored GeneratorExit" in caplog.text


# What a plugin makes of a cancellation that it should have let pass.
async def swallows() -> AsyncIterator[Any]:
    yield Start()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return


async def goes_on() -> AsyncIterator[Any]:
    yield Start()
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    yield TextStart(0)
    await asyncio.Event().wait()


async def completes() -> AsyncIterator[Any]:
    yield Start()
    yield TextStart(0)
    yield TextDelta(0, "all")
    yield TextEnd(0)
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    yield Done(StopReason.STOP)


async def wraps() -> AsyncIterator[Any]:
    yield Start()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError as error:
        raise ZeroDivisionError from error


@pytest.mark.parametrize("make", [swallows, goes_on, completes, wraps])
async def test_a_plugin_cannot_keep_a_stream_from_being_closed(make: Callable[[], Any]) -> None:
    observer = Observer()
    async with client_of(observer, providers={"toy": Yielding(make)}, retry=AT_ONCE) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        await settled()
        await stream.aclose()
        events = await reader
        assert reader.cancelling() == 0
    assert broken_rules(observer.events) == []
    assert events == observer.events
    assert events[-1].stop_reason is StopReason.ABORTED


async def test_a_cancellation_by_others_stays_counted_by_the_task() -> None:
    counted = []

    async def read(stream: swink.EventStream) -> None:
        try:
            await collect(stream)
        except asyncio.CancelledError:
            counted.append(reader.cancelling())
            raise

    async with client_of(http=PipeClient(Pipe(frame(text="a")))) as client:
        reader = asyncio.create_task(read(client.stream(MODEL, "Hi")))
        await settled()
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader
    assert counted == [1]


async def test_closing_an_inner_stream_is_not_mistaken_for_a_cancellation_by_others() -> None:
    """A task that once swallowed a cancellation still counts it (`Task.cancelling`)."""

    async def read(stream: swink.EventStream) -> list[Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await collect(stream)  # cleans up with the help of a model
        return []

    async with client_of(http=PipeClient(Pipe(frame(text="a")))) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(read(stream))
        await settled()
        reader.cancel()
        await settled()
        await stream.aclose()
        events = await reader
    assert events[-1].stop_reason is StopReason.ABORTED


async def test_an_error_that_a_plugin_made_itself_is_explained() -> None:
    error = swink.Error.throttled("slow down", 2.0)
    events = await run_of(lambda: events_of(Start(), error))
    assert events[-1].title == "Rate limited by toy"
    assert events[-1].resolution.startswith("Wait 2 s")


# -- hooks ---------------------------------------------------------------------------------------


class Raising:
    """A shared plugin whose named hook raises."""

    def __init__(self, hook: str) -> None:
        def fails() -> None:
            raise ZeroDivisionError(f"{hook} raised")

        setattr(self, hook, swink.hookimpl(fails, tryfirst=True))


async def test_a_converter_that_raises_ends_the_stream_before_anything_is_sent() -> None:
    http = PipeClient(Pipe(*HELLO))
    async with client_of(Raising("convert_messages"), http=http) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert types(events) == ["start", "error"]
    assert events[-1].error_kind is Kind.INTERNAL
    assert http.requests == []


def _answering(result: Any) -> Any:
    """Return a wrapper around the conversion that returns this, or raises it."""

    class Wrapper:
        @swink.hookimpl(wrapper=True)
        def convert_messages(self) -> Any:
            yield
            if isinstance(result, BaseException):
                raise result
            return result

    return Wrapper()


class _YieldsTwice:
    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Any:
        yield
        yield


class _NeverYields:
    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Any:
        yield from ()


class _StopsItself:
    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Any:
        yield
        raise StopIteration


FILTERED = swink.ProviderFailure(
    swink.Failure("request", kind=Kind.CONTENT_FILTERED, message="this may not leave the house")
)

NOT_A_BODY = "not a dict with the JSON body of the request"

# (name, what the wrapper returns or raises, the kind, the message)
REFUSALS = [
    ("usage_error", swink.UsageError("not this"), Kind.INVALID_REQUEST, "not this"),
    ("a_kind_of_its_own", FILTERED, Kind.CONTENT_FILTERED, "this may not leave the house"),
    ("an_exception", KeyError("x"), Kind.INTERNAL, 'plugin "Wrapper#0" raised KeyError'),
    ("an_exit", SystemExit(3), Kind.INTERNAL, 'plugin "Wrapper#0" raised SystemExit: 3'),
    ("nothing", None, Kind.INTERNAL, f"returned NoneType, {NOT_A_BODY}"),
    ("a_list", [], Kind.INTERNAL, f'"Wrapper#0": convert_messages returned list, {NOT_A_BODY}'),
    ("a_text", "{}", Kind.INTERNAL, f'"Wrapper#0": convert_messages returned str, {NOT_A_BODY}'),
]


@pytest.mark.parametrize(
    ("result", "kind", "says"), [c[1:] for c in REFUSALS], ids=[c[0] for c in REFUSALS]
)
async def test_a_wrapper_that_refuses_or_fails_ends_the_call_before_anything_is_sent(
    result: Any, kind: Kind, says: str
) -> None:
    http = PipeClient(Pipe(*HELLO))
    async with client_of(_answering(result), http=http) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert types(events) == ["start", "error"]
    assert events[-1].error_kind is kind
    assert says in events[-1].error_message
    assert http.requests == []


@pytest.mark.parametrize("made", [_YieldsTwice, _NeverYields, _StopsItself])
async def test_a_wrapper_that_is_no_generator_with_one_yield_is_named(made: Any) -> None:
    async with client_of(made(), http=PipeClient(Pipe(*HELLO))) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert events[-1].error_kind is Kind.INTERNAL
    assert events[-1].error_message.startswith(f'plugin "{made.__name__}#0" raised RuntimeError')


class _ExitingParser(ToyParser):
    def feed(self, data: bytes, out: Any) -> None:
        super().feed(data, out)
        if b'"usage"' in data:
            raise SystemExit("no")


class _ExitingToy(Toy):
    def parser(self, model: Any) -> Any:
        return _ExitingParser()

    @swink.hookimpl
    def classify_error(self, failure: Any) -> Any:
        raise SystemExit("not at all")


async def test_an_exit_of_a_provider_ends_the_call_and_not_the_program() -> None:
    providers = {"toy": _ExitingToy}
    async with client_of(http=PipeClient(Pipe(*HELLO)), providers=providers, api_key="k") as client:
        stream = client.stream(MODEL, "Hi")
        events = await collect(stream)
    assert events[-1].error_kind is Kind.INTERNAL
    assert "raised SystemExit: no" in events[-1].error_message
    assert stream.message.text == "Hello"


@pytest.mark.parametrize(
    ("say", "said"),
    [
        (lambda out: out.text(b"lo"), "raised TypeError: .*bytes"),
        (lambda out: out.tool_call(0, "a", "f", {"q": 1}), "raised PluginError: .*type dict"),
    ],
    ids=["text", "arguments"],
)
async def test_a_parser_that_reports_a_value_of_another_type_is_named(
    say: Callable[[Any], None], said: str
) -> None:
    class Mistaken(ToyParser):
        def feed(self, data: bytes, out: Any) -> None:
            out.text("Hel")
            say(out)

    class Mistaking(Toy):
        def parser(self, model: Any) -> Any:
            return Mistaken()

    observer = Observer()
    async with client_of(
        observer, http=PipeClient(Pipe(*HELLO)), providers={"toy": Mistaking}, api_key="k"
    ) as client:
        stream = client.stream(MODEL, "Hi")
        events = await collect(stream)
    assert broken_rules(events) == []
    assert events == observer.events
    assert events[-1].error_kind is Kind.INTERNAL
    assert re.match(f'plugin "toy" {said}', events[-1].error_message)
    assert stream.message.content == [TextBlock("Hel")]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
@pytest.mark.parametrize("form", ["function", "method", "partial", "object"])
async def test_an_exit_of_a_signal_handler_ends_the_program(form: str) -> None:
    class Handler:
        def __call__(self, number: int, frame: Any) -> None:
            raise SystemExit(7)

        def method(self, number: int, frame: Any) -> None:
            self(number, frame)

    def function(number: int, frame: Any) -> None:
        raise SystemExit(7)

    class Interrupted(Toy):
        def convert(self, model: Any, context: Any, options: Any) -> Any:
            signal.raise_signal(signal.SIGUSR1)
            return {}

    handlers = {"function": function, "method": Handler().method, "object": Handler()}
    usual = signal.signal(signal.SIGUSR1, handlers.get(form, partial(function)))
    try:
        async with client_of(providers={"toy": Interrupted}) as client:
            with pytest.raises(SystemExit):
                await collect(client.stream(MODEL, "Hi"))
    finally:
        signal.signal(signal.SIGUSR1, usual)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
async def test_an_exit_of_a_signal_handler_ends_the_program_while_a_response_is_closed() -> None:
    def exiting(number: int, frame: Any) -> None:
        raise SystemExit(7)

    class Interrupted(Pipe):
        def close(self) -> None:
            signal.raise_signal(signal.SIGUSR1)

    usual = signal.signal(signal.SIGUSR1, exiting)
    try:
        async with client_of(http=PipeClient(Interrupted(*HELLO))) as client:
            with pytest.raises(SystemExit):
                await collect(client.stream(MODEL, "Hi"))
    finally:
        signal.signal(signal.SIGUSR1, usual)


async def test_a_provider_that_converts_to_no_body_is_named_and_not_its_wrapper() -> None:
    class Listing(Toy):
        def convert(self, model: Any, context: Any, options: Any) -> Any:
            return []

    class Passing:
        @swink.hookimpl(wrapper=True)
        def convert_messages(self) -> Any:
            return (yield)

    http = PipeClient(Pipe(*HELLO))
    async with client_of(Passing(), providers={"toy": Listing}, http=http) as client:
        *_, end = await collect(client.stream(MODEL, "Hi"))
    assert end.error_kind is Kind.INTERNAL
    assert f"Listing.convert returned list, {NOT_A_BODY}" in end.error_message
    assert "Passing" not in end.error_message
    assert http.requests == []


async def test_a_body_that_is_no_json_names_its_wrapper_and_its_provider() -> None:
    http = PipeClient(Pipe(*HELLO))
    async with client_of(_answering({"mark": object()}), http=http) as client:
        *_, end = await collect(client.stream(MODEL, "Hi"))
    assert (end.error_kind, end.code) == (Kind.INTERNAL, "plugin")
    assert end.error_message == (
        'plugin "Wrapper#0" or "toy": the body that convert_messages returned cannot be '
        "converted to JSON: Encoding objects of type object is unsupported"
    )
    assert http.requests == []


async def test_a_request_that_fails_with_a_body_of_json_is_a_fault_of_the_provider() -> None:
    class Mistaken(Toy):
        def request(self, model: Any, payload: Any, options: Any) -> Any:
            raise ValueError("no address")

    passing = _answering({"text": "half \ud800 a character"})
    async with client_of(passing, providers={"toy": Mistaken}, http=PipeClient()) as client:
        *_, end = await collect(client.stream(MODEL, "Hi"))
    assert end.error_message.startswith('plugin "toy" raised ValueError: no address')


@pytest.mark.parametrize("result", [None, "text", [Start()]], ids=["none", "text", "list"])
async def test_a_wrapper_that_returns_no_iterator_is_named_with_the_provider(result: Any) -> None:
    class Wrapper:
        @swink.hookimpl(wrapper=True)
        def stream(self) -> Any:
            yield
            return result

    async with client_of(Wrapper(), http=PipeClient(Pipe(*HELLO))) as client:
        *_, end = await collect(client.stream(MODEL, "Hi"))
    assert (end.error_kind, end.code) == (Kind.INTERNAL, "plugin")
    assert end.error_message == (
        'plugin "Wrapper#0" or "toy" returned no events: the stream hook must return an async '
        f"iterator, not {type(result).__name__}; write it as a plain def with @hookimpl"
    )


async def test_a_classifier_that_raises_is_logged_and_the_core_classifies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    http = PipeClient(Pipe(b"{}", status=429, end=True))
    async with client_of(Raising("classify_error"), http=http) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert events[-1].error_kind is Kind.THROTTLED
    assert "classify_error raised" in caplog.text


async def test_a_classifier_that_returns_something_else_is_logged_and_the_core_classifies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Wrong:
        @swink.hookimpl(tryfirst=True)
        def classify_error(self) -> str:
            return "throttled"

    http = PipeClient(Pipe(b"{}", status=429, end=True))
    async with client_of(Wrong(), http=http) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert events[-1].error_kind is Kind.THROTTLED
    assert "classify_error" in caplog.text


async def test_a_wrapper_around_the_conversion_changes_what_every_provider_sends() -> None:
    class Redactor:
        @swink.hookimpl(wrapper=True)
        def convert_messages(self) -> Any:
            yield
            return {"messages": ["redacted"]}

    http = PipeClient(Pipe(*HELLO))
    async with client_of(Redactor(), http=http) as client:
        await client.complete(MODEL, "Hi")
    assert b"redacted" in http.requests[0].body
    assert b"Hi" not in http.requests[0].body


async def test_a_wrapper_around_the_stream_is_held_to_the_grammar_and_closes_the_inner_one() -> (
    None
):
    class Shouting:
        @swink.hookimpl(wrapper=True)
        def stream(self) -> Any:
            inner = yield

            async def shouted() -> AsyncIterator[Any]:
                async with aclosing(aiter(inner)) as events:
                    async for event in events:
                        if isinstance(event, TextDelta):
                            event.delta = event.delta.upper()
                        yield event

            return shouted()

    pipe = Pipe(*HELLO[:2])
    async with client_of(Shouting(), http=PipeClient(pipe)) as client:
        async with client.stream(MODEL, "Hi") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
        await settled()
    assert stream.message.text == "HEL"
    assert pipe.closed


async def test_a_shared_plugin_may_answer_in_the_providers_stead() -> None:
    class Cache:
        @swink.hookimpl(tryfirst=True)
        def stream(self, context: swink.Context) -> Any:
            known = context.messages == [swink.UserMessage("known")]
            return events_of(*ANSWER) if known else None

    http = PipeClient(Pipe(*HELLO))
    async with client_of(Cache(), http=http) as client:
        assert (await client.complete(MODEL, "known")).text == "Hi"
        assert http.requests == []
        assert (await client.complete(MODEL, "unknown")).text == "Hello"


# -- observers -----------------------------------------------------------------------------------


async def test_observers_get_every_event_in_order_before_the_caller_sees_it() -> None:
    observer = Observer()
    async with client_of(observer, http=PipeClient(Pipe(*HELLO))) as client:
        seen = []
        async with client.stream(MODEL, "Hi") as stream:
            async for event in stream:
                seen.append(event)
                assert event in observer.events
    assert observer.events == seen


async def test_an_observer_may_take_the_event_the_call_or_both() -> None:
    got: list[tuple[str, ...]] = []

    class Event:
        @swink.hookimpl
        def on_event(self, event: Any) -> None:
            got.append(("event", event.type))

    class Call:
        @swink.hookimpl
        def on_event(self, call: Any) -> None:
            got.append(("call", str(call.model)))

    class Both:
        @swink.hookimpl
        def on_event(self, call: Any, event: Any) -> None:
            got.append(("both", str(call.model), event.type))

    class Neither:
        @swink.hookimpl
        def on_event(self) -> None:
            got.append(("neither",))

    plugins = (Event(), Call(), Both(), Neither())
    await run_of(lambda: events_of(Start(), Done(StopReason.LENGTH)), *plugins)
    assert sorted(got) == sorted(
        [
            ("event", "start"),
            ("event", "done"),
            *[("call", MODEL)] * 2,
            ("both", MODEL, "start"),
            ("both", MODEL, "done"),
            *[("neither",)] * 2,
        ]
    )


async def test_observers_are_called_in_the_order_of_pluggy() -> None:
    order: list[str] = []

    def observer(name: str, **how: bool) -> Any:
        class Plugin:
            @swink.hookimpl(**how)
            def on_event(self) -> None:
                order.append(name)

        return Plugin()

    plugins = (
        observer("last", trylast=True),
        observer("plain"),
        observer("later plain"),
        observer("first", tryfirst=True),
    )
    await run_of(lambda: events_of(Start()), *plugins)
    assert order[:4] == ["first", "later plain", "plain", "last"]


async def test_an_observer_that_raises_is_logged_and_left_out_while_others_get_every_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        name = "broken"
        calls = 0

        @swink.hookimpl
        def on_event(self, event: Any) -> None:
            if isinstance(event, TextStart):
                self.calls += 1
                raise ZeroDivisionError

    broken, before, after = Broken(), Observer(), Observer()
    async with client_of(before, broken, after, http=PipeClient(Pipe(*HELLO), Pipe(*HELLO))) as c:
        first = await collect(c.stream(MODEL, "Hi"))
        assert broken.calls == 1
        await collect(c.stream(MODEL, "Hi"))
    assert broken.calls == 2  # left out for the rest of that call only
    assert before.events == after.events
    assert before.events[: len(first)] == first
    assert types(first)[-1] == "done"
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert ["broken" in record.getMessage() for record in errors] == [True, True]


@pytest.mark.parametrize(
    "raised", [asyncio.CancelledError, GeneratorExit, SystemExit, StopIteration, ValueError]
)
async def test_nothing_that_an_observer_raises_takes_the_end_away(
    raised: type[BaseException],
) -> None:
    class Broken:
        @swink.hookimpl
        def on_event(self, event: Any) -> None:
            if isinstance(event, TextDelta):
                raise raised

    after = Observer()
    async with client_of(Broken(), after, http=PipeClient(Pipe(*HELLO))) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert types(events)[-1] == "done"
    assert after.events == events


def _meddle(event: Any) -> None:
    """Change all that an event has, and what that holds, however deep."""
    if isinstance(event, list):
        event[:] = [*event, "HACKED"]
    elif isinstance(event, dict):
        for held in [*event.values()]:
            _meddle(held)
        event["HACKED"] = "HACKED"
    for name in getattr(type(event), "__struct_fields__", ()):
        _meddle(value := getattr(event, name))
        setattr(event, name, 99 if isinstance(value, int) else "HACKED")


NESTED = {"a": {"b": [1, {"c": "d"}]}}

EVERY_BLOCK = [
    frame(text="Hello", facts=NESTED),
    frame(thinking="Hm", signature="S"),
    frame(call={"key": 0, "id": "c", "name": "f", "arguments": "{}", "metadata": NESTED}),
    frame(extension=NESTED, usage={"input": 1, "output": 2, "extra": NESTED}),
    frame(stop="stop", finish=True),
]


@pytest.mark.parametrize("who", ["an observer", "the caller"])
@pytest.mark.parametrize("end", ["done", "error"])
async def test_changing_events_does_not_change_the_message_or_the_end(who: str, end: str) -> None:
    class Meddler:
        @swink.hookimpl
        def on_event(self, event: Any) -> None:
            _meddle(event)

    frames = EVERY_BLOCK if end == "done" else EVERY_BLOCK[:-1]
    messages = []
    for meddles in (False, True):
        observers = [Meddler()] if meddles and who == "an observer" else []
        async with client_of(*observers, http=PipeClient(Pipe(*frames, end=True))) as client:
            stream = client.stream(MODEL, "Hi")
            seen = []
            async for event in stream:
                seen.append(type(event).__name__.lower())
                if meddles and who == "the caller":
                    _meddle(event)
        assert seen[-1] == end
        messages.append(stream.message)
    assert messages[0] == messages[1]


# -- who is at fault -----------------------------------------------------------------------------


class Deaf:
    """A wrapper around the stream that loses the end of every block."""

    name = "deaf"

    @swink.hookimpl(wrapper=True)
    def stream(self) -> Any:
        inner = yield

        async def heard() -> AsyncIterator[Any]:
            async with aclosing(aiter(inner)) as events:
                async for event in events:
                    if not event.type.endswith("_end"):
                        yield event

        return heard()


class Patient:
    """A wrapper that hands on what it was given."""

    name = "patient"

    @swink.hookimpl(wrapper=True)
    def stream(self) -> Any:
        return (yield)


async def test_a_wrapper_that_breaks_the_grammar_is_named() -> None:
    async with client_of(Deaf(), http=PipeClient(Pipe(*HELLO))) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert (events[-1].error_kind, events[-1].code) == (Kind.PROTOCOL, "grammar")
    assert events[-1].error_message.startswith(
        'plugin "deaf#0" violated the event protocol: done with'
    )
    assert "address" not in events[-1].resolution


async def test_all_possible_plugins_are_named_for_a_grammar_violation() -> None:
    class Elsewhere(list[Any]):
        """Events that no plugin's own code makes."""

        def __aiter__(self) -> Any:
            return events_of(*self)

    Elsewhere.__module__ = "somewhere_else"

    class Listing:
        name = "listing"

        @swink.hookimpl(tryfirst=True)
        def stream(self) -> Any:
            return Elsewhere([TextStart(0)])

    async with client_of(Listing(), Patient(), http=PipeClient()) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert '"patient#1" or "listing#0" or "toy" violated' in events[-1].error_message


async def test_a_plugin_that_raises_is_named_with_the_place() -> None:
    async with client_of(Raising("convert_messages"), http=PipeClient()) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    message = events[-1].error_message
    assert message.startswith(
        'plugin "Raising#0" raised ZeroDivisionError: convert_messages raised'
    )
    assert re.search(r" \(streaming/test_driver\.py:\d+\)$", message)


async def test_a_provider_that_raises_is_named_with_the_place() -> None:
    async with client_of(Patient(), http=PipeClient(Pipe(frame(call=5)))) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert re.fullmatch(
        r'plugin "toy" raised TypeError: .* \(support/fakes\.py:\d+\)', events[-1].error_message
    )


async def test_an_observer_gets_the_facts_of_the_call() -> None:
    seen: dict[str, tuple[Any, ...]] = {}

    class Looking:
        @swink.hookimpl
        def on_event(self, event: Any, call: swink.Call) -> None:
            seen[event.type] = (call.attempt.number, call.endpoint, call.response_id, call.usage)

    http = PipeClient(cut_after(), Pipe(*HELLO))
    async with client_of(Looking(), http=http, retry=AT_ONCE) as client:
        await collect(client.stream(MODEL, "Hi"))
    usage = swink.Usage(input=3, output=2, total=5, reported=True)
    assert seen["retry"] == (1, "http://toy.invalid/v1/chat", None, None)
    assert seen["start"] == (2, None, None, None)
    assert seen["text_delta"] == (2, "http://toy.invalid/v1/chat", "r1", None)
    assert seen["done"] == (2, "http://toy.invalid/v1/chat", "r1", usage)


@pytest.mark.parametrize("piece", [HELLO[-1], frame(error={"kind": "auth"})], ids=["done", "error"])
async def test_an_observer_of_the_end_finds_when_it_was(piece: bytes) -> None:
    found: list[float | None] = []

    class Looking:
        @swink.hookimpl
        def on_event(self, event: Any, call: swink.Call) -> None:
            found.append(call.ended_at)

    async with client_of(Looking(), http=PipeClient(Pipe(HELLO[1], piece))) as client:
        stream = client.stream(MODEL, "Hi")
        await collect(stream)
    assert found[0] is None
    assert found[-1] is not None
    assert found[-1] == stream.call.ended_at


async def test_an_observer_finds_in_the_attempt_when_its_events_arrived() -> None:
    found: list[tuple[Any, ...]] = []

    class Looking:
        @swink.hookimpl
        def on_event(self, event: Any, call: swink.Call) -> None:
            made = call.attempt
            times = (made.started_at, made.first_event_at, made.read_at, made.ended_at)
            found.append((event.type, *times))

    clock, pipes = ManualClock(1.0), [Pipe(), Pipe()]
    async with client_of(Looking(), http=PipeClient(*pipes), clock=clock, retry=AT_ONCE) as client:
        reader = asyncio.create_task(collect(client.stream(MODEL, "Hi")))
        for number, piece in ((0, HELLO[0]), (0, dropped()), (1, HELLO[1]), (1, HELLO[-1])):
            await clock.advance(1.0)
            pipes[number].send(piece)
            await settled()
        await reader
    assert found == [
        ("start", 1.0, None, None, None),
        ("retry", 1.0, None, 2.0, 3.0),
        ("start", 3.0, None, None, None),
        ("text_start", 3.0, 4.0, 4.0, None),
        ("text_delta", 3.0, 4.0, 4.0, None),
        ("text_end", 3.0, 4.0, 5.0, 5.0),
        ("done", 3.0, 4.0, 5.0, 5.0),
    ]


# -- usage and cost ------------------------------------------------------------------------------


PRICED = swink.Model(
    "toy", "large", ModelInfo("large", "toy", prices=Prices(input=1.0, output=2.0))
)


async def test_a_terminal_event_is_priced_by_the_catalogue() -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO))) as client:
        message = await client.complete(PRICED, "Hi")
    assert message.cost is not None
    assert message.cost.input == pytest.approx(3e-6)
    assert message.cost.output == pytest.approx(4e-6)
    assert message.cost.total == pytest.approx(7e-6)
    assert not message.cost.estimated


async def test_a_cost_that_the_provider_reports_outranks_the_catalogue() -> None:
    pipe = Pipe(frame(text="a"), frame(usage={"input": 3, "output": 2, "cost": 0.5}), HELLO[-1])
    async with client_of(http=PipeClient(pipe)) as client:
        message = await client.complete(PRICED, "Hi")
    assert message.cost is not None
    assert message.cost.total == 0.5


# (the first frame, what becomes of the answer, whether its cost is an estimate)
WHOLE: list[tuple[bytes, Kind, bool]] = [
    (b"data: {\n\n", Kind.PROTOCOL, True),  # it may have had the rest of the usage
    (frame(id="r1"), Kind.EMPTY_RESPONSE, False),
]


@pytest.mark.parametrize(("first", "kind", "estimated"), WHOLE)
async def test_usage_of_a_whole_answer_that_fails_is_final_unless_a_frame_was_damaged(
    first: bytes, kind: Kind, estimated: bool
) -> None:
    pipe = Pipe(first, frame(usage={"input": 3, "output": 2}), HELLO[-1])
    async with client_of(http=PipeClient(pipe), clock=ManualClock()) as client:
        stream = client.stream(PRICED, "Hi")
        error = (await collect(stream))[-1]
    assert (error.error_kind, error.cost.estimated) == (kind, estimated)
    assert stream.call.charge.estimated is estimated


TIERED = swink.Model(
    "toy",
    "large",
    ModelInfo(
        "large",
        "toy",
        prices=Prices(input=1.0, output=2.0, cases=(PriceCase(above=5, input=9.0),)),
    ),
)
"""A model with a higher price for long prompts."""


class Wrapped:
    """Passes on the provider's events one by one."""

    @swink.hookimpl(wrapper=True)
    def stream(self) -> Any:
        return self._passed_on((yield))

    async def _passed_on(self, events: Any) -> AsyncIterator[Any]:
        async with aclosing(aiter(events)) as passed:
            async for event in passed:
                yield event


# (the costs that the provider reports for two discarded answers and the last one, the message's
# cost, the call's)
BEGUN_ANEW: list[tuple[dict[str, float], dict[str, float], dict[str, float], float, float]] = [
    ({}, {}, {}, 6e-6, 7e-6 + 8e-6 + 6e-6),
    ({"cost": 0.25}, {}, {}, 6e-6, 0.25 + 8e-6 + 6e-6),
    ({}, {}, {"cost": 0.5}, 0.5, 7e-6 + 8e-6 + 0.5),
    ({"cost": 0.25}, {"cost": 0.25}, {"cost": 0.5}, 0.5, 1.0),
]


@pytest.mark.parametrize("plugins", [(), (Wrapped(),)], ids=["alone", "wrapped"])
@pytest.mark.parametrize(("first", "second", "third", "own", "whole"), BEGUN_ANEW)
async def test_usage_and_cost_of_answers_begun_anew_in_their_body_are_in_the_calls_sums_only(
    first: dict[str, float],
    second: dict[str, float],
    third: dict[str, float],
    own: float,
    whole: float,
    plugins: tuple[Any, ...],
) -> None:
    discarded = [
        *(frame(text="a"), frame(usage={"input": 3, "output": 2, **first}), frame(restart="anew")),
        *(frame(usage={"input": 4, "output": 2, **second}), frame(text="b") + frame(restart="and")),
    ]
    last = (*HELLO[:-1], frame(usage={"input": 4, "output": 1, **third}), HELLO[-1])
    async with client_of(*plugins, http=PipeClient(Pipe(*discarded, *last))) as client:
        stream = client.stream(TIERED, "Hi")
        message = await stream.result()
    assert message.usage == swink.Usage(input=4, output=1, total=5, reported=True)
    assert message.cost is not None
    assert message.cost.total == pytest.approx(own)
    call = stream.call
    assert call.usage == swink.Usage(input=11, output=5, total=16, reported=True)
    assert call.cost is not None
    assert call.cost.total == pytest.approx(whole)
    for charge in (call.charge, call.attempt.charge, client.charge):
        assert charge == swink.Charge(16, pytest.approx(whole))


async def test_an_answer_begun_anew_has_no_known_charge_without_a_price() -> None:
    discarded = (frame(usage={"input": 3, "output": 2}), frame(restart="anew"))
    async with client_of(http=PipeClient(Pipe(*discarded, *HELLO))) as client:
        stream = client.stream(MODEL, "Hi")
        await stream.result()
    assert stream.call.cost is None
    assert stream.call.charge == swink.Charge(10, None)


async def test_usage_and_cost_of_voided_attempts_are_in_the_calls_sums_only() -> None:
    spent = [frame(usage={"input": 3, "output": 0, "cost": 0.25})]
    last = Pipe(frame(text="a"), frame(usage={"input": 3, "output": 2, "cost": 0.5}), HELLO[-1])
    http = PipeClient(cut_after(*spent), cut_after(*spent), last)
    async with client_of(http=http, retry=AT_ONCE) as client:
        stream = client.stream(MODEL, "Hi")
        message = await stream.result()
    assert message.usage == swink.Usage(input=3, output=2, total=5, reported=True)
    assert message.cost is not None
    assert message.cost.total == 0.5
    assert stream.call.usage == swink.Usage(input=9, output=2, total=11, reported=True)
    assert stream.call.cost is not None
    assert stream.call.cost.total == 1.0


async def test_unreported_usage_is_unknown_and_not_zero() -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO[:3], HELLO[-1]))) as client:
        stream = client.stream(PRICED, "Hi")
        message = await stream.result()
    assert message.usage is None
    assert stream.call.usage is None
    assert message.cost is not None
    assert message.cost.estimated
    assert stream.call.cost == message.cost
    assert stream.call.charge.estimated


async def charged_output(**more: Any) -> int:
    """Return the output tokens that are charged for an answer that fails after a frame."""
    last = frame(**more) + frame(error={"kind": "network"})
    http = PipeClient(Pipe(frame(text="One to eight"), last))
    async with client_of(http=http, clock=ManualClock()) as client:
        with pytest.raises(swink.NetworkError):
            await client.stream(PRICED, "Hi", max_tokens=1_000).result()
        return client.charge.tokens - PROMPT


PROMPT = 4
"""The estimated tokens of the prompt "Hi"."""


async def test_output_that_arrived_is_charged_with_other_answers_and_no_probabilities() -> None:
    words = "and the words of another answer " * 10
    alone = await charged_output()
    assert alone == 4
    with_another = await charged_output(choice={"text": words})
    assert with_another > alone + len(words) / 8
    weighed = await charged_output(choice={"text": words, "logprobs": [["and", -0.5]] * 80})
    assert with_another <= weighed < with_another + 8
    message = {"role": "assistant", "content": words, "refusal": None}
    chat = {"index": 1, "message": message, "finish_reason": "length"}
    assert with_another <= await charged_output(choice=chat) < with_another + 6  # two words more
    assert await charged_output(choice=[words]) == alone
    assert await charged_output(extension={"text": words}) == alone


async def test_the_name_of_a_called_tool_is_charged_with_what_arrived() -> None:
    name = "look_up_the_weather_of_" * 20
    call = frame(call={"key": 0, "id": "a", "name": name, "arguments": "{}"})
    http = PipeClient(Pipe(call, frame(error={"kind": "network"})))
    async with client_of(http=http, clock=ManualClock()) as client:
        with pytest.raises(swink.NetworkError):
            await client.stream(PRICED, "Hi", max_tokens=1_000).result()
        assert client.charge.tokens - PROMPT > len(name) / 8


async def test_an_attempt_that_the_provider_refused_is_not_charged() -> None:
    http = PipeClient(Pipe(b"{}", status=503, end=True))
    async with client_of(http=http) as client:
        with pytest.raises(swink.ModelOverloaded):
            await client.complete(PRICED, "Hi")
        assert client.charge == swink.Charge(0, 0.0)
        assert client.cost is None


# -- media -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("downloads", [True, False])
async def test_media_are_downloaded_before_the_request_where_the_caller_allows_it(
    downloads: bool,
) -> None:
    class FetchesNothing(Toy):
        def takes_address(self, *asked: Any) -> bool:
            return False

    http = PipeClient(Pipe(*HELLO))
    image = swink.ImageBlock(swink.UrlSource("http://127.0.0.1/a.png"))
    providers = {"toy": FetchesNothing}
    async with client_of(providers=providers, http=http, retry=AT_ONCE) as client:
        options = {"api_key": "test-key", "download_media": downloads}
        events = await collect(client.stream(MODEL, [image], **options))
    if downloads:
        assert "is not on the public internet" in events[-1].error_message
        assert http.requests == []
    else:
        assert b"http://127.0.0.1/a.png" in http.requests[0].body


# -- limits --------------------------------------------------------------------------------------


async def test_an_answer_that_passes_its_size_limit_ends_there_and_is_closed() -> None:
    pipe = Pipe(*[frame(text="x" * 10) for _ in range(100)])
    async with client_of(http=PipeClient(pipe), max_output_chars=35, retry=AT_ONCE) as client:
        stream = client.stream(MODEL, "Hi")
        events = await collect(stream)
    assert broken_rules(events) == []
    assert (events[-1].error_kind, events[-1].code) == (Kind.OUTPUT_TOO_LARGE, "size")
    assert "35 characters" in events[-1].error_message
    assert stream.message.text == "x" * 40
    assert pipe.closed


@pytest.mark.parametrize(
    ("most", "said", "sizes"), [(35, 40, [0, 30]), (25, 30, [0]), (200, 60, [0, 30, 60])]
)
async def test_an_answer_ends_where_its_call_has_no_room(
    most: int, said: int, sizes: list[int]
) -> None:
    pipe = Pipe(*[frame(text="x" * 10) for _ in range(100)])
    asked: list[int] = []

    def room(chars: int) -> float:
        asked.append(chars)
        return min(chars + 20, 50)

    async with client_of(http=PipeClient(pipe), max_output_chars=most, retry=AT_ONCE) as client:
        stream = client.stream(MODEL, "Hi")
        stream.call.room = room
        events = await collect(stream)
    assert events[-1].error_kind is Kind.OUTPUT_TOO_LARGE
    assert f"longer than {min(most, 50)} characters" in events[-1].error_message
    assert asked == sizes
    assert len(stream.message.text) == said


async def test_thinking_and_arguments_count_towards_the_size_limit() -> None:
    pipe = Pipe(
        frame(thinking="x" * 20),
        frame(call={"key": 0, "id": "a", "name": "f", "arguments": "[" * 20}),
    )
    async with client_of(http=PipeClient(pipe), max_output_chars=35) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert events[-1].error_kind is Kind.OUTPUT_TOO_LARGE


async def test_an_answer_of_just_the_limit_is_whole() -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO)), max_output_chars=5) as client:
        assert (await client.complete(MODEL, "Hi")).text == "Hello"


# -- fallback ------------------------------------------------------------------------------------


async def test_observers_see_every_event_once_whichever_provider_they_belong_to() -> None:
    seen: list[tuple[str, str]] = []

    class Watching(Toy):
        @swink.hookimpl
        def on_event(self, event: Any) -> None:
            seen.append((self.name, event.type))

    observer, http = Observer(), PipeClient(Pipe(b"{}", status=404, end=True), Pipe(*HELLO))
    providers = {"one": Watching, "two": Watching}
    async with client_of(observer, providers=providers, http=http) as client:
        chain = [("one/a", {"api_key": "key-one"}), ("two/b", {"api_key": "key-two"})]
        events = await collect(client.stream(chain, "Hi"))
    assert observer.events == events
    for name in providers:
        assert [kind for owner, kind in seen if owner == name] == types(events)


async def test_a_retry_event_names_the_model_that_comes_next() -> None:
    http = PipeClient(Pipe(b"{}", status=404, end=True), Pipe(*HELLO))
    async with client_of(providers={"one": Toy, "two": Toy}, http=http) as client:
        chain = [("one/a", {"api_key": "key-one"}), ("two/b", {"api_key": "key-two"})]
        stream = client.stream(chain, "Hi")
        events = await collect(stream)
    retry = next(event for event in events if isinstance(event, Retry))
    assert (retry.model, retry.attempt, retry.error_kind) == ("two/b", 1, Kind.MODEL_NOT_FOUND)
    assert (stream.message.provider, stream.message.model) == ("two", "large-2")


async def test_an_attempt_knows_when_content_first_came() -> None:
    clock, pipe = ManualClock(), Pipe(HELLO[0])
    async with client_of(http=PipeClient(pipe), clock=clock) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        for piece in HELLO[1:]:
            await clock.advance(3)
            assert stream.call.attempt.first_event_at == (None if piece is HELLO[1] else 3)
            pipe.send(piece)
            await settled()
        await reader


# -- what is left of a call ----------------------------------------------------------------------


async def test_a_finished_call_leaves_nothing_to_the_garbage_collector() -> None:
    async with client_of(http=PipeClient(*[Pipe(*HELLO) for _ in range(3)])) as client:
        await client.complete(MODEL, "Hi")  # what is made once
        await settled()
        gc.collect()
        gc.disable()
        try:
            gc.set_debug(gc.DEBUG_SAVEALL)
            await client.complete(MODEL, "Hi")
            await collect(client.stream(MODEL, "Hi"))
            await settled()
            gc.collect()
            left = [thing for thing in gc.garbage if type(thing).__module__.startswith("swink")]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert left == []
