"""The parts of a conversation: messages, blocks, media and tools.

The JSON form of these objects must not change, because it is used by recordings, saved
conversations and the native protocol of the gateway. Names are in snake case. The field `role`
identifies the class of a message, and `type` the class of a block. A field that is absent in the
JSON has its default value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from math import isfinite
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
    """Return a recognisable id for a tool call that its provider sent without one."""
    return f"{_SYNTHETIC}{prefix}_{number}"


def is_synthetic_id(tool_call_id: str) -> bool:
    """Return True if an id was created by `synthetic_id` and not by a provider."""
    return tool_call_id.startswith(_SYNTHETIC)


def parse_arguments(raw: str) -> dict[str, Any] | None:
    """Parse the JSON text of a tool call's arguments.

    Return `{}` for empty text or white space as JSON defines it, and `None` for text that is not a
    JSON object, is nested deeper than `MAX_DEPTH`, or contains a number too large for a float.
    """
    if not raw.strip(" \t\n\r"):  # RFC 8259, section 2; without an argument, U+0085 goes too
        return {}
    if is_too_deep(raw):
        return None
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:  # the standard library accepts lone surrogates, which models send
            value = json_of_models(raw)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def json_of_models(text: str) -> Any:
    """Parse JSON text that may contain lone surrogates, which msgspec refuses.

    Raises ValueError for other text that msgspec refuses, such as `NaN` and `1e999`: such a value
    cannot be sent as JSON.
    """
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a number in JSON")
    return number


MediaType: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[\w.+-]+/[\w.+-]+\s*(;|$)", description="a media type, for example image/png"),
]


class _Typed(Record):
    """The base class of blocks and sources. `type` is the tag in JSON."""

    type: ClassVar[str] = ""


class _Turn(Record, tag_field="role"):
    """The base class of messages. `role` is the tag in JSON."""

    role: ClassVar[str] = ""


class Base64Source(_Typed, tag="base64"):
    """Media contained in the message. `data` is standard base64 without line breaks."""

    media_type: MediaType
    data: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(media_type={self.media_type!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("media_type", self.media_type)]


class UrlSource(_Typed, tag="url"):
    """Media that the provider fetches from a URL. `media_type` is `None` if unknown."""

    url: str
    media_type: MediaType | None = None

    def __post_init__(self) -> None:
        if no_files.get() and is_file_url(self.url):
            raise ValueError(FILES_REFUSED)


def is_file_url(url: object) -> bool:
    """Return True for a URL that names a file of this machine."""
    return isinstance(url, str) and url.strip().lower().startswith("file:")


no_files: ContextVar[bool] = ContextVar("no_files", default=False)
"""True while `load` reads data that must not name files; a `FileSource` is then an error."""

FILES_REFUSED = (
    "file sources and file: URLs are loaded only with allow_files=True, because untrusted data "
    "could name any file of this machine"
)


class FileSource(_Typed, tag="file"):
    """A file on this machine, which is read when the request is built.

    If `media_type` is `None`, it is derived from the suffix of the file name.
    """

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
    """A file that was uploaded to `provider`; `id` is the id from the provider's Files API."""

    provider: str
    id: str


Source: TypeAlias = Base64Source | UrlSource | FileSource | FileIdSource


class TextBlock(_Typed, tag="text"):
    """A block of text.

    `metadata` contains data that the provider sent with the text (citations, a signature). The data
    that the provider needs is sent back unchanged.
    """

    text: str
    metadata: Metadata | None = None


class ThinkingBlock(_Typed, tag="thinking"):
    """Reasoning. `signature` and `metadata` are the provider's data, sent back only to it.

    If `redacted` is true, the provider hides the text, and `signature` contains the data that the
    provider needs in the next request.
    """

    thinking: str
    signature: str | None = None
    redacted: bool = False
    metadata: Metadata | None = None


