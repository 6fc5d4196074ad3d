"""The prompts that a call accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from swink_core import (
    AudioBlock,
    Context,
    DocumentBlock,
    ExtensionBlock,
    ImageBlock,
    Message,
    TextBlock,
)

__all__ = ["Piece", "Prompt"]

Piece: TypeAlias = (
    str | TextBlock | ImageBlock | DocumentBlock | AudioBlock | ExtensionBlock | Message
)
"""A part of a prompt: a message, or text or media that become part of a user message."""

Prompt: TypeAlias = Context | Piece | Mapping[str, Any] | Sequence[Piece | Mapping[str, Any]]
"""A prompt: a string, a message, or a list of strings, media and messages.

A string is a user message. In a list, consecutive strings and media form one user message, and
messages are used unchanged. Mappings are messages or blocks in their JSON form.
"""
