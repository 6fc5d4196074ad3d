"""The page in a real browser, and requests that a page of another site makes there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from serving import Scripted, serving

import swink_core as swink
from swink_gateway.policy.config import Source
from swink_test_helpers.browser import CHROMIUM, browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@asynccontextmanager
async def another_site() -> AsyncIterator[str]:
    """Serve an empty page at a different origin."""

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


async def test_the_page_streams_an_answer_and_other_origins_are_refused(tmp_path: Path) -> None:
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
        shown = await page.run("document.getElementById('clients').textContent")
        assert f"SWINK_PROXY_URL={of_keys.url} SWINK_PROXY_KEY=YOUR-KEY" in shown
        assert "OLLAMA_API_KEY=YOUR-KEY" in shown
        assert await page.run(SPENT) == "alice; 1 of 60; 4; 0; $0.00 of $5.00; $0.00"
        await page.go(gateway.url)
        assert await page.run(ASK) == "one two"
        assert await page.run("document.getElementById('spending').hidden")
        shown = await page.run("document.getElementById('clients').textContent")
        assert gateway.url in shown
        assert "SWINK_PROXY_KEY" not in shown
        async with another_site() as site:
            await page.go(site)
            for attack in ATTACKS:
                script = attack.replace("URL", attacked.url).replace("BODY", BODY)
                await page.run(f"{script}.then((r) => String(r))")
    assert upstream.calls == []
