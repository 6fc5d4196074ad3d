"""Answer one request in memory: read, judged, written and billed as over a socket."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from lab.vendor import engine
from lab.vendor.failures import Refused
from lab.vendor.protocols.base import Request
from lab.vendor.record import Exchange
from lab.vendor.routes import route_of
from lab.vendor.state import State

__all__ = ["answered"]


def answered(
    state: State, provider: str, url: str, headers: Mapping[str, str], body: bytes
) -> Exchange | None:
    """Return the record of a POST request of account `alpha` to a provider's own address.

    The exchange has ended `complete`, or `refused` with a message and, where a rule of the judge
    refused it, the rule's id. `None` for a path that generates nothing here.
    """
    parts = urlsplit(url)
    lowered = {name.lower(): value for name, value in headers.items()}
    found = route_of("POST", f"/{provider}{parts.path}", lowered)
    if found is None or found[1].action is not None:
        return None
    api, _, named, match = found
    exchange = state.record.open(state.clock.now(), "POST", parts.path)
    query = dict(parse_qsl(parts.query))
    request = Request("POST", parts.path, query, lowered, body, named, "alpha", "req", match)
    try:
        engine.run(engine.prepare(state, exchange, request, api))
    except Refused as refused:
        exchange.ended = "refused"
        exchange.message = refused.failure.message
    return exchange
