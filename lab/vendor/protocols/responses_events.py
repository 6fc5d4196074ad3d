"""The events of OpenAI's Responses, or the response as a whole.

Written from https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

from typing import Any

from lab.vendor import jsons
from lab.vendor.answers import Call, Part, Refusal, Step, Thought
from lab.vendor.ask import Ask
from lab.vendor.bill import Usage
from lab.vendor.failures import Failure
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.base import Encoder, named_event
from lab.vendor.protocols.responses_items import SEALED
from lab.vendor.protocols.responses_stored import Stored, conversation_named
from lab.vendor.state import State

__all__ = ["ResponseEncoder"]


class ResponseEncoder(Encoder):
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
            kept_here[self.id] = Stored(response, ask.own["context"], ask.own["given"])
        if ask.own["body"].get("store") is False:
            return
        conversation = conversation_named(self.state, ask.account, ask.own["body"])
        if conversation is not None and usage is not None:
            conversation.items += [*ask.own["given"], *response["output"]]
        kept = self.state.owned.get("response", self.id, ask.account)
        if kept is None:
            context = ask.own["context"]
            self.state.owned.put(
                "response", self.id, ask.account, Stored(response, context, ask.own["given"])
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
                item["encrypted_content"] = SEALED + seal
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
        return named_event(data)


def _part(part: Part, text: str) -> dict[str, Any]:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
