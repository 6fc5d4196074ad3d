"""Compute the context length (`num_ctx`) that a conversation needs, so that it is not truncated.

Ollama has no endpoint that counts tokens, so the number is estimated from the text. The context
length is computed from a high estimate, because a context that is too long only costs memory. A
call is rejected only if a low estimate exceeds the limit, so that a conversation which fits is
never rejected. Requests turn truncation off, so recent servers themselves reject a prompt that is
too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from swink_core import Call, Failure, Model, ModelInfo, ProviderFailure, StreamOptions
from swink_core import StreamErrorKind as Kind

__all__ = ["context_of", "tell_of_length"]

LEAST_DEFAULT = 4096
"""The context length that every server has by default, in tokens.

This is the default on a small machine. On a larger one, the default is longer
(https://docs.ollama.com/context-length).
"""

ANSWER = 2048
"""Tokens to reserve for an answer without `max_tokens`."""

BYTES_A_TOKEN = 3
"""Bytes per token of dense text such as code and JSON; prose has four."""

MOST_BYTES_A_TOKEN = 12
"""An upper limit of the average bytes per token, for text in any language."""

IMAGE_TOKENS = 1024


def context_of(model: Model, payload: Mapping[str, Any], options: StreamOptions) -> int | None:
    """Return the `num_ctx` for a call.

    The result is `None` if the server's default is enough or if the caller sets `num_ctx` or allows
    truncation. Otherwise it is a power of two, or the model's maximum. A server reloads the model
    whenever `num_ctx` changes, so only a few different values are used.
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
    """Add a notice if a conversation may exceed the model's context window.

    Raises ProviderFailure (`context_window_exceeded`) if the conversation certainly exceeds it.
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
    """Return True if the caller sets `num_ctx`, or lets the server truncate the prompt."""
    own = options.extra.get("options")
    return bool(options.extra.get("truncate") or (own and own.get("num_ctx")))


def _wanted(payload: Mapping[str, Any], options: StreamOptions) -> int:
    """Return an upper estimate of the tokens that a conversation and its answer need."""
    pictures = sum(len(message.get("images", ())) for message in payload["messages"])
    text = _bytes(payload) // BYTES_A_TOKEN
    return text + pictures * IMAGE_TOKENS + (options.max_tokens or ANSWER)


def _bytes(payload: Mapping[str, Any]) -> int:
    """Return the number of UTF-8 bytes in a conversation's text and in the JSON of the tools."""
    texts = [{**message, "images": None} for message in payload["messages"]]
    counted = {"messages": texts, "tools": payload.get("tools")}
    try:
        return len(msgspec.json.encode(counted))
    except UnicodeEncodeError:  # a lone surrogate is sent as an escape
        return len(str(counted))
