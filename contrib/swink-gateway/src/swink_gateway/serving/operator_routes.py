"""For operators: `/metrics`, `/v1/events` and, for the owner of a key too, `/v1/spending`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiohttp import web
from attrs import asdict

from swink_gateway.policy.charging import allowance_of
from swink_gateway.serving.calls import OWNER, Calls

if TYPE_CHECKING:
    from swink_gateway.serving.metrics import Monitor

__all__ = ["OperatorRoutes"]


class OperatorRoutes:
    """Answers whoever looks after the gateway; without a `monitor`, about spending alone."""

    def __init__(self, calls: Calls, monitor: Monitor | None) -> None:
        self._calls = calls
        self._monitor = monitor

    def add_to(self, app: web.Application) -> None:
        """Add the routes."""
        app.router.add_get("/v1/spending", self._spending)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/events", self._events)
        if self._monitor is not None:
            self._monitor.belong_to(app)

    async def _spending(self, request: web.Request) -> web.Response:
        """Tell what the owner of a key took, and an operator what all did."""
        owner, keys = request[OWNER], self._calls.routing.config.keys
        asked = [*keys] if self._is_operator(owner) else [owner]
        rows: list[dict[str, Any]] = []
        for spent in await self._calls.ledger.spending(asked):
            row = asdict(spent)
            row |= {name: round(row[name], 9) + 0.0 for name in _DOLLARS}
            row["limits"] = asdict(allowance_of(keys[spent.key]))
            rows.append({name: row[name] for name in _ROW})
        return web.json_response({"object": "list", "data": rows})

    async def _metrics(self, request: web.Request) -> web.Response:
        from swink_gateway.serving.metrics import CONTENT_TYPE

        monitor = self._for_operators(request)
        keys = self._calls.routing.config.keys
        spent = await self._calls.ledger.spending([*keys])
        body = await asyncio.to_thread(monitor.exposition, spent, keys)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self._for_operators(request).feed.answer(request)

    def _for_operators(self, request: web.Request) -> Monitor:
        if not self._is_operator(request[OWNER]):
            raise web.HTTPForbidden(reason="this is for keys with operator = true")
        if self._monitor is None:
            raise web.HTTPNotFound(reason="this gateway was started without a monitor")
        return self._monitor

    def _is_operator(self, owner: str) -> bool:
        key = self._calls.routing.config.keys.get(owner)
        return owner == "" if key is None else key.operator  # who has no name owns the gateway


_ROW = (
    "key", "requests", "tokens", "streams", "dollars_today", "dollars_this_month", "limits",
)  # fmt: skip

_DOLLARS = ("dollars_today", "dollars_this_month")
"""Sums of fractions, and never `-0.0`."""
