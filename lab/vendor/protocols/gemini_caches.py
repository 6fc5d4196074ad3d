"""Google's explicit prompt caches: https://ai.google.dev/api/caching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.vendor import jsons
from lab.vendor.ask import Ask
from lab.vendor.clock import timestamp
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols.base import API, Reply, Request, Route, as_body
from lab.vendor.protocols.reading import invalid
from lab.vendor.state import State

__all__ = ["Cache", "cache_of", "routes"]

_HOUR = 3600.0


@dataclass(slots=True)
class Cache:
    """A cached prefix, and the time at which it expires."""

    object: dict[str, Any]
    ask: Ask
    until: float


def cache_of(state: State, account: str, name: str) -> Cache:
    """Return an account's cache. Raises Refused, with the same words for all other caches."""
    found = state.owned.get("gemini cache", name, account)
    if found is None or found.until <= state.clock.now():
        message = "CachedContent not found (or permission denied)"
        raise Refused(Failure("permission", message))
    assert isinstance(found, Cache)
    return found


def routes(gemini: API) -> tuple[Route, ...]:
    """Return the routes; `gemini` reads what is to be cached."""

    async def create(state: State, request: Request) -> Reply:
        body = gemini.normal(as_body(request))
        model = jsons.text(body.get("model")).removeprefix("models/")
        request.found = {"model": model}
        ask = gemini.read(state, request, body)
        size = ask.prompt_tokens
        if size < ask.model.cache_from:
            raise invalid(
                f"Cached content is too small. total_token_count={size}, "
                f"min_total_token_count={ask.model.cache_from}"
            )
        ttl = jsons.text(body.get("ttl"))
        now = state.clock.now()
        until = now + (float(ttl.removesuffix("s")) if ttl else _HOUR)
        name = f"cachedContents/{state.ids.make('', 24).lower()}"
        object = {
            "name": name,
            "model": f"models/{model}",
            "displayName": body.get("displayName", ""),
            "createTime": timestamp(now),
            "updateTime": timestamp(now),
            "expireTime": timestamp(until),
            "usageMetadata": {"totalTokenCount": size},
        }
        state.owned.put("gemini cache", name, request.account, Cache(object, ask, until))
        return Reply.json(object)

    return (
        Route("POST", r"/cachedContents$", create),
        Route("GET", r"/cachedContents$", _caches),
        Route("GET", r"/(?P<id>cachedContents/[^/:]+)$", _cache),
        Route("DELETE", r"/(?P<id>cachedContents/[^/:]+)$", _delete),
    )


async def _caches(state: State, request: Request) -> Reply:
    found = state.owned.all("gemini cache", request.account)
    return Reply.json({"cachedContents": [cache.object for cache in found]})


async def _cache(state: State, request: Request) -> Reply:
    return Reply.json(cache_of(state, request.account, request.found["id"]).object)


async def _delete(state: State, request: Request) -> Reply:
    name = request.found["id"]
    cache_of(state, request.account, name)
    state.owned.remove("gemini cache", name, request.account)
    return Reply.json({})
