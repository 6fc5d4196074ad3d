"""A conversation: what callers pass in and what comes back.

The JSON forms are normative (recordings, the native proxy protocol and the gateway exchange
them): snake case, messages tagged `role`, blocks tagged `type`, absent means default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, field

from swink_core.vocabulary.depth import is_too_deep
from swink_core.vocabulary.habits import missing_part
from swink_core.vocabulary.outcome import Cost, StopReason, StreamErrorKind, Usage
from swink_core.vocabulary.structs import Record

if TYPE_CHECKING:
    from pathlib import PurePath

Metadata: TypeAlias = dict[str, Any]

ToolCallState: TypeAlias = Literal["complete", "invalid", "truncated"]

_SYNTHETIC = "swink_call_"


def synthetic_id(prefix: str, number: int) -> str:
    """Make a recognisable id for a tool call that its provider sent without one."""
    return f"{_SYNTHETIC}{prefix}_{number}"


def is_synthetic_id(tool_call_id: str) -> bool:
    """Tell whether an id was made by `synthetic_id` and not by a provider."""
    return tool_call_id.startswith(_SYNTHETIC)


def parse_arguments(raw: str) -> dict[str, Any] | None:
    """Return a tool call's arguments: `{}` for empty text, `None` for no JSON object.

    An object nested deeper than `MAX_DEPTH` is `None` as well.
    """
    if not raw.strip():
        return {}
    if is_too_deep(raw):
        return None
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:  # the standard library accepts lone surrogates, which models do produce
            value = json.loads(raw)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


MediaType: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[\w.+-]+/[\w.+-]+\s*(;|$)", description="a media type, for example image/png"),
]


class _Typed(Record):
    """The base of blocks and sources. `type` is the tag in JSON."""

    type: ClassVar[str] = ""


class _Turn(Record, tag_field="role"):
    """The base of messages. `role` is the tag in JSON."""

    role: ClassVar[str] = ""


class Base64Source(_Typed, tag="base64"):
    """Media carried in the message itself. `data` is standard base64 without line breaks."""

    media_type: MediaType
    data: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(media_type={self.media_type!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("media_type", self.media_type)]


class UrlSource(_Typed, tag="url"):
    """Media that the provider fetches. `media_type` is `None` where the caller does not know."""

    url: str
    media_type: MediaType | None = None

    def __post_init__(self) -> None:
        if no_files.get() and self.url.strip().lower().startswith("file:"):
            raise ValueError(FILES_REFUSED)


no_files: ContextVar[bool] = ContextVar("no_files", default=False)
"""Set while data is loaded that must not name files of this machine."""

FILES_REFUSED = (
    "a file source or file: address is loaded with allow_files=True alone, because data from "
    "elsewhere could name any file of this machine"
)


class FileSource(_Typed, tag="file"):
    """A file on this machine, read when the request is built. `media_type` `None`: by suffix."""

    path: str
    media_type: MediaType | None = None

    if TYPE_CHECKING:

        def __init__(self, path: str | PurePath, media_type: str | None = None) -> None: ...

    def __post_init__(self) -> None:
        if no_files.get():
            raise ValueError(FILES_REFUSED)
        path: Any = self.path
        if hasattr(path, "__fspath__"):
            self.path = str(path)


class FileIdSource(_Typed, tag="file_id"):
    """A file that was uploaded to `provider` before, by the `id` that its Files API gave."""

    provider: str
    id: str


Source: TypeAlias = Base64Source | UrlSource | FileSource | FileIdSource


class TextBlock(_Typed, tag="text"):
    """Text. `metadata` is the provider's own (citations, a signature); it goes back unchanged."""

    text: str
    metadata: Metadata | None = None


class ThinkingBlock(_Typed, tag="thinking"):
    """Reasoning. `signature` and `metadata` are opaque and go back only to their provider.

    `redacted`: the provider hides the text, and `signature` holds what it wants back instead.
    """

    thinking: str
    signature: str | None = None
    redacted: bool = False
    metadata: Metadata | None = None


