"""Send one answer to a client, complete or as a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiohttp import web
from attrs import evolve

from swink_core import Error, Notice, StopReason, replace
from swink_gateway.protocols import Asked, ClientProtocol, Reply
from swink_gateway.protocols.failures import (
    EMPTY,
    NOT_AGAIN,
    SHUTDOWN,
    header_text,
    passed_on,
    status_of,
    told_of_shutdown,
)
from swink_gateway.protocols.frames import JSON
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.relay import StreamRelay, relayed
from swink_gateway.serving.upstream_call import UpstreamCall

__all__ = ["OneAnswer", "respond"]

MODEL = "x-swink-model"
"""The response header with the name of the model that answers."""

DROPPED = "x-swink-dropped"
"""The response header with the paths of the request's fields that were dropped."""

NOTICES = "x-swink-notices"
"""The response header with the provider adapter's warnings about the request."""

REQUEST_IDS = ("x-request-id", "request-id")
"""The response headers from which OpenAI's and Anthropic's SDKs read the id of a request."""


def respond(reply: Reply) -> web.Response:
    """Create an HTTP response from a complete reply."""
    return web.Response(
        body=reply.body,
        status=reply.status,
        headers=dict(reply.headers),
        content_type=reply.content_type,
    )


class OneAnswer:
    """An answer that is being sent."""

    def __init__(
        self,
        request: web.Request,
        protocol: ClientProtocol,
        asked: Asked,
        begun: UpstreamCall,
        limits: Limits,
        counters: Counter[str],
    ) -> None:
        self._request = request
        self._protocol = protocol
        self._asked = asked
        self._begun = begun
        self._limits, self._counters = limits, counters
        self.encoder = protocol.encoder(asked, begun.facts)
        self._notices = [*asked.notices]
        self.completed = False

    async def streamed(self) -> web.StreamResponse:
        """Send the events of a call as they arrive."""
        encoder, stream = self.encoder, self._begun.stream
        kind, name = encoder.content_type, self._protocol.name
        line = StreamRelay(
            self._request, kind, self._headers, self._refusal, self._limits, self._counters
        )

        def heard(batch: Sequence[Any]) -> None:
            self._begun.hear(batch)
            if line.response is None:
                self._listen(batch)

        with suppress(ConnectionResetError):
            self.completed = await relayed(
                stream, encoder, line, name, heard, self._begun.routing.config.head_wait
            )
        assert line.response is not None  # the last event always produces output
        return line.response

    async def whole(self) -> web.Response:
        """Return the complete answer, after the call has ended."""
        stream = self._begun.stream
        terminal: Any = None
        async for batch in stream.batches():
            self._begun.hear(batch)
            self._listen(batch)
            terminal = told_of_shutdown(batch)[-1]
        message = stream.message
        if isinstance(terminal, Error) and terminal.code == EMPTY:
            message = replace(
                message, stop_reason=StopReason.STOP, error_kind=None, error_message=None
            )
        elif isinstance(terminal, Error):
            return self._refusal(terminal)
        self.completed = True
        body = self.encoder.whole(message)
        return web.Response(body=body, headers=self._headers(), content_type=JSON)

    def _refusal(self, error: Error) -> web.Response:
        """Return a failure as a complete response.

        A header keeps clients from retrying after the gateway has already retried, unless another
        gateway may answer.
        """
        call = self._begun.stream.call
        reply = self._protocol.failure(error, status_of(error, self._begun.models))
        headers = self._headers()
        if call.attempts > self._begun.models and error.code != SHUTDOWN:
            headers[NOT_AGAIN] = "false"
        return respond(evolve(reply, headers={**headers, **reply.headers}))

    def _listen(self, batch: Sequence[Any]) -> None:
        self._notices += [event.detail for event in batch if isinstance(event, Notice)]

    def _headers(self) -> dict[str, str]:
        """Return the headers with the facts that are known before the first byte of the answer.

        If another model may still answer, they do not include facts about the current model.
        """
        headers: dict[str, str] = {}
        stream = self._begun.stream
        call = stream.call
        if self._begun.models == 1 or call.ended_at is not None or stream.message.content:
            headers = {MODEL: str(call.model), **passed_on(call.attempt.response)}
            if request_id := call.request_id:
                headers |= dict.fromkeys(REQUEST_IDS, request_id)
        if self._asked.dropped:
            headers[DROPPED] = ", ".join(dict.fromkeys(self._asked.dropped))
        if self._notices:
            headers[NOTICES] = "; ".join(self._notices)
        hide = call.redact
        return {name: header_text(hide(value)) for name, value in headers.items()}
