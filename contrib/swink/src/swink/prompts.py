"""What a call takes for a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from swink_core import Context, Message

__all__ = ["Prompt"]

Prompt: TypeAlias = Context | str | Sequence[Message | Mapping[str, Any]]
"""A string stands for one user message, mappings for messages in their JSON form."""
