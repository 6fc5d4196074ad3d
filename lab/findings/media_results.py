"""Print which media in the result of a tool, or right after it, reach each API.

    python -m lab.findings.media_results

Images, documents and audio, as bytes, as a URL and as a file of the API. Each is sent, or explained
by a notice or a failure, or else it is lost.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import swink
from lab.findings.lost_values import CALL, TOOL, assistant, user
from lab.findings.upstreams import sent, verdict

MODELS = (
    "anthropic/claude-haiku-4-5",
    "openai/gpt-5.4-mini",
    "openai/gpt-4.1",
    "gemini/gemini-3.6-flash",
    "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
    "bedrock/us.amazon.nova-2-lite-v1:0",
    "mistral/mistral-large-latest",
    "cohere/command-a-plus-05-2026",
    "xai/grok-4.7",
    "openrouter/openai/gpt-5.4-mini",
)

DATA = base64.b64encode(b"data of the medium").decode()

KINDS: dict[str, tuple[Callable[[Any], swink.Block], str]] = {
    "image": (swink.ImageBlock, "image/png"),
    "document": (swink.DocumentBlock, "application/pdf"),
    "audio": (swink.AudioBlock, "audio/mpeg"),
}
"""The block of each kind of medium, and its type."""


def sources(provider: str, media_type: str) -> dict[str, tuple[Any, str]]:
    """Return each source of a medium, and text that its request has to contain."""
    address = "https://media.example/a"
    return {
        "bytes": (swink.Base64Source(media_type, DATA), DATA),
        "URL": (swink.UrlSource(address, media_type), address),
        "file": (swink.FileIdSource(provider, "file_123"), "file_123"),
    }


def conversation(block: swink.Block, inside: bool) -> list[swink.Message]:
    """Return a conversation with a medium in a result, or in a message after it."""
    result = swink.ToolResultMessage("call_1", "look", [block] if inside else "See the file.")
    messages: list[swink.Message] = [user(), assistant(CALL), result]
    if not inside:
        messages.append(swink.UserMessage([block]))
    return messages


async def outcome(model: str, messages: list[swink.Message], needed: str) -> str:
    """Classify a medium as sent, explained or lost."""
    try:
        found = await sent(model, swink.Context(messages, None, [TOOL]))
    except swink.SwinkError:
        return "explained"
    if needed in found.body:
        return "sent"
    return "explained" if found.failure or found.notices else "lost"


async def run() -> None:
    """Print one line for each model and place."""
    for model in MODELS:
        provider = model.partition("/")[0]
        for inside in (True, False):
            counts: Counter[str] = Counter()
            explained: dict[str, list[str]] = defaultdict(list)
            for kind, (block, media_type) in KINDS.items():
                for source, (value, needed) in sources(provider, media_type).items():
                    what = await outcome(model, conversation(block(value), inside), needed)
                    counts[what] += 1
                    if what == "explained":
                        explained[kind].append(source)
            refused = "; ".join(f"{kind} as {', '.join(all)}" for kind, all in explained.items())
            where = "in a result" if inside else "after a result"
            text = f"{counts['sent']} of {counts.total()} sent; explained: {refused or 'none'}"
            verdict(counts["lost"] == 0, f"{model}, {where}", text)


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()
