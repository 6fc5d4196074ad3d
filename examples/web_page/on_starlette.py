"""A page that streams, on Starlette: `python examples/web_page/on_starlette.py [MODEL]`."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

import swink

PAGE = Path(__file__).with_name("page.html")


def event(data: str, name: str = "message") -> str:
    """Write a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def answer(stream: swink.EventStream) -> AsyncIterator[str]:
    """Give an answer as events; leaving the loop closes the connection to the provider."""
    async with stream:
        try:
            async for piece in stream.text:
                yield event(piece)
        except swink.StreamError as error:
            yield event(f"{error.title}. {error.resolution}", "failed")
        else:
            yield event(str(stream.message.stop_reason), "done")


def application(model: str) -> Starlette:
    """Make an application whose page asks one model."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with swink.Client() as app.state.client:
            yield

    async def show(request: Request) -> Response:
        return FileResponse(PAGE)

    async def ask(request: Request) -> Response:
        client: swink.Client = request.app.state.client
        try:
            stream = client.stream(model, request.query_params.get("question", ""))
        except swink.InvalidContext as error:
            return PlainTextResponse(str(error), 400)
        return StreamingResponse(answer(stream), media_type="text/event-stream")

    return Starlette(routes=[Route("/", show), Route("/answer", ask)], lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(application(sys.argv[1] if len(sys.argv) > 1 else "echo/slow"), port=8000)
