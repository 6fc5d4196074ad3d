"""Large media and long requests are worked on in a thread; unchanged parts are not copied."""

from __future__ import annotations

import binascii
import threading
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    Client,
    Context,
    ExtensionBlock,
    ImageBlock,
    InvalidContext,
    Message,
    StreamErrorKind,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
    replace,
)
from swink_core.conversation import check_context
from swink_core.providers import closed_schema, media, rewritten_schema, schemas
from swink_core.providers.conversion import normalise
from swink_core.providers.media import (
    MOST_CHECKED_AT_ONCE,
    MOST_ENCODED_AT_ONCE,
    read_media,
    unsupported,
)
from swink_testing.acme import AcmeProvider, acme_answer, acme_host
from swink_testing.driver import MemoryHTTPClient

LARGE = 4 * 1024 * 1024
"""Characters of an image of 3 MB."""


def images(*sizes: int, last: str = "") -> Context:
    """Make a conversation with images of these sizes, the last one of which ends in `last`."""
    data = ["A" * size for size in sizes]
    data[-1] = data[-1][: len(data[-1]) - len(last)] + last
    return Context([UserMessage([ImageBlock(Base64Source("image/png", each)) for each in data])])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Note each piece of base64 that is decoded: whether in this thread, and how long it is."""
    found: list[tuple[bool, int]] = []
    here, decode = threading.current_thread(), binascii.a2b_base64

    class Noting:
        @staticmethod
        def a2b_base64(data: str, *, strict_mode: bool) -> bytes:
            found.append((threading.current_thread() is here, len(data)))
            return decode(data, strict_mode=strict_mode)

    monkeypatch.setattr(media, "binascii", Noting)
    return found


async def test_ten_large_images_are_checked_in_a_thread(decoded: list[tuple[bool, int]]) -> None:
    context = images(*[LARGE] * 10)
    check_context(context)
    assert decoded == []
    assert await read_media(context) is context
    assert decoded == [(False, LARGE)] * 10


async def test_small_images_are_checked_in_the_call(decoded: list[tuple[bool, int]]) -> None:
    context = images(MOST_CHECKED_AT_ONCE // 2, MOST_CHECKED_AT_ONCE // 2)
    check_context(context)
    assert decoded == [(True, MOST_CHECKED_AT_ONCE // 2)] * 2
    await read_media(context)
    assert len(decoded) == 2


async def test_no_more_than_a_bound_is_checked_in_the_call(decoded: list[tuple[bool, int]]) -> None:
    check_context(images(*[1000] * 1000))
    assert sum(size for _, size in decoded) <= MOST_CHECKED_AT_ONCE


OWN = {"api_key": "test-key", "base_url": "http://acme.invalid"}


def client_of(http: MemoryHTTPClient) -> Client:
    return Client(host=acme_host(), http=http, providers={"acme": OWN})


async def test_large_media_that_are_not_base64_are_refused_before_anything_is_sent() -> None:
    http = MemoryHTTPClient()
    async with client_of(http) as client:
        with pytest.raises(InvalidContext, match="message 0: the data of a Base64Source"):
            client.stream("acme/large", images(1000, last="?").messages)
        message = await _failed(client, images(LARGE, last="?"))
    assert message.error_kind is StreamErrorKind.INVALID_REQUEST
    assert "message 0: the data of a Base64Source" in str(message.error_message)
    assert http.requests == []


async def _failed(client: Client, context: Context) -> AssistantMessage:
    async with client.stream("acme/large", context) as stream:
        async for _ in stream:
            pass
    return stream.message


@pytest.mark.parametrize(
    ("characters", "in_thread"), [(10, False), (MOST_ENCODED_AT_ONCE + 1, True)]
)
@pytest.mark.parametrize("step", ["convert", "request"])
async def test_a_large_conversation_is_converted_and_encoded_in_a_thread(
    step: str, characters: int, in_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    work = getattr(AcmeProvider, step)

    def noting(self: Any, *given: Any) -> Any:
        threads.append(threading.current_thread())
        return work(self, *given)

    monkeypatch.setattr(AcmeProvider, step, noting)
    http = MemoryHTTPClient(acme_answer({"text": "Hi"}, {"stop": "stop"}))
    async with client_of(http) as client:
        await client.complete("acme/large", "x" * characters)
    assert [thread is not threading.current_thread() for thread in threads] == [in_thread]


@pytest.mark.parametrize(
    ("is_quick", "in_thread"), [((True, True), False), ((True, False), True), ((None,), True)]
)
async def test_a_request_is_checked_in_a_thread_unless_each_guard_is_quick(
    is_quick: tuple[bool | None, ...], in_thread: bool
) -> None:
    threads: list[threading.Thread] = []

    def guard_of(is_quick: bool | None) -> Any:
        def guard(body: dict[str, Any]) -> dict[str, Any]:
            threads.append(threading.current_thread())
            return body

        if is_quick is not None:
            vars(guard)["is_quick"] = is_quick
        return guard

    http = MemoryHTTPClient(acme_answer({"text": "Hi"}, {"stop": "stop"}))
    async with client_of(http) as client, client.stream("acme/large", "Hi") as stream:
        stream.call.guards = [guard_of(each) for each in is_quick]
        await stream.result()
    found = [thread is not threading.current_thread() for thread in threads]
    assert found == [in_thread] * len(is_quick)


async def test_a_failure_of_a_conversion_in_a_thread_ends_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Any, *given: Any) -> Any:
        raise unsupported("content", "acme has no place for it")

    monkeypatch.setattr(AcmeProvider, "convert", refuse)
    async with client_of(MemoryHTTPClient()) as client:
        large = Context([UserMessage("x" * (MOST_ENCODED_AT_ONCE + 1))])
        message = await _failed(client, large)
    assert message.error_kind is StreamErrorKind.UNSUPPORTED
    assert message.error_message == "acme has no place for it"


# -- copies ----------------------------------------------------------------------------------------

CALL = ToolCallBlock("c", "look", {"q": 1}, '{"q": 1}')
ANSWER = AssistantMessage([TextBlock("Let me look."), CALL], "acme")
TALK: list[Message] = [
    UserMessage("?"),
    ANSWER,
    ToolResultMessage("c", "look", "found"),
    UserMessage("thanks"),
    AssistantMessage([ExtensionBlock("acme", "search", {}), TextBlock("done")], "acme"),
]


def test_messages_that_stay_as_they_are_are_not_copied() -> None:
    for given, found in zip(TALK, normalise(Context([*TALK]), "acme"), strict=True):
        assert found is given


def test_a_message_that_changes_is_copied_and_the_given_one_kept() -> None:
    marked = replace(ANSWER, content=[TextBlock("x", {"a": 1}), TextBlock("")])
    [found] = normalise(Context([marked]), "other")
    assert found == replace(ANSWER, content=[TextBlock("x")])
    assert marked.content == [TextBlock("x", {"a": 1}), TextBlock("")]


# (name, content of a message, its size in characters)
SIZES: list[tuple[str, Any, int]] = [
    ("text", "four", 4),
    ("blocks of text", [TextBlock("two"), TextBlock("")], 3),
    ("media", [ImageBlock(Base64Source("image/png", "iVBO"))], 4),
    ("media at an address", [ImageBlock(UrlSource("https://a.example/a.png"))], 0),
    ("thinking", [ThinkingBlock("Hmm")], 3),
    ("signed thinking", [ThinkingBlock("Hm", "signature")], 11),
    ("a tool call", [ToolCallBlock("c1", "f", {"a": 1}, '{"a": 1}')], 8),
    ("a tool call without its text", [ToolCallBlock("c1", "f", {"a": 1})], 0),
    ("an extension", [ExtensionBlock("toy", "x", {"a": "one", "b": "four", "c": 5})], 7),
    ("an extension with a list", [ExtensionBlock("toy", "x", ["one"])], 0),
]


@pytest.mark.parametrize(("content", "size"), [r[1:] for r in SIZES], ids=[r[0] for r in SIZES])
def test_the_size_of_a_conversation_is_that_of_its_text_and_data(content: Any, size: int) -> None:
    message = AssistantMessage(content) if isinstance(content, list) else UserMessage(content)
    assert media.size_of(Context([message])) == size
    assert media.size_of(Context([message, UserMessage("and"), message])) == 2 * size + 3


# -- schemas ---------------------------------------------------------------------------------------


def test_a_schema_is_rewritten_once_for_its_bytes() -> None:
    calls = []

    def rewrite(schema: Any, *more: Any) -> dict[str, Any]:
        calls.append(schema)
        return {**schema, "more": more}

    first = rewritten_schema(rewrite, {"type": "object"}, "a")
    assert first == {"type": "object", "more": ("a",)}
    assert rewritten_schema(rewrite, {"type": "object"}, "a") is first
    assert rewritten_schema(rewrite, {"type": "object"}, "b") == {"type": "object", "more": ("b",)}
    assert rewritten_schema(rewrite, {"type": "array"}, "a")["type"] == "array"
    assert len(calls) == 3


@pytest.mark.parametrize(("beyond", "times"), [(0, 1), (1, 2)])
def test_a_schema_is_remembered_up_to_64_kib(beyond: int, times: int) -> None:
    calls = []

    def rewrite(schema: Any) -> dict[str, Any]:
        calls.append(schema)
        return {**schema}

    schema = {"title": "x" * (64 * 1024 - len('{"title":""}') + beyond)}
    assert rewritten_schema(rewrite, schema) == rewritten_schema(rewrite, schema) == schema
    assert len(calls) == times


@pytest.mark.parametrize(
    "schema",
    [
        {"description": "x" * schemas.LONGEST_REMEMBERED},
        {"description": "half a character: \ud800"},
        {"default": object()},
    ],
    ids=["long", "half_a_character", "no_json"],
)
def test_other_schemas_are_rewritten_each_time(schema: dict[str, Any]) -> None:
    assert rewritten_schema(closed_schema, schema) == schema
    assert rewritten_schema(closed_schema, schema) is not rewritten_schema(closed_schema, schema)


def test_a_schema_that_changes_in_place_is_rewritten_anew() -> None:
    tool = Tool("f")
    assert "x" not in rewritten_schema(closed_schema, tool.parameters)["properties"]
    tool.parameters["properties"]["x"] = {"type": "object"}
    found = rewritten_schema(closed_schema, tool.parameters)
    assert found["properties"]["x"] == {"type": "object", "additionalProperties": False}
