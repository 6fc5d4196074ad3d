"""Hypothesis strategies for what crosses swink's boundaries.

`contexts` draws conversations that `Client.stream` accepts; `event_strategies` beside it draws
events.
"""

from __future__ import annotations

import base64
from string import ascii_letters
from typing import Any

from hypothesis import strategies as st

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    CacheStrategy,
    Context,
    Cost,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    Message,
    StopReason,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ThinkingLevel,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    Usage,
    UserMessage,
)
from swink_core.providers import OPTIONS
from swink_testing.chunking import cut_at

__all__ = [
    "assistant_messages",
    "chunkings",
    "contexts",
    "names",
    "stream_options",
    "tools",
    "user_messages",
]

SUCCESSES = [r for r in StopReason if r not in (StopReason.ERROR, StopReason.ABORTED)]

# Made once: a strategy that is made anew for every draw costs more than the draw.
_texts = st.text(max_size=12)
_few = st.integers(0, 2)
_yes_or_no = st.booleans()
_successes = st.sampled_from(SUCCESSES)
_deltas = st.text(min_size=1, max_size=6)
_names = st.text(ascii_letters, min_size=1, max_size=8)
_name_or_none = st.none() | _names
_text_or_none = st.none() | _texts
_counts = st.none() | st.integers(0, 10**9)
_seconds = st.floats(0, 600)
_dollars = st.none() | st.floats(0, 1_000)


def _objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(_names, values, max_size=3)


_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | _objects(inner),
    max_leaves=5,
)
_data = _objects(_json)
_metadata = st.none() | _data
_usages = st.builds(
    Usage, _counts, _counts, _counts, _counts, _counts, _counts, _data, st.booleans()
)
_usage_or_none = st.none() | _usages
_cost_or_none = st.none() | st.builds(Cost, _dollars, _dollars, _dollars, _dollars, _dollars)


def names() -> st.SearchStrategy[str]:
    """Draw names that every provider takes for a tool: letters, up to 8 of them."""
    return _names


# -- conversations ---------------------------------------------------------------------------


def _sources(media_type: str) -> st.SearchStrategy[Any]:
    data = st.binary(min_size=1, max_size=8).map(lambda raw: base64.b64encode(raw).decode())
    addresses = _names.map(lambda name: f"https://example.org/{name}")
    return (
        st.builds(Base64Source, st.just(media_type), data)
        | st.builds(UrlSource, addresses, st.just(media_type))
        | st.builds(FileIdSource, _names, _names)
    )


_said: st.SearchStrategy[Block] = st.builds(TextBlock, _texts)
_shown: st.SearchStrategy[Block] = st.one_of(
    _said,
    st.builds(ImageBlock, _sources("image/png")),
    st.builds(DocumentBlock, _sources("application/pdf"), _name_or_none),
    st.builds(AudioBlock, _sources("audio/wav")),
    st.builds(ExtensionBlock, _names, _names, _data),
)
_text_messages = st.builds(UserMessage, _texts | st.lists(_said, min_size=1, max_size=3))
_media_messages = st.builds(UserMessage, _texts | st.lists(_shown, min_size=1, max_size=3))


_instructions = st.builds(SystemMessage, _texts | st.lists(_said, max_size=2))


def user_messages(media: bool = True) -> st.SearchStrategy[UserMessage]:
    """Draw what users say: strings, and blocks of text and media."""
    return _media_messages if media else _text_messages


_speech: st.SearchStrategy[list[Block]] = st.lists(
    st.one_of(
        st.builds(TextBlock, _texts, _metadata),
        st.builds(ThinkingBlock, _texts, _name_or_none, st.just(False), _metadata),
        st.builds(ExtensionBlock, _names, _names, _json),
    ),
    max_size=3,
)


