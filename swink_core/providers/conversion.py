"""Conversations into a provider's terms: turns merged, and what began elsewhere left out.

`normalise` states the rules by which a conversation begun on one provider continues on another;
no converter changes the context it is given.

1. Whatever another provider marked as its own (thinking, extensions, metadata) is left out: a
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

Each value that is left out or changed is reported with its path, see `report_change`.
Only text of no characters vanishes without a report.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import is_
from typing import Any, Self, TypeAlias, TypeVar

from attrs import define, field, frozen

from swink_core.failures.exceptions import PluginError
from swink_core.plugins.changes import report_change
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

T = TypeVar("T")
B = TypeVar("B")


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
    if isinstance(context.system_prompt, list):
        said = Context([SystemMessage(context.system_prompt)])
        wanted |= required_features(said, options, provider)
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
                if isinstance(message, SystemMessage):
                    wanted.add("system_extensions")
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
    """Tell whether a conversation is one text of the user's, with a text for a system prompt at
    most."""
    if context.tools or isinstance(context.system_prompt, list):
        return False
    return [(type(m), type(m.content)) for m in context.messages] == _TEXT


def folded_system(context: Context) -> Context:
    """Return a conversation whose leading system messages have joined its system prompt."""
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

    The system prompt is that of the context and the leading system messages. They are one block,
    joined as `folded_system` joins them, unless one of them has several blocks, a block with
    metadata or an extension: then each is a block, for APIs whose system prompt is a list of
    blocks.
    """
    leading = list(takewhile(lambda m: isinstance(m, SystemMessage), context.messages))
    folded = folded_system(context)
    text = text_of(folded.system_prompt or "")
    rest = replace(folded, system_prompt=None) if text else folded
    said = [context.system_prompt or "", *(message.content for message in leading)]
    if any(map(_has_parts, said)):
        blocks = [block for content in said for block in _system_parts(content)]
        return [b for b in blocks if isinstance(b, ExtensionBlock) or b.text.strip()], rest
    return [TextBlock(text)] if text else [], rest


def _has_parts(content: str | Sequence[Block]) -> bool:
    parts = _system_parts(content)
    return len(parts) > 1 or any(isinstance(p, ExtensionBlock) or p.metadata for p in parts)


def _system_parts(content: str | Sequence[Block]) -> list[TextBlock | ExtensionBlock]:
    """Return the blocks of an instruction; a string is one block of text."""
    if isinstance(content, str):
        return [TextBlock(content)]
    return [block for block in content if isinstance(block, TextBlock | ExtensionBlock)]


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


def normalise(
    context: Context,
    provider: str,
    system: bool = False,
    has_place: Callable[[ToolResultMessage], bool] = lambda result: False,
) -> list[Turn]:
    """Return the messages as `provider` may see them, by the rules above.

    `system`: instructions stay what they are; `has_place`: so does this result, whose call is gone.
    """
    return [placed.turn for placed in _normalised(context, provider, system, has_place)]


@frozen
class _Placed:
    """A message as a provider may see it, and where it stands in the caller's conversation.

    `at` is the index of the message. `places` are those of the blocks in its content, where some
    are left out; `None`: their own.
    """

    turn: Turn
    at: int
    places: Sequence[int] | None = None

    @property
    def path(self) -> str:
        return f"messages[{self.at}]"

    def path_of(self, place: int) -> str:
        """Return the path of the block at a place of the message's content."""
        return f"{self.path}.content[{place if self.places is None else self.places[place]}]"


