"""Wrong arguments of a call are reported before anything is sent."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from fakes import client_of

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    CacheStrategy,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    FileSource,
    ImageBlock,
    InvalidContext,
    InvalidOption,
    ProviderInfo,
    RetryPolicy,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Timeouts,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    Usage,
    UserMessage,
    dump,
)
from swink_core.arguments import check_choice, check_options, check_settings, frozen
from swink_core.conversation import check_context, context_of

HI = UserMessage("Hi")
NOTHING: Any = None
SOMETHING: Any = object()
WORD: Any = "x.png"


def user(*blocks: Any) -> Context:
    return Context([UserMessage(list(blocks))])


def said(*blocks: Any) -> Context:
    return Context([HI, AssistantMessage(list(blocks))])


def set_to_text() -> AssistantMessage:
    answer: Any = AssistantMessage([])
    answer.content = "Hi"
    return answer  # type: ignore[no-any-return]  # it is a message


# (name, conversation, what is said of it)
REFUSED: list[tuple[str, Context, str]] = [
    ("an_empty_text", Context([UserMessage("")]), "the conversation is empty"),
    ("no_blocks", user(), "the conversation is empty"),
    ("blocks_without_text", user(TextBlock("")), "the conversation is empty"),
    ("several_of_nothing", Context([UserMessage(""), AssistantMessage([])]), "is empty"),
    ("only_instructions", Context([SystemMessage("Be brief.")]), "the conversation is empty"),
    (
        "an_instruction_with_an_image",
        Context([HI, SystemMessage([ImageBlock(UrlSource("https://a.example/b.png"))])]),
        "message 1: image in a message with the role system",
    ),
    (
        "an_instruction_of_nothing",
        Context([HI, SystemMessage(NOTHING)]),
        "content is of type NoneType",
    ),
    (
        "an_instruction_without_text",
        Context([HI], [TextBlock(NOTHING)]),
        "system_prompt[0]: text: expected `str`, got `None`",
    ),
    (
        "an_instruction_of_a_provider_as_text",
        Context([HI], [ExtensionBlock("a", "k", "text")]),
        "system_prompt[0]: data is of type str",
    ),
    ("a_source_as_text", user(ImageBlock(WORD)), "source: expected Base64Source"),
    ("no_source", user(DocumentBlock(NOTHING)), "source: expected Base64Source"),
    (
        "a_file_of_no_name",
        user(ImageBlock(FileSource(NOTHING))),
        "path: expected `str`, got `None`",
    ),
    ("an_address_of_bytes", user(ImageBlock(UrlSource(b"x"))), "url: expected `str`, got `bytes`"),  # type: ignore[arg-type]  # on purpose
    (
        "data_of_bytes",
        user(AudioBlock(Base64Source("audio/wav", b"x"))),
        "data: expected `str`, got `bytes`",
    ),  # type: ignore[arg-type]  # on purpose
    (
        "no_media_type",
        user(ImageBlock(Base64Source(NOTHING, "eA=="))),
        "media_type: expected a media type",
    ),
    (
        "an_uploaded_file_of_nobody",
        user(ImageBlock(FileIdSource(NOTHING, "f"))),
        "provider: expected `str`, got `None`",
    ),
    (
        "an_uploaded_file_without_id",
        user(ImageBlock(FileIdSource("a", NOTHING))),
        "id: expected `str`, got `None`",
    ),
    (
        "a_media_type_of_no_type",
        user(ImageBlock(Base64Source("png", "eA=="))),
        "media_type: expected a media type, for example image/png",
    ),
    (
        "no_media_type",
        user(ImageBlock(Base64Source("", "eA=="))),
        "media_type: expected a media type, for example image/png",
    ),
    (
        "an_addresses_media_type",
        user(ImageBlock(UrlSource("https://a.example/x", "image/"))),
        "media_type: expected a media type, for example image/png",
    ),
    (
        "data_of_no_base64",
        user(ImageBlock(Base64Source("image/png", "a!b="))),
        "is not valid base64",
    ),
    (
        "data_with_a_prefix",
        user(ImageBlock(Base64Source("image/png", "data:image/png;base64,eA=="))),
        "is not valid base64",
    ),
    (
        "data_in_lines",
        user(ImageBlock(Base64Source("image/png", "eHh4\neA=="))),
        "is not valid base64",
    ),
    ("data_cut_off", user(AudioBlock(Base64Source("audio/wav", "eHh4e"))), "is not valid base64"),
    ("data_of_no_ascii", user(AudioBlock(Base64Source("audio/wav", "é"))), "is not valid base64"),
    (
        "a_user_of_a_number",
        Context([UserMessage("Hi", 5)]),  # type: ignore[arg-type]  # on purpose
        "message 0: name: expected `str | None`, got `int`",
    ),
    ("an_answer_set_to_text", Context([set_to_text()]), "message 0: content is of type str"),
    (
        "an_answer_set_to_text_after_a_question",
        Context([HI, set_to_text()]),
        "message 1: content is of type str",
    ),
    (
        "a_part_that_is_no_object",
        user(ExtensionBlock("a", "k", "text")),
        "message 0: data is of type str",
    ),
    ("a_user_who_thinks", user(ThinkingBlock("hm")), "thinking in a message with the role user"),
    (
        "a_tool_that_calls_tools",
        Context(
            [
                AssistantMessage([ToolCallBlock("a", "f")]),
                ToolResultMessage("a", "f", [ToolCallBlock("b", "g")]),
            ]
        ),
        "message 1: tool_call in a message with the role tool_result",
    ),
    ("a_call_without_an_id", said(ToolCallBlock(NOTHING, "f")), "id: expected `str`, got `None`"),
    (
        "a_call_without_a_name",
        said(ToolCallBlock("a", NOTHING)),
        "name: expected `str`, got `None`",
    ),
    (
        "arguments_as_text",
        said(ToolCallBlock("a", "f", "{}")),
        "arguments: expected `dict`, got `str`",
    ),  # type: ignore[arg-type]  # on purpose
    (
        "arguments_that_are_no_json",
        said(ToolCallBlock("a", "f", {"x": object()})),
        "message 1: arguments cannot be converted to JSON",
    ),
    ("no_thoughts", said(ThinkingBlock(NOTHING)), "thinking: expected `str`, got `None`"),
    (
        "a_signature_of_bytes",
        said(ThinkingBlock("", b"x")),
        "signature: expected `str | None`, got `bytes`",
    ),  # type: ignore[arg-type]  # on purpose
    (
        "an_extension_of_nobody",
        said(ExtensionBlock(NOTHING, "k", {})),
        "provider: expected `str`, got `None`",
    ),
    (
        "an_extension_of_an_object",
        said(ExtensionBlock("p", "k", SOMETHING)),
        "1: data cannot be converted to JSON",
    ),
    (
        "metadata_of_an_object",
        said(TextBlock("x", {"a": object()})),
        "1: metadata cannot be converted to JSON",
    ),
    (
        "a_result_of_no_tool",
        Context(
            [HI, AssistantMessage([ToolCallBlock("a", "f")]), ToolResultMessage("a", NOTHING, "x")]
        ),
        "tool_name: expected `str`, got `None`",
    ),
    (
        "a_tool_of_another_name",
        Context([HI], tools=[Tool(5)]),
        "tool 5: name: expected `str`, got `int`",
    ),  # type: ignore[arg-type]  # on purpose
    (
        "a_tool_described_by_none",
        Context([HI], tools=[Tool("f", NOTHING)]),
        "tool 'f': description: expected `str`",
    ),
    (
        "strict_as_text",
        Context([HI], tools=[Tool("f", strict=WORD)]),
        "tool 'f': strict: expected `bool | None`",
    ),
    (
        "metadata_as_text",
        Context([HI], tools=[Tool("f", metadata=WORD)]),
        "tool 'f': metadata: expected `object | None`",
    ),
    (
        "metadata_of_nobody",
        Context([HI], tools=[Tool("f", metadata={"defer_loading": True})]),
        "tool 'f': metadata: expected `dict`",
    ),
    (
        "metadata_that_is_no_json",
        Context([HI], tools=[Tool("f", metadata={"acme": {"x": object()}})]),
        "tool 'f': metadata cannot be converted to JSON",
    ),
    (
        "parameters_as_text",
        Context([HI], tools=[Tool("f", "", "{}")]),
        "tool 'f': parameters: expected `dict`",
    ),  # type: ignore[arg-type]  # on purpose
    (
        "parameters_that_are_no_json",
        Context([HI], tools=[Tool("f", "", {"type": object})]),
        "tool 'f': parameters cannot be converted to JSON",
    ),
]


@pytest.mark.parametrize(
    ("context", "what"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_conversation_that_cannot_be_sent_is_refused(context: Context, what: str) -> None:
    with pytest.raises(InvalidContext) as caught:
        check_context(context)
    assert what in caught.value.message
    assert caught.value.resolution


# (name, conversation)
ACCEPTED: list[tuple[str, Context]] = [
    ("nothing_said_in_between", Context([HI, AssistantMessage([]), UserMessage([]), HI])),
    ("an_image_alone", user(ImageBlock(UrlSource("https://a.example/b.png")))),
    ("metadata_alone", said(TextBlock("", {"signature": "x"}))),
    ("half_a_character", said(ToolCallBlock("a", "f", {"x": "\ud800"}))),
    ("an_instruction_of_a_provider", Context([HI], [TextBlock("a"), ExtensionBlock("a", "k", {})])),
]


@pytest.mark.parametrize("context", [case[1] for case in ACCEPTED], ids=[c[0] for c in ACCEPTED])
def test_a_conversation_that_some_provider_takes_is_accepted(context: Context) -> None:
    check_context(context)


TOOLS = Context([HI], tools=[Tool("look"), Tool("find")])
LOOP: list[Any] = []
LOOP.append(LOOP)

# (name, options, conversation, what is said of them)
MISTAKEN: list[tuple[str, dict[str, Any], Context, str]] = [
    ("no_such_tool", {"tool_choice": "nope"}, TOOLS, "tool_choice names an unknown tool: 'nope'"),
    ("a_tool_of_none", {"tool_choice": "look"}, Context([HI]), "tool_choice names an unknown tool"),
    ("required_of_none", {"tool_choice": "required"}, Context([HI]), "the call has no tools"),
    ("extra", {"extra": {"a": object()}}, TOOLS, "extra cannot be converted to JSON"),
    ("extra_without_end", {"extra": {"a": LOOP}}, TOOLS, "extra cannot be converted to JSON"),
    (
        "a_schema",
        {"response_format": {"a": object()}},
        TOOLS,
        "response_format cannot be converted to JSON",
    ),
]


def check_both(options: StreamOptions, context: Context) -> None:
    """Check options by themselves and beside a conversation, as a call does."""
    check_options(options)
    check_choice(options, context)


@pytest.mark.parametrize(
    ("options", "context", "what"), [case[1:] for case in MISTAKEN], ids=[c[0] for c in MISTAKEN]
)
def test_options_that_cannot_be_sent_are_refused(
    options: dict[str, Any], context: Context, what: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        check_both(StreamOptions(**options), context)
    assert what in caught.value.message
    assert caught.value.resolution


# (name, options, conversation)
FITTING: list[tuple[str, dict[str, Any], Context]] = [
    ("a_tool", {"tool_choice": "look"}, TOOLS),
    ("required", {"tool_choice": "required"}, TOOLS),
    ("none_of_none", {"tool_choice": "none"}, Context([HI])),
    ("auto", {"tool_choice": "auto"}, Context([HI])),
    ("a_tool_of_the_providers", {"tool_choice": "web", "extra": {"tools": [{}]}}, Context([HI])),
    ("half_a_character", {"extra": {"a": "\ud800"}}, Context([HI])),
]


@pytest.mark.parametrize(
    ("options", "context"), [case[1:] for case in FITTING], ids=[case[0] for case in FITTING]
)
def test_options_that_some_provider_takes_are_accepted(
    options: dict[str, Any], context: Context
) -> None:
    check_both(StreamOptions(**options), context)


async def test_a_call_checks_the_options_of_each_of_its_models() -> None:
    client = client_of()
    with pytest.raises(InvalidOption, match="names an unknown tool"):
        client.stream(["toy/a", ("toy/b", {"tool_choice": "nope"})], "Hi")
    await client.aclose()


# (class, arguments)
POLICIES: list[tuple[type, dict[str, Any]]] = [
    (RetryPolicy, {"circuit_threshold": value}) for value in ("x", 0, -1, None, 1.5, True)
]
POLICIES += [(RetryPolicy, {"restart_after_output": value}) for value in ("no", 1, None)]
POLICIES += [(CacheStrategy, {"mode": value}) for value in ("bogus", None, 1)]
POLICIES += [(CacheStrategy, {"ttl": value}) for value in (-5, 0, "5m", 1.5, True)]


@pytest.mark.parametrize(("policy", "arguments"), POLICIES)
def test_a_policy_of_values_that_mean_nothing_is_refused(
    policy: type, arguments: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(arguments))):
        policy(**arguments)


ASKED = ExtensionBlock("acme", "click", {"id": "item_1", "call_id": "call_1"})


@pytest.mark.parametrize("id", ["item_1", "call_1"])
def test_a_result_may_answer_what_an_extension_asks_for(id: str) -> None:
    check_context(Context([HI, AssistantMessage([ASKED]), ToolResultMessage(id, "click", "x")]))


@pytest.mark.parametrize("data", [None, [], {"id": 3}, {"call_id": None}])
def test_an_extension_without_an_id_asks_for_nothing(data: Any) -> None:
    said = AssistantMessage([ExtensionBlock("acme", "click", data)])
    with pytest.raises(InvalidContext, match="call_1"):
        check_context(Context([HI, said, ToolResultMessage("call_1", "click", "x")]))


def test_a_result_may_answer_what_the_provider_keeps() -> None:
    alone = Context([ToolResultMessage("call_1", "f", "x")])
    check_context(alone, continued=True)
    for nothing in ("", []):
        check_context(Context([ToolResultMessage("a", "f", nothing)]), continued=True)
    with pytest.raises(InvalidContext, match="call_1"):
        check_context(alone)


DECLARED = ProviderInfo(
    "acme",
    settings={
        "api": ("chat", "answers"),
        "version": "string",
        "threads": "integer",
        "verbose": "boolean",
        "args": "strings",
        "more": "any",
    },
)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"api": "chat"},
        {"version": "v1", "threads": 4, "verbose": False, "args": ["-x"], "more": {"a": [1]}},
    ],
)
def test_settings_are_those_that_the_provider_declares(settings: dict[str, Any]) -> None:
    check_settings("acme", DECLARED, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"region": "eu"},
        {"api": "words"},
        {"api": ["chat"]},
        {"version": 1},
        {"version": "a\0b"},
        {"threads": "4"},
        {"threads": True},
        {"verbose": 1},
        {"args": "-x"},
        {"args": ["-x", 1]},
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any]) -> None:
    name = next(iter(settings))
    fault = "acme: invalid value of" if name in DECLARED.settings else "acme has no"
    with pytest.raises(InvalidOption, match=f"{fault} setting '{name}'") as got:
        check_settings("acme", DECLARED, settings)
    assert got.value.resolution == (
        "Settings are api (chat or answers), version (string), threads (integer), "
        "verbose (boolean), args (strings), more (any)."
    )


@pytest.mark.parametrize("info", [None, ProviderInfo("acme")])
def test_a_provider_that_declares_nothing_has_no_settings(info: ProviderInfo | None) -> None:
    with pytest.raises(InvalidOption, match="acme has no setting 'api'"):
        check_settings("acme", info, {"api": "chat"})


def test_one_that_hands_them_on_takes_any() -> None:
    check_settings("remote", ProviderInfo("remote", settings={"*": "any"}), {"api": 1})


# -- messages given as objects -------------------------------------------------------------------

CALLED = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}

FOREIGN: list[tuple[str, dict[str, Any], str]] = [
    (
        "calls_beside_the_content",
        {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        "extra fields found (tool_calls)",
    ),
    ("name", {"role": "assistant", "content": "Hi", "name": "Bob"}, "extra fields found (name)"),
    (
        "field_of_a_block",
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {}}]},
        "extra fields found (cache_control) @ $.content[0]",
    ),
    (
        "block_of_another_api",
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]},
        "unknown type 'image_url'",
    ),
    ("role_of_another_api", {"role": "developer", "content": "Hi"}, "unknown role 'developer'"),
    (
        "type_beside_the_role",
        {"role": "user", "type": "message", "content": "Hi"},
        "extra fields found (type)",
    ),
]


@pytest.mark.parametrize(
    ("message", "what"), [row[1:] for row in FOREIGN], ids=[row[0] for row in FOREIGN]
)
def test_fields_of_a_message_of_another_library_are_not_dropped(
    message: dict[str, Any], what: str
) -> None:
    with pytest.raises(InvalidContext) as caught:
        context_of([message], None, None)
    assert what in caught.value.message
    assert "also for developer messages" in caught.value.resolution


def test_messages_as_they_are_stored_are_given_as_objects() -> None:
    call = ToolCallBlock("1", "f", {"a": 1})
    answer = AssistantMessage([TextBlock("Wait."), call], usage=Usage(1, 2), model="large")
    picture = ImageBlock(UrlSource("https://x/y.png"))
    talk = [UserMessage([picture]), answer, ToolResultMessage("1", "f", "b")]
    assert context_of([dump(message) for message in talk], None, None).messages == talk


def test_instructions_may_be_given_as_objects() -> None:
    given = [{"type": "text", "text": "Be brief."}, TextBlock("Be kind.")]
    assert context_of("Hi", given, None).system_prompt == [
        TextBlock("Be brief."),
        TextBlock("Be kind."),
    ]
    with pytest.raises(InvalidContext, match=r"^system_prompt\[1\]: extra fields found \(size\)"):
        context_of("Hi", [given[0], {**given[0], "size": 1}], None)  # type: ignore[dict-item]  # a mapping


class Word(StrEnum):
    """A subclass of `str`, whose members msgspec accepts as text."""

    HI = "hi"


class Markup(str):
    """A subclass of `str`, as template engines and parsers have."""


CALLED = AssistantMessage([ToolCallBlock("1", "f")])

# (name, prompt, system prompt, what is sent of them)
SUBCLASSES: list[tuple[str, Any, Any, list[Any]]] = [
    ("a_prompt", Markup("hi"), None, ["hi"]),
    ("a_member_as_a_prompt", Word.HI, None, ["hi"]),
    ("a_part_of_a_prompt", [Markup("hi"), "you"], None, ["hi", "you"]),
    ("a_user_message", UserMessage(Markup("hi")), None, ["hi"]),
    ("a_system_message", [SystemMessage(Word.HI), HI], None, ["hi", "Hi"]),
    ("an_answer", [HI, AssistantMessage(Markup("hi"))], None, ["Hi", "hi"]),
    ("a_result", [HI, CALLED, ToolResultMessage("1", "f", Word.HI)], None, ["Hi", "hi"]),
    ("a_system_prompt", "Hi", Markup("hi"), ["Hi", "hi"]),
    ("a_part_of_a_system_prompt", "Hi", [Word.HI], ["Hi", "hi"]),
]


@pytest.mark.parametrize(
    ("prompt", "system_prompt", "sent"),
    [row[1:] for row in SUBCLASSES],
    ids=[row[0] for row in SUBCLASSES],
)
def test_strings_of_a_subclass_of_str_become_strings(
    prompt: Any, system_prompt: Any, sent: list[Any]
) -> None:
    context = context_of(prompt, system_prompt, None)
    check_context(context)
    contents: list[Any] = [message.content for message in context.messages]
    texts: list[Any] = []
    for content in [*contents, context.system_prompt or []]:
        blocks = content if isinstance(content, list) else [TextBlock(content)]
        texts += [block.text for block in blocks if isinstance(block, TextBlock)]
    assert texts == sent
    assert {type(text) for text in texts} == {str}


# (value, whether it can be part of a key)
KEYS: list[tuple[Any, bool]] = [
    ("text", True),
    (1, True),
    (None, True),
    (Timeouts(), True),
    (RetryPolicy(retries={"network": 1}), True),
    ({"a": 1}, True),
    ({"a": {"b": 1}}, True),
    ({"a": {"b": {}}}, False),
    ([["a"]], True),
    ([[[]]], False),
    ((("a",),), True),
    ((((),),), False),
    ({frozenset({1})}, True),
    ({frozenset({frozenset()})}, False),
    (range(3), False),
    ([bytearray()], False),
]


@pytest.mark.parametrize(("value", "is_key"), KEYS, ids=[repr(value)[:40] for value, _ in KEYS])
def test_a_key_is_made_of_options_up_to_two_levels_deep(value: Any, is_key: bool) -> None:
    if is_key:
        assert hash(frozen(value)) == hash(frozen(value))
    else:
        with pytest.raises(TypeError):
            frozen(value)


def test_keys_of_equal_values_of_different_types_differ() -> None:
    values = [
        "a",
        "b",
        None,
        1,
        1.0,
        True,
        [1],
        (1,),
        {1},
        frozenset({1}),
        {"a": 1},
        {"a": True},
        [],
        (),
        {},
    ]
    assert len({frozen(value) for value in values}) == len(values)
