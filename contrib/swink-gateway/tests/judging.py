"""Compare an answer read by a vendor's SDK through the gateway with swink's own reading."""

from __future__ import annotations

from typing import Any

from sdks import WORDS, Read, parsed

import swink_core as swink
from swink_core import ToolCallBlock
from swink_core.providers import arguments_object, is_synthetic_id

__all__ = ["check"]


def check(protocol: str, read: Read, message: swink.AssistantMessage) -> None:
    """Check that an SDK read all parts of an answer that its protocol has a field for.

    If the answer failed, the SDK must raise an exception with the provider's message.
    """
    if message.error_kind is not None:
        assert read.error is not None
        first_line = (message.error_message or "").partition("\n")[0]
        assert first_line in read.message
        return
    is_native, broken = protocol == "native", not all(map(_is_whole, message.tool_calls))
    if protocol == "messages" and broken and read.error is not None:
        assert "Unable to parse tool parameter JSON" in str(read.error)  # its helper does
        return
    assert read.error is None, repr(read.error)
    assert read.text == message.text
    assert read.thinking == message.thinking
    calls = [call for call in message.tool_calls if protocol != "gemini" or _is_whole(call)]
    said = [_named(*call) for call in read.calls]
    if protocol == "messages" and broken:  # its SDK completes truncated JSON
        assert [call[:2] for call in said] == [_call(protocol, call)[:2] for call in calls]
    else:
        assert said == [_call(protocol, call) for call in calls]
    assert message.stop_reason is not None
    if len(calls) < len(message.tool_calls) and message.stop_reason != "length":
        assert read.stop == "MALFORMED_FUNCTION_CALL"
    else:
        facts, word = message.metadata or {}, WORDS[protocol][message.stop_reason]
        if protocol == "messages" and isinstance(facts.get("stop_sequence"), str):
            word = "stop_sequence"
        elif protocol == "gemini":
            word = facts.get("finishReason", word)
        assert read.stop == word
    names = [message.model, *([f"{message.provider}/{message.model}"] if is_native else [])]
    assert read.model in names  # swink's client reports the requested name of the model
    if protocol in ("responses", "socket") and read.id != message.response_id:
        assert str(read.id).startswith("resp_")  # the gateway's own: others may repeat theirs
    elif message.response_id is not None and protocol != "ollama":
        assert read.id == message.response_id
    usage = message.usage
    if usage is not None and usage.reported:
        counts = (usage.input, usage.output, usage.cache_read, usage.reasoning)
        told = tuple(count or 0 for count in counts)
        assert read.counts is not None
        assert read.counts == (told if protocol != "ollama" else (*told[:2], 0, 0))


def _is_whole(call: ToolCallBlock) -> bool:
    return call.state == "complete"


def _call(protocol: str, call: ToolCallBlock) -> tuple[str | None, str, Any]:
    """Return a call in the form that a protocol preserves."""
    if protocol == "ollama":
        return None, call.name, arguments_object(call)
    given = call.arguments if _is_whole(call) else parsed(call.raw_arguments or "")
    return _named(call.id, call.name, given)


def _named(id: str | None, name: str, arguments: Any) -> tuple[str | None, str, Any]:
    """Return a call; an id that swink generates is left out, since it differs in every answer."""
    return None if id is None or is_synthetic_id(id) else id, name, arguments
