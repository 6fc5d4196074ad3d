"""A check that calls are refused if, and only if, they need a missing feature."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

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
    StreamOptions,
    TextBlock,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import required_features
from swink_judge.matrix.asker import Asker
from swink_judge.matrix.cases import Case
from swink_judge.matrix.models import AskedModel
from swink_judge.matrix.options import SCHEMA
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.requests.conversations import LOOK_UP
from swink_testing.conformance.subject import Subject

__all__ = ["check_features"]

_DATA = base64.b64encode(b"swink").decode()


@define
class _Probe:
    """A call that needs one feature."""

    name: str
    context: Context = field(factory=lambda: Context([UserMessage("Hello")]))
    options: dict[str, Any] = field(factory=dict)


def _probes(subject: Subject) -> Iterator[_Probe]:
    with_tools = Context([UserMessage("Hello")], tools=[LOOK_UP])
    yield _Probe("tools", with_tools)
    yield _Probe("tool_choice", with_tools, {"tool_choice": "look_up"})
    yield _Probe("stop", options={"stop": ("swink-stops-here",)})
    yield _Probe("json", options={"response_format": "json"})
    yield _Probe("structured_output", options={"response_format": SCHEMA})
    parts: list[tuple[str, Block]] = [
        ("images", ImageBlock(Base64Source("image/png", _DATA))),
        ("audio", AudioBlock(Base64Source("audio/wav", _DATA))),
        ("documents", DocumentBlock(Base64Source("application/pdf", _DATA), "page.pdf")),
    ]
    for owner, whose in ((subject.model.provider, ""), ("elsewhere", "_of_others")):
        parts.append((f"extensions{whose}", ExtensionBlock(owner, "probe", {"type": "text"})))
        parts.append((f"file_ids{whose}", DocumentBlock(FileIdSource(owner, "file-probe"))))
    for name, part in parts:
        yield _Probe(name, Context([UserMessage([part, TextBlock("What is it?")])]))
    for transport in ("buffered", "websocket") if subject.speaks_http else ():
        yield _Probe(f"the transport {transport}", options={"transport": transport})


_SHOWN: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "tools": (("tools", {}),),
    "images": (("image", {}), ("image by URL", {})),
    "documents": (("text document", {}), ("document", {}), ("document by URL", {})),
    "audio": (("audio", {}),),
    "json": (("plain", {"response_format": "json"}),),
    "structured_output": (("plain", {"response_format": SCHEMA}),),
    "thinking": (("plain", {"thinking": "high"}), ("plain", {"thinking": 2000})),
}
"""For each capability, calls that need it. A provider with the capability must send one of them."""


def check_features(subject: Subject) -> None:
    """Calls with the stated capabilities are sent; calls with a missing feature are refused.

    The capabilities are those in `models.toml`. If the provider or its catalogue lacks a feature
    that a call needs, the call fails as unsupported, before any request.
    """
    is_called = subject.speaks_http or subject.can_be_called
    states_features = is_called and hasattr(subject.provider, "features")
    probes = list(_probes(subject)) if states_features else []
    lacking = [probe for probe in probes if _lacks(subject, probe)]
    models = subject.catalog.models(subject.name) if subject.speaks_http else []
    capable = {model.capabilities or frozenset(): model.id for model in reversed(models)}
    if not (lacking or any(capable)):
        raise DoesNotApply("it states neither its features nor its models' capabilities")

    async def ask() -> None:
        for probe in lacking:
            await _require_refused(subject, probe)
        async with subject.asker() as asker:
            for capabilities, id in capable.items():
                for name in sorted(capabilities & _SHOWN.keys()):
                    await _require_taken(asker, subject.name, id, name)

    asyncio.run(ask())


async def _require_taken(asker: Asker, provider: str, id: str, capability: str) -> None:
    model, refused = AskedModel(id, "listed", id), None
    for conversation, options in _SHOWN[capability]:
        outcome = await asker.outcome(Case(provider, model, conversation, options))
        if outcome.asked is not None:
            return
        refused = outcome.refusal
    why = refused.error_message if refused else "nothing is sent"
    fail(f"models.toml says that {id} has {capability}, and every such call is refused: {why}")


async def _require_refused(subject: Subject, probe: _Probe) -> None:
    http = subject.http()
    options = subject.call_options(**probe.options)
    async with subject.client(http).stream(subject.model, probe.context, **options) as stream:
        terminal = [event async for event in stream][-1]
    require(not http.requests, f"{probe.name} is not supported, and yet a request was sent")
    is_refused = isinstance(terminal, Error) and terminal.error_kind is Kind.UNSUPPORTED
    require(is_refused, f"{probe.name} is not supported, and ends in {terminal!r:.200}")


def _lacks(subject: Subject, probe: _Probe) -> bool:
    """Return True if the provider or its catalogue does not support the feature for this model."""
    options = StreamOptions(**subject.call_options(**probe.options))
    provider, model = subject.provider, subject.model
    if subject.speaks_http:
        return provider.fit(model, probe.context, options).failure is not None
    return not required_features(probe.context, options, model.provider) <= provider.features