class ToolCallBlock(_Typed, tag="tool_call"):
    """A call of a tool by the model.

    `arguments` is the parsed object, empty unless `state` is `complete`. `raw_arguments` is the
    received text, kept in every state (`None` if the arguments were never text).
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    raw_arguments: str | None = None
    state: ToolCallState = "complete"
    metadata: Metadata | None = None


class ImageBlock(_Typed, tag="image"):
    """An image for the model to see."""

    source: Source
    metadata: Metadata | None = None


class DocumentBlock(_Typed, tag="document"):
    """A document (PDF, text) for the model. `name` is sent if the API has a field for it."""

    source: Source
    name: str | None = None
    metadata: Metadata | None = None


class AudioBlock(_Typed, tag="audio"):
    """Sound for the model to hear."""

    source: Source
    metadata: Metadata | None = None


class ExtensionBlock(_Typed, tag="extension"):
    """A whole opaque block (server-side tool, generated media); goes back to `provider` only."""

    provider: str
    kind: str
    data: Any
    metadata: Metadata | None = None


MediaBlock: TypeAlias = ImageBlock | DocumentBlock | AudioBlock

Block: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock | MediaBlock | ExtensionBlock


def _blocks_of(content: Any) -> Any:
    """Make blocks of the strings in a content; return any other content unchanged."""
    if isinstance(content, _Typed):
        return [content]
    if isinstance(content, list | tuple) and any(isinstance(each, str) for each in content):
        return [TextBlock(each) if isinstance(each, str) else each for each in content]
    return content


class SystemMessage(_Turn, tag="system"):
    """An instruction to the model: a string, or blocks of text.

    One that leads the conversation joins the system prompt; one further on takes effect there. An
    extension's `data` goes to its own provider unchanged: a tool that is added there, for one.
    """

    content: str | list[Block]


class UserMessage(_Turn, tag="user"):
    """A user message: a string, or blocks of text, images, documents and audio.

    The `data` of an extension is sent unchanged to its provider: a part that swink does not model.
    A string in the list stands for a text block, and a single block for a list with it.
    `name` identifies one of several users, for APIs with a field for it.
    """

    if TYPE_CHECKING:
        content: str | list[Block]
        name: str | None = None

        def __init__(
            self, content: str | Block | Sequence[str | Block], name: str | None = None
        ) -> None: ...

    else:
        content: str | list[Block]
        name: str | None = None

    def __post_init__(self) -> None:
        content: Any = self.content
        if type(content) is not str:
            self.content = _blocks_of(content)


class AssistantMessage(_Turn, tag="assistant"):
    """The answer of a model, with its metadata. A string stands for a text block.

    `model` is the responding model, as named by the provider. `usage` and `cost` are those of this
    answer, or `None` if unknown; `total_usage` and `total_cost` cover all attempts of the call.
    `stop_reason` is `None` only for a message that the caller wrote or that is incomplete.
    `metadata` contains other facts of the provider about the answer.
    """

    if TYPE_CHECKING:
        content: list[Block]
    else:
        content: str | list[Block]  # a string until `__post_init__`
    provider: str | None = None
    model: str | None = None
    response_id: str | None = None
    request_id: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    stop_reason: StopReason | None = None
    error_kind: StreamErrorKind | None = None
    error_message: str | None = None
    metadata: Metadata | None = None
    total_usage: Usage | None = None
    total_cost: Cost | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            content: str | Sequence[Block],
            provider: str | None = None,
            model: str | None = None,
            response_id: str | None = None,
            request_id: str | None = None,
            usage: Usage | None = None,
            cost: Cost | None = None,
            stop_reason: StopReason | None = None,
            error_kind: StreamErrorKind | None = None,
            error_message: str | None = None,
            metadata: Metadata | None = None,
            total_usage: Usage | None = None,
            total_cost: Cost | None = None,
        ) -> None: ...

    else:

        def __getattr__(self, name: str) -> Any:
            raise missing_part("message", self, name)

    def __post_init__(self) -> None:
        content: Any = self.content
        if isinstance(content, str):
            self.content = [TextBlock(content)]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _compared(self) == _compared(other)

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def thinking(self) -> str:
        """The visible text of all thinking blocks, joined."""
        return "".join(b.thinking for b in self.content if isinstance(b, ThinkingBlock))

    @property
    def tool_calls(self) -> list[ToolCallBlock]:
        """The tool calls in the order in which they began."""
        return [block for block in self.content if isinstance(block, ToolCallBlock)]


_compared = attrgetter(*AssistantMessage.__struct_fields__[:-2])
"""The fields that equal answers share: all but the totals of their calls."""


class ToolResultMessage(_Turn, tag="tool_result"):
    """The result of a tool call. `is_error`: the tool failed, and `content` explains why."""

    tool_call_id: str
    tool_name: str
    content: str | list[Block]
    is_error: bool = False


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage

Conversation: TypeAlias = list[Message]
"""A list of messages."""


class Tool(Record):
    """A tool that the model may call. `parameters` is a JSON schema of an object.

    `strict` asks that arguments keep to the schema (`None`: as the provider does by itself).
    `metadata` holds, by provider, fields that are merged into its form of the tool and win there
    (`{"anthropic": {"defer_loading": true}}`); another provider's are ignored.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    metadata: dict[str, Metadata] | None = None


