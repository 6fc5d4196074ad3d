"""Compare the estimated tokens of recorded prompts with the usage that the providers reported.

    python -m lab.findings.token_estimates FOLDER…

The folders hold cassettes of any form that `lab.reality` reads, or the corpus of recorded answers
with a `.meta.json` beside each. Prompts with media are read by the gateway's protocols, and
estimated by the rules of their provider. Prompts with hosted tools are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import swink
from lab.reality.addresses import asked
from lab.reality.cassettes import exchanges_in
from swink_core import StreamOptions
from swink_core.providers import prompt_of
from swink_core.vocabulary.tokens import (
    MESSAGE,
    PREFIX,
    TOOL,
    TOOLS,
    Estimate,
    data_tokens,
    text_tokens,
)
from swink_gateway.protocols import BadRequest, ClientProtocol
from swink_gateway.protocols.chat.protocol import ChatProtocol
from swink_gateway.protocols.failures import Refused
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_gateway.protocols.messages.protocol import MessagesProtocol
from swink_gateway.protocols.responses.protocol import ResponsesProtocol

_PROMPT = re.compile(rb'"(?:prompt_tokens|input_tokens|promptTokenCount|inputTokens)":\s*(\d+)')
_CACHED = re.compile(rb'"cache_(?:read|creation)_input_tokens":\s*(\d+)')
_TEXTS = ("messages", "input", "system", "instructions", "contents", "systemInstruction")
_MEDIA = {
    "with images": ("image_url", "input_image", "image"),
    "with sound": ("input_audio", "audio"),
    "with documents": ("file", "input_file", "document", "file_data"),
    "with other media": ("inlineData", "inline_data", "fileData", "file_data", "media", "video"),
}
"""The fields of media, by class."""

_PROTOCOLS: dict[str, ClientProtocol] = {
    "chat": ChatProtocol(),
    "responses": ResponsesProtocol(),
    "messages": MessagesProtocol(),
    "generateContent": GeminiProtocol(),
}
"""The protocols of the gateway that read the requests of each API."""

_GEMINI_KINDS = {"image": "with images", "audio": "with sound"}

_HIDDEN = ("previous_response_id", "conversation", "web_search", "code_", "googleSearch", "mcp")
"""Fields with which a provider adds text to a prompt that the request does not have."""

_SCHEMAS = ("response_format", "text", "output_config", "output_format", "generationConfig")


def texts_in(value: Any) -> Iterator[str]:
    """Yield each text of JSON data that a model reads."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in ("role", "type", "id", "call_id", "tool_call_id", "signature"):
                yield from texts_in(each)


def estimate_of(body: dict[str, Any]) -> tuple[Estimate, str]:
    """Return the estimate of a request body, and the class of the prompt."""
    found = [body[name] for name in _TEXTS if name in body]
    texts = [text for each in found for text in texts_in(each)]
    messages = sum(len(each) if isinstance(each, list) else 1 for each in found)
    parts = [text_tokens(text) for text in texts]
    parts += [PREFIX, *([MESSAGE] * messages)]
    if tools := body.get("tools"):
        parts += [data_tokens(tools), *([TOOL] * len(tools)), TOOLS]
    parts += (data_tokens(body[name]) for name in _SCHEMAS if name in body)
    joined = "".join(texts)
    is_plain = joined.isascii()
    kind = "tools" if body.get("tools") else "Latin" if is_plain else "other scripts in it"
    return Estimate().plus(*parts).rounded(), kind


def media_in(request: bytes) -> str | None:
    """Return the class of the media in a request; `None` for text alone."""
    if found := re.search(rb'"mime_?[tT]ype":\s*"(image|audio)/', request):
        return _GEMINI_KINDS[found[1].decode()]
    for kind, names in _MEDIA.items():
        if any(re.search(rf'"(type": ?")?{name}"'.encode(), request) for name in names):
            return kind
    return None


def estimate_with_media(
    client: swink.Client, provider: str, api: str, body: dict[str, Any]
) -> Estimate | None:
    """Return the estimate of a request with media; `None` for an API without a protocol."""
    protocol = _PROTOCOLS.get(api)
    if protocol is None:
        return None
    path = {"model": "any", "method": "generateContent"}
    try:
        context = protocol.read({"model": "any", **body}, path, {}).context
    except (BadRequest, Refused):
        return None
    info = client.catalog.model(provider, str(body.get("model") or "any"))
    return prompt_of(client.catalog.provider(provider), context, StreamOptions(), info)


def recorded_in(folder: Path) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield the provider, the API, the request and the answer of each successful exchange."""
    for exchange in exchanges_in(folder):
        found = asked(exchange)
        if found is not None and exchange.status == 200:
            yield found.provider, found.api, exchange.request, exchange.answer
    for file in folder.rglob("*.meta.json"):
        facts = json.loads(file.read_bytes())
        answer = file.with_name(facts.get("file", ""))
        body = facts.get("request_body")
        if isinstance(body, dict) and answer.suffix == ".sse":
            provider = facts["provider"]
            api = "messages" if provider == "anthropic" else "chat"
            api = "responses" if provider.endswith("responses") else api
            api = "generateContent" if provider == "gemini" else api
            name = provider.partition("_")[0]
            yield name, api, json.dumps(body).encode(), answer.read_bytes()


def main() -> None:
    """Print, for each class, the median ratio and how often the bound was passed."""
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    client = swink.Client()
    for place in sys.argv[1:]:
        for provider, api, request, answer in recorded_in(Path(place)):
            if any(f'"{name}'.encode() in request for name in _HIDDEN):
                continue
            counts = [int(found) for found in _PROMPT.findall(answer)]
            if not counts or not max(counts):
                continue
            cached = [int(found) for found in _CACHED.findall(answer)]
            reported = max(counts) + max(cached, default=0)
            try:
                body = json.loads(request)
            except ValueError:
                continue
            estimate: Estimate | None
            if (kind := media_in(request)) is None:
                estimate, kind = estimate_of(body)
            else:
                estimate = estimate_with_media(client, provider, api, body)
            if estimate is not None:
                ratios[kind].append((estimate.tokens / reported, estimate.most / reported))
    for kind, pairs in sorted(ratios.items()):
        expected = sorted(pair[0] for pair in pairs)
        low, high = expected[len(expected) // 20], expected[-1 - len(expected) // 20]
        passed = sum(pair[1] < 1 for pair in pairs)
        print(
            f"{kind}: {len(pairs)} prompts, estimate / reported: median {median(expected):.2f}, "
            f"5 % {low:.2f}, 95 % {high:.2f}; bound passed by {passed}"
        )


if __name__ == "__main__":
    main()
