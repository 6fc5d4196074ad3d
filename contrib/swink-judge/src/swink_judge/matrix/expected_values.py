"""A conversation of the matrix, and the values in it that a request must hold."""

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
    ToolCallBlock,
    UrlSource,
)

__all__ = ["Said", "encoded"]

_MARK = "nonce"
"""How each value begins that was made for its conversation alone."""

_NOT_KEPT = ("nonce_foreign",)
"""Reasoning of another provider: nobody takes it."""


_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def encoded(data: bytes) -> str:
    """Return bytes as media blocks carry them."""
    return base64.b64encode(data).decode()


@define(slots=False)
class Said:
    """A conversation by its name; `also` must be in the request besides its values."""

    name: str
    context: Context = field(repr=False)
    also: tuple[str, ...] = ()

    @cached_property
    def values(self) -> list[str | tuple[str, ...]]:
        """What of it must be in the request: a string, or several forms of one value."""
        found = (*_strings(self.context), *self.also)
        return list(dict.fromkeys(value for value in found if value not in _NOT_KEPT))


def _strings(context: Context) -> Iterator[str | tuple[str, ...]]:
    """Yield what of a conversation must go out: all that was made for it alone."""
    yield from _nonces(context.system_prompt)
    for tool in context.tools:
        yield _name(tool.name)
        yield from _nonces([tool.description, tool.parameters])
    for message in context.messages:
        content = message.content
        for block in [TextBlock(content)] if isinstance(content, str) else content:
            yield from _of_block(block)


def _of_block(block: Block) -> Iterator[str | tuple[str, ...]]:
    match block:
        case TextBlock(text):
            yield from _nonces(text.strip())
        case ToolCallBlock(name=name, arguments=arguments):
            yield _name(name)
            yield from _nonces(arguments)
        case ImageBlock(source) | DocumentBlock(source) | AudioBlock(source):
            if isinstance(source, Base64Source):
                yield (source.data, *_as_text(source))
            elif isinstance(source, UrlSource):
                yield source.url
            elif isinstance(source, FileIdSource):
                yield source.id
        case ExtensionBlock(data=data):
            yield from _nonces(data)


def _name(name: str) -> tuple[str, ...]:
    """Return a tool's name, and how one begins that stands for it where an API refuses it."""
    return name, _NOT_IN_NAMES.sub("_", name).lstrip("0123456789")[:40]


def _nonces(data: object) -> Iterator[str]:
    if isinstance(data, str):
        if data.startswith(_MARK):
            yield data
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from _nonces([name, value])
    elif isinstance(data, list):
        for item in data:
            yield from _nonces(item)


def _as_text(source: Base64Source) -> tuple[str, ...]:
    if not source.media_type.startswith("text/"):
        return ()
    return (base64.b64decode(source.data).decode("utf-8", "replace"),)
