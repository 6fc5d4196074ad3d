"""Other things that OpenAI keeps for an account: conversations, vector stores, containers.

Vector stores and containers exist and have an owner; nothing is searched or run. Written from
https://platform.openai.com/docs/api-reference/conversations, /vector-stores and /containers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.vendor import jsons
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.base import Reply, Request, Route, as_body
from lab.vendor.state import State

__all__ = ["ROUTES", "Conversation", "check_tools", "conversation_of", "with_ids"]


@dataclass(slots=True)
class Conversation:
    """A conversation and its items."""

    object: dict[str, Any]
    items: list[dict[str, Any]] = field(default_factory=list)


def with_ids(state: State, items: Any) -> list[dict[str, Any]]:
    """Return items, each with an id."""
    return [
        item if item.get("id") else {"id": state.ids.digits("msg_0"), **item}
        for item in jsons.objects(items)
    ]


def conversation_of(state: State, account: str, id: str) -> Conversation:
    """Return an account's conversation. Raises Refused."""
    found = state.owned.get("conversation", id, account)
    if found is None:
        raise Refused(Failure("not_found", f"Conversation with id '{id}' not found."))
    assert isinstance(found, Conversation)
    return found


def check_tools(state: State, account: str, tools: Any) -> None:
    """Check that the vector stores and containers of tools belong to an account. Raises Refused."""
    for tool in jsons.objects(tools):
        for id in tool.get("vector_store_ids") or []:
            if state.owned.get("vector store", str(id), account) is None:
                raise Refused(Failure("not_found", f"Vector store with id ['{id}'] not found."))
        container = tool.get("container")
        if isinstance(container, str) and state.owned.get("container", container, account) is None:
            raise Refused(Failure("not_found", f"Container with id '{container}' not found."))


# -- conversations -------------------------------------------------------------------------------


async def _new_conversation(state: State, request: Request) -> Reply:
    body = as_body(request) if request.body else {}
    id = state.ids.digits("conv_0")
    object = {
        "id": id,
        "object": "conversation",
        "created_at": int(state.clock.now()),
        "metadata": body.get("metadata") or {},
    }
    made = Conversation(object, with_ids(state, body.get("items")))
    state.owned.put("conversation", id, request.account, made)
    return Reply.json(object)


async def _conversation(state: State, request: Request) -> Reply:
    return Reply.json(conversation_of(state, request.account, request.found["id"]).object)


async def _delete_conversation(state: State, request: Request) -> Reply:
    id = request.found["id"]
    conversation_of(state, request.account, id)
    state.owned.remove("conversation", id, request.account)
    return Reply.json({"id": id, "object": "conversation.deleted", "deleted": True})


async def _items(state: State, request: Request) -> Reply:
    items = conversation_of(state, request.account, request.found["id"]).items
    descending = request.query.get("order", "desc") == "desc"
    return openai_common.page(request, list(reversed(items)) if descending else items, 20)


async def _add_items(state: State, request: Request) -> Reply:
    conversation = conversation_of(state, request.account, request.found["id"])
    added = with_ids(state, as_body(request).get("items"))
    conversation.items += added
    return openai_common.page(request, added, len(added) or 1)


# -- vector stores and containers ----------------------------------------------------------------


async def _new_store(state: State, request: Request) -> Reply:
    body = as_body(request) if request.body else {}
    files = body.get("file_ids") or []
    openai_common.check_files(state, request.account, [{"file_id": id} for id in files])
    id = state.ids.digits("vs_", 32)
    now = int(state.clock.now())
    counts = {"in_progress": 0, "completed": len(files), "failed": 0, "cancelled": 0}
    object = {
        "id": id,
        "object": "vector_store",
        "created_at": now,
        "name": body.get("name"),
        "usage_bytes": 0,
        "file_counts": {**counts, "total": len(files)},
        "status": "completed",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": now,
        "metadata": body.get("metadata") or {},
    }
    state.owned.put("vector store", id, request.account, object)
    return Reply.json(object)


async def _new_container(state: State, request: Request) -> Reply:
    body = as_body(request)
    id = state.ids.digits("cntr_", 48)
    now = int(state.clock.now())
    object = {
        "id": id,
        "object": "container",
        "created_at": now,
        "status": "running",
        "expires_after": {"anchor": "last_active_at", "minutes": 20},
        "last_active_at": now,
        "memory_limit": "1g",
        "name": body.get("name"),
    }
    state.owned.put("container", id, request.account, object)
    return Reply.json(object)


def _routes_of(path: str, kind: str, shown: str) -> tuple[Route, ...]:
    """Return the routes that list, get and delete things of one kind."""

    async def listed(state: State, request: Request) -> Reply:
        return openai_common.page(request, state.owned.all(kind, request.account), 20)

    async def one(state: State, request: Request) -> Reply:
        id = request.found["id"]
        found = state.owned.get(kind, id, request.account)
        if found is None:
            message = f"{kind.capitalize()} with id '{id}' not found."
            raise Refused(Failure("not_found", message))
        return Reply.json(found)

    async def delete(state: State, request: Request) -> Reply:
        await one(state, request)
        id = request.found["id"]
        state.owned.remove(kind, id, request.account)
        return Reply.json({"id": id, "object": f"{shown}.deleted", "deleted": True})

    return (
        Route("GET", rf"/{path}$", listed),
        Route("GET", rf"/{path}/(?P<id>[^/]+)$", one),
        Route("DELETE", rf"/{path}/(?P<id>[^/]+)$", delete),
    )


ROUTES = (
    Route("POST", r"/conversations$", _new_conversation),
    Route("GET", r"/conversations/(?P<id>[^/]+)$", _conversation),
    Route("DELETE", r"/conversations/(?P<id>[^/]+)$", _delete_conversation),
    Route("GET", r"/conversations/(?P<id>[^/]+)/items$", _items),
    Route("POST", r"/conversations/(?P<id>[^/]+)/items$", _add_items),
    Route("POST", r"/vector_stores$", _new_store),
    *_routes_of("vector_stores", "vector store", "vector_store"),
    Route("POST", r"/containers$", _new_container),
    *_routes_of("containers", "container", "container"),
)
"""The routes of all three."""
