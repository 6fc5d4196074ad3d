"""Ask a faulty server through one library: `scoreboard_peers.py LIBRARY SECONDS < QUESTIONS`.

Runs in an environment that has the library and nothing of swink. Reads a base URL and a number of
calls a line, and answers each with a line of JSON about the last call: the text that came, the
error's class, whether it hung. Every library keeps its own defaults, but for the time limit, and
reads the answer as its manual shows.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

KEY, MODEL, PROMPT = "sk-scoreboard", "gpt-4o-mini", "Hello"

PAUSE_SECONDS = 0.3
"""Between two calls with one client."""

PATIENCE_SECONDS = 60.0

Ask = Callable[[], AsyncIterator[str]]


@asynccontextmanager
async def openai(url: str, limit: float) -> AsyncIterator[Ask]:
    from openai import AsyncOpenAI

    async def ask() -> AsyncIterator[str]:
        stream = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": PROMPT}], stream=True
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    async with AsyncOpenAI(base_url=url, api_key=KEY, timeout=limit) as client:
        yield ask


@asynccontextmanager
async def litellm(url: str, limit: float) -> AsyncIterator[Ask]:
    import litellm

    async def ask() -> AsyncIterator[str]:
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

    litellm.suppress_debug_info = True
    yield ask


@asynccontextmanager
async def langchain(url: str, limit: float) -> AsyncIterator[Ask]:
    from langchain_openai import ChatOpenAI

    async def ask() -> AsyncIterator[str]:
        async for chunk in model.astream(PROMPT):
            yield str(chunk.text if isinstance(chunk.text, str) else chunk.text())

    model = ChatOpenAI(model=MODEL, base_url=url, api_key=KEY, timeout=limit)
    yield ask


@asynccontextmanager
async def pydantic_ai(url: str, limit: float) -> AsyncIterator[Ask]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def ask() -> AsyncIterator[str]:
        async with agent.run_stream(PROMPT) as run:
            async for text in run.stream_text(delta=True, debounce_by=None):
                yield text

    provider = OpenAIProvider(base_url=url, api_key=KEY)
    agent = Agent(OpenAIChatModel(MODEL, provider=provider), model_settings={"timeout": limit})
    yield ask


@asynccontextmanager
async def swink(url: str, limit: float) -> AsyncIterator[Ask]:
    import swink_core
    from swink_testing.clock import DatedClock

    async def ask() -> AsyncIterator[str]:
        async with client.stream(
            f"openai/{MODEL}", PROMPT, api_key=KEY, base_url=url, timeouts=limits
        ) as stream:
            async for event in stream:
                if isinstance(event, swink_core.TextDelta):
                    yield event.delta
                elif isinstance(event, swink_core.Error):
                    raise swink_core.StreamError.for_kind(event.error_kind)(event.error_message)

    limits = swink_core.Timeouts(connect=limit, first_event=limit, idle=limit)
    async with swink_core.Client(clock=DatedClock()) as client:  # on which the model is there
        yield ask


LIBRARIES: dict[str, Callable[[str, float], AbstractAsyncContextManager[Ask]]] = {
    "swink-core": swink,
    "openai": openai,
    "litellm": litellm,
    "langchain-openai": langchain,
    "pydantic-ai-slim": pydantic_ai,
}


async def outcome(library: str, url: str, limit: float, calls: int) -> dict[str, object]:
    """Ask so often; ten limits are enough for every retry that is still a retry."""
    pieces: list[str] = []
    error: str | None = None
    hung = False
    try:
        async with (
            asyncio.timeout(10 * limit) as deadline,
            LIBRARIES[library](url, limit) as ask,
        ):
            for number in range(calls):
                await asyncio.sleep(PAUSE_SECONDS if number else 0)
                pieces.clear()
                async for piece in ask():
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
    for number, line in enumerate(sys.stdin):
        url, calls = line.split()
        if not number:  # what is imported at the first call is not the server's fault
            asyncio.run(outcome(library, url, PATIENCE_SECONDS, 1))
        print(json.dumps(asyncio.run(outcome(library, url, limit, int(calls)))), flush=True)


if __name__ == "__main__":
    main()
