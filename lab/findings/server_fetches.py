"""Print whether a client of the gateway can make it fetch an address or read a file.

    python -m lab.findings.server_fetches

A server on loopback counts visits. The gateway must neither visit it nor read a file for any field
of any provider, and must not pass a file's address on.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.findings.gateways import MODEL, Gateway, gateway, key_of, owner, verdict
from lab.vendor import Vendor
from swink_recorder.loopback import Exchange, LoopbackServer

MODELS = (MODEL, "anthropic/claude-haiku-4-5", "gemini/gemini-2.5-flash", "echo/echo")

SECRET = "the-text-of-a-private-file"


class Visited(LoopbackServer):
    """Counts visits, and answers with the beginning of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request."""
        self.paths.append(exchange.path)
        await exchange.start(200, {"Content-Type": "image/png"})
        await exchange.write(b"\x89PNG")
        await exchange.end()


def by_address(served: Gateway, target: Visited) -> None:
    """Name an address as an image and as a file, for each provider."""
    for model in MODELS:
        content = [
            {"type": "image_url", "image_url": {"url": f"{target.url}/image"}},
            {"type": "file", "file": {"file_data": f"{target.url}/file"}},
            {"type": "text", "text": "What is it?"},
        ]
        messages = [{"role": "user", "content": content}]
        body = {"model": model, "max_tokens": 20, "messages": messages}
        reply = served.ask("/v1/chat/completions", key_of("bob"), body)
        verdict(not target.paths, f"addresses for {model}: {reply.status}, visits {target.paths}")
        target.paths.clear()


def by_options(served: Gateway, target: Visited) -> None:
    """Name an address in the options of `/v1/stream`."""
    for options in (
        {"base_url": target.url},
        {"settings": {"proxy": target.url}},
        {"extra": {"base_url": target.url, "api_base": target.url}},
    ):
        messages = [{"role": "user", "content": "Hi"}]
        body = {"model": MODEL, "stream": False, "options": options, "messages": messages}
        reply = served.ask("/v1/stream", key_of("bob"), body)
        verdict(not target.paths, f"{options}: {reply.status}, visits {target.paths}")
        target.paths.clear()


def by_file(vendor: Vendor, served: Gateway, file: Path) -> None:
    """Name a file of the gateway's machine as an image."""
    for source in (
        {"type": "path", "path": str(file)},
        {"type": "file", "path": str(file)},
        {"type": "url", "url": file.as_uri()},
    ):
        since = len(vendor.state.record.exchanges)
        messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
        body = {"model": MODEL, "stream": False, "messages": messages}
        reply = served.ask("/v1/stream", key_of("bob"), body)
        sent = b"".join(each.body for each in vendor.state.record.exchanges[since:])
        passed = file.name.encode() in sent or SECRET.encode() in sent
        text = f"a file as {source['type']}: {reply.status}, passed on: {passed}"
        verdict(not passed and SECRET.encode() not in reply.body, text)


def main() -> None:
    """Print one line for each way."""
    with (
        tempfile.TemporaryDirectory() as place,
        Vendor() as vendor,
        Visited() as target,
        gateway(vendor, owner("bob")) as served,
    ):
        by_address(served, target)
        by_options(served, target)
        file = Path(place, "private.png")
        file.write_text(SECRET)
        by_file(vendor, served, file)


if __name__ == "__main__":
    main()
