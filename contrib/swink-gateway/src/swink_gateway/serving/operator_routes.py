"""Routes for operators (metrics, feed, audit of the ledger) and for spending reports."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aiohttp import web
from attrs import asdict

from swink_core import UsageError
from swink_gateway.policy.charging import allowance_of
from swink_gateway.policy.limits import Entry, StoreUnavailable, Total, audited
from swink_gateway.policy.spending import (
    COST_DIGITS,
    FILTERS,
    audit_of,
    csv_of,
    only_of,
    query_of,
    rows_of,
)
from swink_gateway.serving.calls import OWNER, Calls

if TYPE_CHECKING:
    from swink_gateway.serving.metrics import Monitor

__all__ = ["OperatorRoutes"]

log = logging.getLogger(__name__)


class OperatorRoutes:
    """Serves the operators' routes; without a `monitor`, only the routes about spending.

    `owner_of` returns the owner of the API key in a request; `None` if the configuration in use
    does not contain the key.
    """

    def __init__(
        self, calls: Calls, monitor: Monitor | None, owner_of: Callable[[web.Request], str | None]
    ) -> None:
        self._calls = calls
        self._monitor = monitor
        self._owner_of = owner_of
        self._listing: set[str] = set()
        self._one_list = asyncio.Lock()
        self._one_sum: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def add_to(self, app: web.Application) -> None:
        """Add the routes."""
        app.router.add_get("/v1/spending", self._spending)
        app.router.add_get("/v1/spending/report", self._report)
        app.router.add_get("/v1/spending/audit", self._audit)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/events", self._events)
        if self._monitor is not None:
            self._monitor.belong_to(app)

    async def _spending(self, request: web.Request) -> web.Response:
        """Respond with the spending of the key's owner, or of all owners for an operator."""
        owner, keys = request[OWNER], self._calls.routing.config.keys
        asked = [*keys] if self._is_operator(owner) else [owner]
        rows: list[dict[str, Any]] = []
        for spent in await self._calls.ledger.spending(asked):
            row = asdict(spent)
            row |= {name: round(row[name], COST_DIGITS) + 0.0 for name in _DOLLARS}
            row["limits"] = asdict(allowance_of(keys[spent.key]))
            rows.append({name: row[name] for name in _ROW})
        return web.json_response({"object": "list", "data": rows})

    async def _report(self, request: web.Request) -> web.Response:
        """Respond with sums or rows of the ledger.

        An operator receives the data of all owners; any other owner receives only their data. The
        query parameters are `by`, `since`, `until`, the filters, `rows` (to list rows) and
        `format`. Rows are listed for one request at a time, and once for an owner. The sums of an
        owner are computed for one request at a time.
        """
        asked, owner = request.query, request[OWNER]
        try:
            where = {name: asked.getall(name) for name in FILTERS if name in asked}
            query = query_of(asked.get("by", "key"), asked.get("since"), asked.get("until"), where)
            if not self._is_operator(owner):
                query = only_of(query, owner)
            as_csv = asked.get("format") == "csv"
            if asked.get("rows") not in ("1", "true"):
                async with self._one_sum[owner]:  # it may read all rows of the owner
                    sums = await self._calls.ledger.report(query)
                    return await asyncio.to_thread(_formatted, sums, as_csv)
            if owner in self._listing:
                raise web.HTTPServiceUnavailable(reason="rows are being listed for this key")
            self._listing.add(owner)
            try:
                async with self._one_list:  # many rows take much memory
                    found = await self._calls.ledger.entries(query)
                    return await asyncio.to_thread(_formatted, found, as_csv)
            finally:
                self._listing.remove(owner)
        except UsageError as error:
            raise web.HTTPBadRequest(reason=str(error).replace("\n", " ")) from error

    async def _audit(self, request: web.Request) -> web.Response:
        """Respond with the differences between ledger and budgets, and with unsettled attempts."""
        self._check_operator(request)
        keys = [*self._calls.routing.config.keys]
        found = await audited(self._calls.ledger, keys, time.time())
        return web.json_response({"object": "audit", **audit_of(found)})

    async def _metrics(self, request: web.Request) -> web.Response:
        from swink_gateway.serving.metrics import CONTENT_TYPE

        monitor = self._for_operators(request)
        keys = self._calls.routing.config.keys
        try:
            spent = await self._calls.ledger.spending([*keys])
        except StoreUnavailable as error:
            log.error("the metrics lack the spending of keys: %s", error)
            spent = []
        body = await asyncio.to_thread(monitor.exposition, spent, keys)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        def may_read() -> bool:
            owner = self._owner_of(request)
            return owner == request[OWNER] and self._is_operator(owner)

        return await self._for_operators(request).feed.answer(request, may_read)

    def _check_operator(self, request: web.Request) -> None:
        if not self._is_operator(request[OWNER]):
            raise web.HTTPForbidden(reason="only keys with operator = true may use this")

    def _for_operators(self, request: web.Request) -> Monitor:
        self._check_operator(request)
        if self._monitor is None:
            raise web.HTTPNotFound(reason="this gateway was started without a monitor")
        return self._monitor

    def _is_operator(self, owner: str) -> bool:
        key = self._calls.routing.config.keys.get(owner)
        return owner == "" if key is None else key.operator  # a key without a name has all rights


def _formatted(found: Sequence[Total] | Sequence[Entry], as_csv: bool) -> web.Response:
    """Return sums, or rows of the ledger, in JSON or CSV."""
    rows = rows_of(found)
    if as_csv:
        return web.Response(text=csv_of(rows), content_type="text/csv", charset="utf-8")
    return web.json_response({"object": "list", "data": rows})


_ROW = (
    "key", "requests", "tokens", "streams", "dollars_today", "dollars_this_month", "limits",
)  # fmt: skip

_DOLLARS = ("dollars_today", "dollars_this_month")
"""Amounts that are rounded, because sums of fractions have rounding errors."""
