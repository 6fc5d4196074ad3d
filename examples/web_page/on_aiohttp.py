"""A page that streams, on aiohttp: `python examples/web_page/on_aiohttp.py [MODEL]`."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

import swink

PAGE = Path(__file__).with_name("page.html")
CLIENT = web.AppKey("client", swink.Client)
MODEL = web.AppKey("model", str)


def event(data: str, name: str = "message") -> bytes:
    """Write a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


async def one_client(app: web.Application) -> AsyncIterator[None]:
    async with swink.Client() as app[CLIENT]:
        yield


async def show(request: web.Request) -> web.FileResponse:
    return web.FileResponse(PAGE)


async def ask(request: web.Request) -> web.StreamResponse:
    """Answer with events; being cancelled closes the connection to the provider."""
    client, model = request.app[CLIENT], request.app[MODEL]
    try:
        stream = client.stream(model, request.query.get("question", ""))
    except swink.InvalidContext as error:
        raise web.HTTPBadRequest(text=str(error)) from error
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    async with stream:
        try:
            async for piece in stream.text:
                await response.write(event(piece))
        except swink.StreamError as error:
            await response.write(event(f"{error.title}. {error.resolution}", "failed"))
        else:
            await response.write(event(str(stream.message.stop_reason), "done"))
    return response


def application(model: str) -> web.Application:
    """Make an application whose page asks one model."""
    app = web.Application()
    app[MODEL] = model
    app.cleanup_ctx.append(one_client)
    app.add_routes([web.get("/", show), web.get("/answer", ask)])
    return app


if __name__ == "__main__":
    asked = application(sys.argv[1] if len(sys.argv) > 1 else "echo/slow")
    # without handler_cancellation a handler goes on when its client has gone
    web.run_app(asked, host="127.0.0.1", port=8000, handler_cancellation=True)
