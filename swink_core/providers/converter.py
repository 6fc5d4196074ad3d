"""`MessageConverter`: converts a conversation to a provider's format, and checks each block.

Each block must be converted, or reported in a notice with its path. To check this, the converter
records which blocks its methods have handled, and compares them with the blocks of the messages. A
path is computed only for a notice or an error, because most conversations need neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeVar

from swink_core.failures.exceptions import PluginError
from swink_core.plugins.changes import report_change
from swink_core.providers.contexts import text_of
from swink_core.providers.conversion import (
    CHANGED,
    METADATA,
    SENT_ELSEWHERE,
    LeftOut,
    PlacedTurns,
    placed_turns,
)
from swink_core.providers.media import decoded, unsupported
from swink_core.vocabulary.messages import (
    AssistantMessage,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    Message,
    SystemMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)

T = TypeVar("T")
B = TypeVar("B")


def merged_turns(
    messages: Sequence[dict[str, Any]], parts: str = "content"
) -> list[dict[str, Any]]:
    """Merge consecutive native messages of the same role, for APIs in which roles must alternate.

    `parts` is the key of the list that contains a message's content. The lists of merged messages
    are joined.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1] = {**turns[-1], parts: [*turns[-1][parts], *message[parts]]}
        else:
            turns.append(message)
    return turns


class MessageConverter(ABC):
    """Converts a conversation message by message; subclasses convert each kind of message.

    The methods `system`, `user` and `assistant` convert one message to a list of messages in the
    API's format. `tool_results` converts consecutive tool results together, because many APIs
    require them in one turn. Set `native_system` if the API accepts system messages inside a
    conversation; the method `system` then converts them.

    These methods must pass every block of a message to `blocks`, `take` or `leave_out`. If a block
    is forgotten, the call fails with a PluginError that names the block's path.
    """

    native_system = False
    """Whether `system` converts system messages inside the conversation.

    If this is `False`, system messages become user messages, which `user` converts.
    """

    names_users = False
    """Whether `user` sends the name of a user. If not, the name is left out with a notice."""

    block_fields: Container[str] | None = None
    """The metadata fields that can be sent for blocks of user messages and tool results.

    A notice reports any other field. `None` means that no field is reported.
    """

    _placed: PlacedTurns

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._turns: Sequence[Message] = ()  # the turns that are being converted
        self._first = 0  # the index of the first of them in the conversation
        self._taken: set[int] = set()  # the id() of each block that was converted or reported
        self._paths: dict[int, str] = {}  # by the id() of turns and blocks; computed on demand

    def messages(self, context: Context) -> list[Any]:
        """Return the native messages of a whole conversation.

        Raises PluginError for a block that a method neither converted nor reported.
        """
        native: list[Any] = []
        results: list[Message] = []
        self._placed = placed_turns(context, self.provider, self.native_system, self.has_place)
        turns = self._placed.turns
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
        """Convert one message, or several consecutive tool results, and check for forgotten blocks.

        `first` is the index of the first of these messages in the conversation.
        """
        self._first = first
        self._turns = turns
        self._taken.clear()
        if self._paths:
            self._paths = {}
        if type(turns[0]) is UserMessage and turns[0].name and not self.names_users:
            report_change(f"{self.path(turns[0])}.name", NAMELESS, METADATA)
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
        """Report block metadata that has no field in the request.

        The metadata of system messages is not reported here but by `context_notices`.
        """
        for block in turn.content if not isinstance(turn, SystemMessage) else ():
            if not block.metadata or isinstance(block, ExtensionBlock):
                continue
            for name in block.metadata:
                if name not in fields:
                    report_change(f"{self.path(block)}.metadata.{name}", NO_FIELD, METADATA)

    def blocks(self, message: Message, convert: Callable[[Block], T | LeftOut]) -> list[T]:
        """Convert the blocks of a message in order; a string counts as one block of text.

        `convert` returns a block in the API's format, or `LeftOut` with the reason why the block is
        not sent. Raises PluginError if `convert` returns `None`.
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

    def take(self, message: Message, kind: type[B]) -> list[B]:
        """Return all blocks of one type in a message, and mark them as converted.

        The caller must convert these blocks.
        """
        if isinstance(message.content, str):
            return []
        found: list[B] = [block for block in message.content if isinstance(block, kind)]
        self._taken.update(map(id, found))
        return found

    def text(self, message: Message) -> str:
        """Return the joined text of a message, and mark its text blocks as converted."""
        if isinstance(message.content, str):
            return message.content
        return text_of(self.take(message, TextBlock))

    def document_text(self, block: DocumentBlock, data: Base64Source) -> str:
        """Return the decoded text of a document, for an API that accepts text instead of bytes.

        `data` is the content of the document, as `media_base64` returns it. A byte order mark
        determines the encoding and is left out. Otherwise, the parameter `charset` of the media
        type determines it; without this parameter, the text is UTF-8. Raises ProviderFailure
        (`unsupported`) if the encoding is unknown or the data is invalid in it.
        """
        try:
            return decoded(data)
        except ValueError as error:
            named = f" {block.name!r}" if block.name else ""
            why = f"{self.path(block)}: the document{named} {error}"
            title = "A text document cannot be decoded"
            raise unsupported("documents", why, title, UNDECODED) from error

    def leave_out(self, block: Block, what: str, code: str = "content_left_out") -> None:
        """Report that a block is not sent; `what` is a short explanation."""
        self._taken.add(id(block))
        if not isinstance(block, TextBlock) or block.text:
            report_change(self.path(block), what, code)

    def path(self, part: Message | Block) -> str:
        """Return the path of a message that is being converted, or of a block in it.

        Returns `messages` for any other object.
        """
        if not self._paths:
            for number, turn in enumerate(self._turns, self._first):
                self._paths[id(turn)] = self._placed.path(number)
                if not isinstance(turn.content, str):
                    paths = self._placed.paths_of_blocks(number)
                    self._paths.update(zip(map(id, turn.content), paths, strict=True))
        return self._paths.get(id(part), "messages")

    def report(self, part: Message | Block, what: str, code: str = CHANGED) -> None:
        """Report that a message or block is sent in another form; `what` is the explanation."""
        report_change(self.path(part), what, code)

    def has_place(self, message: ToolResultMessage) -> bool:
        """Return True if the API accepts a tool result for which the conversation has no call."""
        return False

    def system(self, message: SystemMessage) -> list[Any]:
        """Convert a system message inside the conversation.

        This method is called only if `native_system` is true.
        """
        raise NotImplementedError("system() has to be written")

    @abstractmethod
    def user(self, message: UserMessage) -> list[Any]:
        """Convert a user message."""

    @abstractmethod
    def assistant(self, message: AssistantMessage) -> list[Any]:
        """Convert an assistant message."""

    @abstractmethod
    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert consecutive tool results."""


NAMELESS = "the API does not support names of users; the name was not sent"
NO_FIELD = "the API has no field for this metadata; it was not sent"

UNDECODED = (
    "Save it as UTF-8, or add its encoding to the media type: text/csv;charset=windows-1252."
)

UNTAKEN = "Convert it, or report it: return LeftOut from blocks(), or call leave_out()."
