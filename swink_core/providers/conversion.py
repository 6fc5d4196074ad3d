"""Prepare a conversation for a provider, so that it can continue after answers of other providers.

`normalise` applies the following rules. The caller's conversation is never changed.

1. Thinking, extensions and metadata in the answer of another provider are omitted: their signatures
   are invalid at this provider, and reasoning is not part of the conversation. Text and tool calls
   are kept. An extension block in such an answer is omitted even if it is marked as this
   provider's.
2. The text of an incomplete answer is kept; its unfinished tool calls and unsigned thinking are
   omitted.
3. A tool call that was never answered gets an error result, since every API requires one.
4. A tool result whose call is missing becomes user text, unless the API accepts such results. A
   tool result without a tool name gets the name from its call.
5. Messages that become empty are omitted.
6. A system message inside the conversation becomes a user message in `<system>` tags, unless the
   API supports system messages there. A system message between a tool call and its results is moved
   after the results, because APIs require calls and results to be adjacent.

Each value that is left out or changed is reported with its path, see `report_change`. Only empty
text is omitted without a report.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, TypeAlias

from attrs import define, field, frozen

from swink_core.plugins.changes import report_change
from swink_core.providers.contexts import first_of, system_parts, text_of
from swink_core.vocabulary.messages import (
    AssistantMessage,
    Block,
    Context,
    ExtensionBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.vocabulary.outcome import StopReason
from swink_core.vocabulary.structs import replace

NO_RESULT = "No result: the call was not carried out."


def unparsed(text: str | None) -> dict[str, Any]:
    """Wrap arguments that are not valid JSON in an object, for APIs that accept only objects.

    The object's key is `INVALID_JSON`, which a vendor's documentation recommends for this purpose.
    """
    return {"INVALID_JSON": text or ""}


def arguments_object(call: ToolCallBlock) -> dict[str, Any]:
    """Return the arguments of a call as a JSON object.

    Arguments that are not valid JSON are wrapped in an object.
    """
    return call.arguments if call.state == "complete" else unparsed(call.raw_arguments)


def accepted_id(id: str, refused: re.Pattern[str], longest: int | None = None) -> str:
    """Replace characters that an API does not accept in ids, and shorten an id that is too long.

    `refused` matches the characters to replace. The same id always gives the same result, and two
    different ids never give the same result. `longest` is the maximum length of the result in
    characters, which must be at least 13.
    """
    if not refused.search(id) and 0 < len(id) <= (longest or len(id)):
        return id
    cleaned = refused.sub("_", id)
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{cleaned[: min(longest or 53, 53) - 13]}_{digest[:12]}"


def normalise(
    context: Context,
    provider: str,
    system: bool = False,
    has_place: Callable[[ToolResultMessage], bool] = lambda result: False,
) -> list[Message]:
    """Return the messages of a conversation, prepared for `provider`.

    Content that only another provider can read, unfinished tool calls and empty messages are
    omitted.
    Unanswered tool calls get error results. If `system` is true, system messages inside the
    conversation stay system messages. `has_place` is called with each tool result whose call is
    missing, and returns True if the API accepts it; otherwise, the result becomes user text.
    """
    return placed_turns(context, provider, system, has_place).turns


@define
class PlacedTurns:
    """Messages prepared for a provider, with their places in the caller's conversation.

    `turns` contains the prepared messages, and `at` the index of each of them in the caller's
    conversation. If some blocks of a message are left out, `places` maps the index of the message
    in `turns` to the original indexes of the remaining blocks.
    """

    turns: list[Message] = field(factory=list)
    at: list[int] = field(factory=list)
    places: dict[int, Sequence[int]] = field(factory=dict)

    def add(self, turn: Message, at: int, places: Sequence[int] | None = None) -> None:
        """Add `turn`, the converted form of the message with the index `at`."""
        if places is not None:
            self.places[len(self.turns)] = places
        self.turns.append(turn)
        self.at.append(at)

    def path(self, number: int) -> str:
        """Return the path of a turn's message in the caller's conversation, like `messages[3]`."""
        return f"messages[{self.at[number]}]"

    def paths_of_blocks(self, number: int) -> list[str]:
        """Return the paths of the blocks of a turn whose content is a list."""
        places = self.places.get(number, range(len(self.turns[number].content)))
        return [f"{self.path(number)}.content[{place}]" for place in places]


def placed_turns(
    context: Context,
    provider: str,
    system: bool,
    has_place: Callable[[ToolResultMessage], bool],
) -> PlacedTurns:
    """Prepare a conversation as in `normalise`, and return the messages with their places."""
    result = PlacedTurns()
    turns = result.turns  # most messages are unchanged, and appended without a call of `add`
    indexes = result.at
    waiting: dict[str, ToolCallBlock] = {}  # tool calls of turn `asking`, the last answer
    later: list[ToolCallBlock] = []  # its calls with the id of a call in `waiting`
    asking = 0
    words: list[_Words] = []  # results without a call, and system messages; added after the results

    def settle() -> None:
        if waiting:
            _answer_calls(result, asking, [*waiting.values(), *later])
        for turn, at, places in words:
            result.add(turn, at, places)
        waiting.clear()
        later.clear()
        words.clear()

    for at, message in enumerate(context.messages, first_of(context)):
        if isinstance(message, AssistantMessage):
            if waiting or words:
                settle()
            asking = len(turns)
            calls = _calls_if_whole(message, provider)
            if calls is not None:
                turns.append(message)
                indexes.append(at)
                waiting = calls
            elif (kept := _kept(message, at, provider)) is not None:
                result.add(*kept)
                waiting = {}
                for made in kept[0].tool_calls:
                    if waiting.setdefault(made.id, made) is not made:
                        later.append(made)
        elif isinstance(message, ToolResultMessage):
            call = waiting.pop(message.tool_call_id, None)
            if later and call is not None:
                same = next((n for n, c in enumerate(later) if c.id == call.id), None)
                if same is not None:
                    waiting[call.id] = later.pop(same)
            if call is not None and not message.tool_name:
                message = replace(message, tool_name=call.name)
            if call is not None or has_place(message):
                turns.append(message)
                indexes.append(at)
            else:
                report_change(f"messages[{at}]", IN_WORDS, CHANGED)
                words.append(_in_words(message, at))
        elif isinstance(message, SystemMessage):
            if _says_something(message.content):
                words.append((message if system else _as_user(message), at, None))
        else:
            if waiting or words:
                settle()
            _add_user(message, at, result)
    settle()
    return result


_Words: TypeAlias = tuple[Message, int, Sequence[int] | None]
"""The arguments for `PlacedTurns.add`."""


def _answer_calls(result: PlacedTurns, asking: int, waiting: list[ToolCallBlock]) -> None:
    """Add an error result for each tool call in a turn if the call has no result."""
    content = result.turns[asking].content
    open_calls = {*map(id, waiting)}
    for block, path in zip(content, result.paths_of_blocks(asking), strict=True):
        if id(block) in open_calls and isinstance(block, ToolCallBlock):
            report_change(path, UNANSWERED, CHANGED)
            answer = ToolResultMessage(block.id, block.name, NO_RESULT, is_error=True)
            result.add(answer, result.at[asking])


CHANGED = "content_changed"
"""The code of notices about content that is sent in a form other than the caller's."""