class Context(Record):
    """A conversation: messages in order, the system prompt, the tools on offer.

    The system prompt is a string, or a list of texts and blocks, which go out as blocks where the
    API has them. A block's metadata holds its cache mark.
    """

    messages: list[Message]
    system_prompt: str | list[Block] | None = None
    tools: list[Tool] = field(default_factory=list)

    def __post_init__(self) -> None:
        prompt: Any = self.system_prompt
        if prompt is not None and type(prompt) is not str:
            self.system_prompt = _blocks_of(prompt)

    @classmethod
    def of(cls, value: Context | Piece | Sequence[Piece]) -> Context:
        """Return a context from what a caller may pass for one.

        A string is a user message, and so are blocks and strings that follow one another in a
        list; messages stand for themselves. Raises TypeError for anything else.
        """
        if isinstance(value, Context):
            return value
        if isinstance(value, list | tuple):
            return cls(_messages_of(value))
        if isinstance(value, str):
            return cls([UserMessage(value)])
        if isinstance(value, _Turn | _Typed):
            return cls(_messages_of([value]))
        raise TypeError(f"a prompt is {_KINDS_OF_PROMPT}, not {type(value).__name__}")


_KINDS_OF_PROMPT = "a string, a message, a list of strings, media and messages, or a Context"

Piece: TypeAlias = str | TextBlock | MediaBlock | ExtensionBlock | Message
"""A part of a prompt: a message, or a part of the user message that it makes with others."""


_TURNS = frozenset(get_args(Message))


def _messages_of(pieces: Sequence[Any]) -> list[Message]:
    """Join strings and blocks that follow one another in one user message; keep the rest."""
    if {*map(type, pieces)} <= _TURNS:
        return [*pieces]
    messages: list[Message] = []
    parts: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str | _Typed):
            parts.append(piece)
            continue
        if parts:
            messages.append(UserMessage(parts))
            parts = []
        messages.append(piece)
    if parts:
        messages.append(UserMessage(parts))
    return messages


Prompt: TypeAlias = Context | Piece | Mapping[str, Any] | Sequence[Piece | Mapping[str, Any]]
"""The conversation that a call accepts.

A string is a user message. In a list, strings and blocks that follow one another are one user
message; messages stand for themselves. Mappings are messages or blocks in their JSON form.
"""
