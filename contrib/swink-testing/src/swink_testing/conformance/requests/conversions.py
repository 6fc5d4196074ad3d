"""Conversations, features and options, none of them dropped silently."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
from attrs import define, field

from swink_core import (
    AudioBlock,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    Error,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    ProviderFailure,
    StreamOptions,
    TextBlock,
    ToolResultMessage,
    UsageError,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import required_features
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.played import PlayedClient
from swink_testing.conformance.requests.conversations import LOOK_UP, begun_elsewhere, conversations
from swink_testing.conformance.subject import Subject

__all__ = [
    "check_conversations",
    "check_nothing_foreign_sent",
    "check_unsupported_features",
]

_PIXEL = (
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    b"rkJggg=="
).decode()
_SILENCE = base64.b64encode(
    b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"
).decode()
_PAGE = base64.b64encode(
    b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>"
).decode()

_SCHEMA = {
    "type": "object",
    "properties": {"swink_probe": {"type": "string"}},
    "required": ["swink_probe"],
    "additionalProperties": False,
}


@define
class _Probe:
    """A call that needs one feature."""

    name: str
    context: Context = field(factory=lambda: Context([UserMessage("Hello")]))
    options: dict[str, Any] = field(factory=dict)
    shows: str = ""


def _tools(name: str, **options: Any) -> _Probe:
    return _Probe(name, Context([UserMessage("Hello")], tools=[LOOK_UP]), options)


def _media(name: str, block: Block, data: str) -> _Probe:
    return _Probe(name, Context([UserMessage([block, TextBlock("What is it?")])]), {}, data)


def _feature_probes(provider: str) -> Iterator[_Probe]:
    probe = _tools("tools")
    probe.shows = "look_up"
    yield probe
    yield _tools("tool_choice", tool_choice="look_up")
    yield _Probe("stop", options={"stop": ("swink-stops-here",)}, shows="swink-stops-here")
    yield _Probe("json", options={"response_format": "json"})
    yield _Probe("structured_output", options={"response_format": _SCHEMA}, shows="swink_probe")
    yield _media("images", ImageBlock(Base64Source("image/png", _PIXEL)), _PIXEL)
    yield _media("audio", AudioBlock(Base64Source("audio/wav", _SILENCE)), _SILENCE)
    document = DocumentBlock(Base64Source("application/pdf", _PAGE), "page.pdf")
    yield _media("documents", document, _PAGE)
    for owner, whose in ((provider, ""), ("elsewhere", "_of_others")):
        part = ExtensionBlock(owner, "probe", {"type": "text", "text": "swink-extension"})
        yield _media(f"extensions{whose}", part, "swink-extension")
        uploaded = DocumentBlock(FileIdSource(owner, "file-swink-probe"))
        yield _media(f"file_ids{whose}", uploaded, "file-swink-probe")


def _transport_probes() -> Iterator[_Probe]:
    for transport in ("buffered", "websocket"):
        yield _Probe(f"the transport {transport}", options={"transport": transport})


def check_conversations(subject: Subject) -> None:
    """Every conversation can be sent without loss, and the context stays unchanged."""
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
        for text in conversation.kept:
            require(text in texts, f"{where} loses {text!r}", payload, text)
    if subject.speaks_http:
        _require_whole(subject, Context([UserMessage("Hello")]))


def _is_for_tools(subject: Subject, context: Context, error: Exception) -> bool:
    """Tell whether a provider without tools refuses the calls and results of a conversation."""
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
    """`request` sends the body that `convert_messages` returned, so that plugins see all of it."""
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


def check_nothing_foreign_sent(subject: Subject) -> None:
    """Data of another provider, such as a signature, is not sent to this one."""
    hook = subject.binding.hook.convert_messages
    model, options = subject.model, StreamOptions(**subject.call_options())
    if not hook.get_hookimpls():
        raise DoesNotApply("it has no convert_messages hook")
    context, marks = begun_elsewhere()
    if "tools" not in getattr(subject.provider, "features", ()):
        context.tools = []
    try:
        payload = hook(model=model, context=context, options=options)
    except ProviderFailure as error:
        if _is_for_tools(subject, context, error):
            raise DoesNotApply("it takes no conversation with tools") from error
        raise
    sent = repr(payload)
    if subject.speaks_http:
        sent = _readable(subject.provider.request(model, payload, options).body)
    for mark in marks:
        require(
            mark not in sent,
            f"a conversation begun on another provider sends its {mark!r}",
            payload,
            f"nothing of {mark!r}",
        )


def check_unsupported_features(subject: Subject) -> None:
    """A call that needs a missing feature fails as unsupported, before any request."""
    declares = hasattr(subject.provider, "features")
    if not declares or not (subject.speaks_http or subject.can_be_called):
        raise DoesNotApply("it does not say which features it has")
    probes = list(_feature_probes(subject.model.provider))
    probes += _transport_probes() if subject.speaks_http else ()
    lacking = [probe for probe in probes if _lacks(subject, probe)]
    if not lacking:
        raise DoesNotApply("it has every feature")

    async def ask() -> None:
        for probe in lacking:
            http = subject.http()
            events = await _ask(subject, probe, http)
            require(not http.requests, f"{probe.name} is not supported, and yet a request was sent")
            terminal = events[-1]
            require(
                isinstance(terminal, Error) and terminal.error_kind is Kind.UNSUPPORTED,
                f"{probe.name} is not supported, and ends in {terminal!r:.200}",
            )

    asyncio.run(ask())


def _lacks(subject: Subject, probe: _Probe) -> bool:
    """Tells whether the provider, or its catalogue for this model, says that it has it not."""
    options = StreamOptions(**subject.call_options(**probe.options))
    provider, model = subject.provider, subject.model
    if subject.speaks_http:
        return provider.fit(model, probe.context, options).failure is not None
    return not required_features(probe.context, options, model.provider) <= provider.features


async def _ask(subject: Subject, probe: _Probe, http: PlayedClient) -> list[Any]:
    options = subject.call_options(**probe.options)
    async with subject.client(http).stream(subject.model, probe.context, **options) as stream:
        return [event async for event in stream]


def _texts(where: str, payload: Any) -> str:
    """Return all strings of JSON data, a line each."""
    try:
        data = msgspec.json.decode(msgspec.json.encode(payload))
    except (TypeError, ValueError) as error:
        fail(f"{where} does not become JSON data: {error}")
    return "\n".join(_strings(data))


def _readable(body: bytes) -> str:
    try:
        data = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def _strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield str(key)
            yield from _strings(value)
    elif isinstance(data, list):
        for value in data:
            yield from _strings(value)
