"""The values of a conversation that a request must contain."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import cached_property

from attrs import define, field

from swink_core import (
    AudioBlock,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UrlSource,
    UserMessage,
)

__all__ = ["Said", "Value", "encoded"]

_MARK = "nonce"
"""A word in each value that must be in the request; all such values are unique."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def encoded(data: bytes) -> str:
    """Return bytes as base64 text, as media blocks contain them."""
    return base64.b64encode(data).decode()


@define(frozen=True)
class Value:
    """A value of a conversation, and its path in the form of `Notice.paths`.

    `forms` are the texts in which a request may contain the value; one of them is enough.
    """

    path: str
    forms: tuple[str, ...]


@define(slots=False)
class Said:
    """A named conversation. Its values and the texts in `also` must be in the request."""

    name: str
    context: Context = field(repr=False)
    also: tuple[str, ...] = ()

    @cached_property
    def values(self) -> list[Value]:
        """The values that must be in the request unless a notice reports their paths."""
        found = [*_values(self.context), *(Value("", (text,)) for text in self.also)]
        return list(dict.fromkeys(found))


def _values(context: Context) -> Iterator[Value]:
    """Yield the unique values of a conversation, which the request must contain."""
    if isinstance(context.system_prompt, list):
        for place, block in enumerate(context.system_prompt):
            yield from _of_block(f"system_prompt[{place}]", block)
    else:
        yield from _nonces("system_prompt", context.system_prompt)
    for at, tool in enumerate(context.tools):
        path = f"tools[{at}]"
        yield Value(f"{path}.name", _name(tool.name))
        yield from _nonces(f"{path}.description", tool.description)
        yield from _nonces(f"{path}.parameters", tool.parameters)
        yield from _nonces(f"{path}.metadata", tool.metadata)
    for at, message in enumerate(context.messages):
        path, content = f"messages[{at}].content", message.content
        if isinstance(message, UserMessage) and message.name:
            yield Value(f"messages[{at}].name", (message.name,))
        if isinstance(content, str):
            yield from _nonces(path, content)
        else:
            for place, block in enumerate(content):
                yield from _of_block(f"{path}[{place}]", block)


def _of_block(path: str, block: Block) -> Iterator[Value]:
    yield from _nonces(f"{path}.metadata", block.metadata)
    match block:
        case TextBlock(text):
            yield from _nonces(f"{path}.text", text)
        case ThinkingBlock(thinking):
            yield from _nonces(f"{path}.thinking", thinking)
        case ToolCallBlock(name=name, arguments=arguments):
            yield Value(f"{path}.name", _name(name))
            yield from _nonces(f"{path}.arguments", arguments)
        case ImageBlock(source) | DocumentBlock(source) | AudioBlock(source):
            if isinstance(source, Base64Source):
                yield Value(f"{path}.source", (source.data, *_as_text(source)))
            elif isinstance(source, UrlSource):
                yield Value(f"{path}.source", (source.url,))
            elif isinstance(source, FileIdSource):
                yield Value(f"{path}.source", (source.id,))
            if isinstance(block, DocumentBlock) and block.name:
                yield Value(f"{path}.name", (block.name, _stem(block.name)))
        case ExtensionBlock(data=data):
            yield from _nonces(f"{path}.data", data)


def _stem(name: str) -> str:
    """Return the beginning of a document's name, up to a character that a request may replace."""
    return _NOT_IN_NAMES.split(name)[0]


def _name(name: str) -> tuple[str, ...]:
    """Return two forms of a tool's name, one of which a request must contain.

    The first is the name itself. The second is the beginning of the name, in which the characters
    that some APIs refuse are replaced.
    """
    return name, _NOT_IN_NAMES.sub("_", name).lstrip("0123456789")[:40]


def _nonces(path: str, data: object) -> Iterator[Value]:
    if isinstance(data, str):
        if _MARK in data or (data and not data.strip()):
            yield Value(path, (data,))
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from _nonces(path, name)
            yield from _nonces(f"{path}.{name}", value)
    elif isinstance(data, list):
        for at, item in enumerate(data):
            yield from _nonces(f"{path}[{at}]", item)


def _as_text(source: Base64Source) -> tuple[str, ...]:
    if not source.media_type.startswith("text/"):
        return ()
    return (base64.b64decode(source.data).decode("utf-8", "replace"),)
