"""OpenAI's Responses, with those that are stored and those in the background.

Written from https://platform.openai.com/docs/api-reference/responses and
/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.vendor import jsons
from lab.vendor.answers import Call, Part, Refusal, Step, Thought
from lab.vendor.ask import Ask, Segment
from lab.vendor.background import Background
from lab.vendor.bill import Usage
from lab.vendor.catalog import model_of
from lab.vendor.engine import Job
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.base import API, Encoder, Followed, Reply, Request, Route, as_body
from lab.vendor.protocols.openai_things import (
    Conversation,
    check_tools,
    conversation_of,
    with_ids,
)
from lab.vendor.protocols.reading import add_tool, invalid, limit_of, text_and_media, turn
from lab.vendor.state import State

__all__ = ["Responses"]

_SEALED = "gAAAAAB"
"""How encrypted reasoning begins."""


@dataclass(slots=True)
class _Stored:
    """A stored response: all items before it, and the items that its request brought."""

    response: dict[str, Any]
    context: list[dict[str, Any]]
    given: list[dict[str, Any]]
    background: Background | None = field(default=None)


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
            Route("GET", r"/responses/(?P<id>[^/]+)$", _get),
            Route("DELETE", r"/responses/(?P<id>[^/]+)$", _delete),
            Route("POST", r"/responses/(?P<id>[^/]+)/cancel$", _cancel),
            Route("GET", r"/responses/(?P<id>[^/]+)/input_items$", _input_items),
        )

    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""
        model = jsons.text(body.get("model"))
        if not model:
            raise invalid("Missing required parameter: 'model'.", "model")
        row = model_of(request.provider, model)
        ask = Ask(request.provider, self.name, row, request.account)
        given = _items(body.get("input"), state)
        context = _context(state, request, body)
        check_tools(state, request.account, body.get("tools"))
        _read_tools(ask, body)
        if isinstance(body.get("instructions"), str):
            ask.segments.append(Segment("developer", body["instructions"]))
        _read_items(state, ask, context + given, len(context))
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
        return _ResponseEncoder(state, ask)

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
        assert isinstance(encoder, _ResponseEncoder)
        return encoder.prewarmed()

    async def serve(self, state: State, job: Job) -> Reply | Followed:
        """Produce an answer in the background; return its response as it begins, or its stream."""
        encoder = job.encoder
        assert isinstance(encoder, _ResponseEncoder)
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


class _ResponseEncoder(Encoder):
    """Writes the events of a response, or a response."""

    def __init__(self, state: State, ask: Ask) -> None:
        super().__init__(state, ask)
        self.id = state.ids.digits("resp_0")
        self.number = -1
        self.calls: dict[str, str] = {}

    def id_of(self, part: Part) -> str:
        if isinstance(part, Thought):
            return self.state.ids.digits("rs_0")
        if isinstance(part, Call):
            id = self.state.ids.digits("fc_0")
            self.calls[id] = part.id or self.state.ids.make("call_")
            return id
        return self.state.ids.digits("msg_0")

    def begin(self, usage: Usage) -> bytes:
        made = b""
        if self.ask.own["background"]:
            made += self._event("response.created", response=self._response("queued", None))
            made += self._event("response.queued", response=self._response("queued", None))
            self.keep("in_progress")
        else:
            made += self._event("response.created", response=self._response("in_progress", None))
        response = self._response("in_progress", None)
        return made + self._event("response.in_progress", response=response)

    def step(self, step: Step, usage: Usage) -> bytes:
        if step.kind == "end":
            return b""
        part = step.part
        if isinstance(part, Thought):
            return self._thought(step, part)
        if isinstance(part, Call):
            return self._call(step, part)
        assert part is not None
        return self._said(step, part)

    def finish(self, usage: Usage) -> bytes:
        status = self._status()
        response = self._response(status, usage)
        self.keep(status, usage)
        return self._event(f"response.{status}", response=response)

    def broken(self, failure: Failure) -> bytes:
        error = openai_common.error_body(failure)
        code = error["code"] or "server_error"
        made = self._event("error", error={**error, "code": code})
        response = self._response("failed", None)
        response["error"] = {"code": code, "message": failure.message}
        if self.ask.own["background"]:
            self.keep("failed")
            stored = self.state.owned.get("response", self.id, self.ask.account)
            stored.response = response
        return made + self._event("response.failed", response=response)

    def whole(self, usage: Usage) -> bytes:
        status = self._status()
        self.keep(status, usage)
        return jsons.dump(self._response(status, usage))

    def prewarmed(self) -> bytes:
        """Return the events of a response without output, and keep its items."""
        usage = Usage()
        made = self._event("response.created", response=self._response("in_progress", None))
        self.keep("completed", usage)
        return made + self._event("response.completed", response=self._response("completed", usage))

    def keep(self, status: str, usage: Usage | None = None) -> None:
        """Store the response, where the request did not decline that."""
        ask = self.ask
        response = self._response(status, usage)
        kept_here = ask.own["kept"]
        if kept_here is not None:
            kept_here[self.id] = _Stored(response, ask.own["context"], ask.own["given"])
        if ask.own["body"].get("store") is False:
            return
        conversation = _conversation(self.state, ask.account, ask.own["body"])
        if conversation is not None and usage is not None:
            conversation.items += [*ask.own["given"], *response["output"]]
        kept = self.state.owned.get("response", self.id, ask.account)
        if kept is None:
            context = ask.own["context"]
            self.state.owned.put(
                "response", self.id, ask.account, _Stored(response, context, ask.own["given"])
            )
        else:
            kept.response = response
        for item in response["output"]:
            self.state.owned.put("item", item["id"], ask.account, item)

    def _thought(self, step: Step, part: Thought) -> bytes:
        at = {"item_id": self.open_part(step).id, "output_index": step.index}
        summary = {**at, "summary_index": 0}
        if step.kind == "open":
            made = self._added(step)
            if self.ask.shown:
                empty = {"type": "summary_text", "text": ""}
                made += self._event("response.reasoning_summary_part.added", **summary, part=empty)
            return made
        if step.kind == "delta":
            if not self.ask.shown:
                return b""
            name = "response.reasoning_summary_text.delta"
            return self._event(name, **summary, delta=step.text, **self._padding(step))
        made = b""
        if self.ask.shown:
            text = self.open_part(step).text
            whole = {"type": "summary_text", "text": text}
            made += self._event("response.reasoning_summary_text.done", **summary, text=text)
            made += self._event("response.reasoning_summary_part.done", **summary, part=whole)
        return made + self._done(step)

    def _call(self, step: Step, part: Call) -> bytes:
        at = {"item_id": self.open_part(step).id, "output_index": step.index}
        if step.kind == "open":
            return self._added(step)
        if step.kind == "delta":
            name = "response.function_call_arguments.delta"
            return self._event(name, **at, delta=step.text, **self._padding(step))
        text = self.open_part(step).text
        made = self._event("response.function_call_arguments.done", **at, arguments=text)
        return made + self._done(step)

    def _said(self, step: Step, part: Part) -> bytes:
        id = self.open_part(step).id
        at = {"item_id": id, "output_index": step.index, "content_index": 0}
        text = self.open_part(step).text
        refusal = isinstance(part, Refusal)
        if step.kind == "open":
            added = self._added(step)
            return added + self._event("response.content_part.added", **at, part=_part(part, ""))
        if step.kind == "delta":
            if refusal:
                return self._event("response.refusal.delta", **at, delta=step.text)
            name = "response.output_text.delta"
            return self._event(name, **at, delta=step.text, logprobs=[], **self._padding(step))
        if refusal:
            made = self._event("response.refusal.done", **at, refusal=text)
        else:
            made = self._event("response.output_text.done", **at, text=text, logprobs=[])
        made += self._event("response.content_part.done", **at, part=_part(part, text))
        return made + self._done(step)

    def _added(self, step: Step) -> bytes:
        part = step.part
        assert part is not None
        item = self._item(part, self.open_part(step).id, None, "in_progress")
        return self._event("response.output_item.added", output_index=step.index, item=item)

    def _done(self, step: Step) -> bytes:
        part = step.part
        assert part is not None
        open = self.open_part(step)
        status = "incomplete" if step.stop in ("length", "filter") else "completed"
        item = self._item(part, open.id, open.text, status)
        return self._event("response.output_item.done", output_index=step.index, item=item)

    def _item(self, part: Part, id: str, text: str | None, status: str) -> dict[str, Any]:
        """Return an output item; `text` is `None` for one that has only begun."""
        if isinstance(part, Thought):
            shown = text is not None and self.ask.shown
            summary = [{"type": "summary_text", "text": text}] if shown else []
            item: dict[str, Any] = {"id": id, "type": "reasoning", "summary": summary}
            if self.ask.own["encrypted"]:
                seal = self.state.seals.make(self.ask.account, self.ask.model.id, text or "")
                item["encrypted_content"] = _SEALED + seal
            return item
        if isinstance(part, Call):
            return {
                "id": id,
                "type": "function_call",
                "status": status,
                "arguments": text or "",
                "call_id": self.calls[id],
                "name": part.name,
            }
        content = [] if text is None else [_part(part, text)]
        return {
            "id": id,
            "type": "message",
            "status": status,
            "content": content,
            "role": "assistant",
        }

    def _status(self) -> str:
        end = self.stops[0]
        return "incomplete" if end and end.stop in ("length", "filter") else "completed"

    def _output(self, status: str) -> list[dict[str, Any]]:
        last = max(self.parts[0], default=0)
        made = []
        for index, each in sorted(self.parts[0].items()):
            cut = status == "incomplete" and index == last
            done = "incomplete" if cut else "completed"
            made.append(self._item(each.part, each.id, each.text, done))
        return made

    def _response(self, status: str, usage: Usage | None) -> dict[str, Any]:
        body = self.ask.own["body"]
        ended = status in ("completed", "incomplete")
        reasons = {"length": "max_output_tokens", "filter": "content_filter"}
        end = self.stops[0]
        details = None
        if status == "incomplete" and end is not None:
            details = {"reason": reasons[end.stop]}
        reasoning = jsons.obj(body.get("reasoning"))
        effort = reasoning.get("effort", "medium" if self.ask.thinking else "none")
        form = jsons.obj(jsons.obj(body.get("text")).get("format")) or {"type": "text"}
        done = status == "completed"
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": self.ask.own["background"],
            "completed_at": int(self.state.clock.now()) if done else None,
            "error": None,
            "frequency_penalty": 0.0,
            "incomplete_details": details,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "max_tool_calls": None,
            "model": self.ask.model.id,
            "moderation": None,
            "output": self._output(status) if ended else [],
            "parallel_tool_calls": self.ask.parallel,
            "presence_penalty": 0.0,
            "previous_response_id": body.get("previous_response_id"),
            "prompt_cache_key": body.get("prompt_cache_key"),
            "prompt_cache_retention": body.get("prompt_cache_retention", "in_memory"),
            "reasoning": {"effort": effort, "summary": reasoning.get("summary")},
            "safety_identifier": body.get("safety_identifier"),
            "service_tier": openai_common.shown_tier(self.ask.tier)
            if ended
            else body.get("service_tier", "auto"),
            "store": body.get("store") is not False,
            "temperature": float(body.get("temperature", 1.0)),
            "text": {"format": form, "verbosity": "medium"},
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_logprobs": 0,
            "top_p": float(body.get("top_p", 1.0)),
            "truncation": body.get("truncation", "disabled"),
            "usage": None if usage is None else self._usage(usage),
            "user": None,
            "metadata": body.get("metadata") or {},
        }

    def _usage(self, usage: Usage) -> dict[str, Any]:
        details = {"cached_tokens": usage.cached}
        if self.ask.model.write:
            details["cache_write_tokens"] = usage.written + usage.written_long
        return {
            "input_tokens": usage.prompt,
            "input_tokens_details": details,
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.total,
        }

    def _padding(self, step: Step) -> dict[str, str]:
        if not self.ask.own["padding"]:
            return {}
        return {"obfuscation": self.state.ids.make("", 16 - len(step.text) % 16)}

    def _event(self, kind: str, **fields: Any) -> bytes:
        self.number += 1
        data = {"type": kind, "sequence_number": self.number, **fields}
        return f"event: {kind}\n".encode() + b"data: " + jsons.dump(data) + b"\n\n"


def _part(part: Part, text: str) -> dict[str, Any]:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _items(given: Any, state: State) -> list[dict[str, Any]]:
    """Return the items of a request's input, each with an id."""
    if isinstance(given, str):
        content = [{"type": "input_text", "text": given}]
        given = [{"type": "message", "role": "user", "content": content}]
    return with_ids(state, given)


