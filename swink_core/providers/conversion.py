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
    if not refused.search(id) and 0 < len(id) <= (longest or len(id)):
        return id
    cleaned = refused.sub("_", id)
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
    return _normalised(context, provider, system, has_place).turns


@define(eq=False)
class _Normalised:
    """Messages as a provider may see them, and where they stand in the caller's conversation.

    `at` has the index of each turn's message. `places` has the indexes of a turn's blocks, by the
    turn's own index, where some blocks of the message are left out.
    """

    turns: list[Turn] = field(factory=list)
    at: list[int] = field(factory=list)
    places: dict[int, Sequence[int]] = field(factory=dict)

    def add(self, turn: Turn, at: int, places: Sequence[int] | None = None) -> None:
        """Add the turn that a message has become."""
        if places is not None:
            self.places[len(self.turns)] = places
        self.turns.append(turn)
        self.at.append(at)

    def path(self, number: int) -> str:
        """Return the path of the message that a turn comes from."""
        return f"messages[{self.at[number]}]"

    def paths_of_blocks(self, number: int) -> list[str]:
        """Return the paths of a turn's blocks, of which a string has none."""
        content = self.turns[number].content
        if isinstance(content, str):
            return []
        places = self.places.get(number, range(len(content)))
        return [f"{self.path(number)}.content[{place}]" for place in places]


def _normalised(
    context: Context,
    provider: str,
    system: bool,
    has_place: Callable[[ToolResultMessage], bool],
) -> _Normalised:
    result = _Normalised()
    waiting: dict[str, ToolCallBlock] = {}  # calls of the last answer, which is turn `asking`
    asking = 0
    words: list[_Words] = []  # results without a call, instructions; said when the others are in

    def settle() -> None:
        if waiting:
            _answer_calls(result, asking, waiting)
        for turn, at, places in words:
            result.add(turn, at, places)
        waiting.clear()
        words.clear()

    for at, message in enumerate(context.messages, first_of(context)):
        if isinstance(message, AssistantMessage):
            if waiting or words:
                settle()
            asking = len(result.turns)
            calls = _calls_if_whole(message, provider)
            if calls is not None:
                result.add(message, at)
                waiting = calls
            elif (kept := _kept(message, at, provider)) is not None:
                result.add(*kept)
                waiting = {call.id: call for call in kept[0].tool_calls}
        elif isinstance(message, ToolResultMessage):
            call = waiting.pop(message.tool_call_id, None)
            if call is not None and not message.tool_name:
                message = replace(message, tool_name=call.name)
            if call is not None or has_place(message):
                result.add(message, at)
            else:
                report_change(f"messages[{at}]", IN_WORDS, CHANGED)
                words.append(_in_words(message, at))
        elif isinstance(message, SystemMessage):
            if text_of(message.content):
                words.append((message if system else _as_user(message), at, None))
        else:
            if waiting or words:
                settle()
            _add_user(message, at, result)
    settle()
    return result


_Words: TypeAlias = tuple[Turn, int, Sequence[int] | None]
"""The arguments of `_Normalised.add`."""


def _answer_calls(result: _Normalised, asking: int, waiting: Mapping[str, ToolCallBlock]) -> None:
    """Add error results for the calls of a turn that have none."""
    content = result.turns[asking].content
    for block, path in zip(content, result.paths_of_blocks(asking), strict=True):
        if isinstance(block, ToolCallBlock) and waiting.get(block.id) is block:
            report_change(path, UNANSWERED, CHANGED)
            answer = ToolResultMessage(block.id, block.name, NO_RESULT, is_error=True)
            result.add(answer, result.at[asking])


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
    texts = [text for text in _texts(message.content) if text.text]
    if not any(text.metadata for text in texts):
        return marked_system(text_of(message.content))
    texts[0] = replace(texts[0], text=f"<system>\n{texts[0].text}")
    texts[-1] = replace(texts[-1], text=f"{texts[-1].text}\n</system>")
    return UserMessage([*texts])


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


def _add_user(message: UserMessage, at: int, result: _Normalised) -> None:
    """Add a user message without its empty texts, or report that nothing of it remains."""
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
    """Return the tool calls of an answer, by their ids, if `provider` may see it unchanged.

    `None`: `_kept` looks at each block.
    """
    if message.provider is not None and message.provider != provider:
        return None
    if message.stop_reason in _CUT or not message.content:
        return None
    calls: dict[str, ToolCallBlock] = {}
    for block in message.content:
        kind = type(block)
        if kind is ToolCallBlock:
            calls[block.id] = block
        elif kind is TextBlock:
            if not block.text:
                return None
        elif kind is not ThinkingBlock:
            return None
    return calls


