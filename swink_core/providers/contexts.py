"""Questions to a conversation: the features that it needs, its system prompt, where its parts are.

A conversation without its first messages keeps the paths that its messages had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Self

from swink_core.vocabulary.messages import (
    AssistantMessage,
    Block,
    Context,
    ExtensionBlock,
    FileIdSource,
    MediaBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UserMessage,
)
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.structs import replace

ASSISTANT = "assistant_"
"""The prefix of features for media in assistant messages, which few APIs have a place for."""


class FittedContext(Context):
    """A conversation that was fitted: the provider converts it unchanged.

    `first` counts the messages of the caller's conversation that were taken off its beginning.
    """

    first: int = 0

    @classmethod
    def keep(cls, context: Context) -> Self:
        """Return a conversation with the messages and tools of another."""
        first = first_of(context)
        return cls(context.messages, context.system_prompt, context.tools, first)


def first_of(context: Context) -> int:
    """Count the messages that were taken off the beginning of a conversation."""
    return context.first if isinstance(context, FittedContext) else 0


def without_leading(context: Context, count: int) -> Context:
    """Return a conversation without its first `count` messages; paths stay the caller's."""
    fitted = FittedContext.keep(context)
    return replace(fitted, messages=fitted.messages[count:], first=fitted.first + count)


def text_of(content: str | Sequence[Block]) -> str:
    """Join the text of a message's content, leaving everything else out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def required_features(context: Context, options: StreamOptions, provider: str = "") -> set[str]:
    """Name the features without which a call to `provider` would lose its meaning.

    Extensions and file ids of others are features too, for providers that pass them on. Media in
    assistant messages need two features: `images` and `assistant_images`, for example.
    """
    form = options.response_format
    asked = {
        "tools": context.tools,
        "json": isinstance(form, str),
        "structured_output": isinstance(form, Mapping),
        "stop": options.stop,
        "tool_choice": options.tool_choice not in (None, "auto"),
    }
    wanted = {name for name, is_asked in asked.items() if is_asked}
    for message in context.messages:
        if type(message.content) is str or _PLAIN.issuperset(map(type, message.content)):
            continue
        is_answer = isinstance(message, AssistantMessage)
        for block in message.content:
            if isinstance(block, MediaBlock):
                media = block.type if block.type == "audio" else f"{block.type}s"
                wanted |= {media, f"{ASSISTANT}{media}"} if is_answer else {media}
            source = getattr(block, "source", None)
            if isinstance(source, FileIdSource):
                wanted.add("file_ids" if source.provider == provider else "file_ids_of_others")
            elif isinstance(block, ExtensionBlock) and not is_answer:
                wanted.add("extensions" if block.provider == provider else "extensions_of_others")
    return wanted


_PLAIN = frozenset({TextBlock, ThinkingBlock, ToolCallBlock})
"""Blocks for which an API needs no feature that the call does not name otherwise."""


def assistant_media(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the feature and the path of each media block that an assistant message holds."""
    for at, message in enumerate(context.messages):
        if not isinstance(message, AssistantMessage):
            continue
        for place, block in enumerate(message.content):
            if isinstance(block, MediaBlock):
                media = block.type if block.type == "audio" else f"{block.type}s"
                yield f"{ASSISTANT}{media}", f"messages[{at}].content[{place}]"


_TEXT = [(UserMessage, str)]


def is_text(context: Context) -> bool:
    """Tell whether a conversation is one text of the user's, with a system prompt at most."""
    return not context.tools and [(type(m), type(m.content)) for m in context.messages] == _TEXT


def folded_system(context: Context) -> Context:
    """Return a conversation whose leading system messages have joined its system prompt."""
    leading = list(takewhile(lambda m: isinstance(m, SystemMessage), context.messages))
    if not leading:
        return context
    prompts = [context.system_prompt, *(text_of(message.content) for message in leading)]
    folded = "\n\n".join(filter(None, prompts)) or None
    if isinstance(context, FittedContext):
        return replace(without_leading(context, len(leading)), system_prompt=folded)
    return replace(context, messages=context.messages[len(leading) :], system_prompt=folded)


def system_blocks(context: Context) -> tuple[list[TextBlock], Context]:
    """Split a conversation into the blocks of the system prompt and everything else.

    The system prompt is that of the context and the leading system messages. They are one block,
    joined as `folded_system` joins them, unless a message has several blocks of text or a block
    with metadata: then each text is a block, for APIs whose system prompt is a list of blocks.
    """
    leading = list(takewhile(lambda m: isinstance(m, SystemMessage), context.messages))
    folded = folded_system(context)
    rest = replace(folded, system_prompt=None) if folded.system_prompt else folded
    prompts = [folded.system_prompt] if folded.system_prompt else []
    if any(_has_parts(message.content) for message in leading):
        blocks = [TextBlock(context.system_prompt or "")]
        blocks += [block for message in leading for block in texts_of(message.content)]
        return [block for block in blocks if block.text.strip()], rest
    return [TextBlock(prompt) for prompt in prompts], rest


def _has_parts(content: str | Sequence[Block]) -> bool:
    texts = texts_of(content)
    return len(texts) > 1 or any(text.metadata for text in texts)


def texts_of(content: str | Sequence[Block]) -> list[TextBlock]:
    """Return the blocks of text of a message's content; a string is one."""
    if isinstance(content, str):
        return [TextBlock(content)]
    return [block for block in content if isinstance(block, TextBlock)]


def paths_inside(context: Context) -> tuple[str, ...]:
    """Return the paths of the system messages that do not lead the conversation."""
    are_system = [isinstance(message, SystemMessage) for message in context.messages]
    leading = [*are_system, False].index(False)
    return tuple(
        f"messages[{at}]" for at, is_system in enumerate(are_system) if is_system and at >= leading
    )


def last_text_path(context: Context) -> str:
    """Return the path of the last text that an answer of the conversation has."""
    for at in reversed(range(len(context.messages))):
        message = context.messages[at]
        if isinstance(message, AssistantMessage):
            for place in reversed(range(len(message.content))):
                block = message.content[place]
                if isinstance(block, TextBlock) and block.text:
                    return f"messages[{at + first_of(context)}].content[{place}].text"
    return "messages"


def called_ids(block: Block) -> set[str]:
    """Return the ids by which a result may answer an extension that asks for one."""
    data = block.data if isinstance(block, ExtensionBlock) else None
    ids = (data.get("call_id"), data.get("id")) if isinstance(data, Mapping) else ()
    return {id for id in ids if isinstance(id, str)}
