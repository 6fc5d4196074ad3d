"""Responses that OpenAI keeps: to be fetched, followed, cancelled, deleted, and gone on from.

Written from https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.vendor import jsons
from lab.vendor.background import Background
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.base import Followed, Reply, Request, Route
from lab.vendor.protocols.openai_things import Conversation, conversation_of
from lab.vendor.protocols.reading import invalid
from lab.vendor.state import State

__all__ = ["ROUTES", "Stored", "context_of", "conversation_named"]


@dataclass(slots=True)
class Stored:
    """A stored response: all items before it, and the items that its request brought."""

    response: dict[str, Any]
    context: list[dict[str, Any]]
    given: list[dict[str, Any]]
    background: Background | None = field(default=None)


def context_of(state: State, request: Request, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items of the earlier responses that a request goes on from."""
    conversation = conversation_named(state, request.account, body)
    if conversation is not None:
        return list(conversation.items)
    previous = body.get("previous_response_id")
    if previous is None:
        return []
    stored = (request.kept or {}).get(str(previous))
    if stored is None:
        stored = state.owned.get("response", str(previous), request.account)
    if stored is None:
        message = f"Previous response with id '{previous}' not found."
        raise Refused(
            Failure("invalid", message, 400, "previous_response_not_found", "previous_response_id")
        )
    return [*stored.context, *stored.response["output"]]


def conversation_named(state: State, account: str, body: dict[str, Any]) -> Conversation | None:
    """Return the conversation that a request names; `None` without one. Raises Refused."""
    named = body.get("conversation")
    if named is None:
        return None
    id = named if isinstance(named, str) else jsons.obj(named).get("id")
    return conversation_of(state, account, str(id))


def _stored(state: State, request: Request) -> Stored:
    id = request.found["id"]
    stored = state.owned.get("response", id, request.account)
    if stored is None:
        raise Refused(Failure("not_found", f"Response with id '{id}' not found."))
    assert isinstance(stored, Stored)
    return stored


async def _get(state: State, request: Request) -> Reply | Followed:
    stored = _stored(state, request)
    if request.query.get("stream") == "true":
        if stored.background is None:
            raise invalid("This response was not created in the background and cannot be streamed.")
        after = int(request.query.get("starting_after", "-1")) + 1
        return Followed(stored.background.follow(after), "text/event-stream")
    return Reply.json(stored.response)


async def _delete(state: State, request: Request) -> Reply:
    stored = _stored(state, request)
    id = stored.response["id"]
    state.owned.remove("response", id, request.account)
    return Reply.json({"id": id, "object": "response", "deleted": True})


async def _cancel(state: State, request: Request) -> Reply:
    stored = _stored(state, request)
    if stored.background is None:
        raise invalid("Cannot cancel a synchronous response.")
    stored.background.cancel()
    if stored.background.is_cancelled:
        stored.response = {**stored.response, "status": "cancelled"}
    return Reply.json(stored.response)


async def _input_items(state: State, request: Request) -> Reply:
    stored = _stored(state, request)
    items = list(stored.given)
    if request.query.get("order", "desc") == "desc":
        items.reverse()
    return openai_common.page(request, items, 20)


ROUTES = (
    Route("GET", r"/responses/(?P<id>[^/]+)$", _get),
    Route("DELETE", r"/responses/(?P<id>[^/]+)$", _delete),
    Route("POST", r"/responses/(?P<id>[^/]+)/cancel$", _cancel),
    Route("GET", r"/responses/(?P<id>[^/]+)/input_items$", _input_items),
)
"""The routes of one response, by its id."""
