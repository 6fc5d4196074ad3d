"""Parse answers of `/api/chat`: one JSON object per line, the last one with `done`.

https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion. The parser also
reads lines of `/api/generate`, in which text and reasoning are not wrapped in a message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import Failure, StopReason
from swink_core.providers import EventWriter, MalformedFrame

__all__ = ["ChatParser"]


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _ToolCall(msgspec.Struct, gc=False):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Line(msgspec.Struct, gc=False):
    """A line of an answer.

    The last line has token counts (`*_count`) and durations in nanoseconds (`*_duration`).
    """

    model: str | None = None
    message: _Message | None = None
    response: str | None = None
    thinking: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    error: str | dict[str, Any] | None = None
    logprobs: list[Any] | None = None
    prompt_eval_count: int | float | None = None
    eval_count: int | float | None = None
    total_duration: int | float | None = None
    load_duration: int | float | None = None
    prompt_eval_duration: int | float | None = None
    eval_duration: int | float | None = None


_decode = msgspec.json.Decoder(_Line).decode

_STOP_REASONS = {
    None: StopReason.STOP,  # older servers omit it
    "stop": StopReason.STOP,
    "length": StopReason.LENGTH,
}
_NOTHING_ASKED = ("load", "unload")
"""Values of `done_reason` for a request that only loaded or unloaded the model."""

_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


class ChatParser:
    """Parses one answer, streamed or whole."""

    def __init__(self) -> None:
        self._calls = 0
        self._named = False
        self._logprobs: dict[str, list[Any]] = {"thinking": [], "text": [], "rest": []}

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a line to `out`."""
        line = _decode(frame)
        if line.error:
            out.fail(_failure(line.error))
            return
        if not self._named:
            out.response(model=line.model)
            self._named = line.model is not None
        if (message := line.message) is not None:
            if message.thinking:
                out.thinking(message.thinking)
            if message.content:
                out.text(message.content)
            for call in message.tool_calls or ():
                self._tool_call(call, out)
        if line.logprobs:
            self._note(line.logprobs, message or _Message(), out)
        if line.thinking:
            out.thinking(line.thinking)
        if line.response:
            out.text(line.response)
        if line.done:
            self._done(line, out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Read an answer that was not streamed: one object with the fields of a line."""
        self.feed(body, out)

    def _note(self, logprobs: list[Any], message: _Message, out: EventWriter) -> None:
        """Add log probabilities to the metadata of the reasoning or text block with these tokens.

        For other tokens, such as those of tool calls, add them to the metadata of the answer.
        """
        about = "thinking" if message.thinking else "text" if message.content else "rest"
        known = self._logprobs[about]
        known.extend(logprobs)
        if about == "thinking":
            out.thinking("", metadata={"logprobs": known})
        elif about == "text":
            out.text("", metadata={"logprobs": known})
        else:
            out.response(metadata={"logprobs": known})

    def _tool_call(self, call: _ToolCall, out: EventWriter) -> None:
        # Calls arrive whole; only newer servers number them or give them ids, so they are counted
        # here.
        key = self._calls
        self._calls += 1
        function = call.function or _Function()
        out.tool_call(key, id=call.id, name=function.name, arguments=_text(function.arguments))
        out.end(key)

    def _done(self, line: _Line, out: EventWriter) -> None:
        durations = {name: value for name in _DURATIONS if (value := getattr(line, name))}
        out.usage(_count(line.prompt_eval_count), _count(line.eval_count), extra=durations)
        if line.done_reason in _NOTHING_ASKED and not out.has_answer:
            out.fail(
                Failure(
                    "finalize",
                    code=line.done_reason,
                    message="Ollama did not answer the conversation and only "
                    f"{line.done_reason}ed the model: it has no user message",
                )
            )
            return
        reason = _STOP_REASONS.get(line.done_reason)
        if reason is None:
            out.notice(
                "stop_reason", f"the answer stopped for an unknown reason: {line.done_reason}"
            )
            reason = StopReason.STOP
        out.stop(reason)
        out.finish()


def _count(tokens: int | float | None) -> int | None:
    return None if tokens is None else int(tokens)


def _text(arguments: msgspec.Raw) -> str:
    """Return arguments as JSON text; some servers send a string that contains JSON."""
    text = bytes(arguments).decode()
    if text.startswith('"'):
        return msgspec.json.decode(text, type=str)
    if text == "null":
        return ""
    if not text.startswith("{"):
        raise MalformedFrame("arguments are neither an object nor text")
    return text


def _failure(error: str | dict[str, Any]) -> Failure:
    if isinstance(error, str):
        return Failure("streaming", message=error)
    code, message = error.get("code"), error.get("message")
    return Failure(
        "streaming",
        code=None if code is None else str(code),
        message=str(error) if message is None else str(message),
    )
