"""The estimate of tokens: by script class, with an upper bound, for texts, tools and media."""

from __future__ import annotations

import base64
import struct
import tracemalloc
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Context,
    DocumentBlock,
    ExtensionBlock,
    ImageBlock,
    ModelInfo,
    ProviderInfo,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.providers import prompt_of
from swink_core.vocabulary.media_sizes import audio_seconds, image_size, pdf_pages
from swink_core.vocabulary.tokens import (
    MESSAGE,
    PREFIX,
    TOOL,
    TOOLS,
    Estimate,
    MediaTokens,
    data_tokens,
    prompt_tokens,
    sound_seconds,
    text_tokens,
    texts_tokens,
)

# (text, least and most expected tokens): tiktoken's o200k_base and cl100k_base lie between
TEXTS = [
    ("The quick brown fox jumps over the lazy dog. " * 20, 180, 300),
    ("Donaudampfschifffahrtsgesellschaft ist ein langes Wort. " * 10, 120, 260),
    ("今日はとても良い天気ですね。" * 20, 180, 420),
    ("오늘은 날씨가 아주 좋습니다. " * 20, 160, 400),
    ("👍🎉" * 50, 100, 400),
    ("Широкая электрификация южных губерний. " * 20, 180, 800),
    ("def add(a: int, b: int) -> int:\n    return a + b\n" * 10, 160, 330),
    ("0123456789" * 10, 34, 100),
]


@pytest.mark.parametrize(("text", "least", "most"), TEXTS)
def test_a_text_is_estimated_by_its_script(text: str, least: int, most: int) -> None:
    estimate = text_tokens(text)
    assert least * 0.8 <= estimate.tokens <= most
    assert estimate.tokens <= estimate.most


# (text, expected tokens, upper bound)
EXACT: list[tuple[str, float, float]] = [
    ("", 0, 0),
    ("a b c d", 4, 4 + 4 / 4),
    ("letters", 7 / 3.8, 1 + 7 / 4),
    ("abcdefghijkl", 12 / 3.8, 1 + 12 / 4),
    ("abcdefghijklmn", 12 / 3.8 + 2 * 0.45, 1 + 12 / 4 + 2 * 0.75),
    ("12345", 5 / 2, 5),
    ("1234567890abcdefghijklmno", 15 / 3.8 + 10 / 2, 1 + 15 / 4 + 10),
    ("+-*", 3 * 0.8, 3),
    ("\n\n", 2 * 0.7, 2),
    ("     ", 5 / 12, 5 / 4),
    ("x\n    y", 2 + 0.7 + 2 / 12, 2 + 2 / 4 + 1 + 2 / 4),
    ("\u65e5\u672c", 2, 4),
    ("\U0001f44d", 2.5, 4),
    ("\u00c0", 0.5, 1),
    ("\u00e4\u0416", 2 * 0.5, 2),
    ("\u0e01\ud800", 2, 2 * 2.5),
    ("\u65e5\U0001f44d\u00e4\u0e01", 1 + 2.5 + 0.5 + 1, 2 + 4 + 1 + 2.5),
    ("a \u65e5", 1 + 1, 1 + 1 / 4 + 2),
]


@pytest.mark.parametrize(("text", "tokens", "most"), EXACT)
def test_each_class_of_characters_has_its_rate(text: str, tokens: float, most: float) -> None:
    assert text_tokens(text) == (pytest.approx(tokens), pytest.approx(most))


def test_the_upper_bound_of_cjk_admits_the_most_tokens_that_were_measured() -> None:
    text = "既有的拿到的環境中測" * 10
    assert text_tokens(text).most >= 1.89 * len(text)  # cl100k_base, for a piece of Chinese


@given(st.text())
def test_an_upper_bound_is_not_below_the_letters_of_a_word_and_never_negative(text: str) -> None:
    estimate = text_tokens(text)
    assert estimate.tokens >= 0
    assert estimate.most >= 0
    assert (estimate.most > 0) == bool(text)


@given(st.text(), st.text())
def test_more_text_has_not_fewer_tokens_at_most(one: str, other: str) -> None:
    # a text of short words can grow by one long word, which is counted as another class
    joined = text_tokens(f"{one} {other}").most
    assert joined * 2 >= text_tokens(one).most


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