THOUGHT = "thinking_left_out"
"""The code of notices about reasoning that is not sent back, which is normal for many APIs."""

METADATA = "metadata_left_out"
"""The code of notices about block metadata that is not sent."""

UNANSWERED = "an error result was added for a tool call without a result"
IN_WORDS = "a tool result without a tool call was sent as a user message"
EMPTY = "a message without content was not sent"
CUT_OFF = "an incomplete tool call was not sent"
ELSEWHERE = "content of another provider was not sent"
OTHER_ANSWER = "another answer to the same prompt is not part of the conversation; it was not sent"
THOUGHT_ELSEWHERE = "reasoning of another provider was not sent"
UNSIGNED = "incomplete reasoning was not sent"
MARKED_ELSEWHERE = "metadata of another provider was not sent"


def marked_system(text: str) -> UserMessage:
    """Return a system message as a user message in `<system>` tags."""
    return UserMessage(f"<system>\n{text}\n</system>")


def _as_user(message: SystemMessage) -> UserMessage:
    """Return a system message as a user message; block metadata such as cache marks is kept."""
    parts = system_parts(message.content)
    texts = [part for part in parts if isinstance(part, TextBlock) and part.text]
    others = [part for part in parts if isinstance(part, ExtensionBlock)]
    if not others and not any(text.metadata for text in texts):
        return marked_system(text_of(message.content))
    if texts:
        texts[0] = replace(texts[0], text=f"<system>\n{texts[0].text}")
        texts[-1] = replace(texts[-1], text=f"{texts[-1].text}\n</system>")
    return UserMessage([*texts, *others])


