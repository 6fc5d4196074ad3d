"""Convert answers to the type `Part` of Gemini's API, and token usage to the API's fields.

Source: https://ai.google.dev/api/caching#Part.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from swink_core import (
    Block,
    Cost,
    ExtensionBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
    dump,
)
from swink_core.providers import is_synthetic_id
from swink_gateway.protocols.encoding import cost_data
from swink_gateway.protocols.generated import image_of, run_of
from swink_gateway.protocols.sealing import seal
from swink_gateway.protocols.sources import sources_of

__all__ = ["OF_CANDIDATE", "OF_END", "Parts", "PartsWriter", "usage_data"]

CONTINUATION = "continuationToken"

OF_CANDIDATE = (
    "citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult",
    "safetyRatings", "avgLogprobs",
)  # fmt: skip
"""The metadata fields of a candidate, which swink attaches to a text or to the answer."""

OF_END = ("finishReason", "finishMessage")
"""The metadata fields that describe the end of an answer."""


@define
class Parts:
    """The parts of one response; adjacent texts are joined."""

    made: list[Any] = field(factory=list)

    def text(self, text: str, thought: bool = False) -> None:
        part: dict[str, Any] = {"text": text, "thought": True} if thought else {"text": text}
        last = self.made[-1] if self.made else {}
        if "text" in last and len(last) == len(part) and ("thought" in last) == thought:
            last["text"] += text
        else:
            self.made.append(part)


class PartsWriter:
    """Writes blocks as parts, with thoughts if the client wants them.

    `own` means that the provider uses this API; the client then gets opaque data unchanged. Opaque
    data of other providers is stored in `_carried` until the next part is written. It is then
    encoded ("sealed") into a field of this part, see `sealing`. `others` contains the further
    candidates of an answer.
    """

    def __init__(self, provider: str, own: bool, thoughts: bool) -> None:
        self.own = own
        self.thoughts = thoughts
        self.parts = Parts()
        self.candidate: dict[str, Any] = {}
        self.broken: list[str] = []
        self.others: list[Any] = []
        self._provider = provider
        self._carried: list[Any] = []

    def text(self, text: str) -> None:
        if self._carried and text:
            self.parts.made.append({"text": text, **self._sealed(None)})
        elif text:
            self.parts.text(text)

    def thought(self, text: str) -> None:
        if self.thoughts and text:
            self.parts.text(text, thought=True)

    def end_text(self, notes: Mapping[str, Any] | None) -> None:
        """Write the metadata of a text that has ended."""
        if notes and self.own:
            self.candidate |= {name: notes[name] for name in OF_CANDIDATE if name in notes}
            notes = {name: value for name, value in notes.items() if name not in OF_CANDIDATE}
        if notes and not self.own and (cited := sources_of(notes, "")):
            told = [{"uri": one.url, "title": one.title} for one in cited]
            self.candidate["citationMetadata"] = {"citationSources": told}
        if notes:
            data = notes if self.own else self._sealed(notes)
            self.parts.made.append({"text": "", **data})

    def end_thought(self, block: ThinkingBlock) -> None:
        if not self.own:
            if block.thinking or block.signature or block.metadata:
                self._carried.append(dump(block))
        elif block.signature or block.metadata:
            signed = {"thoughtSignature": block.signature} if block.signature else {}
            part = {"text": "", "thought": True, **signed, **(block.metadata or {})}
            self.parts.made.append(part)

    def call(self, call: ToolCallBlock) -> None:
        arguments = call.arguments
        if call.state != "complete":
            self.broken.append(
                f"the arguments of {call.name} are not valid JSON: {call.raw_arguments}"
            )
            return
        said: dict[str, Any] = {} if is_synthetic_id(call.id) else {"id": call.id}
        said |= {"name": call.name, "args": arguments}
        notes = call.metadata or {}
        more = notes if self.own else self._sealed(notes) if notes or self._carried else {}
        self.parts.made.append({"functionCall": said, **more})

    def extension(self, block: ExtensionBlock) -> None:
        if block.kind == ExtensionBlock.CHOICE:
            if self.own and block.provider == self._provider:
                self.others.append(block.data if self.thoughts else _without_thoughts(block.data))
        elif not self.own:
            self._carried.append(dump(block))
            if shown := _generated(block):
                self.parts.made.append({**shown, **self._sealed(None, stands_for=True)})
        elif block.kind == CONTINUATION:
            self.candidate[CONTINUATION] = block.data
        elif isinstance(block.data, dict):
            self.parts.made.append(block.data)

    def finish(self) -> None:
        """Seal the remaining data in `_carried` into a separate part."""
        if self._carried:
            self.parts.made.append({"text": "", **self._sealed(None)})

    def block(self, block: Block) -> None:
        """Write a complete block."""
        match block:
            case TextBlock():
                self.text(block.text)
                self.end_text(block.metadata)
            case ThinkingBlock():
                self.thought(block.thinking)
                self.end_thought(block)
            case ToolCallBlock():
                self.call(block)
            case ExtensionBlock():
                self.extension(block)

    def _sealed(
        self, notes: Mapping[str, Any] | None, *, stands_for: bool = False
    ) -> dict[str, Any]:
        """Return the field with the sealed data from `_carried`.

        `stands_for` means that the part with this field also shows the client the content of the
        last block in `_carried`.
        """
        before, self._carried = self._carried, []
        shown = True if stands_for else None
        text = seal(self._provider, before=before or None, metadata=notes or None, shown=shown)
        return {"thoughtSignature": b64encode(text.encode()).decode()}


def _without_thoughts(candidate: Mapping[str, Any]) -> Mapping[str, Any]:
    content = candidate.get("content") or {}
    parts = content.get("parts") or []
    shown = [part for part in parts if not part.get("thought")]
    return candidate if shown == parts else {**candidate, "content": {**content, "parts": shown}}


def _generated(block: ExtensionBlock) -> dict[str, Any]:
    """Return the part that shows an image, code or its output; empty for other blocks."""
    if (image := image_of(block)) is not None:
        return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
    run = run_of(block)
    if run is None:
        return {}
    if run.code is not None:
        return {"executableCode": {"language": "PYTHON", "code": run.code}}
    return {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": run.output}}


def usage_data(usage: Usage | None, cost: Cost | None, own: bool) -> dict[str, Any]:
    """Return the field `usageMetadata` of an answer, or an empty dictionary for unknown usage.

    The field contains token counts (`promptTokenCount`, …) and the cost in US dollars. `own` means
    that the provider uses this API, and may report counts that are unknown to swink.
    """
    if usage is None or not usage.reported:
        return {}
    more = {k: v for k, v in usage.extra.items() if k[:1].islower() and "_" not in k and own}
    beside = more.get("toolUsePromptTokenCount") or 0
    told = None if usage.output is None else usage.output - (usage.reasoning or 0)
    counts = {
        "promptTokenCount": None if usage.input is None else usage.input - beside,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": (told or None) if own else told,  # the API leaves out 0
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.added_up().total,
    }
    known: dict[str, Any] = {name: count for name, count in counts.items() if count is not None}
    known |= cost_data(cost)
    return {**more, **known}
