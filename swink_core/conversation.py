"""Validation of a call's conversation, before anything is sent.

Compiled code does it: msgspec takes the conversation apart and reads it again, by the annotations
of the classes. (It returns an existing object of the expected class without a look inside, hence
the detour.) `_has_classes` checks classes first, which taking apart would hide; files, media and
the order of messages are checked after. A conversation that does not pass is read once more, field
by field, for an error message with the place and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import product
from operator import attrgetter
from pathlib import PurePath
from types import NoneType
from typing import Any, cast, get_args
from uuid import UUID

import msgspec

from swink_core.arguments import check_json, expect
from swink_core.failures.exceptions import InvalidContext
from swink_core.providers.contexts import called_ids
from swink_core.providers.media import (
    MOST_CALL_BYTES,
    MOST_CHECKED_AT_ONCE,
    MOST_FILE_BYTES,
    check_base64,
    check_file,
)
from swink_core.vocabulary.checks import annotations_of, held_to
from swink_core.vocabulary.codec import CodecError, load
from swink_core.vocabulary.messages import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    FileSource,
    ImageBlock,
    MediaBlock,
    Message,
    Prompt,
    Source,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.vocabulary.outcome import Cost, Usage
from swink_core.vocabulary.structs import replace

_FORM = (
    'Write messages as {"role": "user", "content": "…"}. In swink\'s form a developer\'s role is '
    "system and a tool's tool_result; pictures are made by image(…), and tool calls are blocks of "
    "an answer's content: append the answer itself."
)

_PIECES = (
    "Pass a string, a message, or a list of strings, media and messages: "
    '["What is this?", image("a.png")].'
)

_PART = TextBlock | MediaBlock | ExtensionBlock
"""Blocks of a user message."""

_INSTRUCTION = TextBlock | ExtensionBlock
"""Blocks of a system message."""


def context_of(prompt: Prompt, system_prompt: Any, tools: Any) -> Context:
    """Return the conversation that a call is given. Raises InvalidContext."""
    context = Context.of(_prompt_of(prompt))
    if system_prompt is not None:
        if isinstance(system_prompt, list | tuple):
            system_prompt = [
                _loaded(_INSTRUCTION, each, f"system_prompt[{number}]")
                if isinstance(each, Mapping)
                else each
                for number, each in enumerate(system_prompt)
            ]
        context = replace(context, system_prompt=system_prompt)
    if tools is not None:
        expect(tools, Sequence, "tools are", "Pass a list of tools.")
        context = replace(context, tools=tools_of(tools))
    return context


def _prompt_of(prompt: Any) -> Any:
    """Return a prompt with objects for its mappings. Raises InvalidContext."""
    if isinstance(prompt, list | tuple):
        if _PARTS_OF.keys() >= {*map(type, prompt)}:
            return prompt
        return [_piece(each, f"part {number} of the prompt") for number, each in enumerate(prompt)]
    if isinstance(prompt, str | Context):
        return prompt
    if isinstance(prompt, Mapping) and "messages" in prompt:
        return _loaded(Context, prompt, "the prompt")
    return [_piece(prompt, "the prompt")]


_PIECES_OF_PROMPT = (str, *get_args(Message), *get_args(_PART))


def _piece(given: Any, where: str) -> Any:
    if isinstance(given, _PIECES_OF_PROMPT):
        return given
    if isinstance(given, Mapping):
        kind: Any = Message if "role" in given or "type" not in given else _PART
        return _loaded(kind, given, where)
    raise InvalidContext(
        f"{where} is of type {type(given).__name__}", resolution=_remedy_for(given)
    )


def _remedy_for(given: Any) -> str:
    if isinstance(given, PurePath):
        return "Name the kind of the file: image(path), document(path) or audio(path)."
    if isinstance(given, bytes):
        return "Decode text, and name the kind of other bytes: image(…), document(…) or audio(…)."
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(e, str) for e in given):
        return 'Write {"role": "user", "content": "…"}, or UserMessage("…").'
    return _PIECES


def _loaded(kind: Any, given: Mapping[str, Any], where: str) -> Any:
    try:
        return load(kind, given, exact=True)
    except CodecError as error:
        raise InvalidContext(f"{where}: {error}", resolution=_FORM) from error


def tools_of(given: Sequence[Any]) -> list[Any]:
    """Return tools, read from other APIs' dictionaries where they are such. Raises
    InvalidContext."""
    return [_tool_of(each) if isinstance(each, Mapping) else each for each in given]


def _tool_of(given: Mapping[str, Any]) -> Tool:
    """Read a tool in swink's JSON form, or as Chat Completions, Responses or Messages write it.

    Sources: the API references of `tools`. In each form the fields mean the same: a name, a
    description, a JSON schema of the arguments.
    """
    function = given.get("function", given) if given.get("type", "function") == "function" else {}
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidContext(
            f"a tool of type {given.get('type')!r} has no name and no schema",
            resolution='Pass a provider\'s own tools by extra={"tools": [{…}]}.',
        )
    fields = {key: value for key, value in function.items() if key != "type"}
    if "input_schema" in fields:
        fields["parameters"] = fields.pop("input_schema")
    return cast("Tool", _loaded(Tool, fields, f"tool {function['name']!r}"))


def check_context(context: Context, continued: bool = False) -> None:
    """Refuse a conversation that no provider accepts.

    `continued`: the provider keeps what comes first, which may be all, and may hold calls that are
    answered. Large
    media are checked later, in a thread, see `read_media`. Raises InvalidContext, which names the
    message and the fault, or MediaError for a file.
    """
    expect(context.messages, list | tuple, "the messages are", "Pass a list of messages.")
    expect(context.tools, list | tuple, "the tools are", "Pass a list of Tool.")
    is_sound = _is_sound(context)
    calls: set[str] = set()
    files_left = MOST_CALL_BYTES
    characters_left = MOST_CHECKED_AT_ONCE  # of media: the rest is checked in a thread
    for number, message in enumerate(context.messages):
        if not is_sound:
            _check_message(number, message)
        content: Any = message.content
        if type(content) is not str:
            for block in content:
                if type(block) in _PLAIN:
                    continue
                if isinstance(block, ToolCallBlock):
                    calls.add(block.id)
                elif isinstance(block, MediaBlock):
                    source = block.source
                    if isinstance(source, FileSource):
                        files_left -= check_file(source, min(files_left, MOST_FILE_BYTES))
                    elif isinstance(source, Base64Source):
                        characters_left -= len(source.data)
                        if characters_left >= 0:
                            check_base64(source, f"message {number}")
                elif isinstance(message, AssistantMessage):
                    calls |= called_ids(block)
        if isinstance(message, ToolResultMessage) and not (
            continued or message.tool_call_id in calls
        ):
            raise InvalidContext(
                f"message {number} answers tool call {message.tool_call_id!r}, which no "
                "message before it makes",
                resolution="Keep the assistant message with the call before its result.",
            )
    may_be_empty = continued and not context.messages
    if not (may_be_empty or any(_says_something(message) for message in context.messages)):
        raise InvalidContext(
            "the conversation is empty", resolution="Pass at least one user message with content."
        )
    prompt = context.system_prompt
    if prompt is not None and type(prompt) is not str:
        _check_system_prompt(prompt)
    _check_tools(context.tools, is_sound)


_PLAIN = frozenset({TextBlock, ThinkingBlock})
"""Blocks that name nothing outside the message."""


def _check_system_prompt(prompt: Any) -> None:
    expect(prompt, list, "the system prompt is", "Pass a string, or a list of texts and blocks.")
    for number, block in enumerate(prompt):
        where = f"system_prompt[{number}]"
        expect(block, _INSTRUCTION, f"{where} is", "Instructions are strings and text blocks.")
        _check_fields(where, block)
        if isinstance(block, ExtensionBlock):
            expect(block.data, dict, f"{where}: data is", "In every API, a part is an object.")


# -- what compiled code checks -------------------------------------------------------------------

_OTHERS = (bytes, bytearray, memoryview, date, time, timedelta, datetime, Decimal, UUID)
"""Values that msgspec would write as text, which they are not."""

_MEDIA = frozenset({ImageBlock, DocumentBlock, AudioBlock})
_PARTS_OF: dict[type, frozenset[type]] = {
    SystemMessage: frozenset({TextBlock, ExtensionBlock}),
    UserMessage: frozenset({TextBlock, ExtensionBlock}) | _MEDIA,
    ToolResultMessage: frozenset({TextBlock, ExtensionBlock}) | _MEDIA,
    AssistantMessage: frozenset({TextBlock, ThinkingBlock, ToolCallBlock, ExtensionBlock}) | _MEDIA,
}
"""Messages by their class, and the blocks in them that compiled code reads."""

_TEXT_OR_NONE = frozenset({str, NoneType})

_SOURCES = frozenset({Base64Source, UrlSource, FileSource, FileIdSource})

_OBJECT = frozenset({dict, NoneType})
"""Classes of a field that is a JSON object: msgspec would take structs and dataclasses too."""

_facts = attrgetter("usage", "cost", "total_usage", "total_cost", "metadata")
_FACTS = frozenset(product(*[(Usage, NoneType), (Cost, NoneType)] * 2, (dict, NoneType)))
"""The classes that the facts of an answer may have together."""


def _is_sound(context: Context) -> bool:
    """Tell whether a conversation is of the classes and values that it should be.

    `False` may also be due to a subclass, for example: whoever asks looks more closely.
    """
    try:
        is_text = True
        for message in context.messages:
            if type(message) is UserMessage and type(message.content) is str:
                continue
            is_text = False
            if type(message) is ToolResultMessage and type(message.content) is str:
                continue
            if not _has_classes(message):
                return False
        if is_text and not context.tools and type(context.system_prompt) in _TEXT_OR_NONE:
            return True
        if not all(map(_is_tool, context.tools)):
            return False
        plain = msgspec.to_builtins(context, builtin_types=_OTHERS, str_keys=True)
        msgspec.convert(plain, Context)
    except Exception:  # of whatever objects are in it, too
        return False
    return True


def _has_classes(message: Message) -> bool:
    """Tell whether a message and what is in it are of the classes that compiled code looks into."""
    kind = type(message)
    parts = _PARTS_OF.get(kind)
    if parts is None or (kind is AssistantMessage and (*map(type, _facts(message)),) not in _FACTS):
        return False
    content: Any = message.content
    if type(content) is str:
        return kind is not AssistantMessage
    if type(content) is not list:
        return False
    for block in content:
        part = type(block)
        if part not in parts or type(block.metadata) not in _OBJECT:
            return False
        if part not in _PLAIN and not _is_part(block, kind):
            return False
    return True


def _is_part(block: Block, kind: type[Message]) -> bool:
    if isinstance(block, ToolCallBlock):
        return type(block.arguments) is dict
    if isinstance(block, MediaBlock):
        data = getattr(block.source, "data", "")
        return type(block.source) in _SOURCES and type(data) is str
    if isinstance(block, ExtensionBlock):
        return kind is AssistantMessage or type(block.data) is dict
    return True


def _is_tool(tool: Tool) -> bool:
    return type(tool) is Tool and type(tool.parameters) is dict and type(tool.metadata) in _OBJECT


# -- what says what is wrong ---------------------------------------------------------------------


def _check_message(number: int, message: Message) -> None:
    where = f"message {number}"
    known = "Use SystemMessage, UserMessage, AssistantMessage or ToolResultMessage."
    expect(message, Message, f"{where} is", known)
    _check_fields(where, message)
    _check_content(where, message)


def _says_something(message: Message) -> bool:
    if isinstance(message, SystemMessage):  # an instruction needs no answer
        return False
    if isinstance(message, ToolResultMessage):
        return True
    if isinstance(message.content, str):
        return bool(message.content)
    return any(not isinstance(b, TextBlock) or b.text or b.metadata for b in message.content)


def _check_content(where: str, message: Message) -> None:
    content: Any = message.content
    if isinstance(content, str) and not isinstance(message, AssistantMessage):
        return
    expect(content, list | tuple, f"{where}: content is", "Pass a string or a list of blocks.")
    for block in content:
        known = "Use the blocks of swink_core: TextBlock, ImageBlock, …"
        expect(block, Block, f"a block of {where} is", known)
        if not isinstance(block, _HOLDS.get(type(message), Block)):
            raise InvalidContext(
                f"{where}: {block.type} in a message with the role {message.role}",
                resolution="Thinking and tool calls are the model's; instructions are text alone.",
            )
        _check_fields(where, block)
        if isinstance(block, ExtensionBlock) and type(message) in _HOLDS:
            expect(block.data, dict, f"{where}: data is", "In every API, a part is an object.")


_HOLDS: dict[type, Any] = {
    SystemMessage: _INSTRUCTION,
    UserMessage: _PART,
    ToolResultMessage: _PART,
}
"""Blocks that a message may hold; an answer holds any."""


def _check_fields(where: str, value: Any) -> None:
    """Check the fields of a message, block, source or tool against their annotations."""
    kind: Any = type(value)
    for name, annotation in annotations_of(kind).items():
        if name != "content":  # which has messages of its own
            try:
                held_to(annotation, held := getattr(value, name))
            except ValueError as error:
                what = f"{where}: {name}: {error}"
                raise InvalidContext(what, resolution=f"Correct the {kind.__name__}.") from None
            if isinstance(held, Source):
                _check_fields(where, held)
            elif kind is not Base64Source:
                check_json(held, f"{where}: {name}", InvalidContext)


def _check_tools(tools: Sequence[Tool], are_sound: bool) -> None:
    names: set[str] = set()
    for number, tool in enumerate(tools):
        expect(tool, Tool, f"tool {number} is", "Use Tool.")
        if not tool.name:
            raise InvalidContext(f"tool {number} has no name", resolution="Give it one.")
        if not are_sound:
            _check_fields(f"tool {tool.name!r}", tool)
        if tool.name in names:
            raise InvalidContext(
                f"two tools are called {tool.name!r}", resolution="Give each tool its own name."
            )
        names.add(tool.name)