def _normalised(
    context: Context,
    provider: str,
    system: bool,
    has_place: Callable[[ToolResultMessage], bool],
) -> list[_Placed]:
    result: list[_Placed] = []
    waiting: dict[str, tuple[ToolCallBlock, _Placed, int]] = {}
    words: list[_Placed] = []  # results without a call, instructions; said when the others are in

    def settle() -> None:
        for call, placed, place in waiting.values():
            answer = ToolResultMessage(call.id, call.name, NO_RESULT, is_error=True)
            report_change(placed.path_of(place), UNANSWERED, CHANGED)
            result.append(_Placed(answer, placed.at))
        result.extend(words)
        waiting.clear()
        words.clear()

    for at, message in enumerate(context.messages, first_of(context)):
        if isinstance(message, ToolResultMessage):
            answered = waiting.pop(message.tool_call_id, None)
            if answered is not None and not message.tool_name:
                message = replace(message, tool_name=answered[0].name)
            if answered is not None or has_place(message):
                result.append(_Placed(message, at))
            else:
                report_change(f"messages[{at}]", IN_WORDS, CHANGED)
                words.append(_in_words(message, at))
            continue
        if isinstance(message, SystemMessage):
            if _says_something(message.content):
                words.append(_Placed(message if system else _as_user(message), at))
            continue
        if waiting or words:
            settle()
        if isinstance(message, UserMessage):
            if (said := _user(message, at)) is not None:
                result.append(said)
            else:
                report_change(f"messages[{at}]", EMPTY)
            continue
        own = message.provider is None or message.provider == provider
        kept, calls = _kept(message, at, provider, own)
        if kept is not None:
            result.append(kept)
            for place, call in calls:
                waiting[call.id] = call, kept, place
    settle()
    return result


CHANGED = "content_changed"
"""The code of notices about content that goes out in another form."""

THOUGHT = "thinking_left_out"
"""The code of notices about reasoning that does not go back, which is often how an API wants it."""

METADATA = "metadata_left_out"
"""The code of notices about metadata of blocks."""

UNANSWERED = "an error result was added for a tool call without a result"
IN_WORDS = "a tool result without a tool call was sent as a user message"
EMPTY = "a message without content was left out"
CUT_OFF = "a tool call that was cut off was left out"
ELSEWHERE = "what another provider made was left out"
THOUGHT_ELSEWHERE = "reasoning of another provider was left out"
UNSIGNED = "reasoning that was cut off was left out"
MARKED_ELSEWHERE = "metadata of another provider was left out"


def marked_system(text: str) -> UserMessage:
    """Return an instruction as a user turn that is told from what the user says."""
    return UserMessage(f"<system>\n{text}\n</system>")


def _as_user(message: SystemMessage) -> UserMessage:
    """Return an instruction as a user turn; blocks with metadata keep it, cache marks for one."""
    parts = _system_parts(message.content)
    texts = [part for part in parts if isinstance(part, TextBlock) and part.text]
    others = [part for part in parts if isinstance(part, ExtensionBlock)]
    if not others and not any(text.metadata for text in texts):
        return marked_system(text_of(message.content))
    if texts:
        texts[0] = replace(texts[0], text=f"<system>\n{texts[0].text}")
        texts[-1] = replace(texts[-1], text=f"{texts[-1].text}\n</system>")
    return UserMessage([*texts, *others])


def _says_something(content: str | Sequence[Block]) -> bool:
    return any(isinstance(p, ExtensionBlock) or p.text for p in _system_parts(content))


def _in_words(message: ToolResultMessage, at: int) -> _Placed:
    source = f"result of {message.tool_name}" if message.tool_name else "result"
    words = f"[{source}] {text_of(message.content)}"
    if isinstance(message.content, str):
        return _Placed(UserMessage(words), at)
    found = [n for n, b in enumerate(message.content) if not isinstance(b, TextBlock)]
    if not found:
        return _Placed(UserMessage(words), at)
    media = [message.content[place] for place in found]
    return _Placed(UserMessage([TextBlock(words), *media]), at, [0, *found])


def _user(message: UserMessage, at: int) -> _Placed | None:
    """Return a user message without its empty texts, or `None` if nothing remains."""
    content = message.content
    if isinstance(content, str):
        return _Placed(message, at) if content else None
    kept = [
        place
        for place, block in enumerate(content)
        if not isinstance(block, TextBlock) or block.text or block.metadata
    ]
    if not kept:
        return None
    if len(kept) == len(content):
        return _Placed(message, at)
    return _Placed(replace(message, content=[content[place] for place in kept]), at, kept)


