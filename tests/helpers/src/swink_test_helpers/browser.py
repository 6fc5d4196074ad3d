"""A headless Chromium, for pages that a browser has to show.

async with browser(tmp_path) as page:
    await page.go("http://127.0.0.1:8000/")
    assert await page.run("document.title") == "Ask a model"
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

__all__ = ["CHROMIUM", "Page", "browser"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
"""Where it is installed, `None` where it is not."""


class Page:
    """A tab, spoken to over the DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def run(self, script: str) -> Any:
        """Return the value of a script, after its promise has settled."""
        said = {"expression": script, "awaitPromise": True, "returnByValue": True}
        result = (await self._ask("Runtime.evaluate", said))["result"]
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def go(self, url: str) -> None:
        """Show a page; return when all of it is there."""
        await self._ask("Page.navigate", {"url": url})
        where = {"expression": "`${document.readyState} ${location}`"}
        place = ""
        while not place.startswith(f"complete {url}"):
            answer = await self._ask("Runtime.evaluate", where)  # none, in the moment between two
            place = answer.get("result", {}).get("result", {}).get("value", "")

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while (answer := await self._socket.receive_json()).get("id") != self._number:
            pass
        return dict(answer)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """Start a browser that keeps its files in a folder, and give its tab."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
        f"--user-data-dir={folder}", "about:blank",
        stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async for line in process.stderr:
            if b"DevTools listening on ws://" in line:
                break
        port = line.split(b":")[-1].split(b"/")[0].decode()
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as listed:
                tabs = await listed.json()
            url = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(url) as socket:
                yield Page(socket)
    finally:
        process.kill()
        await process.communicate()
