"""A server that gives every request the same answer and keeps the requests.

with CaptureServer(b"data: [DONE]\\n\\n") as server:
    ...                             # ask it with a vendor's client, and with ours
    theirs, ours = server.exchanges
"""

from __future__ import annotations

from swink_recorder.loopback import Exchange, LoopbackServer

__all__ = ["CaptureServer"]


class CaptureServer(LoopbackServer):
    """Answers with its status, content type and body, which may change between requests."""

    def __init__(
        self, body: bytes = b"", status: int = 200, content_type: str = "text/event-stream"
    ) -> None:
        super().__init__()
        self.body = body
        self.status = status
        self.content_type = content_type

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request."""
        await exchange.start(self.status, {"Content-Type": self.content_type})
        await exchange.write(self.body)
        await exchange.end()