@st.composite
def assistant_messages(
    draw: st.DrawFn, provider: str | None = None, tool_call_ids: tuple[str, ...] = ()
) -> AssistantMessage:
    """Draw answers, with a whole tool call for each of `tool_call_ids`.

    `provider` is who gave them; `None` draws one, or nobody.
    """
    own = provider if provider is not None else draw(_name_or_none)
    content = draw(_speech)
    for tool_call_id in tool_call_ids:
        arguments = draw(_data)
        content.append(ToolCallBlock(tool_call_id, draw(_names), arguments))
    return AssistantMessage(
        content,
        provider=own,
        model=draw(_name_or_none),
        response_id=draw(_name_or_none),
        usage=draw(_usage_or_none),
        cost=draw(_cost_or_none),
        stop_reason=StopReason.TOOL_USE if tool_call_ids else draw(_successes),
        metadata=draw(_metadata),
    )


_schemas = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": _objects(
            st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "boolean"}])
        ),
    }
)
_tool_metadata = st.none() | st.dictionaries(_names, _data, max_size=2)
_tools = st.lists(
    st.builds(Tool, _names, _texts, _schemas, st.none() | st.booleans(), _tool_metadata),
    max_size=3,
    unique_by=lambda tool: tool.name,
)


def tools() -> st.SearchStrategy[list[Tool]]:
    """Draw some tools of different names."""
    return _tools


def _says_something(message: UserMessage) -> bool:
    if isinstance(message.content, str):
        return bool(message.content)
    return any(not isinstance(block, TextBlock) or block.text for block in message.content)


@st.composite
def contexts(draw: st.DrawFn, provider: str | None = None, media: bool = True) -> Context:
    """Draw conversations that a call may begin with.

    Some tool calls are answered, some are not; the user has the last word or a tool has.
    `provider` is who gave the answers; `None`: anyone. `media` allows images and the like.
    """
    messages: list[Message] = []
    for turn in range(draw(_few)):
        if draw(_yes_or_no):
            messages.append(draw(_instructions))
        messages.append(draw(user_messages(media)))
        ids = tuple(f"call_{turn}_{n}" for n in range(draw(_few)))
        answer = draw(assistant_messages(provider, ids))
        messages.append(answer)
        if draw(_yes_or_no):
            messages.append(draw(_instructions))
        for call in answer.tool_calls:
            if draw(_yes_or_no):
                failed = draw(_yes_or_no)
                messages.append(ToolResultMessage(call.id, call.name, draw(_texts), failed))
    if not messages or not isinstance(messages[-1], ToolResultMessage):
        messages.append(draw(user_messages(media).filter(_says_something)))
    return Context(messages, draw(_text_or_none), draw(_tools))


_option_values: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.floats(0, 2),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "stop": st.lists(st.text(min_size=1, max_size=4), max_size=2),
    "thinking": st.sampled_from(ThinkingLevel) | st.integers(0, 30_000),
    "tool_choice": st.sampled_from(["auto", "none", "required"]),
    "response_format": st.just("json") | st.just({"type": "object"}),
    "cache": st.builds(CacheStrategy, st.sampled_from(["none", "auto"])),
}
"""Strategies of single options; other options get `_of_types`."""

_of_types: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(1, 10_000),
    float: st.floats(0, 1),
    str: _names,
}


def stream_options() -> st.SearchStrategy[StreamOptions]:
    """Draw options that say how to answer; none that say where, or with which key."""
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for name, option in OPTIONS.items():
        if option.kind in ("tuning", "answer"):
            known = _option_values.get(name)
            if known is None:
                known = st.one_of([_of_types[kind] for kind in option.types])
            drawn[name] = st.none() | known
    return st.builds(StreamOptions, **drawn)


def chunkings(body: bytes) -> st.SearchStrategy[list[bytes]]:
    """Draw ways to cut a body into network reads."""
    offsets = st.lists(st.integers(0, len(body)), max_size=12, unique=True)
    return offsets.map(lambda places: cut_at(body, places))
