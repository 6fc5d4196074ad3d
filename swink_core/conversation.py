"""Validation of a call's conversation, before anything is sent.

The fast path uses the compiled code of msgspec: it converts the conversation to plain data and
back, according to the annotations of the classes. (A direct check is not possible, because msgspec
accepts an object of the expected class without checking its fields.) `_has_classes` checks the
classes of the objects first, because the conversion to plain data would lose them. Files, media and
the order of messages are checked afterwards. A conversation that fails on the fast path is checked
again field by field, to report which value is invalid and why.
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
    Base64Source,
    Block,
    Context,
    ExtensionBlock,
    FileSource,
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
    UserMessage,
)
from swink_core.vocabulary.outcome import Cost, Usage
from swink_core.vocabulary.structs import replace

_FORM = (
    'Write messages as {"role": "user", "content": "…"}. Roles are system (also for '
    "developer messages), user, assistant and tool_result (for results of tools). Create images "
    "with image(…). Tool calls are blocks of an assistant message: append the answer itself."
)

_PIECES = (
    "Pass a string, a message, or a list of strings, media and messages: "
    '["What is this?", image("a.png")].'
)

_PART = TextBlock | MediaBlock | ExtensionBlock
"""The types of blocks in a user message."""

_INSTRUCTION = TextBlock | ExtensionBlock
"""The types of blocks in a system message."""

_HOLDS: dict[type, Any] = {
    SystemMessage: _INSTRUCTION,
    UserMessage: _PART,
    ToolResultMessage: _PART,
}
"""The types of blocks allowed in each class of message.

Assistant messages are not listed, because they may contain blocks of every type.
"""


def context_of(prompt: Prompt, system_prompt: Any, tools: Any) -> Context:
    """Return the `Context` for the prompt and options of a call.

    Raises InvalidContext if the prompt, the system prompt or a tool has a wrong type.
    """
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
    """Return a prompt in which mappings are converted to message objects.

    Raises InvalidContext for a mapping that is not a valid message.
    """
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
    """Return tools as `Tool` objects, converting dictionaries in another API's format.

    Raises InvalidContext for an entry that is not a tool.
    """
    return [_tool_of(each) if isinstance(each, Mapping) else each for each in given]


def _tool_of(given: Mapping[str, Any]) -> Tool:
    """Convert a dictionary to a tool: in swink's form, or as in OpenAI's or Anthropic's API.

    The accepted forms are those of Chat Completions, Responses and Messages (see `tools` in their
    API references). Each form contains a name, a description, and a JSON schema of the arguments.
    """
    function = given.get("function", given) if given.get("type", "function") == "function" else {}
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidContext(
            f"a tool of type {given.get('type')!r} has neither a name nor a schema",
            resolution='Pass a provider\'s own tools by extra={"tools": [{…}]}.',
        )
    fields = {key: value for key, value in function.items() if key != "type"}
    if "input_schema" in fields:
        fields["parameters"] = fields.pop("input_schema")
    return cast("Tool", _loaded(Tool, fields, f"tool {function['name']!r}"))


def check_context(context: Context, continued: bool = False) -> None:
    """Raise InvalidContext for a conversation that no provider accepts.

    `continued` means that the provider stores the earlier part of the conversation. In this case,
    the conversation may be empty, and it may contain results of tool calls from the stored part.
    Large media are checked later, in a thread, see `read_media`. The text of the error names the
    invalid message and the reason. Raises MediaError for a file that cannot be read.
    """
    expect(context.messages, list | tuple, "the messages are", "Pass a list of messages.")
    expect(context.tools, list | tuple, "the tools are", "Pass a list of Tool.")
    is_sound = _is_sound(context)
    calls: set[str] = set()
    files_left = MOST_CALL_BYTES
    characters_left = MOST_CHECKED_AT_ONCE  # of media; the rest is checked in a thread
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
                f"message {number} is the result of tool call {message.tool_call_id!r}, but no "
                "earlier message contains that call",
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
"""Types of blocks that contain no files, media or tool calls to check."""


def _check_system_prompt(prompt: Any) -> None:
    expect(prompt, list, "the system prompt is", "Pass a string, or a list of texts and blocks.")
    for number, block in enumerate(prompt):
        where = f"system_prompt[{number}]"
        expect(block, _INSTRUCTION, f"{where} is", "Instructions are strings and text blocks.")
        _check_fields(where, block)
        _check_data(where, block)


def _check_data(where: str, block: Block) -> None:
    """Raise InvalidContext for an extension that a request contains and that is not an object."""
    if isinstance(block, ExtensionBlock):
        advice = "Pass a dict: it is sent to the API as a JSON object."
        expect(block.data, dict, f"{where}: data is", advice)


# -- the fast check, by compiled code ------------------------------------------------------------

_OTHERS = (bytes, bytearray, memoryview, date, time, timedelta, datetime, Decimal, UUID)
"""Types that msgspec would convert to text, so that they would pass as strings."""

_PARTS_OF: dict[type, frozenset[type]] = {
    kind: frozenset(get_args(_HOLDS.get(kind, Block))) for kind in get_args(Message)
}
"""Maps each message class to the classes of blocks for which the fast path is possible."""

_TEXT_OR_NONE = frozenset({str, NoneType})

_SOURCES = frozenset(get_args(Source))

_NUMBERS = frozenset({int, float})
"""The types allowed for keys beside `str`: msgspec 0.23 would write bytes and dates as text."""

_facts = attrgetter("usage", "cost", "total_usage", "total_cost")
_FACTS = frozenset(product(*[(Usage, NoneType), (Cost, NoneType)] * 2))
"""The allowed combinations of the types of an answer's usage and cost."""


