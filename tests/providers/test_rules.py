"""Calls fitted to rules, which are read from a file as a package ships it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    CacheStrategy,
    Context,
    DocumentBlock,
    ExtensionBlock,
    ImageBlock,
    Model,
    ModelInfo,
    Notice,
    PluginError,
    StreamErrorKind,
    StreamOptions,
    SystemMessage,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.plugins.package_data import PackageCatalog
from swink_core.providers import Fitted, rule_of
from swink_core.providers.schemas import joined_root

HELLO = Context([UserMessage("Hi")])
WITH_TOOL = Context([UserMessage("Hi")], tools=[Tool("f")])
CALL = AssistantMessage([ToolCallBlock("c1", "f", {})])
RESULT = ToolResultMessage("c1", "f", "found")
PAGE = DocumentBlock(Base64Source("application/pdf", "JVBERi0="))
TREE = {
    "type": "object",
    "properties": {"leaf": {"$ref": "#/$defs/leaf"}, "children": {"$ref": "#/$defs/trees"}},
    "$defs": {
        "leaf": {"type": "string"},
        "trees": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        "tree": {"type": "object", "properties": {"children": {"$ref": "#/$defs/trees"}}},
    },
}
TWICE = {
    "$ref": "#/$defs/pair",
    "$defs": {
        "pair": {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/text"}, "b": {"$ref": "#/$defs/text"}},
        },
        "text": {"type": "string"},
    },
}
PREFILLED = Context([UserMessage("Hi"), AssistantMessage([TextBlock("Well")])])


class Acme:
    """An API that has nearly everything."""

    api_name = "chat"
    features = frozenset({"tools", "tool_choice", "stop", "json", "documents", "structured_output"})
    knobs = frozenset({
        "temperature", "top_p", "max_tokens", "session_id", "thinking", "parallel_tool_calls",
    })  # fmt: skip
    buffered = websocket = False

    def parser(self, model: Model) -> Any:
        raise NotImplementedError


def ruled(*rules: str) -> Model:
    """A model with rules as they stand in a file."""
    text = "\n".join(f"[[rules]]\n{rule}" for rule in rules)
    return Model("acme", "large", rules=tuple(PackageCatalog.read(text.encode(), "a file").rules()))


def fit(model: Model, context: Context = HELLO, **options: Any) -> Fitted:
    return Fitted(model, context, StreamOptions(**options)).fit(Acme())


def told(call: Fitted) -> list[str]:
    return [f"{notice.code}{notice.detail.removeprefix('acme/large')}" for notice in call.notices]


BOTH = 'budget = [1024, 8000]\nefforts = { low = "l", high = "h" }'

# (rule, options, what becomes of them, what is told)
OPTIONS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("takes = { temperature = false }", {"temperature": 0.0}, {"temperature": None},
     ["option_ignored does not support temperature; it was not sent"]),
    ("takes = { temperature = [1] }", {"temperature": 1.0}, {"temperature": 1.0}, []),
    ("takes = { temperature = [1] }", {"temperature": 0.5}, {"temperature": None},
     ["option_ignored does not support this value of temperature; it was not sent"]),
    ("takes = { seed = true }", {"seed": 7}, {"seed": 7}, []),
    ("least = { max_tokens = 16 }", {"max_tokens": 1}, {"max_tokens": 16},
     ["option_changed: max_tokens was changed from 1 to 16"]),
    ("most = { temperature = 1.5 }", {"temperature": 2}, {"temperature": 1.5},
     ["option_changed: temperature was changed from 2 to 1.5"]),
    ("most = { session_id = 64 }", {"session_id": "s" * 64}, {"session_id": "s" * 64}, []),
    ("most = { session_id = 64 }", {"session_id": ""}, {"session_id": ""}, []),
    ("takes = { cache = false }", {"cache": "none"}, {"cache": CacheStrategy("none")}, []),
    ("takes = { cache = false }", {"cache": "auto"}, {"cache": None},
     ["option_ignored does not support cache; it was not sent"]),
    ('change = { thinking = "off" }', {"thinking": "off"}, {"thinking": "off"}, []),
    ("takes = { thinking = false }", {"thinking": 0}, {"thinking": None}, []),
    ("takes = { thinking = true }", {"thinking": "high"}, {"thinking": "high"}, []),
    ('change = { thinking = "off" }', {}, {"thinking": "off"},
     ["option_changed: thinking was changed from unset to off"]),
    ('efforts = { low = "l", high = "h" }', {"thinking": "low"}, {"thinking": "low"}, []),
    ('efforts = { low = "l", high = "h" }', {"thinking": "off"}, {"thinking": "low"},
     ["option_changed: thinking was changed from off to low"]),
    ('efforts = { low = "l", high = "h" }', {"thinking": "medium"}, {"thinking": "high"},
     ["option_changed: thinking was changed from medium to high"]),
    ('efforts = { low = "l", high = "h" }', {"thinking": "extra_high"}, {"thinking": "high"},
     ["option_changed: thinking was changed from extra_high to high"]),
    ('efforts = { low = "l", high = "h" }', {"thinking": 1500}, {"thinking": "low"},
     ["option_changed: thinking was changed from 1500 to low"]),
    ('efforts = { off = "none", high = "h" }', {"thinking": 0}, {"thinking": 0}, []),
    ("budget = [1024, 8000]", {"thinking": 5000}, {"thinking": 5000}, []),
    ("budget = [1024, 8000]", {"thinking": 10}, {"thinking": 1024},
     ["option_changed: thinking was changed from 10 to 1024"]),
    ("budget = [1024, 8000]", {"thinking": "high"}, {"thinking": 8000},
     ["option_changed: thinking was changed from high to 8000"]),
    ("budget = [1024, 8000]", {"thinking": 5000, "max_tokens": 4000}, {"thinking": 2976},
     ["option_changed: thinking was changed from 5000 to 2976"]),
    ("budget = [1024, 8000]", {"thinking": 1024, "max_tokens": 1100}, {"thinking": 1024}, []),
    ("budget = [1024, 8000]", {"thinking": 1024, "max_tokens": 1024}, {"thinking": None},
     ["option_ignored does not support thinking; it was not sent"]),
    (BOTH, {"thinking": "low"}, {"thinking": "low"}, []),
    (BOTH, {"thinking": "medium"}, {"thinking": "high"},
     ["option_changed: thinking was changed from medium to high"]),
    (BOTH, {"thinking": 10}, {"thinking": 1024},
     ["option_changed: thinking was changed from 10 to 1024"]),
    (BOTH, {"thinking": 0}, {"thinking": "low"},
     ["option_changed: thinking was changed from 0 to low"]),
    ('when = { thinking = ["on"] }\ntakes = { top_p = false }', {"top_p": 0.5}, {"top_p": 0.5}, []),
    ('when = { thinking = ["off"] }\ntakes = { top_p = false }',
     {"top_p": 0.5, "thinking": "off"}, {"top_p": None},
     ["option_ignored does not support top_p; it was not sent"]),
    ('when = { thinking = ["tokens"] }\ntakes = { top_p = false }',
     {"top_p": 0.5, "thinking": 2000}, {"top_p": None},
     ["option_ignored does not support top_p; it was not sent"]),
    ('when = { thinking = ["tokens"] }\ntakes = { top_p = false }',
     {"top_p": 0.5, "thinking": "low"}, {"top_p": 0.5}, []),
    ('when = { stop = ["set"] }\ntakes = { top_p = false }',
     {"top_p": 0.5, "stop": "END"}, {"top_p": None},
     ["option_ignored does not support top_p; it was not sent"]),
    ('when = { stop = ["set"] }\ntakes = { top_p = false }', {"top_p": 0.5}, {"top_p": 0.5}, []),
    ("most = { stop = 1 }", {"stop": "END"}, {"stop": ("END",)}, []),
    *((f'when = {{ thinking = ["{word}"] }}\ntakes = {{ top_p = false }}',
       {"top_p": 0.5, "thinking": "low"}, {"top_p": None},
       ["option_ignored does not support top_p; it was not sent"])
      for word in ("set", "on", "low")),
    ('when = { stop = ["unset"] }\ntakes = { top_p = false }', {"top_p": 0.5}, {"top_p": None},
     ["option_ignored does not support top_p; it was not sent"]),
    ('apis = ["other"]\ntakes = { top_p = false }', {"top_p": 0.5}, {"top_p": 0.5}, []),
    ('apis = ["chat"]\ntakes = { top_p = false }', {"top_p": 0.5}, {"top_p": None},
     ["option_ignored does not support top_p; it was not sent"]),
    ("most = { temperature = 1.5 }", {}, {"temperature": None}, []),
    ("most = { temperature = 1.5 }", {"temperature": -1}, {"temperature": -1}, []),
    ("least = { max_tokens = 16 }", {"max_tokens": 10**6}, {"max_tokens": 10**6}, []),
    ("most = { stop = 2 }", {"stop": ["a", "b"]}, {"stop": ("a", "b")}, []),
    ("budget = [1024, 8000]", {"thinking": 0}, {"thinking": 0}, []),
    ("budget = [1024, 8000]", {"thinking": "off"}, {"thinking": "off"}, []),
    ("budget = [1024, 8000]", {"thinking": 9000}, {"thinking": 8000},
     ["option_changed: thinking was changed from 9000 to 8000"]),
    ("budget = [1024, 8000]", {"thinking": 1024, "max_tokens": 1025}, {"thinking": 1024}, []),
    ("budget = [1024, 8000]", {"thinking": 8000, "max_tokens": 9024}, {"thinking": 8000}, []),
    ("budget = [1024, 8000]", {"thinking": 8000, "max_tokens": 9023}, {"thinking": 7999},
     ["option_changed: thinking was changed from 8000 to 7999"]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "options", "left", "said"), OPTIONS)
def test_an_option_is_sent_mapped_or_left_out_and_told(
    rule: str, options: dict[str, Any], left: dict[str, Any], said: list[str]
) -> None:
    call = fit(ruled(rule), **options)

    assert {name: getattr(call.options, name) for name in left} == left
    assert told(call) == said
    changed = [(f"options.{name}",) for name in left] if said else []
    assert [notice.paths for notice in call.notices] == changed
    assert call.failure is None


# (condition, conversation, options, whether the call meets it)
CONDITIONS: list[tuple[str, Context, dict[str, Any], bool]] = [
    ('temperature = ["set"]', HELLO, {"temperature": 0.0}, True),
    ('temperature = ["set"]', HELLO, {}, False),
    ('temperature = ["unset"]', HELLO, {"temperature": 0.0}, False),
    ('temperature = ["unset"]', HELLO, {}, True),
    ("temperature = [0, 0.5]", HELLO, {"temperature": 0.5}, True),
    ("temperature = [0, 0.5]", HELLO, {"temperature": 0.6}, False),
    ('temperature = ["set"]\nwhen.session_id = ["set"]', HELLO, {"temperature": 0.5}, False),
    (
        'temperature = ["set"]\nwhen.session_id = ["set"]',
        HELLO,
        {"temperature": 1, "session_id": "s"},
        True,
    ),
    ('stop = ["set"]', HELLO, {"stop": "END"}, True),
    ('stop = ["unset"]', HELLO, {}, True),
    ('cache = ["unset"]', HELLO, {"cache": "none"}, True),
    ('thinking = ["set"]', HELLO, {"thinking": "low"}, True),
    ('thinking = ["low"]', HELLO, {"thinking": "low"}, True),
    ('thinking = ["low"]', HELLO, {"thinking": 2000}, True),
    ('thinking = ["on"]', HELLO, {"thinking": 2000}, True),
    ('thinking = ["on", "set", "unset"]', HELLO, {"thinking": 0}, False),
    ('thinking = ["off"]', HELLO, {"thinking": 0}, True),
    ('thinking = ["unset"]', HELLO, {}, True),
    ('tools = ["unset"]', WITH_TOOL, {}, False),
    ('json = ["set"]', HELLO, {"response_format": "json"}, True),
    ('json = ["set"]', HELLO, {"response_format": {"type": "object"}}, False),
    ('prefill = ["set"]', PREFILLED, {}, True),
    ('prefill = ["unset"]', PREFILLED, {}, False),
    ('prefill = ["unset"]', HELLO, {}, True),
]


@pytest.mark.parametrize(("condition", "context", "options", "is_met"), CONDITIONS)
def test_a_rule_with_a_condition_applies_to_the_calls_that_meet_it(
    condition: str, context: Context, options: dict[str, Any], is_met: bool
) -> None:
    call = fit(ruled(f"when.{condition}\ntakes = {{ top_p = false }}"), context, top_p=1, **options)

    assert call.options.top_p == (None if is_met else 1)


def test_later_changes_replace_earlier_ones() -> None:
    model = ruled("change = { seed = 1, top_p = 1 }", "change = { seed = 2 }")

    assert rule_of(model).change == {"seed": 2}


def test_a_rule_for_one_api_counts_only_for_that_api() -> None:
    model = ruled('apis = ["chat", "batch"]\nefforts = { low = "l" }')

    assert rule_of(model, Acme()).efforts == {"low": "l"}
    assert rule_of(model).efforts == {}


# (rules, the API that they select)
WANTED_APIS: list[tuple[list[str], str | None]] = [
    (['api = "a"', 'api = "b"', "takes = { stop = false }"], "b"),
    (['api = "a"', 'api = "b"\nwhen = { thinking = ["on"] }'], "a"),
    (['api = "a"', 'api = "b"\napis = ["chat"]'], "a"),
    (["takes = { stop = false }"], None),
]


@pytest.mark.parametrize(("rules", "api"), WANTED_APIS)
def test_the_last_rule_that_names_an_api_selects_it(rules: list[str], api: str | None) -> None:
    assert fit(ruled(*rules)).wanted_api == api


# (rule, conversation, options, what is refused)
REFUSED: list[tuple[str, Context, dict[str, Any], str]] = [
    ("takes = { stop = false }", HELLO, {"stop": "END"}, "stop"),
    ("most = { stop = 1 }", HELLO, {"stop": ["a", "b"]}, "stop"),
    ("takes = { tools = false }", WITH_TOOL, {}, "tools"),
    ('takes = { tool_choice = ["auto", "none"] }', WITH_TOOL, {"tool_choice": "f"}, "tool_choice"),
    ("takes = { prefill = false }", PREFILLED, {}, "prefill"),
    ("takes = { assistant_first = false }", Context([CALL, RESULT]), {}, "assistant_first"),
    ("takes = { call_first = false }", Context([CALL, RESULT]), {}, "call_first"),
    ("takes = { call_first = false }", Context([SystemMessage("x"), CALL]), {}, "call_first"),
    ("takes = { blank_end = false }", Context([UserMessage(" \n")]), {}, "blank_end"),
    ("takes = { blank_end = false }",
     Context([*PREFILLED.messages, UserMessage([TextBlock(" ")]), UserMessage("")]), {},
     "blank_end"),
    ("takes = { blank_stop = false }", HELLO, {"stop": ["END", "\n"]}, "blank_stop"),
    ("takes = { recursive_schema = false }", HELLO, {"response_format": TREE}, "recursive_schema"),
    ("takes = { root_schema = false }", HELLO, {"response_format": {"type": "array"}},
     "root_schema"),
    ("takes = { root_schema = false }", HELLO,
     {"response_format": {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{}]}}}}, "root_schema"),
    ("most = { tools = 1 }", Context([UserMessage("Hi")], tools=[Tool("f"), Tool("g")]), {},
     "tools"),
    ("most = { documents = 1 }", Context([UserMessage([TextBlock("Hi"), PAGE, PAGE])]), {},
     "documents"),
    ('when = { tools = ["set"] }\ntakes = { json = false }', WITH_TOOL,
     {"response_format": "json"}, "json"),
    ('schema = ["anyOf"]', Context([UserMessage("Hi")], tools=[Tool("f", "", {"type": "string"})]),
     {}, "tools"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "context", "options", "code"), REFUSED)
def test_a_call_that_would_lose_its_meaning_is_refused_unless_rules_are_off(
    rule: str, context: Context, options: dict[str, Any], code: str
) -> None:
    refused = fit(ruled(rule), context, **options).failure
    assert refused is not None
    assert (refused.kind, refused.code) == ("unsupported", code)
    assert "rules=False" in str(refused.resolution)

    assert fit(ruled(rule), context, **options, rules=False).failure is None


def test_media_in_an_answer_that_the_api_does_not_accept_are_refused_with_their_path() -> None:
    class Seeing(Acme):
        features = Acme.features | {"images"}

    class Painting(Seeing):
        features = Seeing.features | {"assistant_images"}

    image = ImageBlock(UrlSource("https://a.example/a.png"))
    asked = UserMessage([image])
    context = Context([asked, AssistantMessage([TextBlock("Look"), image]), asked])

    refused = Fitted(ruled(), context, StreamOptions()).fit(Seeing()).failure

    assert refused is not None
    assert (refused.kind, refused.code) == ("unsupported", "assistant_images")
    said = "acme/large does not accept images in assistant messages (messages[1].content[1])"
    assert refused.message == said
    assert Fitted(ruled(), context, StreamOptions()).fit(Painting()).failure is None


VIDEO = DocumentBlock(Base64Source("video/mp4", "AAAA"))
LINKED = DocumentBlock(UrlSource("https://a.example/a.pdf"))


@pytest.mark.parametrize(
    ("documents", "count"),
    [
        ([PAGE], None),
        ([PAGE, VIDEO, VIDEO], None),
        ([PAGE, LINKED], 2),
        ([LINKED, VIDEO, LINKED, PAGE], 3),
    ],
)
def test_documents_are_counted_without_videos(documents: list[Block], count: int | None) -> None:
    call = fit(
        ruled("most = { documents = 1 }"), Context([UserMessage("Hi"), UserMessage(documents)])
    )
    message = call.failure and call.failure.message
    assert message == (count and f"acme/large accepts at most 1 documents, not {count}")


# (shape, conversation, options)
ACCEPTED: list[tuple[str, Context, dict[str, Any]]] = [
    ("assistant_first", Context([SystemMessage("Be brief."), UserMessage("Hi")]), {}),
    ("call_first", Context([AssistantMessage([TextBlock("Well")]), UserMessage("Hi")]), {}),
    ("blank_end", Context([UserMessage("Hi"), CALL, RESULT, UserMessage(" ")]), {}),
    ("blank_end", Context([UserMessage("Hi"), UserMessage(" ")]), {}),
    ("blank_end", Context([UserMessage([PAGE])]), {}),
    ("blank_end", PREFILLED, {}),
    ("blank_end", Context([]), {}),
    ("blank_stop", HELLO, {"stop": "END\n"}),
    ("calls_apart", Context([AssistantMessage([TextBlock("a"), *CALL.content, *CALL.content,
                                               TextBlock("b")])]), {}),
    ("calls_apart", Context([AssistantMessage([*CALL.content, TextBlock("b")])]), {}),
    ("recursive_schema", HELLO, {"response_format": TWICE}),
    ("root_schema", HELLO, {"response_format": TWICE}),
    ("root_schema", HELLO, {"response_format": "json"}),
]  # fmt: skip


def test_as_many_tools_as_a_rule_allows_are_sent() -> None:
    assert fit(ruled("most = { tools = 1 }"), WITH_TOOL).failure is None


def test_a_call_that_is_refused_twice_has_the_first_reason() -> None:
    model = ruled("takes = { tools = false }", "takes = { prefill = false }")
    refused = fit(model, Context(PREFILLED.messages, tools=[Tool("f")])).failure
    assert refused is not None
    assert (refused.code, refused.message) == ("tools", "acme/large does not support tools")


def test_a_provider_adds_notices_and_refusals_of_its_own() -> None:
    call = Fitted(Model("acme", "large"), HELLO, StreamOptions())

    call.tell(" reads only the first page", "content_changed", "messages[0]", "messages[1]")
    call.tell(": a was changed to b")
    call.refuse("pages", "does not read pages")
    call.refuse("books", "does not read books")

    assert call.notices == [
        Notice(
            "content_changed",
            "acme/large reads only the first page",
            ("messages[0]", "messages[1]"),
        ),
        Notice("option_changed", "acme/large: a was changed to b"),
    ]
    assert call.failure is not None
    assert (call.failure.code, call.failure.message) == ("pages", "acme/large does not read pages")


def test_a_feature_that_the_api_lacks_is_refused_with_no_advice_to_turn_the_rules_off() -> None:
    sound = AudioBlock(UrlSource("https://a.example/a.wav"))
    for options in ({}, {"rules": False}):
        refused = fit(ruled(), Context([UserMessage([sound])]), **options).failure
        assert refused is not None
        assert (refused.code, refused.resolution) == ("audio", None)


def test_a_conversation_without_messages_is_fitted() -> None:
    call = fit(ruled(), Context([], system_prompt="Be brief."))

    assert (call.context.system_prompt, call.context.messages) == ("Be brief.", [])
    assert (told(call), call.failure) == ([], None)


@pytest.mark.parametrize(("shape", "context", "options"), ACCEPTED)
def test_a_call_of_another_shape_is_sent(
    shape: str, context: Context, options: dict[str, Any]
) -> None:
    call = fit(ruled(f"takes = {{ {shape} = false }}"), context, **options)

    assert (call.failure, told(call)) == (None, [])


def test_text_between_tool_calls_goes_out_before_them() -> None:
    first, second = ToolCallBlock("c1", "f", {}), ToolCallBlock("c2", "f", {})
    said: list[Block] = [TextBlock("a"), first, TextBlock("b"), second, TextBlock("c")]
    whole = AssistantMessage([first, second, TextBlock("d")])
    context = Context(
        [SystemMessage("Be brief."), AssistantMessage(said), HELLO.messages[0], whole]
    )

    call = fit(ruled("takes = { calls_apart = false }"), context)

    assert call.context.messages[0].content == [said[0], said[2], said[4], first, second]
    assert call.context.messages[1:] == context.messages[2:]
    assert told(call) == [
        "content_moved: messages[1]: text between tool calls was moved before them"
    ]
    assert [notice.paths for notice in call.notices] == [("messages[1]",)]
    assert context.messages[1].content == said


def test_the_system_text_is_one_string_unless_the_api_takes_blocks() -> None:
    class Marked(Acme):
        system_marks = ("cache",)

    blocks: list[TextBlock | ExtensionBlock] = [TextBlock("a"), TextBlock("b")]
    context = Context([UserMessage("Hi")], system_prompt=blocks)

    joined = fit(ruled(), context)
    kept = Fitted(ruled(), context, StreamOptions()).fit(Marked())

    assert joined.context.system_prompt == "a\nb"
    assert [notice.code for notice in joined.notices] == ["system_blocks_joined"]
    assert (kept.context.system_prompt, kept.notices) == (blocks, [])


def test_white_space_at_the_end_of_an_answer_that_goes_on_is_left_out() -> None:
    said: list[Block] = [TextBlock(" a "), TextBlock("b \n", {"mark": 1}), TextBlock(" c \n\n")]
    context = Context([UserMessage("Hi "), AssistantMessage(said)])

    call = fit(ruled("takes = { trailing_space = false }"), context)

    assert call.context.messages[0] == context.messages[0]
    assert call.context.messages[1].content == [*said[:2], TextBlock(" c")]
    path = "messages[1].content[2].text"
    assert told(call) == [f"content_changed: {path}: trailing white space was not sent"]
    assert [notice.paths for notice in call.notices] == [(path,)]


# (what a model may lack, a conversation, options)
LACKED: list[tuple[str, Any, dict[str, Any]]] = [
    ("tools", WITH_TOOL, {}),
    ("images", ImageBlock, {}),
    ("documents", DocumentBlock, {}),
    ("audio", AudioBlock, {}),
    ("json", HELLO, {"response_format": "json"}),
    ("structured_output", HELLO, {"response_format": {"type": "object"}}),
]


@pytest.mark.parametrize(("feature", "said", "options"), LACKED, ids=[case[0] for case in LACKED])
def test_features_that_a_model_lacks_are_refused(
    feature: str, said: Any, options: dict[str, Any]
) -> None:
    class All(Acme):
        features = frozenset({name for name, _, _ in LACKED})

    source = UrlSource("https://a.example/a")
    context = said if isinstance(said, Context) else Context([UserMessage([said(source)])])
    for capabilities, code in ((None, None), (frozenset({feature}), None), (frozenset(), feature)):
        model = Model("acme", "large", info=ModelInfo("large", capabilities=capabilities))
        refused = Fitted(model, context, StreamOptions(**options)).fit(All()).failure
        assert (refused and refused.code) == code


@pytest.mark.parametrize(
    ("transport", "refused"),
    [("auto", None), ("sse", None), ("buffered", "buffered_transport"),
     ("websocket", "websocket_transport")],
)  # fmt: skip
def test_a_transport_that_the_api_has_not_is_refused_and_a_stream_every_api_has(
    transport: Any, refused: str | None
) -> None:
    failure = fit(ruled(), transport=transport).failure
    assert (failure and failure.code) == refused


@pytest.mark.parametrize(("word", "left"), [("set", [0.5, None]), ("unset", [None, 0.5])])
def test_a_shape_is_set_if_the_call_has_it(word: str, left: list[float | None]) -> None:
    model = ruled(f'when = {{ prefill = ["{word}"] }}\ntakes = {{ temperature = false }}')

    calls = [fit(model, context, temperature=0.5) for context in (HELLO, PREFILLED)]

    assert [call.options.temperature for call in calls] == left


# (what the model can do, thinking, what is told)
SILENT: list[tuple[frozenset[str] | None, Any, list[str]]] = [
    (None, "off", []),
    (None, 0, []),
    (frozenset({"tools"}), "off", []),
    (frozenset({"thinking"}), "off", ["option_ignored"]),
    (frozenset({"thinking"}), 0, ["option_ignored"]),
    (None, "low", ["option_ignored"]),
    (None, 1, ["option_ignored"]),
]


@pytest.mark.parametrize(("capabilities", "thinking", "codes"), SILENT)
def test_thinking_that_cannot_be_turned_off_is_told_only_of_a_model_that_thinks(
    capabilities: frozenset[str] | None, thinking: Any, codes: list[str]
) -> None:
    class Plain(Acme):
        knobs = Acme.knobs - {"thinking"}

    model = Model("acme", "large", info=ModelInfo("large", capabilities=capabilities))

    call = Fitted(model, HELLO, StreamOptions(thinking=thinking)).fit(Plain())

    assert call.options.thinking is None
    assert [notice.code for notice in call.notices] == codes


def test_system_messages_and_extensions_stay_for_an_api_that_takes_them() -> None:
    class Marked(Acme):
        features = Acme.features | {"extensions"}
        system_marks = ("cache",)

    class Anywhere(Acme):
        features = Acme.features | {"system_messages"}

    extension: list[TextBlock | ExtensionBlock] = [ExtensionBlock("acme", "prompt", {"id": 1})]
    context = Context([UserMessage("Hi")], system_prompt=extension)
    leading = Context([SystemMessage("Be brief."), UserMessage("Hi")])

    assert Fitted(ruled(), context, StreamOptions()).fit(Marked()).failure is None
    refused = Fitted(ruled(), context, StreamOptions()).fit(Anywhere()).failure
    assert refused is not None
    assert Fitted(ruled(), leading, StreamOptions()).fit(Anywhere()).context == leading
    folded = Fitted(ruled(), leading, StreamOptions()).fit(Acme()).context
    assert (folded.system_prompt, folded.messages) == ("Be brief.", leading.messages[1:])


def test_a_change_that_a_provider_tells_of_is_a_changed_option() -> None:
    call = Fitted(ruled(), HELLO, StreamOptions())
    call.tell(": temperature was rounded")
    call.tell(": a", "other", "messages[0]")
    assert told(call) == ["option_changed: temperature was rounded", "other: a"]
    assert [notice.paths for notice in call.notices] == [(), ("messages[0]",)]


def test_tools_are_set_by_the_conversation_or_by_what_goes_out_as_it_is() -> None:
    model = ruled('when = { tools = ["set"] }\ntakes = { temperature = false }')

    left = [
        fit(model, context, temperature=0.5, extra=extra).options.temperature
        for context, extra in (
            (HELLO, {}), (HELLO, {"user": "u"}), (WITH_TOOL, {}), (HELLO, {"tools": [{}]}),
        )
    ]  # fmt: skip
    assert left == [0.5, 0.5, None, None]


@pytest.mark.parametrize(
    ("choice", "words"),
    [(None, ["unset"]), ("auto", ["set"]), ("none", ["set"]), ("required", ["set", "forced"]),
     ("f", ["set", "forced"])],
)  # fmt: skip
def test_a_call_of_a_tool_is_forced_unless_the_model_may_choose(
    choice: Any, words: list[str]
) -> None:
    met = []
    for word in ("set", "unset", "forced"):
        model = ruled(f'when = {{ tool_choice = ["{word}"] }}\ntakes = {{ temperature = false }}')
        call = fit(model, WITH_TOOL, tool_choice=choice, temperature=0.5)
        met += [word] if call.options.temperature is None else []
    assert met == words


def test_without_rules_a_call_goes_out_as_it_was_given_where_the_api_has_a_place() -> None:
    model = ruled("takes = { temperature = false }", 'change = { thinking = "off" }')

    call = fit(model, temperature=3, top_k=4, rules=False)

    assert (call.options.temperature, call.options.thinking, call.options.top_k) == (3, None, None)
    assert told(call) == ["option_ignored does not support top_k; it was not sent"]


def test_a_later_rule_counts_for_what_both_name() -> None:
    model = ruled(
        'takes = { top_p = false, stop = false }\nefforts = { low = "l" }',
        'takes = { top_p = true }\nefforts = { high = "h" }',
    )

    assert rule_of(model).takes == {"top_p": True, "stop": False}
    assert rule_of(model).efforts == {"high": "h"}
    for bound in ("least", "most"):
        both = ruled(f"{bound} = {{ top_p = 1, seed = 1 }}", f"{bound} = {{ top_p = 2 }}")
        assert getattr(rule_of(both), bound) == {"top_p": 2, "seed": 1}


def test_conditions_look_at_the_call_as_the_rules_before_have_left_it() -> None:
    model = ruled(
        'when = { tool_choice = ["forced"] }\nchange = { thinking = "off" }',
        'when = { thinking = ["on", "unset"] }\ntakes = { temperature = false }',
    )

    forced = fit(model, WITH_TOOL, tool_choice="required", temperature=0.5)
    free = fit(model, WITH_TOOL, temperature=0.5)

    assert (forced.options.temperature, free.options.temperature) == (0.5, None)


def test_tools_have_one_other_name_wherever_they_are_named() -> None:
    messages = [
        UserMessage("Hi"),
        SystemMessage("Be brief."),
        AssistantMessage([TextBlock("Well"), ToolCallBlock("1", "9 lives", {})]),
        ToolResultMessage("1", "9 lives", "gone"),
    ]
    context = Context(messages, tools=[Tool("9 lives"), Tool("fine")])
    before = Context([*messages], tools=[*context.tools])

    call = fit(ruled("tool_name = '[a-z_][a-z0-9_]*'"), context, tool_choice="9 lives")

    [(new, old)] = call.names.items()
    assert (old, [tool.name for tool in call.context.tools]) == ("9 lives", [new, "fine"])
    assert call.options.tool_choice == new
    assert call.context.messages[2].tool_calls[0].name == new
    assert call.context.messages[3].tool_name == new
    assert new == "__lives_d05adc7c"
    assert context == before


def test_tools_that_only_the_conversation_names_have_another_name_too() -> None:
    messages = [
        UserMessage("Hi"),
        AssistantMessage([ToolCallBlock("1", "first tool", {})]),
        ToolResultMessage("2", "second tool", "gone"),
        ToolResultMessage("3", "", "unknown"),
    ]

    call = fit(ruled("tool_name = '[a-z_][a-z0-9_]*'"), Context(messages))

    assert sorted(call.names.values()) == ["first tool", "second tool"]
    [made] = call.context.messages[1].tool_calls
    results = [message.tool_name for message in call.context.messages[2:]]
    assert call.names[made.name] == "first tool"
    assert call.names[results[0]] == "second tool"
    assert results[1] == ""


def test_an_id_that_is_too_long_is_shortened_and_stays_its_own() -> None:
    model = ruled("most = { session_id = 20 }")
    one, again, other = (
        fit(model, session_id="s" * 20 + rest).options.session_id for rest in ("a", "a", "b")
    )
    assert one is not None
    assert (len(one), one == again, one == other) == (20, True, False)


def test_a_tool_choice_that_names_no_tool_stays_as_it_is() -> None:
    context = Context([UserMessage("Hi")], tools=[Tool("9 lives")])

    for choice in (None, "required"):
        call = fit(ruled("tool_name = '[a-z_][a-z0-9_]*'"), context, tool_choice=choice)
        assert call.options.tool_choice == choice


# (a tool's name, the pattern of names that are accepted, what is sent)
NAMES: list[tuple[str, str, str]] = [
    ("9 lives", "[a-z][a-z0-9_]*", "tool__lives_d05adc7c"),
    ("a.b-c", "[a-z][a-z0-9_-]*", "a_b-c_"),
    ("\ud800", "[a-z_][a-z0-9_]*", "__"),
    ("A" * 64, ".{,63}", "A" * 48 + "_"),
]


@pytest.mark.parametrize(("name", "accepted", "sent"), NAMES)
def test_another_name_is_like_its_own_and_short(name: str, accepted: str, sent: str) -> None:
    context = Context([UserMessage("Hi")], tools=[Tool(name), Tool(f"{name}.")])

    call = fit(ruled(f"tool_name = '{accepted}'"), context)

    first, second = (tool.name for tool in call.context.tools)
    assert first.startswith(sent)
    assert first != second
    assert call.names == {first: name, second: f"{name}."}


def test_a_schema_is_changed_only_where_its_root_says_what_is_refused() -> None:
    joined = Tool("joined", "", {"anyOf": [{"properties": {"a": {}}}], "not": {"required": ["b"]}})
    plain = Tool("plain", "", {"type": "object", "properties": {"a": {"anyOf": []}}})
    context = Context([UserMessage("Hi")], tools=[joined, plain])

    call = fit(ruled('schema = ["anyOf", "not"]'), context)

    assert [tool.parameters for tool in call.context.tools] == [
        {"type": "object", "properties": {"a": {}}},
        plain.parameters,
    ]
    assert told(call) == [
        "option_changed: anyOf, not at the root of the schema of joined merged into one object"
    ]
    paths = ("tools[0].parameters.anyOf", "tools[0].parameters.not")
    assert [notice.paths for notice in call.notices] == [paths]
    assert call.failure is None  # a schema that says no type is an object's


def test_joined_alternatives_still_accept_their_values() -> None:
    schema = {
        "allOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"own": {"type": "null"}}, "required": ["c"]},
        ],
        "oneOf": [{"properties": {"c": {"type": "number"}}, "required": ["d"]}],
        "required": ["own"],
        "anyOf": [{"$ref": "#/$defs/B"}, {"properties": {"b": {"const": 2}}}, True],
        "$defs": {"B": {"properties": {"b": {"const": 1}}}},
        "properties": {"own": {}},
    }

    assert joined_root(schema, ("allOf", "anyOf", "oneOf", "not")) == {
        "$defs": {"B": {"properties": {"b": {"const": 1}}}},
        "properties": {
            "a": {"type": "string"},
            "b": {"anyOf": [{"const": 1}, {"const": 2}]},
            "c": {"type": "number"},
            "own": {},
        },
        "required": ["own", "a", "c"],
        "type": "object",
    }
    assert joined_root(schema, ("allOf",))["oneOf"] == schema["oneOf"]


@pytest.mark.parametrize(
    "rule", ["match = '('", "unless = '['", "tool_name = '*'", "takez = {}", "budget = [1]"]
)
def test_a_rule_that_cannot_be_read_is_refused_with_its_file(rule: str) -> None:
    with pytest.raises(PluginError, match="a file"):
        ruled(rule)


GONE = 'retires = "2026-10-23"\nsuccessor = "huge"'
CONFIRMED = f'{GONE}\nas_of = "2026-10-23"'
ANNOUNCED = f'{GONE}\nas_of = "2026-10-22"'
SOON = "model_retires will be retired on 2026-10-23; use huge instead"
PAST = "model_retired was retired on 2026-10-23; use huge instead"
POSTPONED = "model_retired was to be retired on 2026-10-23; use huge instead"

# (rule, days after the end, at the provider's own address, options, refused, notices)
AGES: list[tuple[str, int, bool, dict[str, Any], bool, list[str]]] = [
    (CONFIRMED, -91, True, {}, False, []),
    (CONFIRMED, -90, True, {}, False, [SOON]),
    (CONFIRMED, -1, False, {}, False, [SOON]),
    (CONFIRMED, 0, True, {}, True, []),
    (CONFIRMED, 400, True, {}, True, []),
    (CONFIRMED, 400, False, {}, False, [PAST]),
    (CONFIRMED, 400, True, {"retired": True}, False, [PAST]),
    (CONFIRMED, 400, True, {"rules": False}, False, []),
    (ANNOUNCED, 0, True, {}, False, [POSTPONED]),
    (ANNOUNCED, 400, False, {}, False, [POSTPONED]),
    (GONE, 400, True, {}, False, [POSTPONED]),
    ('retires = "2026-10-23"', -1, True, {}, False, [SOON.partition(";")[0]]),
    (f'retires = "2026-10-01"\n[[rules]]\n{CONFIRMED}', -1, True, {}, False, [SOON]),
    (f"{CONFIRMED}\n[[rules]]\ntakes = {{ seed = true }}", 0, True, {}, True, []),
]


@pytest.mark.parametrize(("rule", "days", "at_home", "options", "refused", "notices"), AGES)
def test_a_retired_model_is_refused_at_its_own_address_after_a_confirmed_date(
    rule: str, days: int, at_home: bool, options: dict[str, Any], refused: bool, notices: list[str]
) -> None:
    call = fit(ruled(rule), **options)

    call.age(date(2026, 10, 23) + timedelta(days), at_home)

    assert told(call) == notices
    if not refused:
        assert call.failure is None
        return
    assert call.failure is not None
    assert call.failure.message == "acme/large was retired on 2026-10-23; use huge instead"
    assert (call.failure.phase, call.failure.code) == ("request", "retired")
    assert call.failure.kind is StreamErrorKind.MODEL_NOT_FOUND
    assert "retired=True" in (call.failure.resolution or "")


def test_retired_lifts_no_other_rule() -> None:
    call = fit(ruled(f"{CONFIRMED}\nmost = {{ temperature = 1 }}"), temperature=2, retired=True)

    assert call.options.temperature == 1
