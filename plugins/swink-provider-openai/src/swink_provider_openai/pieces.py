"""A fast path for deltas with a single field, which are most of the deltas of a long answer."""

from __future__ import annotations

from swink_core.providers import EventWriter
from swink_provider_openai.wire import Delta, Function, ToolCall

__all__ = ["said_alone"]


def said_alone(delta: Delta, in_calls: bool, out: EventWriter) -> bool:
    """Write a delta that contains only reasoning, or only a piece of a tool call's arguments.

    Return True if the delta was written. Pieces of arguments are written only if `in_calls` is
    true.
    """
    thought, calls = delta.reasoning_content, delta.tool_calls
    if thought and delta == Delta(delta.content, reasoning_content=thought):
        out.thinking(thought)
        return True
    if not calls or len(calls) > 1 or not in_calls:
        return False
    call, said = calls[0], calls[0].function
    piece = None if said is None else said.arguments
    bare = ToolCall(call.index, type=call.type, function=Function(arguments=piece))
    if not isinstance(piece, str) or call != bare or delta != Delta(delta.content, calls):
        return False
    out.tool_call(call.index, arguments=piece)
    return True
