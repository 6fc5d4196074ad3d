"""Additional features of Chat Completions services: marks, video, continued answers."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    CacheStrategy,
    Client,
    Context,
    DocumentBlock,
    Error,
    FileIdSource,
    ImageBlock,
    Message,
    Notice,
    RetryPolicy,
    SystemMessage,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_judge import Judge
from swink_testing.clock import DatedClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SSE = {"Content-Type": "text/event-stream"}
ANSWER = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
RESPONSE = (
    b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}\n\n'
    b'data: {"type": "response.completed", "response": {"status": "completed"}}\n\n'
)
MARK = {"cache_control": {"type": "ephemeral"}}
BREAK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
VIDEO = DocumentBlock(UrlSource("https://a.example/b.mp4"))
PNG = ImageBlock(Base64Source("image/png", "aQ=="))
WEB = ImageBlock(UrlSource("https://a.example/i.png"))
PDF = DocumentBlock(Base64Source("application/pdf", "aQ=="), "a.pdf")
SHELF = DocumentBlock(UrlSource("https://a.example/a.pdf"))
SOUND = AudioBlock(Base64Source("audio/wav", "aQ=="))


async def asked(
    messages: list[Message] | Context, model: str, **options: Any
) -> tuple[str, dict[str, Any], list[str]]:
    """Return the address and the body of the request, and the notices of the call."""
    responses = options.get("settings", {}).get("api") == "responses"
    http = MemoryHTTPClient(MemoryResponse([RESPONSE if responses else ANSWER], headers=SSE))
    async with Client(http=http, retry=RetryPolicy.none(), clock=DatedClock()) as client:
        given: dict[str, Any] = {"api_key": "k", "settings": {"api": "chat"}, **options}
        if model.startswith("mistral/"):
            del given["settings"]
        context = Context(messages) if isinstance(messages, list) else messages
        events = [e async for e in client.stream(model, context, **given)]
    assert not isinstance(events[-1], Error), events[-1]
    [request] = http.requests
    return request.url, http.bodies[0], [e.detail for e in events if isinstance(e, Notice)]


async def refused(messages: list[Message], model: str, **options: Any) -> Error:
    async with Client(http=MemoryHTTPClient(), retry=RetryPolicy.none()) as client:
        stream = client.stream(model, Context(messages), api_key="k", **options)
        events = [e async for e in stream]
    assert isinstance(events[-1], Error)
    return events[-1]


# -- marks and details ----------------------------------------------------------------------------


def content_of(body: dict[str, Any]) -> Any:
    return (body.get("messages") or body["input"])[-1]["content"]


# (model, api, metadata of a text, its part)
MARKED: list[tuple[str, str, dict[str, Any], Any]] = [
    ("openrouter/a/b", "chat", MARK, [{"type": "text", "text": "Hi", **MARK}]),
    ("openrouter/a/b", "chat", BREAK, "Hi"),
    ("openai/gpt-5.6", "chat", BREAK, [{"type": "text", "text": "Hi", **BREAK}]),
    ("openai/gpt-5.6", "responses", BREAK, [{"type": "input_text", "text": "Hi", **BREAK}]),
    ("openai/gpt-5.6", "chat", MARK, "Hi"),
    ("groq/any", "chat", MARK | BREAK, "Hi"),
]


@pytest.mark.parametrize(("model", "api", "metadata", "content"), MARKED)
async def test_marks_go_to_those_that_know_them(
    model: str, api: str, metadata: dict[str, Any], content: Any
) -> None:
    said = UserMessage([TextBlock("Hi", metadata)])
    _, body, _ = await asked([said], model, settings={"api": api})
    assert content_of(body) == content


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_an_image_is_looked_at_as_closely_as_is_asked(api: str) -> None:
    image = ImageBlock(UrlSource("https://a.example/b.png"), metadata={"detail": "low"})
    _, body, _ = await asked([UserMessage([image])], "openai/gpt-4o", settings={"api": api})
    [part] = content_of(body)
    assert part.get("image_url", {}) == {
        "chat": {"url": "https://a.example/b.png", "detail": "low"},
        "responses": "https://a.example/b.png",
    }[api]  # fmt: skip
    assert part.get("detail") == {"chat": None, "responses": "low"}[api]


def marked(text: str, ttl: str | None = None) -> list[dict[str, Any]]:
    control = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    return [{"type": "text", "text": text, "cache_control": control}]


@pytest.mark.parametrize(("ttl", "word"), [(None, None), (300, None), (301, "1h"), (3600, "1h")])
async def test_openrouter_keeps_the_prompts_of_those_that_want_marks(
    ttl: int | None, word: str | None
) -> None:
    turns: list[Message] = [
        SystemMessage("Be brief."), UserMessage("Look."),
        AssistantMessage([ToolCallBlock("call_1", "look")]),
        ToolResultMessage("call_1", "look", "A light."),
    ]  # fmt: skip
    _, body, notices = await asked(
        turns, "openrouter/anthropic/claude-any", cache=CacheStrategy(ttl=ttl), session_id="s"
    )
    system, user, _, result = body["messages"]
    assert system["content"] == marked("Be brief.", word)
    assert user["content"] == "Look."
    assert result["content"] == marked("A light.", word)
    assert body["session_id"] == "s"
    assert "prompt_cache_retention" not in body
    assert notices == []


CROWDED = "the conversation has the maximum number of cache marks, so none was added at the end"


async def test_the_callers_own_marks_leave_no_room_beyond_four() -> None:
    said = UserMessage([TextBlock(str(number), MARK) for number in range(4)])
    turns: list[Message] = [SystemMessage("Be brief."), said, UserMessage("Go.")]
    _, body, notices = await asked(turns, "openrouter/anthropic/claude-any", cache="auto")
    assert [m["content"] for m in body["messages"]] == [
        "Be brief.", [marked(str(number))[0] for number in range(4)], "Go.",
    ]  # fmt: skip
    assert [CROWDED in notice for notice in notices] == [True]


# (the caller's mark, and whose: the tool's, the first or the last words'; the strategy's lifetime;
#  marks of the tool, the instructions and both words)
OWN_MARKS: list[tuple[str, int, int | None, list[str]]] = [
    ("5m", 0, 3600, ["5m", "", "", ""]),
    ("5m", 1, 3600, ["", "1h", "5m", ""]),
    ("5m", 2, 3600, ["", "1h", "", "5m"]),
    ("1h", 0, None, ["1h", "5m", "", "5m"]),
    ("1h", 1, None, ["", "", "1h", "5m"]),
    ("1h", 2, None, ["", "", "", "1h"]),
    ("5m", 1, None, ["", "5m", "5m", "5m"]),
]


@pytest.mark.parametrize(("own", "place", "ttl", "marks"), OWN_MARKS)
async def test_no_mark_for_an_hour_follows_one_for_minutes(
    own: str, place: int, ttl: int | None, marks: list[str]
) -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": own}}
    first, last = (TextBlock("a", mark if place == at else None) for at in (1, 2))
    tool = Tool("look", metadata={"openrouter": mark} if place == 0 else None)
    context = Context([UserMessage([first]), UserMessage([last])], "Be.", [tool])
    model = "anthropic/claude-any"
    _, body, notices = await asked(context, f"openrouter/{model}", cache=CacheStrategy(ttl=ttl))
    assert [CROWDED in notice for notice in notices] == ([] if marks[-1] else [True])
    said = [m["content"] for m in body["messages"]]
    parts = [body["tools"][0], *(text[-1] if isinstance(text, list) else {} for text in said)]
    found = [part.get("cache_control") for part in parts]
    assert [mark.get("ttl", "5m") if mark else "" for mark in found] == marks
    assert not Judge().refusals("openrouter", "chat", model, body)


async def test_openrouter_is_told_nothing_where_prompts_are_kept_anyway() -> None:
    _, body, notices = await asked([UserMessage("Hi")], "openrouter/openai/gpt-any", cache="auto")
    assert content_of(body) == "Hi"
    assert "automatically" in notices[0]


@pytest.mark.parametrize(
    ("model", "api", "field", "most"),
    [
        ("openai/gpt-5.4", "responses", "prompt_cache_key", 64),
        ("openai/gpt-4o", "chat", "prompt_cache_key", 64),
        ("azure/gpt-5.4", "responses", "prompt_cache_key", 64),
        ("openrouter/a/b", "chat", "session_id", 256),
    ],
)
async def test_a_long_session_id_is_shortened_to_one_of_its_own(
    model: str, api: str, field: str, most: int
) -> None:
    sent = set()
    for end in "ab":
        options = {"settings": {"api": api}, "session_id": "x" * most + end}
        if model.startswith("azure/"):
            options["base_url"] = "https://r.example"
        _, body, _ = await asked([UserMessage("Hi")], model, **options)
        sent.add(body[field])
    assert len(sent) == 2
    assert max(map(len, sent)) <= most


# -- video ---------------------------------------------------------------------------------------


async def test_video_goes_where_it_has_a_form() -> None:
    _, body, _ = await asked([UserMessage([VIDEO])], "openrouter/google/gemini-any")
    assert content_of(body) == [
        {"type": "video_url", "video_url": {"url": "https://a.example/b.mp4"}}
    ]


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("kind", ["video/mp4", "audio/wav", "image/png"])
async def test_media_are_no_documents(api: str, kind: str) -> None:
    document = DocumentBlock(Base64Source(kind, "AAAA"))
    error = await refused([UserMessage([document])], "openai/any", settings={"api": api})
    assert error.error_kind is Kind.UNSUPPORTED
    assert kind.partition("/")[0] in error.error_message


# -- answers to continue --------------------------------------------------------------------------

BEGUN: list[Message] = [UserMessage("Count."), AssistantMessage([TextBlock("One, ")])]


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        (None, "https://api.deepseek.com/beta/chat/completions"),
        ("https://api.deepseek.com/v1", "https://api.deepseek.com/beta/chat/completions"),
        ("https://api.deepseek.com/beta", "https://api.deepseek.com/beta/chat/completions"),
    ],
)
async def test_deepseek_continues_an_answer_at_an_address_of_its_own(
    base_url: str | None, address: str
) -> None:
    url, body, _ = await asked(BEGUN, "deepseek/deepseek-flash", base_url=base_url)
    assert url == address
    assert body["messages"][-1] == {"role": "assistant", "content": "One, ", "prefix": True}


async def test_an_answer_that_is_over_is_not_continued() -> None:
    url, body, _ = await asked([*BEGUN, UserMessage("Go on.")], "deepseek/deepseek-flash")
    assert url == "https://api.deepseek.com/chat/completions"
    assert not any("prefix" in message for message in body["messages"])


async def test_one_who_continues_no_answer_says_so() -> None:
    error = await refused(BEGUN, "perplexity/any")
    assert error.error_kind is Kind.UNSUPPORTED


# -- instructions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "role"), [("openai/gpt-5.4", "developer"), ("openai/gpt-4o", "system")]
)
async def test_instructions_stand_where_they_were_given(model: str, role: str) -> None:
    turns = [SystemMessage("Be brief."), UserMessage("Hi"), SystemMessage("No.")]
    _, body, notices = await asked(turns, model)
    assert body["messages"] == [
        {"role": role, "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": role, "content": "No."},
    ]
    assert notices == []


ROUTED = {"order": ["anthropic"], "allow_fallbacks": False, "data_collection": "deny"}


async def test_openrouter_is_told_who_may_answer() -> None:
    _, body, notices = await asked(
        [UserMessage("Hi")], "openrouter/anthropic/claude-any", extra={"provider": ROUTED}
    )
    assert (body["provider"], notices) == (ROUTED, [])


@pytest.mark.parametrize(
    ("model", "effort", "said"),
    [
        ("openai/gpt-oss-120b", "minimal", 1),
        ("google/gemini-3.7-flash", "minimal", 1),
        ("anthropic/claude-opus-5", "none", 0),
    ],
)
async def test_who_must_think_on_openrouter_is_told_to_think_least(
    model: str, effort: str, said: int
) -> None:
    _, body, notices = await asked([UserMessage("Hi")], f"openrouter/{model}", thinking="off")
    assert body["reasoning"] == {"effort": effort}
    assert len(notices) == said
    assert not Judge().refusals("openrouter", "chat", model, body)


def uploaded(kind: type[DocumentBlock] | type[ImageBlock], model: str) -> Any:
    return kind(FileIdSource(model.partition("/")[0], "f1"))


# (model, what the user shows, the part of the message that it becomes)
PARTS: list[tuple[str, Any, dict[str, Any]]] = [
    ("moonshot/kimi-k3", uploaded(ImageBlock, "moonshot/"),
     {"type": "image_url", "image_url": {"url": "ms://f1"}}),
    ("zai/glm-6v", SHELF, {"type": "file_url", "file_url": {"url": "https://a.example/a.pdf"}}),
    ("vercel/anthropic/claude-opus-5", PDF,
     {"type": "file",
      "file": {"filename": "a.pdf", "data": "aQ==", "media_type": "application/pdf"}}),
    ("siliconflow/any", SOUND,
     {"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,aQ=="}}),
    ("sambanova/any", SOUND,
     {"type": "audio_content", "audio_content": {"content": "data:audio/wav;base64,aQ=="}}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "shown", "part"), PARTS)
async def test_media_go_in_the_form_that_a_service_has_for_them(
    model: str, shown: Any, part: dict[str, Any]
) -> None:
    turn = UserMessage([TextBlock("Read."), shown])
    _, body, said = await asked([turn], model, settings={})
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Read."}, part]
    assert not Judge().refusals(model.partition("/")[0], "chat", body["model"], body)
    assert said == []


@pytest.mark.parametrize(
    ("model", "shown", "words"),
    [
        ("moonshot/kimi-k3", WEB, "images by URL; send the data"),
        ("sambanova/gemma-4-31B-it", WEB, "images by URL; send the data"),
        ("zai/glm-6v", PDF, "documents as data; send a URL, or upload them"),
        ("vercel/any", SHELF, "documents by URL; send the data"),
        ("dashscope/qwen-plus", uploaded(DocumentBlock, "dashscope/"), "does not support"),
        ("dashscope/qwen-plus", uploaded(ImageBlock, "dashscope/"), "does not support"),
    ],
)
async def test_media_that_a_service_has_no_form_of_are_refused(
    model: str, shown: Any, words: str
) -> None:
    http = MemoryHTTPClient()
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        stream = client.stream(model, [UserMessage([TextBlock("Read."), shown])], api_key="k")
        *_, failed = [event async for event in stream]
    assert isinstance(failed, Error)
    assert failed.error_kind is Kind.UNSUPPORTED
    assert words in failed.error_message
    assert http.requests == []


async def test_uploaded_documents_stand_before_what_is_asked_of_them() -> None:
    model = "dashscope/qwen-long"
    first, second = (DocumentBlock(FileIdSource("dashscope", id)) for id in ("f1", "f2"))
    _, body, _ = await asked([UserMessage([first, TextBlock("What is new?"), second])], model)
    assert body["messages"] == [
        {"role": "system", "content": "fileid://f1,fileid://f2"},
        {"role": "user", "content": "What is new?"},
    ]
    assert not Judge().refusals("dashscope", "chat", "qwen-long", body)


@pytest.mark.parametrize(("user", "sent"), [("user-42", "user-42"), ("u", "u_0bfe935e70c3")])
async def test_a_short_name_of_whoever_asks_is_lengthened(user: str, sent: str) -> None:
    _, body, said = await asked([UserMessage("Hi")], "zai/glm-5.3", user=user, settings={})
    assert body["user_id"] == sent
    assert not Judge().refusals("zai", "chat", "glm-5.3", body)
    assert said == []


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_gateway_is_asked_to_keep_prompts_and_told_the_user(api: str) -> None:
    options: dict[str, Any] = {"cache": "auto", "user": "user-42", "settings": {"api": api}}
    _, body, said = await asked([UserMessage("Hi")], "vercel/anthropic/claude-opus-5", **options)
    assert body["providerOptions"] == {"gateway": {"caching": "auto", "user": "user-42"}}
    assert said == []


async def test_a_gateways_options_stand_beside_those_of_extra() -> None:
    order = {"providerOptions": {"gateway": {"order": ["bedrock"]}}}
    _, body, _ = await asked([UserMessage("Hi")], "vercel/any", user="u", extra=order)
    assert body["providerOptions"] == {"gateway": {"order": ["bedrock"], "user": "u"}}