def _context(state: State, request: Request, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items of the earlier responses that a request goes on from."""
    conversation = _conversation(state, request.account, body)
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


def _conversation(state: State, account: str, body: dict[str, Any]) -> Conversation | None:
    named = body.get("conversation")
    if named is None:
        return None
    id = named if isinstance(named, str) else jsons.obj(named).get("id")
    return conversation_of(state, account, str(id))


def _read_tools(ask: Ask, body: dict[str, Any]) -> None:
    for tool in jsons.objects(body.get("tools")):
        if tool.get("type") == "function":
            add_tool(ask, jsons.text(tool.get("name")), tool.get("parameters"), tool)
        else:
            ask.segments.append(Segment("tool", jsons.compact(tool)))
    choice = body.get("tool_choice")
    if choice in ("none", "auto"):
        ask.choice = choice
    elif choice == "required":
        ask.choice = "any"
    elif isinstance(choice, dict) and choice.get("type") == "function":
        ask.choice = "tool"
        ask.tool = jsons.text(choice.get("name"))
    ask.parallel = body.get("parallel_tool_calls") is not False


def _read_items(state: State, ask: Ask, items: list[dict[str, Any]], stored: int) -> None:
    """Read all items, of which the first `stored` are the vendor's own."""
    calls: dict[str, bool] = {}
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "item_reference":
            item = _referenced(state, ask, item)
            kind = item.get("type", "message")
        openai_common.check_files(state, ask.account, item.get("content"))
        text, media = text_and_media(ask.model, item.get("content"))
        role = jsons.text(item.get("role"))
        if kind == "function_call":
            role = "assistant"
            text = jsons.compact([item.get("name"), item.get("arguments")])
            calls[jsons.text(item.get("call_id"))] = False
        elif kind == "function_call_output":
            role = "tool"
            text, media = text_and_media(ask.model, item.get("output"))
            id = jsons.text(item.get("call_id"))
            if id not in calls:
                raise invalid(
                    f"No tool call found for function call output with call_id {id}.", "input"
                )
            calls[id] = True
        elif kind == "reasoning":
            role = "assistant"
            text = ""
            if at >= stored:
                _check_reasoning(state, ask, item, items[at + 1 :])
        ask.segments.append(Segment(role, text, media))
        turn(ask, role, text)
    open_calls = [id for id, answered in calls.items() if not answered]
    if open_calls:
        raise invalid(f"No tool output found for function call {open_calls[0]}.", "input")


def _referenced(state: State, ask: Ask, item: dict[str, Any]) -> dict[str, Any]:
    found = state.owned.get("item", jsons.text(item.get("id")), ask.account)
    if found is None:
        raise _no_item(item)
    return jsons.obj(found)


def _no_item(item: dict[str, Any]) -> Refused:
    message = (
        f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set "
        "to false. Try again with `store` set to true, or remove this item from your input."
    )
    return Refused(Failure("not_found", message, param="input"))


def _check_reasoning(
    state: State, ask: Ask, item: dict[str, Any], following: list[dict[str, Any]]
) -> None:
    """Check reasoning that comes back: that it is the vendor's, the account's and in its place."""
    id = item.get("id")
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str):
        seal = state.seals.open(sealed.removeprefix(_SEALED))
        reason = None
        if seal is None or not sealed.startswith(_SEALED):
            reason = "Encrypted content could not be decrypted or parsed."
        elif seal.account != ask.account:
            reason = "Encrypted content organization_id did not match the target organization."
        if reason is not None:
            message = f"The encrypted content for item {id} could not be verified. Reason: {reason}"
            raise Refused(Failure("signature", message))
    elif state.owned.get("item", jsons.text(id), ask.account) is None:
        raise _no_item(item)
    after = next((each for each in following if each.get("type") != "reasoning"), {})
    made_by_model = after.get("role") == "assistant" or str(after.get("type")).endswith("_call")
    if not made_by_model and after.get("type") != "item_reference":
        raise invalid(
            f"Item '{id}' of type 'reasoning' was provided without its required following item.",
            "input",
        )


def _stored(state: State, request: Request) -> _Stored:
    id = request.found["id"]
    stored = state.owned.get("response", id, request.account)
    if stored is None:
        raise Refused(Failure("not_found", f"Response with id '{id}' not found."))
    assert isinstance(stored, _Stored)
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


async def _no_socket(state: State, request: Request) -> Reply:
    message = "This endpoint accepts no WebSocket; send a POST request."
    raise Refused(Failure("invalid", message, 426))
