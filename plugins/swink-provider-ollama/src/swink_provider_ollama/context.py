"""How long a context a conversation wants (`num_ctx`), so that nothing of it is left out.

Ollama has no endpoint that counts tokens, so the number is estimated from the text: high for the
size of the context, which only costs memory, and low for rejecting a call. Recent servers reject
prompts that are too long themselves, because requests turn truncation off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from swink_core import Call, Failure, Model, ModelInfo, ProviderFailure, StreamOptions
from swink_core import StreamErrorKind as Kind

__all__ = ["context_of", "tell_of_length"]

LEAST_DEFAULT = 4096
"""Tokens of context that a server gives of itself, on a small machine; on a large one it is more
(https://docs.ollama.com/context-length)."""

ANSWER = 2048
"""Tokens to leave for an answer without `max_tokens`."""

BYTES_A_TOKEN = 3
"""Bytes per token of dense text such as code and JSON; prose has four."""

MOST_BYTES_A_TOKEN = 12
"""More than this no language's text has on an average."""

IMAGE_TOKENS = 1024


def context_of(model: Model, payload: Mapping[str, Any], options: StreamOptions) -> int | None:
    """Return the `num_ctx` of a call; `None` where the server's own is enough.

    It is a power of two, since a server loads the model anew where it changes, or all that the
    model takes.
    """
    info = model.info or ModelInfo(model.id)
    wanted = _wanted(payload, options)
    if wanted <= info.extra.get("num_ctx", LEAST_DEFAULT) or _is_own(options):
        return None
    size = 1 << (wanted - 1).bit_length()
    return min(size, info.context_window or size)


def tell_of_length(
    model: Model, payload: Mapping[str, Any], options: StreamOptions, call: Call
) -> None:
    """Warn that a conversation may exceed the model's context window.

    Raises ProviderFailure (`context_window_exceeded`) for one that is.
    """
    window = model.info and model.info.context_window
    wanted = _wanted(payload, options)
    if not window or wanted <= window or _is_own(options):
        return
    if (tokens := _bytes(payload) // MOST_BYTES_A_TOKEN) > window:
        failure = Failure("request", kind=Kind.CONTEXT_WINDOW_EXCEEDED, code="context_length")
        failure.message = (
            f"{model} has a context window of {window} tokens, and the conversation has over "
            f"{tokens}"
        )
        raise ProviderFailure(failure)
    call.notice(
        "option_changed",
        f"{model}: num_ctx was set to {window}, the context window of the model; the conversation "
        f"and its answer may need {wanted}, and older servers cut off what does not fit",
    )


def _is_own(options: StreamOptions) -> bool:
    """Return True if the caller says how long the context is, or that things may be left out."""
    own = options.extra.get("options")
    return bool(options.extra.get("truncate") or (own and own.get("num_ctx")))


def _wanted(payload: Mapping[str, Any], options: StreamOptions) -> int:
    """Return the tokens that a conversation and its answer need at most, in all likelihood."""
    pictures = sum(len(message.get("images", ())) for message in payload["messages"])
    text = _bytes(payload) // BYTES_A_TOKEN
    return text + pictures * IMAGE_TOKENS + (options.max_tokens or ANSWER)


def _bytes(payload: Mapping[str, Any]) -> int:
    """Count what of a conversation is text, or JSON of tools, in UTF-8."""
    texts = [{**message, "images": None} for message in payload["messages"]]
    counted = {"messages": texts, "tools": payload.get("tools")}
    try:
        return len(msgspec.json.encode(counted))
    except UnicodeEncodeError:  # half a character, which goes out as an escape
        return len(str(counted))
