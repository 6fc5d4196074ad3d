"""The routes `/v1/responses/{id}`, which return stored responses only to their owner.

https://developers.openai.com/api/reference/resources/responses. For an id of another owner, the
response is the same as for an id that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from swink_gateway.protocols.frames import JSON, encode
from swink_gateway.serving.calls import OWNER
from swink_gateway.serving.conversation_store import ConversationStore, Kept

__all__ = ["StoredResponses", "items_of", "without_id"]

NOT_FOUND = 404

BAD_REQUEST = 400

MOST_ITEMS = 100
"""The maximum number of input items that one page of a list contains."""

USUAL_ITEMS = 20

ID = b'{"id":'
"""The beginning of a response's JSON."""


class StoredResponses:
    """Handles requests for the responses in a store."""

    def __init__(self, kept: ConversationStore) -> None:
        self._kept = kept

    def add_to(self, app: web.Application, path: str) -> None:
        """Add the routes to `app`; `path` is the path of the responses."""
        one = f"{path}/{{id}}"
        app.router.add_get(one, self._get, allow_head=False)
        app.router.add_delete(one, self._delete)
        app.router.add_post(f"{one}/cancel", self._cancel)
        app.router.add_get(f"{one}/input_items", self._input_items, allow_head=False)

    async def _get(self, request: web.Request) -> web.Response:
        found = self._found(request)
        if found is None:
            return _unknown(request)
        if request.query.get("stream") == "true":
            return _refused("stream: a response that has ended is not streamed again")
        return _sent(ID + encode(request.match_info["id"]) + found.response)

    async def _delete(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        if not self._kept.delete(id, request[OWNER]):
            return _unknown(request)
        return web.json_response({"id": id, "object": "response", "deleted": True})

    async def _cancel(self, request: web.Request) -> web.Response:
        if self._found(request) is None:
            return _unknown(request)
        return _refused("Cannot cancel a response that was not created with background=true.")

    async def _input_items(self, request: web.Request) -> web.Response:
        found = self._found(request)
        if found is None:
            return _unknown(request)
        try:
            page = _page(found.items, request.query)
        except ValueError as error:
            return _refused(str(error))
        return _sent(page)

    def _found(self, request: web.Request) -> Kept | None:
        return self._kept.find(request.match_info["id"], request[OWNER])


def without_id(whole: bytes, id: str) -> bytes:
    """Return the JSON of a response without the field `id`, which is the first."""
    return whole.removeprefix(ID + encode(id))


def items_of(given: Any) -> list[tuple[Any, bytes]]:
    """Return the `input` of a request as items: the id and the JSON of each."""
    if isinstance(given, str):
        given = [{"role": "user", "content": [{"type": "input_text", "text": given}]}]
    items = []
    for number, item in enumerate(given or ()):
        kind = item.get("type") or "message"
        named = {"id": f"{kind}_{number}", "type": kind, **item}
        items.append((named["id"], encode(named)))
    return items


def _page(items: Sequence[tuple[Any, bytes]], query: Mapping[str, str]) -> bytes:
    """Return one page of a list of items. Raises ValueError for invalid query parameters."""
    order, after, limit = (query.get(name, "") for name in ("order", "after", "limit"))
    if order not in ("", "asc", "desc"):
        raise ValueError("order: asc or desc was expected")
    if limit and not (limit.isdecimal() and 1 <= int(limit) <= MOST_ITEMS):
        raise ValueError(f"limit: a number from 1 to {MOST_ITEMS} was expected")
    listed = [*items] if order == "asc" else [*reversed(items)]
    if after:
        places = [at for at, (id, _) in enumerate(listed) if id == after]
        if not places:
            raise ValueError("after: the response has no such item")
        listed = listed[places[0] + 1 :]
    page = listed[: int(limit or USUAL_ITEMS)]
    ends = {
        "object": "list",
        "first_id": page[0][0] if page else None,
        "last_id": page[-1][0] if page else None,
        "has_more": len(listed) > len(page),
    }
    data = b",".join(item for _, item in page)
    return encode(ends)[:-1] + b',"data":[' + data + b"]}"


def _sent(body: bytes) -> web.Response:
    return web.Response(body=body, content_type=JSON)


def _unknown(request: web.Request) -> web.Response:
    return _error(NOT_FOUND, f"Response with id {request.match_info['id']!r:.100} not found.")


def _refused(why: str) -> web.Response:
    return _error(BAD_REQUEST, why)


def _error(status: int, why: str) -> web.Response:
    error = {"message": why, "type": "invalid_request_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status)
