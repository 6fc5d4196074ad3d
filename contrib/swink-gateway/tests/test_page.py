"""The page in a real browser, and what a page of another site can make that browser do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from serving import Scripted, serving

import swink_core as swink
from swink_gateway.config import Source

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


class Page:
    """A tab, spoken to over the DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def run(self, script: str) -> Any:
        """Return what a script's promise comes to."""
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


@asynccontextmanager
async def another_site() -> AsyncIterator[str]:
    """Serve an empty page at an address of its own."""

    async def empty(request: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>x</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", empty)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


ASK = """
new Promise((done) => {
  const answer = document.getElementById("answer");
  document.getElementById("prompt").value = "one two";
  new MutationObserver(() => { if (answer.dataset.done) done(answer.textContent); })
    .observe(answer, {attributes: true, childList: true, subtree: true});
  document.getElementById("ask").click();
})
"""

ATTACKS = [
    "fetch('URL/v1/chat/completions', {method: 'POST', mode: 'no-cors', body: 'BODY'})",
    "fetch('URL/v1/stream', {method: 'POST', body: 'BODY'}).catch(() => 0)",
    "fetch('URL/', {mode: 'no-cors'})",
    "new Promise((done) => { const s = new WebSocket('URL/v1/responses'.replace('http', 'ws'));"
    " s.onopen = () => s.send('BODY'); s.onclose = (e) => done(e.code); })",
]
BODY = '{"type":"response.create","model":"echo/echo","input":"Hi","messages":[]}'


KEYS = """
[keys.alice]
key = "${A}"
requests_per_minute = 60
dollars_per_day = 5
"""
SPENT = "[...document.querySelectorAll('#spending td')].map((cell) => cell.textContent).join('; ')"


async def test_the_page_streams_an_answer_and_others_cannot_ask(tmp_path: Path) -> None:
    upstream = Scripted([swink.Start(), swink.Done(swink.StopReason.STOP)])
    config = Source("team.toml", KEYS).config({"A": "key-a"})
    async with (
        browser(tmp_path) as page,
        serving() as gateway,
        serving(upstream) as attacked,
        serving(config=config) as of_keys,
    ):
        await page.go(f"{of_keys.url}/?key=key-a")
        assert await page.run(ASK) == "one two"
        assert await page.run(SPENT) == "alice; 1 of 60; 4; 0; $0.00 of $5.00; $0.00"
        await page.go(gateway.url)
        assert await page.run(ASK) == "one two"
        assert await page.run("document.getElementById('spending').hidden")
        assert gateway.url in await page.run("document.getElementById('clients').textContent")
        async with another_site() as site:
            await page.go(site)
            for attack in ATTACKS:
                script = attack.replace("URL", attacked.url).replace("BODY", BODY)
                await page.run(f"{script}.then((r) => String(r))")
    assert upstream.calls == []
