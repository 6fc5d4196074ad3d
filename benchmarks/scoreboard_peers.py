"""Ask a faulty server through one library: `scoreboard_peers.py LIBRARY SECONDS < URLS`.

Runs in an environment that has the library and nothing of swink. Reads one base URL a line and
answers each with a line of JSON: the text that came, the error's class, whether it hung. Every
library keeps its own defaults, but for the time limit, and reads the answer as its manual shows.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
import sys
import warnings
from collections.abc import AsyncIterator, Callable

KEY, MODEL, PROMPT = "sk-scoreboard", "gpt-4o-mini", "Hello"


async def ask_openai(url: str, limit: float) -> AsyncIterator[str]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key=KEY, timeout=limit) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": PROMPT}], stream=True
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


async def ask_litellm(url: str, limit: float) -> AsyncIterator[str]:
    import litellm

    litellm.suppress_debug_info = True
    stream = await litellm.acompletion(
        model=f"openai/{MODEL}",
        messages=[{"role": "user", "content": PROMPT}],
        api_base=url,
        api_key=KEY,
        stream=True,
        timeout=limit,
    )
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            yield chunk.choices[0].delta.content


async def ask_langchain(url: str, limit: float) -> AsyncIterator[str]:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=url, api_key=KEY, timeout=limit)
    async for chunk in model.astream(PROMPT):
        yield str(chunk.text if isinstance(chunk.text, str) else chunk.text())


async def ask_pydantic_ai(url: str, limit: float) -> AsyncIterator[str]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key=KEY)
    agent = Agent(OpenAIChatModel(MODEL, provider=provider), model_settings={"timeout": limit})
    async with agent.run_stream(PROMPT) as run:
        async for text in run.stream_text(delta=True, debounce_by=None):
            yield text


async def ask_swink(url: str, limit: float) -> AsyncIterator[str]:
    import swink_core as swink

    limits = swink.Timeouts(connect=limit, first_event=limit, idle=limit)
    async with (
        swink.Client(
            providers={"openai": {"api_key": KEY, "base_url": url}}, timeouts=limits
        ) as client,
        client.stream(f"openai/{MODEL}", PROMPT) as stream,
    ):
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                yield event.delta
            elif isinstance(event, swink.Error):
                raise swink.StreamError.for_kind(event.error_kind)(event.error_message)


LIBRARIES: dict[str, Callable[[str, float], AsyncIterator[str]]] = {
    "swink-core": ask_swink,
    "openai": ask_openai,
    "litellm": ask_litellm,
    "langchain-openai": ask_langchain,
    "pydantic-ai-slim": ask_pydantic_ai,
}


async def outcome(library: str, url: str, limit: float) -> dict[str, object]:
    """Ask once; ten limits are enough for every retry that is still a retry."""
    pieces: list[str] = []
    error: str | None = None
    hung = False
    try:
        async with asyncio.timeout(10 * limit) as deadline:
            async for piece in LIBRARIES[library](url, limit):
                pieces.append(piece)
    except Exception as failure:
        error = type(failure).__name__
        hung = isinstance(failure, TimeoutError) and deadline.expired()
    return {"text": "".join(pieces), "error": error, "hung": hung}


def main() -> None:
    library, limit = sys.argv[1], float(sys.argv[2])
    warnings.simplefilter("ignore")
    logging.disable()
    print(json.dumps({"version": importlib.metadata.version(library)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(asyncio.run(outcome(library, line.strip(), limit))), flush=True)


if __name__ == "__main__":
    main()
