"""Checks that the conversion of conversations loses no content silently."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec

from swink_core import (
    Context,
    ProviderFailure,
    StreamOptions,
    ToolResultMessage,
    UsageError,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_judge.request_readers import strings_of
from swink_testing.conformance.answers.recorded_answers import values_in
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.requests.conversations import begun_elsewhere, conversations
from swink_testing.conformance.subject import Subject

__all__ = ["check_conversations", "require_nothing_foreign"]


def check_conversations(subject: Subject) -> None:
    """Every conversation is sent without loss, and the call's context is not changed.

    Data of another provider, such as a signature, is not sent.
    """
    hook = subject.binding.hook.convert_messages
    provider, model = subject.provider, subject.model
    options = StreamOptions(**subject.call_options())
    if not hook.get_hookimpls():
        raise DoesNotApply("it has no convert_messages hook")
    for conversation in conversations():
        context, before = conversation.context, copy.deepcopy(conversation.context)
        if "tools" not in getattr(provider, "features", ()):
            context.tools, before.tools = [], []  # the call would be refused before this
        where = f"the conversation {conversation.name}"
        try:
            payload = hook(model=model, context=context, options=options)
            texts = _texts(where, payload)
            if subject.speaks_http:
                texts = _texts(where, json.loads(provider.request(model, payload, options).body))
        except (ProviderFailure, UsageError) as error:
            if _is_for_tools(subject, context, error):
                continue
            fail(f"{where} is refused: {error}")
        require(context == before, f"{where} was changed by converting it")
        _require_rules_first(where, context, payload)
        for text in conversation.kept:
            require(text in texts, f"{where} loses {text!r}", payload, text)
    require_nothing_foreign(subject, options)
    if subject.speaks_http:
        _require_whole(subject, Context([UserMessage("Hello")]))


def _require_rules_first(where: str, context: Context, payload: Any) -> None:
    """Check that the system prompt precedes the question if both are in the same list."""
    question: Any = context.messages[0].content if context.messages else ""
    if not (context.system_prompt and isinstance(question, str)):
        return
    texts = [(path, text) for path, text in values_in(payload) if isinstance(text, str)]
    rules = next((path for path, text in texts if str(context.system_prompt) in text), ())
    asked = next((path for path, text in texts if question in text and path != rules), ())
    pairs = zip(rules, asked, strict=False)
    first, second = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    is_later = isinstance(first, int) and isinstance(second, int) and first > second
    require(not is_later, f"{where}: the system prompt stands after the question", payload)


def _is_for_tools(subject: Subject, context: Context, error: Exception) -> bool:
    """Return True if a provider refuses a conversation because it has no support for tool calls."""
    if "tools" in getattr(subject.provider, "features", ()):
        return False
    has_calls = any(
        isinstance(message, ToolResultMessage) or getattr(message, "tool_calls", ())
        for message in context.messages
    )
    failure = getattr(error, "failure", None)
    return has_calls and getattr(failure, "kind", None) is Kind.UNSUPPORTED


_TUNED = {
    "temperature": 0.5,
    "max_tokens": 9000,
    "thinking": "low",
    "user": "swink-user",
    "extra": {"swink_extra": "swink-value"},
}


def _require_whole(subject: Subject, context: Context) -> None:
    """Check that `request` sends the body that `convert_messages` returned.

    Only this body is visible to plugins.
    """
    known = {"extra", *getattr(subject.provider, "knobs", ())}
    for tuned in ({}, {name: value for name, value in _TUNED.items() if name in known}):
        options = StreamOptions(**subject.call_options(**tuned))
        payload = subject.binding.hook.convert_messages(
            model=subject.model, context=context, options=options
        )
        body = json.loads(json.dumps(payload))
        sent = json.loads(subject.provider.request(subject.model, payload, options).body)
        if not isinstance(sent, dict):
            fail("the body that is sent is not a JSON object", sent, body)
        changed = [name for name in {**body, **sent} if body.get(name) != sent.get(name)]
        require(
            not changed,
            f"the body that is sent has another {', '.join(changed)} than what convert() returned, "
            "which plugins have seen",
            sent,
            body,
        )


def require_nothing_foreign(subject: Subject, options: StreamOptions) -> None:
    """Check that data of another provider, such as a signature, is not sent to this provider."""
    context, marks = begun_elsewhere()
    if "tools" not in getattr(subject.provider, "features", ()):
        context.tools = []
    try:
        payload = subject.binding.hook.convert_messages(
            model=subject.model, context=context, options=options
        )
    except ProviderFailure as error:
        if _is_for_tools(subject, context, error):
            return
        raise
    sent = repr(payload)
    if subject.speaks_http:
        sent = _readable(subject.provider.request(subject.model, payload, options).body)
    for mark in marks:
        why = f"a conversation begun on another provider sends its {mark!r}"
        require(mark not in sent, why, payload, f"nothing of {mark!r}")


def _texts(where: str, payload: Any) -> str:
    """Return all strings in JSON data, one on each line."""
    try:
        data = msgspec.json.decode(msgspec.json.encode(payload))
    except (TypeError, ValueError) as error:
        fail(f"{where} does not become JSON data: {error}")
    return "\n".join(strings_of(data))


def _readable(body: bytes) -> str:
    try:
        data = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
    return json.dumps(data, ensure_ascii=False, sort_keys=True)