class ToolCallBlock(_Typed, tag="tool_call"):
    """A call of a tool by the model.

    `arguments` is the parsed JSON object, which is empty unless `state` is `complete`. For every
    `state`, `raw_arguments` is the text of the arguments as the provider sent it, or `None` if they
    were not received as text.
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
    """A document (PDF, text) for the model. `name` is sent if the API has a field for names."""

    source: Source
    name: str | None = None
    metadata: Metadata | None = None


class AudioBlock(_Typed, tag="audio"):
    """Sound for the model to listen to."""

    source: Source
    metadata: Metadata | None = None


class ExtensionBlock(_Typed, tag="extension"):
    """Content that swink has no class for, such as a server-side tool call or generated media.

    `data` has the provider's format and is sent back only to `provider`. If a request asked for
    several answers, each additional answer is an extension of the kind `ExtensionBlock.CHOICE`
    (`"choice"`). These extensions are not part of the conversation and are not sent back.
    """

    CHOICE: ClassVar[str] = "choice"

    provider: str
    kind: str
    data: Any
    metadata: Metadata | None = None


MediaBlock: TypeAlias = ImageBlock | DocumentBlock | AudioBlock

Block: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock | MediaBlock | ExtensionBlock


def _blocks_of(content: Any) -> Any:
    """Convert a block or a tuple to a list, and strings in a list to text blocks.

    A string of a subclass of `str` becomes a `str`. Any other content is returned unchanged.
    """
    if isinstance(content, str):
        return str.__str__(content)
    if isinstance(content, _Typed):
        return [content]
    if isinstance(content, tuple):
        content = [*content]
    if isinstance(content, list) and any(isinstance(each, str) for each in content):
        return [TextBlock(str.__str__(each)) if isinstance(each, str) else each for each in content]
    return content


class SystemMessage(_Turn, tag="system"):
    """A system message: a string, or blocks of text.

    System messages at the start of the conversation are joined to the system prompt. A later system
    message applies to the part of the conversation that follows it. The `data` of an extension
    block is sent unchanged to the block's provider, for example to add a tool at this position.
    """

    content: str | list[Block]


class UserMessage(_Turn, tag="user"):
    """A user message: a string, or blocks of text, images, documents and audio.

    Content that swink has no class for is given as an extension block, whose `data` is sent
    unchanged to the block's provider. If `content` is a list, strings in it become text blocks; a
    single block becomes a list. `name` identifies one of several users, for APIs that have a field
    for the user's name.
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
    """The answer of a model, with its metadata. A string as content becomes a text block.

    `model` is the name of the responding model, as the provider reports it. `usage` and `cost`
    belong to this answer, and are `None` if unknown; `total_usage` and `total_cost` include failed
    attempts of the call. `stop_reason` is `None` only for a message that the caller created or that
    is incomplete. `metadata` contains other information from the provider about the answer.
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
            self.content = [TextBlock(str.__str__(content))]

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
"""Returns the fields of a message that `==` compares: all except `total_usage` and `total_cost`."""


class ToolResultMessage(_Turn, tag="tool_result"):
    """The result of a tool call. If `is_error` is true, the tool failed, and `content` says why."""

    tool_call_id: str
    tool_name: str
    content: str | list[Block]
    is_error: bool = False


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage

Conversation: TypeAlias = list[Message]
"""A list of messages."""


class Tool(Record):
    """A tool that the model may call. `parameters` is a JSON schema of an object.

    `strict` requests that the provider enforces the schema (`None`: the provider's default).
    `metadata` maps the name of a provider to fields that are added to the tool in requests to this
    provider, or replace fields of the tool: `{"anthropic": {"defer_loading": true}}`.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    metadata: dict[str, Metadata] | None = None


class Context(Record):
    """A conversation: messages in order, the system prompt, the available tools.

    The system prompt is a string, or a list of strings and blocks. If the API's system prompt may
    consist of blocks, the blocks are sent separately, with metadata such as cache marks; otherwise,
    their text is joined.
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
        """Return the context for a prompt in any of the accepted forms.

        A string is a user message. In a list, consecutive strings and blocks form one user message,
        and messages are used unchanged. Raises TypeError for values of other types.
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
"""A part of a prompt: a message, or a string or block that becomes part of a user message."""


_TURNS = frozenset(get_args(Message))


def _messages_of(pieces: Sequence[Any]) -> list[Message]:
    """Join consecutive strings and blocks to user messages; keep messages unchanged."""
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
"""The forms of a conversation that a call accepts.

A string is a user message. In a list, consecutive strings and blocks form one user message, and
messages are used unchanged. Mappings are messages or blocks in their JSON form.
"""