PNG = encoded(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 1024, 768) + bytes(9))
GIF = encoded(b"GIF89a" + struct.pack("<HH", 30, 20) + bytes(9))
JPEG = encoded(
    b"\xff\xd8\xff\xe0\x00\x04\x00\x00\xff\xc0\x00\x11\x08"
    + struct.pack(">HH", 600, 800)
    + bytes(9)
)
WEBP = encoded(b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x0f\0\0\x1f\0\0" + bytes(4))
WAV = encoded(b"RIFF\0\0\0\0WAVEfmt " + bytes(12) + struct.pack("<I", 100) + bytes(1000))
PDF = encoded(b"%PDF-1.4 /Type /Pages /Count 3 /Type /Page /Type/Page /Type /Page")


@pytest.mark.parametrize(
    ("data", "size"),
    [(PNG, (1024, 768)), (GIF, (30, 20)), (JPEG, (800, 600)), (WEBP, (16, 32)), ("!", None)],
)
def test_the_size_of_an_image_is_in_its_header(data: str, size: tuple[int, int] | None) -> None:
    assert image_size(data) == size


def test_sound_has_seconds_and_a_document_has_pages() -> None:
    assert audio_seconds(WAV) == pytest.approx((10, 10), abs=1)
    assert audio_seconds(encoded(bytes(75_000))) == pytest.approx((9.375, 100))
    assert pdf_pages(PDF) == 3
    assert pdf_pages(encoded(bytes(200_000))) == 5


RULES = MediaTokens(
    image=700, image_tile=512, image_base=85, image_tile_tokens=170, audio_second=10, page=1000
)

# (block, expected tokens)
MEDIA = [
    (ImageBlock(Base64Source("image/png", PNG)), 85 + 4 * 170),
    (ImageBlock(UrlSource("https://example.org/a.png")), 700),
    (ImageBlock(Base64Source("image/png", encoded(b"no image"))), 700),
    (AudioBlock(Base64Source("audio/wav", WAV)), 104),
    (DocumentBlock(Base64Source("application/pdf", PDF)), 3000),
]


DEFAULTS = MediaTokens()
SIDES = MediaTokens(image_side=512, image_tile=512, image_tile_tokens=100)
HALVED = MediaTokens(image_side=512, image_tile=300, image_tile_tokens=100)
ENOUGH = MediaTokens(image_side=1_000, image_tile=300, image_tile_tokens=100)
LARGER_SIDES = MediaTokens(image_side=1024, image_tile=32, image_tile_tokens=100)
BASE_ALONE = MediaTokens(image_tile=512, image_base=85)
ADDRESS = UrlSource("https://example.org/a")

AS_TEXT = [
    "application/json", "application/xml", "application/rtf", "application/x-yaml", "text/csv",
    "application/javascript", "application/octet-stream", "application/ld+json", "",
]  # fmt: skip
AS_PAGES = [
    "application/pdf", "Application/PDF", "application/pdf; charset=binary", "application/msword",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "video/mp4",
    "application/vnd.oasis.opendocument.text", "application/vnd.ms-excel", "application/x-pdf",
    "application/vnd.ms-powerpoint", "audio/mpeg", "image/png",
]  # fmt: skip

# (block, rules, expected tokens, upper bound)
BOUNDS: list[tuple[Any, MediaTokens, float, float]] = [
    (ImageBlock(ADDRESS), DEFAULTS, 2_200, 2_420),
    (ImageBlock(Base64Source("image/png", PNG)), DEFAULTS, 2_200, 2_420),
    (ImageBlock(Base64Source("image/png", PNG)), SIDES, 100, 110),
    (ImageBlock(Base64Source("image/gif", GIF)), SIDES, 100, 110),
    (ImageBlock(Base64Source("image/png", PNG)), HALVED, 4 * 100, 440),
    (ImageBlock(Base64Source("image/jpeg", JPEG)), ENOUGH, 6 * 100, 660),
    (ImageBlock(Base64Source("image/gif", GIF)), LARGER_SIDES, 100, 110),
    (ImageBlock(Base64Source("image/png", PNG)), RULES, 85 + 4 * 170, 1.1 * (85 + 4 * 170)),
    (ImageBlock(Base64Source("image/png", PNG)), BASE_ALONE, 85, 93.5),
    (AudioBlock(ADDRESS), DEFAULTS, 60 * 32, 600 * 32),
    (AudioBlock(Base64Source("audio/mp3", encoded(bytes(24_000)))), DEFAULTS, 3 * 32, 32 * 32),
    (AudioBlock(Base64Source("audio/wav", WAV)), DEFAULTS, 10.32 * 32, 10.32 * 48),
    (DocumentBlock(ADDRESS), DEFAULTS, 10 * 4_600, 100 * 4_600),
    (DocumentBlock(Base64Source("application/pdf", PDF)), DEFAULTS, 3 * 4_600, 3 * 6_900),
    (DocumentBlock(Base64Source("text/plain", encoded(b"x" * 600))), DEFAULTS, 150, 600),
    *((DocumentBlock(Base64Source(kind, encoded(b"x" * 600))), DEFAULTS, 150, 600)
      for kind in AS_TEXT),
    *((DocumentBlock(Base64Source(kind, encoded(b"x" * 600))), DEFAULTS, 4_600, 6_900)
      for kind in AS_PAGES),
]  # fmt: skip


@pytest.mark.parametrize(("block", "rules", "tokens", "most"), BOUNDS)
def test_media_have_an_expected_number_of_tokens_and_a_bound(
    block: Any, rules: MediaTokens, tokens: float, most: float
) -> None:
    estimate = prompt_tokens(Context([UserMessage([block])]), rules)
    assert estimate.tokens == ceil(tokens + MESSAGE.tokens)
    assert estimate.most == ceil(round(most + MESSAGE.most + PREFIX.most, 6))


def test_rules_for_media_are_fixed() -> None:
    rules: Any = MediaTokens()
    with pytest.raises(AttributeError):
        rules.image = 5


@pytest.mark.parametrize(("block", "tokens"), MEDIA)
def test_media_are_counted_by_the_providers_rules(
    block: ImageBlock | AudioBlock | DocumentBlock, tokens: int
) -> None:
    estimate = prompt_tokens(Context([UserMessage([block])]), RULES)
    assert estimate.tokens == pytest.approx(tokens + MESSAGE.tokens, abs=2)
    assert estimate.most > estimate.tokens


def test_a_models_rules_for_media_replace_its_providers() -> None:
    context = Context([UserMessage([ImageBlock(UrlSource("https://example.org/a.png"))])])
    provider = ProviderInfo("acme", media=RULES)
    plain, own = ModelInfo("plain"), ModelInfo("own", media=MediaTokens(image=36_000))
    found = [prompt_of(provider, context, StreamOptions(), info).tokens for info in (plain, own)]
    assert found == pytest.approx([700 + MESSAGE.tokens, 36_000 + MESSAGE.tokens], abs=2)


LONG = "the river keeps stones " * 100


@pytest.mark.parametrize(
    "context",
    [
        Context([UserMessage([DocumentBlock(UrlSource("https://a.example"), {"context": LONG})])]),
        Context([UserMessage("Hi", name=LONG)]),
        Context([UserMessage("Hi")], None, [Tool("f", "", {}, metadata={"a": {"b": [LONG]}})]),
    ],
)
def test_text_beside_the_content_of_a_prompt_counts(context: Context) -> None:
    without = prompt_tokens(Context([UserMessage("Hi")]), MediaTokens())
    more = prompt_tokens(context, MediaTokens())
    assert more.tokens >= without.tokens + text_tokens(LONG).tokens
    assert more.most >= without.most + text_tokens(LONG).most


# (call, text of its arguments as it is counted)
CALLS: list[tuple[ToolCallBlock, str]] = [
    (ToolCallBlock("c", "weather"), ""),
    (ToolCallBlock("c", "weather", {"city": "Ulm"}), '{"city":"Ulm"}'),
    (ToolCallBlock("c", "weather", {"city": "Ulm"}, '{ "city": "Ulm" }'), '{ "city": "Ulm" }'),
    (ToolCallBlock("c", "weather", {"city": 1j}), "{'city': 1j}"),
]


@pytest.mark.parametrize(("call", "arguments"), CALLS)
def test_a_call_counts_with_its_name_and_arguments(call: ToolCallBlock, arguments: str) -> None:
    counted = PREFIX.plus(MESSAGE, TOOL, text_tokens("weather"), text_tokens(arguments))
    context = Context([AssistantMessage([call])])
    assert prompt_tokens(context, MediaTokens()) == counted.rounded()


def test_tools_count_with_the_instructions_that_a_provider_may_add() -> None:
    tools = [Tool("f", "Do it.", {}), Tool("g", "", {"a": 1})]
    texts = [text_tokens(text) for text in ("f Do it.", "g ", '{"a":1}')]
    counted = PREFIX.plus(TOOLS, TOOL, TOOL, *texts)
    assert prompt_tokens(Context([], None, tools), MediaTokens()) == counted.rounded()


def test_tools_and_fields_beside_the_conversation_count() -> None:
    context = Context([UserMessage("Hi")])
    plain = prompt_tokens(context, RULES)
    tool = Tool("weather", "Look up the weather.", {"type": "object", "properties": {"city": {}}})
    assert (
        prompt_tokens(Context([UserMessage("Hi")], tools=[tool]), RULES).tokens > plain.tokens + 20
    )
    assert prompt_tokens(context, RULES, {"type": "object"}).tokens > plain.tokens


OF_A_PROMPT = Estimate(0, 100)
OF_A_MESSAGE = Estimate(4, 8)
OF_A_TOOL = Estimate(10, 30)
OF_TOOLS = Estimate(0, 700)
ARGUMENTS = {"city": "Oslo", "days": 3}

# (name, messages, system prompt, tools, the parts that are counted)
PROMPTS: list[tuple[str, list[Any], Any, list[Tool], list[Estimate]]] = [
    ("nothing", [], None, [], []),
    ("a_system_prompt", [], "Be brief.", [], [text_tokens("Be brief.")]),
    ("blocks_of_one", [], [TextBlock("Be brief.")], [], [text_tokens("Be brief.")]),
    ("a_user", [UserMessage("Hi")], None, [], [OF_A_MESSAGE, text_tokens("Hi")]),
    (
        "a_user_with_a_name",
        [UserMessage("Hi", name="Ada")],
        None,
        [],
        [OF_A_MESSAGE, text_tokens("Hi"), text_tokens("Ada")],
    ),
    (
        "a_result",
        [ToolResultMessage("a", "weather", "21")],
        None,
        [],
        [OF_A_MESSAGE, text_tokens("21")],
    ),
    (
        "thoughts_and_a_call",
        [AssistantMessage([ThinkingBlock("Well."), ToolCallBlock("a", "weather", ARGUMENTS)])],
        None,
        [],
        [OF_A_MESSAGE, text_tokens("Well."), OF_A_TOOL, text_tokens("weather"),
         data_tokens(ARGUMENTS)],
    ),
    (
        "arguments_as_text",
        [AssistantMessage([ToolCallBlock("a", "weather", {}, '{"city": "Os', "truncated")])],
        None,
        [],
        [OF_A_MESSAGE, OF_A_TOOL, text_tokens("weather"), text_tokens('{"city": "Os')],
    ),
    (
        "an_extension",
        [UserMessage([ExtensionBlock("acme", "search", ARGUMENTS)])],
        None,
        [],
        [OF_A_MESSAGE, data_tokens(ARGUMENTS)],
    ),
    (
        "documents_as_text",
        [UserMessage([DocumentBlock(Base64Source("text/plain", encoded(b"x" * 600)))] * 8)],
        None,
        [],
        [OF_A_MESSAGE, Estimate(8 * 150, 8 * 600)],
    ),
    (
        "tools",
        [],
        None,
        [Tool("f", "Look.", ARGUMENTS), Tool("g", "Say.", {}, metadata={"acme": ARGUMENTS})],
        [OF_TOOLS, OF_A_TOOL, OF_A_TOOL, text_tokens("f Look."), text_tokens("g Say."),
         data_tokens(ARGUMENTS), data_tokens({"acme": ARGUMENTS})],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "system", "tools", "parts"), [p[1:] for p in PROMPTS], ids=[p[0] for p in PROMPTS]
)
def test_each_part_of_a_prompt_counts(
    messages: list[Any], system: Any, tools: list[Tool], parts: list[Estimate]
) -> None:
    context = Context(messages, system, tools)
    assert prompt_tokens(context, DEFAULTS) == OF_A_PROMPT.plus(*parts).rounded()


# (data, the text that is counted)
DATA: list[tuple[Any, str]] = [
    ({"a": [1, None]}, '{"a":[1,null]}'),
    ({"a": 1j}, "{'a': 1j}"),
    ({"a": "\ud800"}, r"{'a': '\ud800'}"),
    ({}, ""),
    (None, ""),
]


@pytest.mark.parametrize(("data", "text"), DATA)
def test_data_counts_as_its_json_or_as_its_repr(data: Any, text: str) -> None:
    assert data_tokens(data) == text_tokens(text)


def test_texts_of_an_answer_count_without_names_of_fields_and_probabilities() -> None:
    answer = {"a": ["one two", {"b": "three"}], "logprobs": ["one"], "c": 4, "d": None}
    assert texts_tokens(answer) == text_tokens("one two three")


def test_texts_in_a_list_that_contains_itself_are_estimated_all_the_same() -> None:
    endless: list[Any] = ["one"]
    endless.append(endless)
    assert texts_tokens(endless) == data_tokens(endless)


def test_the_seconds_of_all_sound_are_summed() -> None:
    sound = AudioBlock(ADDRESS)
    context = Context([UserMessage("Hi"), UserMessage([TextBlock("Hi"), sound])], [sound])
    assert sound_seconds(context) == (120, 1_200)
    assert sound_seconds(Context([UserMessage("Hi")], "Be brief.")) == (0, 0)


def test_a_rounded_estimate_has_whole_tokens_and_a_bound_not_below() -> None:
    assert Estimate(1.2, 3.1).rounded() == (2, 4)
    assert Estimate(1.2, 0.5).rounded() == (2, 2)


def test_counting_the_words_of_a_long_text_takes_little_memory() -> None:
    text = "a " * 500_000
    tracemalloc.start()
    try:
        text_tokens(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(text)
