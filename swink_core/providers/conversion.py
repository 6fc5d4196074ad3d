"""Conversations into a provider's terms: turns merged, and what began elsewhere left out.

`normalise` states the rules by which a conversation begun on one provider continues on another;
no converter changes the context it is given.

1. What another provider marked as its own (thinking, extensions, metadata) is left out: a
   signature is worth nothing elsewhere, and reasoning is not speech. Text and tool calls stay.
   An extension that another gave in this one's name is not this one's.
2. An answer cut short keeps its text; its unfinished tool calls and unsigned thinking go.
3. A tool call that was never answered gets an error result, since every API wants one.
4. A result whose call is gone becomes the user's words, unless the API has a place for it. One
   without a tool's name takes the name from its call.
5. Messages that end up empty are left out.
6. An instruction inside the conversation becomes a user turn, in `<system>` marks, unless the API
   has a form for it; one between a call and its results comes after these, which APIs want to
   have together.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import is_
from typing import Any, TypeAlias

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
    ToolResultMessage,
    UserMessage,
)
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import StopReason
from swink_core.vocabulary.structs import replace

Turn: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage

ASSISTANT = "assistant_"
"""The prefix of features for media in assistant messages, which few APIs have a place for."""

NO_RESULT = "No result: the call was not carried out."


def text_of(content: str | Sequence[Block]) -> str:
    """Join the text of a message's content, leaving everything else out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def unparsed(text: str | None) -> dict[str, Any]:
    """Return the object in which arguments travel that are no JSON, where an API takes objects.

    Models know the name, under which a vendor documents the same.
    """
    return {"INVALID_JSON": text or ""}


def arguments_object(call: ToolCallBlock) -> dict[str, Any]:
    """Return a call's arguments as the object that an API wants, even where there is none."""
    return call.arguments if call.state == "complete" else unparsed(call.raw_arguments)


def accepted_id(id: str, refused: re.Pattern[str], longest: int | None = None) -> str:
    """Return an id that an API takes, which refuses some characters and, perhaps, length.

    The same id always becomes the same, and two never become one. `longest` is 13 or more.
    """
    cleaned = refused.sub("_", id)
    if cleaned == id and 0 < len(id) <= (longest or len(id)):
        return id
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{cleaned[: min(longest or 53, 53) - 13]}_{digest[:12]}"


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
    return replace(
        context,
        messages=context.messages[len(leading) :],
        system_prompt="\n\n".join(filter(None, prompts)) or None,
    )


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
        blocks += [block for message in leading for block in _texts(message.content)]
        return [block for block in blocks if block.text.strip()], rest
    return [TextBlock(prompt) for prompt in prompts], rest


def _has_parts(content: str | Sequence[Block]) -> bool:
    texts = _texts(content)
    return len(texts) > 1 or any(text.metadata for text in texts)


def _texts(content: str | Sequence[Block]) -> list[TextBlock]:
    if isinstance(content, str):
        return [TextBlock(content)]
    return [block for block in content if isinstance(block, TextBlock)]


def called_ids(block: Block) -> set[str]:
    """Return the ids by which a result may answer an extension that asks for one."""
    data = block.data if isinstance(block, ExtensionBlock) else None
    ids = (data.get("call_id"), data.get("id")) if isinstance(data, Mapping) else ()
    return {id for id in ids if isinstance(id, str)}


def normalise(
    context: Context,
    provider: str,
    system: bool = False,
    has_place: Callable[[ToolResultMessage], bool] = lambda result: False,
) -> list[Turn]:
    """Return the messages as `provider` may see them, by the rules above.

    `system`: instructions stay what they are; `has_place`: so does this result, whose call is gone.
    """
    result: list[Turn] = []
    waiting: dict[str, ToolCallBlock] = {}
    words: list[Turn] = []  # results without a call, instructions; said when the others are in

    def settle() -> None:
        for call in waiting.values():
            result.append(ToolResultMessage(call.id, call.name, NO_RESULT, is_error=True))
        result.extend(words)
        waiting.clear()
        words.clear()

    for message in context.messages:
        if isinstance(message, ToolResultMessage):
            call = waiting.pop(message.tool_call_id, None)
            if call is not None and not message.tool_name:
                message = replace(message, tool_name=call.name)
            if call is not None or has_place(message):
                result.append(message)
            else:
                words.append(_in_words(message))
            continue
        if isinstance(message, SystemMessage):
            if text_of(message.content):
                words.append(message if system else _as_user(message))
            continue
        if waiting or words:
            settle()
        if isinstance(message, UserMessage):
            if new := _user_content(message.content):
                result.append(message if new is message.content else replace(message, content=new))
            continue
        own = message.provider is None or message.provider == provider
        kept, calls = _kept(message, provider, own)
        if kept is not None:
            result.append(kept)
            waiting.update(calls)
    settle()
    return result


