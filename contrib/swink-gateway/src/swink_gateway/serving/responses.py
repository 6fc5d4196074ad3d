"""Features of the Responses API: continuing from the id of an earlier answer, and WebSockets.

Over a WebSocket (https://developers.openai.com/api/docs/guides/websocket-mode), each text frame of
the client is a request of the type `response.create`, and each frame of the gateway is an event.
Clients send a request with `generate: false` to warm up a cache; the gateway answers it without
calling a model. A client can continue from any answer of the same connection; over HTTP, only from
answers to requests with `store`. Events contain the `stream_id` of their request. The requests of a
connection are answered one after the other, even if their `stream_id`s differ. Input that would
steer an answer in progress (`response.steer`) is sent back to the client. As with OpenAI, a
connection is closed after an hour.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web
from attrs import define

from swink_core import (
    AssistantMessage,
    Error,
    Message,
    StreamErrorKind,
    ToolResultMessage,
    dump,
    replace,
)
from swink_gateway.protocols import Asked, BadRequest, Facts
from swink_gateway.protocols.bodies import COPIES, MOST_BLOCKS, asked_of, json_of, memory_of
from swink_gateway.protocols.failures import (
    Refused,
    of_bad_request,
    standard_status,
    status_of,
)
from swink_gateway.protocols.frames import encode, named_frame
from swink_gateway.protocols.openai_errors import error_data
from swink_gateway.protocols.responses.protocol import PREFIX, ResponsesEncoder, ResponsesProtocol
from swink_gateway.protocols.responses.requests import as_input, reference_of
from swink_gateway.serving.access_log import WEBSOCKET, LogLine
from swink_gateway.serving.bodies import memory_needed, size_of, within
from swink_gateway.serving.calls import OWNER, Calls, note_refused
from swink_gateway.serving.conversation_store import ConversationStore, Kept
from swink_gateway.serving.limits import time_limit
from swink_gateway.serving.refusals import refusal as refused_request
from swink_gateway.serving.relay import Line, hold_little, relayed
from swink_gateway.serving.socket_meter import SocketMeter
from swink_gateway.serving.stored_responses import StoredResponses, items_of, without_id

__all__ = ["ResponsesRoutes"]

log = logging.getLogger(__name__)

DONE = 200
"""The status in the access log for a WebSocket request that was answered."""

UPGRADE = 426
"""The status after which a client switches from WebSockets to HTTP."""

HEARTBEAT_SECONDS = 30.0
"""The seconds between two checks for a lost connection."""

SOCKET_SECONDS = 3600.0
"""The seconds after which a connection is closed; clients then open another."""

CLOSE_SECONDS = 10.0
"""The seconds that a client has to answer the close of a connection."""

SOCKET_ENDED = "websocket_connection_limit_reached"

REVOKED = "invalid_api_key"
"""The error code for a request whose connection was opened with a key that is no longer valid."""

LANE = "stream_id"
"""The field by which a client distinguishes the requests of one connection."""

STEER = "response.steer"

MOST_WAITING = 16
"""The maximum number of queued requests of one connection."""

MOST_OF_SOCKETS = 10_000
"""The maximum number of stored answers of all connections together."""


class ResponsesRoutes:
    """Serves `/v1/responses`; `most_bytes` is the size limit of a frame.

    `owner_of` returns the owner of the key of a request; `None` if the configuration in use does
    not contain the key.
    """

    def __init__(
        self, calls: Calls, most_bytes: int, owner_of: Callable[[web.Request], str | None]
    ) -> None:
        self._calls = calls
        self._owner_of = owner_of
        self._most_bytes = most_bytes
        self._protocol = ResponsesProtocol()
        self._kept = ConversationStore()
        self._of_sockets = ConversationStore(MOST_OF_SOCKETS)
        self.stored = StoredResponses(self._kept)

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answer a request over HTTP."""
        return await self._calls.answer(request, self._protocol, self._answer)

    async def _answer(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        owner = request[OWNER]
        kept, most = self._kept, self._most_bytes
        asked.said["is_taken"] = partial(kept.has, owner=owner)
        try:
            size, held = await _with_items(
                self._protocol, asked, size_of(request), most, kept, owner
            )
            size, before = _go_on(asked, size, most, kept, owner)
        except Refused as refusal:
            note_refused(request, refusal)
            return web.json_response({"error": _error_of(refusal)}, status=refusal.status)

        def done(message: Any, facts: Facts, encoder: ResponsesEncoder) -> None:
            if asked.said["store"]:
                _keep(kept, asked, message, encoder, size, owner, encoder.whole(message))

        with self._calls.admission.holding(held + before):
            return await self._calls.answer_to(request, self._protocol, asked, done)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Open a WebSocket; refuse other requests."""
        socket = web.WebSocketResponse(
            timeout=CLOSE_SECONDS,
            compress=False,
            max_msg_size=self._most_bytes,
            heartbeat=HEARTBEAT_SECONDS,
            decode_text=False,
        )
        if not socket.can_prepare(request).ok:
            return web.json_response(
                {
                    "error": {
                        "message": "expected a WebSocket upgrade; use POST for HTTP requests",
                        "type": "upgrade",
                    }
                },
                status=UPGRADE,
                headers={"Upgrade": "websocket", "Connection": "Upgrade"},
            )
        if request.protocol._message_tail:  # not metered
            early = refused_request(400, "frames were sent before the WebSocket was open")
            early.force_close()
            return early
        meter = self._metered(request)
        await socket.prepare(request)
        line = _SocketLine(socket, request, self._calls)
        connection = _Connection(line, self._of_sockets, self._most_bytes, request)
        connection.is_allowed = lambda: self._owner_of(request) == request[OWNER]
        answering = asyncio.ensure_future(connection.answer())
        try:
            async with time_limit(self._calls.limits.clock, SOCKET_SECONDS) as end:
                meter.watch(end)
                async for frame in socket:
                    await asyncio.sleep(0)  # the next frame may have arrived already
                    if frame.type is WSMsgType.TEXT:
                        await connection.take(frame.data, meter.take())
                    elif frame.type is WSMsgType.BINARY:
                        self._calls.admission.hold(meter.take(), 0)
                        why = "a request must be sent as a text frame, not as a binary frame"
                        await connection.refuse(Refused(of_bad_request(why), 400), None)
                    del frame  # or it takes memory until the next one arrives
        except TimeoutError:
            if meter.refusal is None:
                await connection.end()
            else:
                with suppress(ConnectionResetError):
                    await connection.refuse(meter.refusal, None)
                    await socket.close(code=WSCloseCode.TRY_AGAIN_LATER)
        except ConnectionResetError:
            pass  # closed during a write
        finally:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
            self._of_sockets.forget(connection)
            meter.close()
            if request.transport is None:
                await socket.close()  # its heartbeat timer would keep a reference to it
        return socket

    def _metered(self, request: web.Request) -> SocketMeter:
        """Reserve memory for the messages of a connection before they are received."""
        calls, transport, inner = self._calls, request.transport, request.protocol
        reserve = partial(calls.admission.arriving, request[OWNER])
        arrived = partial(calls.admission.arrived, request[OWNER])
        meter = SocketMeter(inner, calls.limits, self._most_bytes, reserve, arrived)
        if transport is not None:
            transport.set_protocol(meter)
        return meter


class _SocketLine(Line):
    """A WebSocket on which each frame is one event of an answer.

    `of` returns a copy for one answer, which adds the `stream_id` of the request, if any, to each
    event. A lane is the sequence of requests with the same `stream_id`. `models` is the number of
    models in the fallback chain.
    """

    def __init__(self, socket: web.WebSocketResponse, request: web.Request, calls: Calls) -> None:
        super().__init__(calls.limits, calls.counters)
        self.calls = calls
        self._socket = socket
        self._transport = request.transport
        self._sending = asyncio.Lock()
        self._end = b"}"
        self._models = 1
        self._has_begun = False
        hold_little(self._transport)

    def of(self, lane: str | None, models: int = 1) -> _SocketLine:
        """Return a copy for one answer; `lane` is the request's `stream_id`, or `None`."""
        line = copy(self)
        line._models = models
        line._has_begun = False
        if lane is not None:
            line._end = b',"%b":%b}' % (LANE.encode(), encode(lane))
        return line

    async def refuse(self, error: Error) -> bool:
        """Send the event `error` with a status, as OpenAI does before an answer has begun.

        Codex decides by the status whether to retry after a failed response.
        """
        if self._has_begun:
            return False
        status = standard_status(status_of(error, self._models))
        event = {"type": "error", "status": status, "error": error_data(error)}
        await self.send(named_frame(event))
        return True

    async def send(self, data: bytes, *, last: bool = False) -> None:
        self._has_begun = True
        events = [event.partition(b"\ndata: ")[2] for event in data.split(b"\n\n")[:-1]]

        async def sent() -> None:
            async with self._sending:
                for event in events:
                    await self._socket.send_str((event[:-1] + self._end).decode())

        await self._wait(sent, self._transport)


@define
class _Turn:
    """A queued request: the size and the memory of the frame in bytes, and the parsed body."""

    size: int
    memory: int = 0
    body: Any = None


class _Connection:
    """One WebSocket, whose requests are answered one after the other."""

    def __init__(
        self, line: _SocketLine, kept: ConversationStore, most_bytes: int, request: web.Request
    ) -> None:
        self._line = line
        self._request = request
        self._owner = request[OWNER]
        self._calls = line.calls
        self._protocol = ResponsesProtocol()
        self._kept = kept
        self._most_bytes = most_bytes
        self._waiting: asyncio.Queue[_Turn] = asyncio.Queue(MOST_WAITING)
        self.is_allowed: Callable[[], bool] = lambda: True

    async def take(self, data: bytes, memory: int) -> None:
        """Queue a request for which `memory` bytes are reserved.

        The connection is still read, so that the gateway notices when the client closes it.
        """
        turn = _Turn(len(data), memory)
        try:
            turn.memory = self._calls.admission.hold(memory, await memory_needed(data))
            turn.body = await within(lambda: json_of(data), turn.size)
        except Refused as refused:
            self._release(turn)
            turn.body = refused
        except BaseException:
            self._release(turn)
            raise
        lane = _lane(turn.body)
        if isinstance(turn.body, dict) and turn.body.get("type") == STEER:
            self._release(turn)
            await self._say(_given_back(turn.body), lane)
        elif self._waiting.full():
            self._release(turn)
            busy = Error(error_message="too many queued requests on this connection")
            busy.error_kind = StreamErrorKind.THROTTLED
            await self.refuse(Refused(busy, status_of(busy)), lane)
        else:
            self._waiting.put_nowait(turn)

    async def answer(self) -> None:
        """Answer queued requests until the connection is closed."""
        try:
            while True:
                turn = await self._waiting.get()
                try:
                    await self._answer(turn, _lane(turn.body))
                except ConnectionResetError:
                    return
                finally:
                    self._release(turn)
                    self._waiting.task_done()
                    del turn  # or its body takes memory until the next one arrives
        finally:
            while not self._waiting.empty():
                self._release(self._waiting.get_nowait())

    def _release(self, turn: _Turn) -> None:
        turn.memory = self._calls.admission.hold(turn.memory, 0)

    async def end(self) -> None:
        """Wait for the queued requests, then send the event that ends the connection."""
        await self._waiting.join()
        why = f"the connection has been open for {SOCKET_SECONDS:g} s: open another"
        await self.refuse(Refused(of_bad_request(why), 400, SOCKET_ENDED), None)

    async def _answer(self, turn: _Turn, lane: str | None) -> None:
        with self._calls.log_line(self._request, WEBSOCKET) as log_line:
            log_line.owner = self._owner
            await self._answer_logged(turn, lane, log_line)

    async def _answer_logged(self, turn: _Turn, lane: str | None, log_line: LogLine) -> None:
        try:
            if not self.is_allowed():
                why = "the API key of this connection is no longer valid"
                raise Refused(of_bad_request(why), 401, REVOKED)
            with self._calls.admission.place(0, self._owner, True):
                async with self._calls.admission.turn(self._owner, turn.memory) as prepared:
                    asked = await within(partial(self._read, turn.body), turn.size)
                    asked.memory, asked.prepared = turn.memory, prepared
                    kept, most = self._kept, self._most_bytes
                    asked.said["is_taken"] = partial(kept.has, owner=self)
                    size, held = await _with_items(
                        self._protocol, asked, turn.size, most, kept, self
                    )
                    size, before = _go_on(asked, size, most, kept, self)
                    with self._calls.admission.holding(held + before):
                        await self._create(asked, size, lane, log_line)
                log_line.status = DONE
        except Refused as refusal:
            log_line.status = refusal.status
            if (kind := refusal.error.error_kind) is not None:
                log_line.refused = str(kind)
            await self.refuse(refusal, lane)
        except ConnectionResetError:
            raise
        except Exception:
            log.exception("internal error while handling a WebSocket frame")
            failed = Error(error_message="the gateway failed to answer")
            failed.error_kind = StreamErrorKind.INTERNAL
            log_line.status = status_of(failed)
            await self.refuse(Refused(failed, status_of(failed)), lane)

    def _read(self, body: Any) -> Asked:
        if isinstance(body, Refused):
            raise body
        if not isinstance(body, dict) or body.get("type") != "response.create":
            raise BadRequest("the frame has another type than response.create")
        return asked_of(self._protocol, {**body, LANE: None}, {}, {})

    async def _create(self, asked: Asked, size: int, lane: str | None, log_line: LogLine) -> None:
        asked.stream = True
        if not asked.said["generate"]:
            await self._warm_up(asked, size, lane)
            return
        async with self._calls.begun(self._protocol, asked, self._owner) as begun:
            stream, facts, line = begun.stream, begun.facts, self._line.of(lane, begun.models)
            log_line.stream = stream
            encoder, heard = self._protocol.encoder(asked, facts), begun.hear
            wait = begun.routing.config.head_wait
            if await relayed(stream, encoder, line, self._protocol.name, heard, wait):
                _keep(self._kept, asked, stream.message, encoder, size, self)

    async def _warm_up(self, asked: Asked, size: int, lane: str | None) -> None:
        """Send an empty answer, whose id a later request can continue from."""
        facts = Facts(self._calls.new_id(), int(time.time()))
        for event in self._protocol.nothing(asked, facts):
            await self._say(event, lane)
        kept = Kept([*asked.context.messages], size, asked.memory)
        self._kept.keep(PREFIX + facts.id, kept, self)

    async def refuse(self, refusal: Refused, lane: str | None) -> None:
        """Send the event `error` for a refused request, with the request's `stream_id`."""
        said = _error_of(refusal)
        await self._say({"type": "error", "status": refusal.status, "error": said}, lane)

    async def _say(self, event: dict[str, Any], lane: str | None) -> None:
        await self._line.of(lane).send(named_frame(event))


def _error_of(refusal: Refused) -> dict[str, Any]:
    """Return the error of a refusal, with the error's code if there is one."""
    said = error_data(refusal.error)
    said["code"] = refusal.code or said["code"]
    return said


def _lane(body: Any) -> str | None:
    lane = body.get(LANE) if isinstance(body, dict) else None
    return lane if isinstance(lane, str) else None


def _given_back(steer: dict[str, Any]) -> dict[str, Any]:
    """Return the event that sends steering input back to the client."""
    why = "steering an answer is not supported: send the text as the input of a request"
    error = {"type": "invalid_request_error", "code": "steering_not_supported", "message": why}
    given = {name: steer.get(name) for name in ("input", "previous_response_id")}
    return {"type": f"{STEER}.failed", "sequence_number": 0, "error": error, "steer": given}


def _too_long() -> Refused:
    why = "the stored conversation is too long to continue; start a new one"
    grown = Error(error_message=why, error_kind=StreamErrorKind.CONTEXT_WINDOW_EXCEEDED)
    return Refused(grown, status_of(grown))


async def _with_items(
    protocol: ResponsesProtocol,
    asked: Asked,
    size: int,
    most: int,
    kept: ConversationStore,
    owner: object,
) -> tuple[int, int]:
    """Insert the stored items to which the input of a request refers.

    Return the total size, and the memory that the items take, in bytes. Raises Refused for an
    unknown id, and for a request larger than `most`.
    """
    given = asked.said["input"]
    ids = [] if isinstance(given, str) else [*filter(None, map(reference_of, given or ()))]
    if not ids:
        return size, 0
    found: dict[str, bytes] = {}
    for id in ids:
        if (item := kept.item(id, owner)) is None:
            why = (
                f"input: Item with id {id!r:.100} not found: this process has no stored answer "
                "with it; other workers and gateways store their own, so send the whole item"
            )
            raise Refused(of_bad_request(why), 400, "item_not_found")
        found[id] = item
        size += len(item)
        if size > most:
            raise _too_long()

    def inserted() -> Asked:
        read = {id: json_of(item) for id, item in found.items()}
        asked.said["input"] = [read.get(reference_of(item) or "", item) for item in given]
        data = {"model": asked.model, "input": asked.said["input"]}
        return asked_of(protocol, data, {}, {})

    whole = await within(inserted, size)
    asked.context = replace(asked.context, messages=whole.context.messages)
    memory = sum(memory_of(found[id]) for id in ids)
    asked.memory += memory
    return size, memory


def _go_on(
    asked: Asked, size: int, most: int, kept: ConversationStore, owner: object
) -> tuple[int, int]:
    """Prepend the stored earlier conversation to a request.

    Return the total size, and the memory that the earlier part takes while it is sent, in bytes.
    Raises Refused for an unknown id, and for a conversation larger than `most`.
    """
    previous = asked.said["previous"]
    if previous is None:
        return size, 0
    found = kept.find(previous, owner)
    if found is None:
        why = (
            f"previous_response_id: this process has no stored answer {previous!r:.100}; other "
            "workers and gateways store their own, so send the whole conversation"
        )
        raise Refused(of_bad_request(why), 400, "previous_response_not_found")
    messages, before = found.messages, found.size
    if before + size > most or len(messages) > MOST_BLOCKS:
        raise _too_long()
    asked.context = replace(
        asked.context, messages=[*messages, *_named(asked.context.messages, messages)]
    )
    asked.memory += found.memory
    return before + size, COPIES * before


def _named(messages: Iterable[Message], before: Iterable[Message]) -> Iterator[Message]:
    """Add tool names to results whose calls are in earlier messages."""
    answers = [message for message in before if isinstance(message, AssistantMessage)]
    called = {call.id: call.name for answer in answers for call in answer.tool_calls}
    for message in messages:
        if isinstance(message, ToolResultMessage) and not message.tool_name:
            message = replace(message, tool_name=called.get(message.tool_call_id, ""))
        yield message


def _keep(
    kept: ConversationStore,
    asked: Asked,
    message: AssistantMessage,
    encoder: ResponsesEncoder,
    size: int,
    owner: object,
    whole: bytes | None = None,
) -> None:
    """Store an answer and its items; `whole` is its response, if clients can read it again."""
    answer = as_input(message)
    said = encode(dump(answer))
    outputs = {id: encode(item) for item in encoder.output if isinstance(id := item.get("id"), str)}
    memory = asked.memory + memory_of(said) + sum(map(len, outputs.values()))
    response, items = b"", list[tuple[Any, bytes]]()
    if whole is not None:
        response, items = without_id(whole, encoder.id), items_of(asked.said["input"])
        memory += len(response) + sum(len(item) for _, item in items)
    messages = [*asked.context.messages, answer]
    total = size + len(said)
    kept.keep(encoder.id, Kept(messages, total, memory, response, items, outputs), owner)
