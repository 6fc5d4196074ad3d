"""The canonical request: all that an answer depends on, as data that is equal in every process.

Two calls with one canonical request may be given one answer: a cassette replays by it, a cache
keeps by it. It names the model and the address, holds every option and the whole conversation with
its tools, and a digest of what the provider made of them, in which plugins that rewrite requests
had their say. It holds no credential, and nothing that differs from run to run: neither how long
and how often to try, nor ids that the core made up, nor what earlier answers cost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import evolve

from swink_core import Call, Context, ProviderFailure, StreamOptions, UsageError, dump
from swink_core.providers import Attempt, is_synthetic_id
from swink_recorder.comparison import differing
from swink_recorder.scrub import scrub_headers

__all__ = ["canonical_request", "differences", "digest_of", "request_of"]

_ELSEWHERE = frozenset({"api_key", "base_url", "headers", "timeouts", "retry"})
"""Options that are no part of what is asked, or stand elsewhere in the canonical request."""

_UNSET = StreamOptions()

_TOLD = frozenset({"role", "content", "provider", "model"})
"""The fields of an assistant message that a provider is sent."""

_BODY = "body"
"""The field with the digest of the request's body."""

_CONVERTED = "converted"
"""The field with the digest of the conversation alone, in recordings of earlier versions."""

_UNKNOWN = "http://unknown.invalid"
"""An address of which no provider has learned what its server lacks: what it has learned of the
real one while it lived, and puts a conversation otherwise for, differs from run to run."""


def canonical_request(call: Call) -> dict[str, Any]:
    """Return the canonical request of a call's present attempt.

    Its fields are those of `request_of`, and `body`: a digest of the request's JSON body before the
    provider has learned anything about the server; `None` for a call without a body.
    """
    return {**request_of(call.attempt, call.context), _BODY: _body(call)}


def request_of(attempt: Attempt, context: Context) -> dict[str, Any]:
    """Return what an attempt asks for: `model`, `address`, `options`, `context`, and `headers`
    where the caller gave some."""
    asked = {
        "model": str(attempt.model),
        "address": attempt.target.key.removeprefix(f"{attempt.model} ").rpartition(" ")[0],
        "options": _options(attempt.options),
        "context": _context(dump(context)),
    }
    if attempt.options.headers:
        lower = {name.lower(): value for name, value in attempt.options.headers.items()}
        asked["headers"] = scrub_headers(lower)
    canonical: dict[str, Any] = _numbered(asked, {})
    return canonical


def digest_of(data: Any) -> str:
    """Return a digest of JSON data, in which the order of an object's fields does not count."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(asked: dict[str, Any], recorded: dict[str, Any]) -> list[str]:
    """Say in which places two canonical requests differ, a line each; none if they are equal.

    Bodies are compared only if the recording has the digest of one: an earlier version recorded
    the digest of the conversation alone, or none.
    """
    if _BODY not in recorded:
        asked = {name: value for name, value in asked.items() if name != _BODY}
    recorded = {name: value for name, value in recorded.items() if name != _CONVERTED}
    found = differing(asked, recorded)
    said = [line for place, line in found if place != _BODY]
    if found and not said:
        return ["how the provider, or a plugin that rewrites requests, puts the conversation"]
    return said


def _options(options: StreamOptions) -> dict[str, Any]:
    names = sorted(StreamOptions.names() - _ELSEWHERE)
    given = {name: getattr(options, name) for name in names}
    set_ = {name: value for name, value in given.items() if value != getattr(_UNSET, name)}
    data: dict[str, Any] = msgspec.to_builtins(set_, enc_hook=_plain)
    return data


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)


def _context(context: dict[str, Any]) -> dict[str, Any]:
    messages = [
        {name: value for name, value in message.items() if name in _TOLD}
        if message["role"] == "assistant"
        else message
        for message in context["messages"]
    ]
    shortened: dict[str, Any] = _without_media({**context, "messages": messages})
    return shortened


def _without_media(data: Any) -> Any:
    """Put a digest in the place of each medium's data, so that people can read what is left."""
    if isinstance(data, dict):
        if data.get("type") == "base64" and isinstance(data.get("data"), str):
            digest = hashlib.sha256(data["data"].encode()).hexdigest()
            return {**data, "data": f"sha256:{digest}"}
        return {name: _without_media(value) for name, value in data.items()}
    return [_without_media(value) for value in data] if isinstance(data, list) else data


def _body(call: Call) -> str | None:
    hook, options = call.attempt.target.binding.hook, evolve(call.options, base_url=_UNKNOWN)
    try:
        payload = hook.convert_messages(model=call.model, context=call.context, options=options)
    except (ProviderFailure, UsageError):
        return None
    return digest_of(_numbered(payload, {}))


def _numbered(data: Any, ids: dict[str, str]) -> Any:
    """Return data with the ids numbered that the core made up: they are new in every run."""
    if isinstance(data, str):
        return ids.setdefault(data, f"call {len(ids) + 1}") if is_synthetic_id(data) else data
    if isinstance(data, dict):
        return {name: _numbered(value, ids) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_numbered(value, ids) for value in data]
    return data
