"""OpenAI's Responses.

Written from https://platform.openai.com/docs/api-reference/responses. Input items are read in
`responses_items`, events written in `responses_events`, and stored responses kept in
`responses_stored`.
"""

from __future__ import annotations

from typing import Any

from lab.vendor import jsons
from lab.vendor.ask import Ask, Segment
from lab.vendor.background import Background
from lab.vendor.catalog import model_of
from lab.vendor.engine import Job
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols import openai_common, responses_stored
from lab.vendor.protocols.base import API, Encoder, Followed, Reply, Request, Route, as_body
from lab.vendor.protocols.openai_things import check_tools
from lab.vendor.protocols.reading import invalid, limit_of
from lab.vendor.protocols.responses_events import ResponseEncoder
from lab.vendor.protocols.responses_items import items_of, read_items, read_tools
from lab.vendor.protocols.responses_stored import context_of
from lab.vendor.state import State

__all__ = ["Responses"]


class Responses(API):
    """`POST /v1/responses`."""

    name = "responses"
    judged_as = "responses"
    provider = "openai"

    def __init__(self) -> None:
        self.routes = (
            Route("POST", r"/responses$"),
            Route("GET", r"/responses$", _no_socket),
            Route("POST", r"/responses/input_tokens$", self._count),
            *responses_stored.ROUTES,
        )

    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""
        model = jsons.text(body.get("model"))
        if not model:
            raise invalid("Missing required parameter: 'model'.", "model")
        row = model_of(request.provider, model)
        ask = Ask(request.provider, self.name, row, request.account)
        given = items_of(body.get("input"), state)
        context = context_of(state, request, body)
        check_tools(state, request.account, body.get("tools"))
        read_tools(ask, body)
        if isinstance(body.get("instructions"), str):
            ask.segments.append(Segment("developer", body["instructions"]))
        read_items(state, ask, context + given, len(context))
        reasoning = jsons.obj(body.get("reasoning"))
        ask.thinking = openai_common.thinks(row, reasoning.get("effort"))
        ask.shown = reasoning.get("summary") is not None
        ask.limit = limit_of([body.get("max_output_tokens")])
        form = jsons.obj(jsons.obj(body.get("text")).get("format"))
        if form.get("type") == "json_schema":
            ask.schema = jsons.obj(form.get("schema"))
        elif form.get("type") == "json_object":
            ask.schema = {}
        ask.tier = openai_common.tier_of(body.get("service_tier"))
        padding = jsons.obj(body.get("stream_options")).get("include_obfuscation", True)
        ask.own = {
            "body": body,
            "context": context + given,
            "given": given,
            "background": body.get("background") is True,
            "kept": request.kept,
            "prewarm": request.kept is not None and body.get("generate") is False,
            "encrypted": "reasoning.encrypted_content" in (body.get("include") or []),
            "padding": padding,
        }
        return ask

    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""
        return ResponseEncoder(state, ask)

    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response."""
        return openai_common.failure(failure, request_id)

    def headers(self, state: State, request_id: str) -> dict[str, str]:
        """Return the headers of an answer."""
        return openai_common.headers(state, request_id)

    def unwrapped(self, message: bytes) -> bytes:
        """Return the body of a request in a message of a WebSocket. Raises Refused."""
        try:
            body = jsons.obj(jsons.load(message))
        except ValueError as error:
            raise invalid(str(error)) from None
        if body.pop("type", None) != "response.create":
            raise invalid("Unknown event type. Supported: 'response.create'.", "type")
        return jsons.dump({**body, "stream": True})

    def prewarmed(self, job: Job) -> bytes:
        """Return the events of a request that generates nothing, and keep its items."""
        encoder = job.encoder
        assert isinstance(encoder, ResponseEncoder)
        return encoder.prewarmed()

    async def serve(self, state: State, job: Job) -> Reply | Followed:
        """Produce an answer in the background; return its response as it begins, or its stream."""
        encoder = job.encoder
        assert isinstance(encoder, ResponseEncoder)
        encoder.keep("queued")
        background = Background(job)
        stored = state.owned.get("response", encoder.id, job.ask.account)
        stored.background = background
        if job.ask.streamed:
            return Followed(background.follow(), encoder.media_type)
        return Reply.json(stored.response)

    async def _count(self, state: State, request: Request) -> Reply:
        ask = self.read(state, request, as_body(request))
        return Reply.json({"object": "response.input_tokens", "input_tokens": ask.prompt_tokens})


async def _no_socket(state: State, request: Request) -> Reply:
    message = "This endpoint accepts no WebSocket; send a POST request."
    raise Refused(Failure("invalid", message, 426))