def marked_system(text: str) -> UserMessage:
    """Return an instruction as a user turn that is told from what the user says."""
    return UserMessage(f"<system>\n{text}\n</system>")


def _as_user(message: SystemMessage) -> UserMessage:
    """Return an instruction as a user turn; blocks with metadata keep it, cache marks for one."""
    texts = [text for text in _texts(message.content) if text.text]
    if not any(text.metadata for text in texts):
        return marked_system(text_of(message.content))
    texts[0] = replace(texts[0], text=f"<system>\n{texts[0].text}")
    texts[-1] = replace(texts[-1], text=f"{texts[-1].text}\n</system>")
    return UserMessage([*texts])


def _in_words(message: ToolResultMessage) -> UserMessage:
    source = f"result of {message.tool_name}" if message.tool_name else "result"
    words = f"[{source}] {text_of(message.content)}"
    media = [block for block in message.content if not isinstance(block, str | TextBlock)]
    return UserMessage([TextBlock(words), *media] if media else words)


def _user_content(content: str | list[Block]) -> str | list[Block]:
    if isinstance(content, str):
        return content
    return [b for b in content if not isinstance(b, TextBlock) or b.text or b.metadata]


def _kept(
    message: AssistantMessage, provider: str, own: bool
) -> tuple[AssistantMessage | None, dict[str, ToolCallBlock]]:
    """Return an answer as `provider` may see it, the same where it may see all; and its calls."""
    cut = message.stop_reason in _CUT
    calls: dict[str, ToolCallBlock] = {}
    content: list[Block] = []
    for block in message.content:
        kept = _keep(block, provider, own, cut)
        if kept is not None:
            content.append(kept)
            if isinstance(kept, ToolCallBlock):
                calls[kept.id] = kept
    if not content:
        return None, calls
    same = len(content) == len(message.content) and all(map(is_, content, message.content))
    return message if same else replace(message, content=content), calls


_CUT = (StopReason.ERROR, StopReason.ABORTED)


def _keep(block: Block, provider: str, own: bool, cut: bool) -> Block | None:
    if isinstance(block, TextBlock):
        if not block.text and not (own and block.metadata):
            return None
    elif isinstance(block, ToolCallBlock):
        if cut and block.state != "complete":
            return None
    elif isinstance(block, ExtensionBlock):
        return block if own and block.provider == provider else None
    elif isinstance(block, ThinkingBlock):
        signed = block.signature is not None or block.metadata is not None
        return block if own and (signed or not cut) else None
    else:
        return block
    return block if own or block.metadata is None else replace(block, metadata=None)


def merged_turns(
    messages: Sequence[dict[str, Any]], parts: str = "content"
) -> list[dict[str, Any]]:
    """Join native messages of one role that follow one another, where turns alternate.

    `parts` is the key of the list that each message holds beside its `role`.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1] = {**turns[-1], parts: [*turns[-1][parts], *message[parts]]}
        else:
            turns.append(message)
    return turns


class MessageConverter(ABC):
    """Converts a conversation message by message; a provider says how each kind is written.

    Each method returns the native messages that one of ours becomes, often one. Consecutive
    tool results come together, since many APIs want them in one turn. `native_system`: the API
    takes instructions inside a conversation, which `system` writes.
    """

    native_system = False
    """Whether `system` says how instructions inside the conversation are written; otherwise they
    come as the user's."""

    def __init__(self, provider: str) -> None:
        self.provider = provider

    def messages(self, context: Context) -> list[Any]:
        """Return the native messages of a whole conversation."""
        native: list[Any] = []
        results: list[ToolResultMessage] = []
        turns = normalise(context, self.provider, self.native_system, self.has_place)
        for message in (*turns, None):
            if isinstance(message, ToolResultMessage):
                results.append(message)
                continue
            if results:
                native.extend(self.tool_results(results))
                results = []
            if message is not None:
                native.extend(getattr(self, message.role)(message))
        return native

    def has_place(self, message: ToolResultMessage) -> bool:
        """Tell whether a result stays one that answers no tool call of the conversation."""
        return False

    def system(self, message: SystemMessage) -> list[Any]:
        """Convert an instruction inside the conversation, where `native_system` is set."""
        raise NotImplementedError("system() has to be written")

    @abstractmethod
    def user(self, message: UserMessage) -> list[Any]:
        """Convert what the user says."""

    @abstractmethod
    def assistant(self, message: AssistantMessage) -> list[Any]:
        """Convert what the model said."""

    @abstractmethod
    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert results that follow one another."""
