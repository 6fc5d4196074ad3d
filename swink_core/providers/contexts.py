"""Functions that read a conversation: its required features, system prompt and paths.

A path names a message or block by its position in the caller's conversation, even if the first
messages of that conversation were removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
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
"""The prefix of names of features such as `assistant_images`: media in an assistant message.

Few APIs support such media.
"""


class FittedContext(Context):
    """A conversation that was adapted to an API, so that it needs no further changes.

    `first` is the number of messages that were removed from the start of the caller's conversation.
    """

    first: int = 0

    @classmethod
    def keep(cls, context: Context) -> Self:
        """Convert a conversation to a `FittedContext`, without further changes."""
        first = first_of(context)
        return cls(context.messages, context.system_prompt, context.tools, first)


def first_of(context: Context) -> int:
    """Return the number of messages that were removed from the start of a conversation."""
    return context.first if isinstance(context, FittedContext) else 0


def without_leading(context: Context, count: int) -> Context:
    """Return a conversation without its first `count` messages.

    In notices and errors, the paths of the other messages stay the same.
    """
    fitted = FittedContext.keep(context)
    return replace(fitted, messages=fitted.messages[count:], first=fitted.first + count)


def text_of(content: str | Sequence[Block]) -> str:
    """Return the joined text of a message's content, ignoring other blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def required_features(context: Context, options: StreamOptions, provider: str = "") -> set[str]:
    """Return the names of the features that a call needs from `provider`.

    Extensions and file ids of another provider are counted as features, because a provider such as
    a gateway can pass them on. Media in assistant messages need two features, for example `images`
    and `assistant_images`.
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
    if isinstance(context.system_prompt, list):
        prompt = Context([SystemMessage(context.system_prompt)])
        wanted |= required_features(prompt, options, provider)
    for message in context.messages:
        if type(message.content) is str or _PLAIN.issuperset(map(type, message.content)):
            continue
        is_answer = isinstance(message, AssistantMessage)
        for block in message.content:
            if isinstance(block, MediaBlock):
                media = _feature_of(block)
                wanted |= {media, f"{ASSISTANT}{media}"} if is_answer else {media}
            source = getattr(block, "source", None)
            if isinstance(source, FileIdSource):
                wanted.add("file_ids" if source.provider == provider else "file_ids_of_others")
            elif isinstance(block, ExtensionBlock) and not is_answer:
                wanted.add("extensions" if block.provider == provider else "extensions_of_others")
                if isinstance(message, SystemMessage):
                    wanted.add("system_extensions")
    return wanted


_PLAIN = frozenset({TextBlock, ThinkingBlock, ToolCallBlock})
"""Types of blocks that do not need a feature of the provider."""


def _feature_of(block: MediaBlock) -> str:
    """Return the name of the feature that a media block needs in a user message."""
    return block.type if block.type == "audio" else f"{block.type}s"


def assistant_media(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the feature and the path of each media block in assistant messages."""
    for at, message in enumerate(context.messages):
        if not isinstance(message, AssistantMessage):
            continue
        for place, block in enumerate(message.content):
            if isinstance(block, MediaBlock):
                media = _feature_of(block)
                yield f"{ASSISTANT}{media}", f"messages[{at}].content[{place}]"


_TEXT = [(UserMessage, str)]


def is_text(context: Context) -> bool:
    """Return True for a conversation that consists of one user message with text only.

    A system prompt is allowed if it is text.
    """
    if context.tools or isinstance(context.system_prompt, list):
        return False
    return [(type(m), type(m.content)) for m in context.messages] == _TEXT


def folded_system(context: Context) -> Context:
    """Return a conversation whose leading system messages have become part of the system prompt.

    The new system prompt is a string.
    """
    leading = list(takewhile(lambda m: isinstance(m, SystemMessage), context.messages))
    if not leading and not isinstance(context.system_prompt, list):
        return context
    prompts = [text_of(context.system_prompt or ""), *(text_of(m.content) for m in leading)]
    folded = "\n\n".join(filter(None, prompts)) or None
    if isinstance(context, FittedContext):
        return replace(without_leading(context, len(leading)), system_prompt=folded)
    return replace(context, messages=context.messages[len(leading) :], system_prompt=folded)


def system_blocks(context: Context) -> tuple[list[TextBlock | ExtensionBlock], Context]:
    """Split a conversation into the blocks of the system prompt and everything else.

    The system prompt consists of `context.system_prompt` and the leading system messages. If all of
    them are plain text, the texts are joined to one block, as in `folded_system`. If any of them
    has several blocks, metadata or an extension, all blocks are returned separately, for APIs whose
    system prompt is a list of blocks.
    """
    leading = list(takewhile(lambda m: isinstance(m, SystemMessage), context.messages))
    folded = folded_system(context)
    text = text_of(folded.system_prompt or "")
    rest = replace(folded, system_prompt=None) if text else folded
    said = [context.system_prompt or "", *(message.content for message in leading)]
    if any(map(_has_parts, said)):
        blocks = [block for content in said for block in system_parts(content)]
        return [b for b in blocks if isinstance(b, ExtensionBlock) or b.text.strip()], rest
    return [TextBlock(text)] if text else [], rest


def _has_parts(content: str | Sequence[Block]) -> bool:
    parts = system_parts(content)
    return len(parts) > 1 or any(isinstance(p, ExtensionBlock) or p.metadata for p in parts)


def system_parts(content: str | Sequence[Block]) -> list[TextBlock | ExtensionBlock]:
    """Return the content of a system message as a list of blocks; a string becomes one block."""
    if isinstance(content, str):
        return [TextBlock(content)]
    return [block for block in content if isinstance(block, TextBlock | ExtensionBlock)]


def paths_inside(context: Context) -> tuple[str, ...]:
    """Return the paths of all system messages except those at the start of the conversation."""
    numbered = enumerate(context.messages, first_of(context))
    inside = dropwhile(lambda each: isinstance(each[1], SystemMessage), numbered)
    return tuple(f"messages[{at}]" for at, m in inside if isinstance(m, SystemMessage))


def called_ids(block: Block) -> set[str]:
    """Return the ids by which a tool result may refer to a call in an extension block."""
    data = block.data if isinstance(block, ExtensionBlock) else None
    ids = (data.get("call_id"), data.get("id")) if isinstance(data, Mapping) else ()
    return {id for id in ids if isinstance(id, str)}