def _kept(
    message: AssistantMessage, at: int, provider: str, own: bool
) -> tuple[_Placed | None, list[tuple[int, ToolCallBlock]]]:
    """Return the part of an answer that `provider` may see, and the tool calls in it with their
    indexes. An answer that it may see whole is returned unchanged."""
    cut = message.stop_reason in _CUT
    calls: list[tuple[int, ToolCallBlock]] = []
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
        if isinstance(kept, ToolCallBlock):
            calls.append((len(content), kept))
        content.append(kept)
        places.append(place)
    if not content:
        return None, calls
    same = len(content) == len(message.content) and all(map(is_, content, message.content))
    return _Placed(message if same else replace(message, content=content), at, places), calls


_CUT = (StopReason.ERROR, StopReason.ABORTED)


@frozen
class LeftOut:
    """Returned by a converter for a block that has no place in the request.

    `what` is a short explanation for the notice that names the path.
    """

    what: str
    code: str = "content_left_out"


SENT_ELSEWHERE = LeftOut("")
"""Returned for a block that goes out at another place of the request, without a notice."""

_NOTHING = LeftOut("")
"""Stands for text of no characters."""


def _keep(block: Block, provider: str, own: bool, cut: bool) -> Block | LeftOut:
    if isinstance(block, TextBlock):
        if not block.text and not (own and block.metadata):
            return _NOTHING
    elif isinstance(block, ToolCallBlock):
        if cut and block.state != "complete":
            return LeftOut(CUT_OFF)
    elif isinstance(block, ExtensionBlock):
        return block if own and block.provider == provider else LeftOut(ELSEWHERE)
    elif isinstance(block, ThinkingBlock):
        signed = block.signature is not None or block.metadata is not None
        if own and (signed or not cut):
            return block
        return LeftOut(UNSIGNED if own else THOUGHT_ELSEWHERE, THOUGHT)
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


@define(eq=False)
class _Open:
    """The messages under conversion: where their blocks stand, and which are still to be done."""

    placed: dict[int, _Placed] = field(factory=dict)
    paths: dict[int, tuple[_Placed, int]] = field(factory=dict)
    left: dict[int, Block] = field(factory=dict)

    def add(self, placed: _Placed) -> None:
        """Add a message."""
        turn = placed.turn
        self.placed[id(turn)] = placed
        if not isinstance(turn.content, str):
            for place, block in enumerate(turn.content):
                self.paths[id(block)] = placed, place
                self.left[id(block)] = block

    def path(self, part: Turn | Block) -> str:
        """Return the path of a message, or of a block of one; `messages` where it has none."""
        if (found := self.paths.get(id(part))) is not None:
            return found[0].path_of(found[1])
        placed = self.placed.get(id(part))
        return "messages" if placed is None else placed.path


