"""Print whether a plugin that removes a word removes it everywhere.

    python -m lab.findings.redactor

The plugin wraps `convert_messages` and `stream` as `docs/how-to/observe.md` shows. The word is in a
message, the system prompt, an option, an extra field, a tool's schema, and an answer that is cut
within the word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import aclosing
from typing import Any

import swink
from lab.findings.gateways import verdict
from lab.vendor import Script, Vendor

WORD = "hunter2"


def without(value: object) -> object:
    """Return JSON data in which the word is replaced."""
    if isinstance(value, str):
        return value.replace(WORD, "***")
    if isinstance(value, list):
        return [without(each) for each in value]
    if isinstance(value, dict):
        return {without(key): without(each) for key, each in value.items()}
    return value


def ready(text: str) -> tuple[str, str]:
    """Split text into what can be handed on, and an end in which the word may begin."""
    text = text.replace(WORD, "***")
    sizes = range(min(len(WORD) - 1, len(text)), 0, -1)
    size = next((size for size in sizes if WORD.startswith(text[-size:])), 0)
    return text[: len(text) - size], text[len(text) - size :]


class Redactor:
    """Replaces the word in requests and in the text of answers."""

    api_level = 1

    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Generator[None, object, object]:
        """Replace the word in the body."""
        return without((yield))

    @swink.hookimpl(wrapper=True)
    def stream(self) -> Generator[None, Any, Any]:
        """Replace the word in the answer."""
        return self._redacted((yield))

    async def _redacted(self, events: Any) -> AsyncIterator[swink.AssistantMessageEvent]:
        held = ""
        async with aclosing(aiter(events)) as inner:
            async for event in inner:
                if isinstance(event, swink.TextDelta):
                    said, held = ready(held + event.delta)
                    if said:
                        yield swink.TextDelta(event.content_index, said)
                    continue
                if isinstance(event, swink.TextEnd) and held:
                    yield swink.TextDelta(event.content_index, held)
                    held = ""
                yield event


PLACES: dict[str, dict[str, Any]] = {
    "a message": {"context": swink.Context([swink.UserMessage(f"It is {WORD}.")])},
    "the system prompt": {
        "context": swink.Context([swink.UserMessage("Hi")], f"The password is {WORD}.")
    },
    "stop": {"stop": (WORD,)},
    "extra": {"extra": {"metadata": {"note": WORD}}},
    "a tool's schema": {
        "tools": [swink.Tool("look", parameters={"type": "object", "properties": {WORD: {}}})]
    },
}

MODEL = "groq/openai/gpt-oss-120b"


async def main() -> None:
    """Print one line for each place, and one for an answer whose word is split."""
    async with Vendor() as vendor:
        address = {"api_key": "key-alpha", "base_url": f"{vendor.url}/groq"}
        async with swink.Client(
            plugins=[Redactor()], providers={"groq": address}, retry=False
        ) as client:
            for place, options in PLACES.items():
                number = len(vendor.state.record.exchanges)
                context = options.get("context", "Hi")
                more = {name: value for name, value in options.items() if name != "context"}
                try:
                    await client.complete(MODEL, context, **more)
                except swink.SwinkError as error:
                    print(f"       {place}: {error}")
                bodies = [each.body for each in vendor.state.record.exchanges[number:]]
                leaked = any(WORD.encode() in body for body in bodies)
                verdict(bool(bodies) and not leaked, f"{place}: the word was sent: {leaked}")
            pieces = ({"text": "It is hun"}, {"text": "ter2."})
            vendor.state.scripts.append(Script((pieces,)))
            message = await client.complete(MODEL, "What is it?")
            verdict(WORD not in message.text, f"an answer with a split word: {message.text!r}")


if __name__ == "__main__":
    asyncio.run(main())
