"""Check whether a frame is intact.

An intact frame is UTF-8 and JSON, nested no deeper than `MAX_DEPTH`, without lone surrogates.
msgspec skips fields with unknown names without checking their strings. If the name of a field was
damaged, its content would therefore be lost without an error. To detect this, every frame is
validated as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from swink_core.failures.failure import MalformedFrame
from swink_core.vocabulary.depth import MAX_DEPTH
from swink_core.vocabulary.http import HTTPRequest
from swink_core.vocabulary.messages import Context, json_of_models

LONE_SURROGATE = "lone_surrogate"
"""The code of the notice about repaired text."""

REPAIRED = "half of a surrogate pair was replaced by U+FFFD"


class RepairedRequest(HTTPRequest):
    """A request in whose body `lenient_json` replaced half of a surrogate pair."""


TOO_DEEP = f"the data are nested deeper than {MAX_DEPTH} levels"


def text_field(value: Any, name: str) -> str:
    """Return the text of a field, empty for null. Raises MalformedFrame for other types."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise MalformedFrame(f"expected text or null in the field {name!r}, got {type(value).__name__}")


def repaired_json(text: bytes) -> bytes | None:
    """Replace lone surrogate escapes (`\\ud83e`) in JSON by U+FFFD.

    Models produce such escapes, and UTF-8 cannot represent them. Return `None` if the text contains
    no lone surrogate, or is not JSON in valid UTF-8. The caller must report the repair in a notice
    (`lone_surrogate`).
    """
    try:
        data = json_of_models(text.decode())
        made = lenient_json(data)
        has_lone = made != json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return None
    return made if has_lone else None


def lenient_json(value: Any) -> bytes:
    """Encode data as msgspec does, except that strings may contain surrogates.

    Surrogate pairs are joined, and lone surrogates become U+FFFD.
    """
    value = msgspec.to_builtins(value, str_keys=True)
    text = json.dumps(value, ensure_ascii=False)
    if "NaN" in text or "Infinity" in text:  # msgspec writes null for such numbers
        data = json.loads(text, parse_constant=lambda constant: None)
        text = json.dumps(data, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def paths_of_halves(context: Context) -> Iterator[str]:
    """Yield the paths of the values in a conversation that contain a lone surrogate.

    Such a value is the system prompt, the text of a message, a block or a tool.
    """
    if has_half(context.system_prompt):
        yield "system_prompt"
    for number, message in enumerate(context.messages):
        path = f"messages[{number}].content"
        if isinstance(message.content, str):
            if has_half(message.content):
                yield path
        else:
            for place, block in enumerate(message.content):
                if has_half(block):
                    yield f"{path}[{place}]"
    for number, tool in enumerate(context.tools):
        if has_half(tool):
            yield f"tools[{number}]"


def has_half(value: Any) -> bool:
    """Return True if a string in the data contains a lone surrogate."""
    text = json.dumps(msgspec.to_builtins(value, str_keys=True), ensure_ascii=False)
    try:
        text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return True
    return False