class MessageConverter(ABC):
    """Converts a conversation message by message; a provider says how each kind is written.

    Each method returns the native messages that one of ours becomes, often one. Consecutive
    tool results come together, since many APIs want them in one turn. `native_system`: the API
    takes instructions inside a conversation, which `system` writes.

    Every block of a message goes through `blocks` or `take`, or is reported by `leave_out`: a
    method that forgets one breaks the call with a PluginError that names the block's path.
    """

    native_system = False
    """Whether `system` says how instructions inside the conversation are written; otherwise they
    come as the user's."""

    names_users = False
    """Whether `user` sends the name of a user. Otherwise it is left out with a notice."""

    block_fields: Container[str] | None = None
    """The fields of a block's metadata that have a place in the request, of blocks in what the
    user says and in results. Others are left out with a notice; `None`: none is."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._open = _Open()

    def messages(self, context: Context) -> list[Any]:
        """Return the native messages of a whole conversation.

        Raises PluginError for a block that a method neither converted nor reported.
        """
        native: list[Any] = []
        results: list[_Placed] = []
        turns = _normalised(context, self.provider, self.native_system, self.has_place)
        for placed in (*turns, None):
            if placed is not None and isinstance(placed.turn, ToolResultMessage):
                results.append(placed)
                continue
            if results:
                native.extend(self._converted(results, self.tool_results))
                results = []
            if placed is not None:
                native.extend(self._converted([placed], self._one))
        return native

    def _one(self, turns: Sequence[Turn]) -> Sequence[Any]:
        native: Sequence[Any] = getattr(self, turns[0].role)(turns[0])
        return native

    def _converted(
        self, placed: Sequence[_Placed], convert: Callable[[Any], Sequence[Any]]
    ) -> Sequence[Any]:
        """Convert messages that belong together, and check that no block was forgotten."""
        self._open = opened = _Open()
        for each in placed:
            opened.add(each)
            self._report_fields(each)
        native = convert([each.turn for each in placed])
        for block in opened.left.values():
            what = f"{type(self).__name__} neither converted nor left out {opened.path(block)}"
            raise PluginError(f"{what} (type {block.type})", resolution=UNTAKEN)
        return native

    def _report_fields(self, placed: _Placed) -> None:
        content = placed.turn.content
        if isinstance(placed.turn, UserMessage) and placed.turn.name and not self.names_users:
            report_change(f"{placed.path}.name", NAMELESS, METADATA)
        if self.block_fields is None or isinstance(content, str):
            return
        if not isinstance(placed.turn, UserMessage | ToolResultMessage):
            return
        for place, block in enumerate(content):
            if isinstance(block, ExtensionBlock) or not block.metadata:
                continue
            for name in block.metadata:
                if name not in self.block_fields:
                    path = f"{placed.path_of(place)}.metadata.{name}"
                    report_change(path, NO_FIELD, METADATA)

    def blocks(self, message: Turn, convert: Callable[[Block], T | LeftOut]) -> list[T]:
        """Convert the blocks of a message in order; a string is one block of text.

        `convert` returns what a block becomes, or `LeftOut` with the reason why it has no place.
        Raises PluginError where it returns `None`.
        """
        content = message.content
        native: list[T] = []
        for block in [TextBlock(content)] if isinstance(content, str) else content:
            found = convert(block)
            if found is None:
                path = self._open.path(message if isinstance(content, str) else block)
                what = f"{type(self).__name__} returned nothing for {path}"
                raise PluginError(f"{what} (type {block.type})", resolution=UNTAKEN)
            self._open.left.pop(id(block), None)
            if not isinstance(found, LeftOut):
                native.append(found)
            elif found is SENT_ELSEWHERE:
                continue
            elif not isinstance(content, str):
                self.leave_out(block, found.what, found.code)
            elif content:
                report_change(f"{self._open.path(message)}.content", found.what, found.code)
        return native

    def take(self, message: Turn, kind: type[B]) -> list[B]:
        """Return the blocks of one kind that a message holds, which the caller then converts."""
        if isinstance(message.content, str):
            return []
        found: list[B] = [block for block in message.content if isinstance(block, kind)]
        for block in found:
            self._open.left.pop(id(block), None)
        return found

    def text(self, message: Turn) -> str:
        """Join the text of a message, which its blocks of text are then converted by."""
        self.take(message, TextBlock)
        return text_of(message.content)

    def leave_out(self, block: Block, what: str, code: str = "content_left_out") -> None:
        """Report that a block has no place in the request; `what` is a short explanation."""
        self._open.left.pop(id(block), None)
        if not isinstance(block, TextBlock) or block.text:
            report_change(self._open.path(block), what, code)

    def path(self, part: Turn | Block) -> str:
        """Return the path of a message under conversion, or of a block in it."""
        return self._open.path(part)

    def report(self, part: Turn | Block, what: str, code: str = CHANGED) -> None:
        """Report that a message or block goes out in another form; `what` is the explanation."""
        report_change(self._open.path(part), what, code)

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


NAMELESS = "the API has no field for the name of a user; it was left out"
NO_FIELD = "the API has no field for this metadata; it was left out"

UNTAKEN = "Convert it, or report it: return LeftOut from blocks(), or call leave_out()."