def _is_sound(context: Context) -> bool:
    """Return True if the classes and values of a conversation are all valid.

    `False` means only that the conversation must be checked field by field: it may still be valid,
    for example if it contains subclasses of swink's classes.
    """
    try:
        is_text = True
        for message in context.messages:
            if (
                type(message) is UserMessage
                and type(message.content) is str
                and type(message.name) in _TEXT_OR_NONE
            ):
                continue
            is_text = False
            if type(message) is ToolResultMessage and type(message.content) is str:
                continue
            if not _has_classes(message):
                return False
        if is_text and not context.tools:
            return True
        if not all(map(_is_tool, context.tools)):
            return False
        plain = msgspec.to_builtins(context, builtin_types=_OTHERS, str_keys=True)
        msgspec.convert(plain, Context)
    except Exception:  # objects in the conversation can raise anything
        return False
    return True


def _has_classes(message: Message) -> bool:
    """Return True if a message and its blocks have swink's own classes, not subclasses of them."""
    kind = type(message)
    parts = _PARTS_OF.get(kind)
    if parts is None:
        return False
    if isinstance(message, AssistantMessage) and (
        (*map(type, _facts(message)),) not in _FACTS
        or (message.metadata is not None and not _is_object(message.metadata))
    ):
        return False
    content: Any = message.content
    if type(content) is str:
        return kind is not AssistantMessage
    if type(content) is not list:
        return False
    for block in content:
        part = type(block)
        if part not in parts or (block.metadata is not None and not _is_object(block.metadata)):
            return False
        if part not in _PLAIN and not _is_part(block, kind):
            return False
    return True


def _is_object(value: Any) -> bool:
    """Return True for a dict that is a JSON object; msgspec would also accept a dataclass."""
    if type(value) is not dict:
        return False
    for key in value:  # noqa: SIM110  # it takes half the time of `all`
        if type(key) is not str and type(key) not in _NUMBERS:
            return False
    return True


def _is_part(block: ToolCallBlock | MediaBlock | ExtensionBlock, kind: type[Message]) -> bool:
    if isinstance(block, ToolCallBlock):
        return _is_object(block.arguments)
    if isinstance(block, MediaBlock):
        data = getattr(block.source, "data", "")
        return type(block.source) in _SOURCES and type(data) is str
    return kind is AssistantMessage or _is_object(block.data)


def _is_tool(tool: Tool) -> bool:
    if type(tool) is not Tool or not _is_object(tool.parameters):
        return False
    metadata = tool.metadata
    return metadata is None or (_is_object(metadata) and all(map(_is_object, metadata.values())))


# -- the slow check, which describes the fault ---------------------------------------------------


def _check_message(number: int, message: Message) -> None:
    where = f"message {number}"
    known = "Use SystemMessage, UserMessage, AssistantMessage or ToolResultMessage."
    expect(message, Message, f"{where} is", known)
    _check_fields(where, message)
    _check_content(where, message)


def _says_something(message: Message) -> bool:
    if isinstance(message, SystemMessage):  # a system message needs no answer
        return False
    if isinstance(message, ToolResultMessage):
        return True
    if isinstance(message.content, str):
        return bool(message.content)
    return any(not isinstance(b, TextBlock) or b.text or b.metadata for b in message.content)


def _check_content(where: str, message: Message) -> None:
    content: Any = message.content
    if isinstance(content, str) and not isinstance(message, AssistantMessage):
        message.content = str.__str__(content)  # plugins do not expect subclasses of `str`
        return
    expect(content, list | tuple, f"{where}: content is", "Pass a string or a list of blocks.")
    for block in content:
        known = "Use the blocks of swink_core: TextBlock, ImageBlock, …"
        expect(block, Block, f"a block of {where} is", known)
        if not isinstance(block, _HOLDS.get(type(message), Block)):
            raise InvalidContext(
                f"{where}: {block.type} in a message with the role {message.role}",
                resolution="Thinking and tool calls belong in assistant messages; instructions "
                "contain only text.",
            )
        _check_fields(where, block)
        if type(message) in _HOLDS:
            _check_data(where, block)


def _check_fields(where: str, value: Any) -> None:
    """Check the fields of a message, block, source or tool against their annotations."""
    kind: Any = type(value)
    for name, annotation in annotations_of(kind).items():
        if name != "content":  # the content has its own error messages
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
            raise InvalidContext(f"tool {number} has no name", resolution="Give the tool a name.")
        if not are_sound:
            _check_fields(f"tool {tool.name!r}", tool)
        if tool.name in names:
            raise InvalidContext(
                f"two tools have the name {tool.name!r}",
                resolution="Give each tool a different name.",
            )
        names.add(tool.name)