def _kept(
    message: AssistantMessage, at: int, provider: str
) -> tuple[AssistantMessage, int, list[int]] | None:
    """Return the part of an answer that `provider` may see, the answer's index and the indexes of
    the blocks that are in it; `None`: it may see none of it."""
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

    block_fields: Container[str] | None = None
    """The fields of a block's metadata that have a place in the request, of blocks in what the
    user says and in results. Others are left out with a notice; `None`: none is."""

    _normalised: _Normalised

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._turns: Sequence[Turn] = ()  # those under conversion
        self._first = 0  # the index of the first of them
        self._taken: set[int] = set()  # the id() of blocks that were converted or reported
        self._paths: dict[int, str] = {}  # by the id() of turns and blocks; made when asked for

    def messages(self, context: Context) -> list[Any]:
        """Return the native messages of a whole conversation.

        Raises PluginError for a block that a method neither converted nor reported.
        """
        native: list[Any] = []
        results: list[Turn] = []
        self._normalised = _normalised(context, self.provider, self.native_system, self.has_place)
        turns = self._normalised.turns
        for number, turn in enumerate(turns):
            if isinstance(turn, ToolResultMessage):
                results.append(turn)
                continue
            if results:
                native += self._converted(number - len(results), results)
                results = []
            native += self._converted(number, [turn])
        if results:
            native += self._converted(len(turns) - len(results), results)
        return native

    def _converted(self, first: int, turns: list[Any]) -> Sequence[Any]:
        """Convert turns that belong together, and check that no block was forgotten.

        `first` is the index of the first of them in the conversation.
        """
        self._first = first
        self._turns = turns
        self._taken.clear()
        if self._paths:
            self._paths = {}
        if self.block_fields is not None:
            for turn in turns:
                if type(turn.content) is not str and not isinstance(turn, AssistantMessage):
                    self._report_fields(turn, self.block_fields)
        if isinstance(turns[0], ToolResultMessage):
            native: Sequence[Any] = self.tool_results(turns)
        else:
            native = getattr(self, turns[0].role)(turns[0])
        for turn in turns:
            content = turn.content
            if type(content) is not str and not self._taken.issuperset(map(id, content)):
                block = next(block for block in content if id(block) not in self._taken)
                what = f"{type(self).__name__} neither converted nor left out {self.path(block)}"
                raise PluginError(f"{what} (type {block.type})", resolution=UNTAKEN)
        return native

    def _report_fields(self, turn: Any, fields: Container[str]) -> None:
        """Report the metadata of blocks for which the request has no field.

        `context_notices` reports that of instructions.
        """
        for block in turn.content if not isinstance(turn, SystemMessage) else ():
            if not block.metadata or isinstance(block, ExtensionBlock):
                continue
            for name in block.metadata:
                if name not in fields:
                    report_change(f"{self.path(block)}.metadata.{name}", NO_FIELD, METADATA)

    def blocks(self, message: Turn, convert: Callable[[Block], T | LeftOut]) -> list[T]:
        """Convert the blocks of a message in order; a string is one block of text.

        `convert` returns what a block becomes, or `LeftOut` with the reason why it has no place.
        Raises PluginError where it returns `None`.
        """
        content = message.content
        is_text = isinstance(content, str)
        native: list[T] = []
        for block in [TextBlock(content)] if isinstance(content, str) else content:
            found = convert(block)
            if found is None:
                path = self.path(message if is_text else block)
                what = f"{type(self).__name__} returned nothing for {path}"
                raise PluginError(f"{what} (type {block.type})", resolution=UNTAKEN)
            if not isinstance(found, LeftOut):
                native.append(found)
            elif found is SENT_ELSEWHERE:
                continue
            elif not is_text:
                self.leave_out(block, found.what, found.code)
            elif content:
                report_change(f"{self.path(message)}.content", found.what, found.code)
        if not is_text:
            self._taken.update(map(id, content))
        return native

    def take(self, message: Turn, kind: type[B]) -> list[B]:
        """Return the blocks of one kind that a message holds, which the caller then converts."""
        if isinstance(message.content, str):
            return []
        found: list[B] = [block for block in message.content if isinstance(block, kind)]
        self._taken.update(map(id, found))
        return found

    def text(self, message: Turn) -> str:
        """Join the text of a message, which its blocks of text are then converted by."""
        if isinstance(message.content, str):
            return message.content
        return text_of(self.take(message, TextBlock))

    def leave_out(self, block: Block, what: str, code: str = "content_left_out") -> None:
        """Report that a block has no place in the request; `what` is a short explanation."""
        self._taken.add(id(block))
        if not isinstance(block, TextBlock) or block.text:
            report_change(self.path(block), what, code)

    def path(self, part: Turn | Block) -> str:
        """Return the path of a message under conversion, or of a block of one.

        `messages` where it has none.
        """
        if not self._paths:
            for number, turn in enumerate(self._turns, self._first):
                self._paths[id(turn)] = self._normalised.path(number)
                if not isinstance(turn.content, str):
                    paths = self._normalised.paths_of_blocks(number)
                    self._paths.update(zip(map(id, turn.content), paths, strict=True))
        return self._paths.get(id(part), "messages")

    def report(self, part: Turn | Block, what: str, code: str = CHANGED) -> None:
        """Report that a message or block goes out in another form; `what` is the explanation."""
        report_change(self.path(part), what, code)

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


NO_FIELD = "the API has no field for this metadata; it was left out"

UNTAKEN = "Convert it, or report it: return LeftOut from blocks(), or call leave_out()."