def _says_something(content: str | Sequence[Block]) -> bool:
    return any(isinstance(p, ExtensionBlock) or p.text for p in system_parts(content))


def _in_words(message: ToolResultMessage, at: int) -> _Words:
    source = f"result of {message.tool_name}" if message.tool_name else "result"
    words = f"[{source}] {text_of(message.content)}"
    if isinstance(message.content, str):
        return UserMessage(words), at, None
    found = [n for n, b in enumerate(message.content) if not isinstance(b, TextBlock)]
    if not found:
        return UserMessage(words), at, None
    media = [message.content[place] for place in found]
    return UserMessage([TextBlock(words), *media]), at, [0, *found]


def _add_user(message: UserMessage, at: int, result: PlacedTurns) -> None:
    """Add a user message without its empty texts; report the message if nothing remains of it."""
    content = message.content
    if isinstance(content, str):
        kept = [0] if content else []
    else:
        kept = [
            place
            for place, block in enumerate(content)
            if not isinstance(block, TextBlock) or block.text or block.metadata
        ]
    if not kept:
        report_change(f"messages[{at}]", EMPTY)
    elif isinstance(content, str) or len(kept) == len(content):
        result.add(message, at)
    else:
        result.add(replace(message, content=[content[place] for place in kept]), at, kept)


def _calls_if_whole(message: AssistantMessage, provider: str) -> dict[str, ToolCallBlock] | None:
    """Return the tool calls of an assistant message by id, if the whole message may be sent.

    Return `None` if blocks may have to be left out, so that `_kept` must check each block, or if
    two calls have the same id.
    """
    if message.provider is not None and message.provider != provider:
        return None
    if message.stop_reason in _CUT or not message.content:
        return None
    calls: dict[str, ToolCallBlock] = {}
    for block in message.content:
        if type(block) is ToolCallBlock:
            if calls.setdefault(block.id, block) is not block:
                return None
        elif type(block) is TextBlock:
            if not block.text:
                return None
        elif type(block) is not ThinkingBlock:
            return None
    return calls


def _kept(
    message: AssistantMessage, at: int, provider: str
) -> tuple[AssistantMessage, int, list[int]] | None:
    """Return an assistant message without the blocks that `provider` may not receive.

    The result is the message, the index `at`, and the original indexes of the remaining blocks; it
    is `None` if no block remains.
    """
    own = message.provider is None or message.provider == provider
    cut = message.stop_reason in _CUT
    content: list[Block] = []
    places: list[int] = []
    for place, block in enumerate(message.content):
        kept = _keep(block, provider, own, cut)
        if isinstance(kept, LeftOut):
            if kept.what:
                report_change(f"messages[{at}].content[{place}]", kept.what, kept.code)
            continue
        if kept is not block:
            path = f"messages[{at}].content[{place}].metadata"
            report_change(path, MARKED_ELSEWHERE, METADATA)
        content.append(kept)
        places.append(place)
    if not content:
        return None
    same = len(content) == len(message.content) and all(map(is_, content, message.content))
    return message if same else replace(message, content=content), at, places


_CUT = (StopReason.ERROR, StopReason.ABORTED)


@frozen
class LeftOut:
    """The result of converting a block that cannot be sent.

    `what` is the text of the notice about the block. The path of the block is added to this text.
    """

    what: str
    code: str = "content_left_out"


SENT_ELSEWHERE = LeftOut("")
"""The result for a block that is sent in another place of the request; it causes no notice."""

_NOTHING = LeftOut("")
"""The result for empty text, which is omitted without a notice."""


def _keep(block: Block, provider: str, own: bool, cut: bool) -> Block | LeftOut:
    if isinstance(block, TextBlock):
        if not block.text and not (own and block.metadata):
            return _NOTHING
    elif isinstance(block, ToolCallBlock):
        if cut and block.state != "complete":
            return LeftOut(CUT_OFF)
    elif isinstance(block, ExtensionBlock):
        if block.kind == ExtensionBlock.CHOICE:
            return LeftOut(OTHER_ANSWER)
        return block if own and block.provider == provider else LeftOut(ELSEWHERE)
    elif isinstance(block, ThinkingBlock):
        signed = block.signature is not None or block.metadata is not None
        if own and (signed or not cut):
            return block
        return LeftOut(UNSIGNED if own else THOUGHT_ELSEWHERE, THOUGHT)
    else:
        return block
    return block if own or block.metadata is None else replace(block, metadata=None)
