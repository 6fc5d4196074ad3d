"""Compose the whole answer from the request, before the first event is sent."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from itertools import count, zip_longest
from typing import Any, NamedTuple

from swink_core import (
    AssistantMessageEvent,
    Cost,
    Done,
    Failure,
    ProviderFailure,
    StopReason,
    StreamErrorKind,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingLevel,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from swink_provider_echo.conversion import CONVERSATION
from swink_provider_echo.sample import NoSample, sample
from swink_provider_echo.script import Script

__all__ = ["compose", "cost", "count_words", "heard_in"]

NOTHING = "(prompt was empty)"

LONGEST = 2_000_000
"""The maximum length of a conversation and its tools, in characters of JSON."""

MOST_DELTAS = 10_000
"""The maximum number of deltas of a block. In longer texts, a delta has several words."""

DEFAULT_TOOL: dict[str, Any] = {
    "name": "echo",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
}
"""The tool that echo calls if the request offers no tools."""

_WORDS = re.compile(r"\s*\S+(?:\s+\Z)?|\s+\Z")


def compose(
    payload: Mapping[str, Any], script: Script, model_id: str
) -> list[AssistantMessageEvent]:
    """Return all events of the answer to a call: the events of each block, then `Done`.

    Raises ProviderFailure if the conversation is too long, if the request does not offer the tool
    that must be called, or if no data can be generated for a schema.
    """
    conversation = json.dumps({name: payload[name] for name in CONVERSATION}, sort_keys=True)
    if len(conversation) > LONGEST:
        raise ProviderFailure(
            Failure(
                "request",
                kind=StreamErrorKind.CONTEXT_WINDOW_EXCEEDED,
                message=f"echo accepts conversations of up to {LONGEST:,} characters of JSON; "
                f"this one has {len(conversation):,}",
            )
        )
    text = heard_in(payload) if script.reply is None else script.reply
    calls = _scripted(payload, script)
    if not calls:
        tools = _tools_to_call(payload, script)
        calls = _calls(tools, payload, script, text)
    out = _Writer(script.delta, payload.get("max_tokens"))
    if not script.silent:
        if _thinks(payload, script):
            out.thinking(_thought(text, script))
        if not calls or (script.calls and script.reply is not None):
            out.text(_spoken(text, payload, script))
        out.tool_calls(calls)
    reason = StopReason.TOOL_USE if calls else StopReason.STOP
    if out.is_cut:
        reason = StopReason.LENGTH
    heard = _words_in(payload)
    usage = Usage(
        input=heard,
        output=out.words,
        reasoning=out.thought,
        total=heard + out.words,
        reported=True,
    )
    if script.usage is not None:
        counts: dict[str, Any] = {str(name): count for name, count in script.usage.items()}
        usage = Usage(**counts, reported=True).added_up()
    number = zlib.crc32(conversation.encode())
    done = Done(script.stop or reason, usage, cost(script), f"echo-{number:08x}", model_id)
    return [*out.events, done]


def cost(script: Script) -> Cost | None:
    """Return the script's cost in US dollars; `None` if the model's prices apply."""
    if script.cost is None:
        return None
    return Cost(input=0.0, output=script.cost, total=script.cost)


def count_words(text: str) -> int:
    """Return the number of words of a text; echo reports this number as the number of tokens."""
    return len(text.split())


class _ToolCall(NamedTuple):
    id: str
    name: str
    arguments: str


class _Writer:
    """Splits texts into blocks of deltas, up to `room` words in total (`None`: no limit)."""

    def __init__(self, delta: int | None, room: int | None) -> None:
        self.events: list[AssistantMessageEvent] = []
        self.words = 0
        self.thought = 0
        self.is_cut = False
        self._delta = delta
        self._room = room
        self._index = count()

    def text(self, text: str) -> None:
        if deltas := self._deltas(text):
            index = next(self._index)
            said = [TextDelta(index, delta) for delta in deltas]
            self.events += [TextStart(index), *said, TextEnd(index)]

    def thinking(self, text: str) -> None:
        if deltas := self._deltas(text):
            self.thought = self.words
            index = next(self._index)
            said = [ThinkingDelta(index, delta) for delta in deltas]
            signature = f"echo-{zlib.crc32(''.join(deltas).encode()):08x}"
            self.events += [ThinkingStart(index), *said, ThinkingEnd(index, signature)]

    def tool_calls(self, calls: list[_ToolCall]) -> None:
        """Write tool calls. The deltas of parallel calls alternate, as in real streams."""
        written = []
        for call in calls:
            deltas = self._deltas(call.arguments)
            if self.is_cut and not deltas:
                break
            index = next(self._index)
            self.events.append(ToolCallStart(index, call.id, call.name))
            written.append([ToolCallDelta(index, delta) for delta in deltas])
        rounds = zip_longest(*written)
        self.events += [delta for turn in rounds for delta in turn if delta is not None]
        last = next(self._index)
        self.events += [ToolCallEnd(last - len(written) + n) for n in range(len(written))]
        self._index = count(last)

    def _deltas(self, text: str) -> list[str]:
        words = _WORDS.findall(text)
        if self._room is not None and len(words) > self._room - self.words:
            self.is_cut = True
            words = words[: self._room - self.words]
        self.words += len(words)
        deltas = words
        if self._delta is not None:
            said = "".join(words)
            size = self._delta
            deltas = [said[start : start + size] for start in range(0, len(said), size)]
        together = -(-len(deltas) // MOST_DELTAS)
        if together <= 1:
            return deltas
        starts = range(0, len(deltas), together)
        return ["".join(deltas[start : start + together]) for start in starts]


def heard_in(payload: Mapping[str, Any]) -> str:
    """Return the text of the last message that is not from the model."""
    texts = [m["text"] for m in payload["messages"] if m["role"] != "assistant"]
    return texts[-1] if texts and texts[-1].strip() else NOTHING


def _thinks(payload: Mapping[str, Any], script: Script) -> bool:
    thinking = payload.get("thinking")
    return bool(script.think) if thinking is None else thinking not in (ThinkingLevel.OFF, 0)


def _thought(text: str, script: Script) -> str:
    if isinstance(script.think, str):
        return script.think
    told = count_words(text)
    words, them = ("word", "it") if told == 1 else ("words", "them")
    return f"The prompt has {told} {words}. I will now repeat {them}."


def _spoken(text: str, payload: Mapping[str, Any], script: Script) -> str:
    schema = payload.get("response_format")
    if script.words is not None:
        words = text.split() or [NOTHING]
        text = " ".join(words[n % len(words)] for n in range(script.words))
    if script.json or (schema is not None and script.reply is None):
        data: Any = {"echo": text}
        if isinstance(schema, Mapping):
            data = _made_up(schema, text, "response_format")
        text = json.dumps(data, ensure_ascii=False)
    found = [at for stop in payload.get("stop", ()) if stop and (at := text.find(stop)) >= 0]
    return text[: min(found)] if found else text


def _tools_to_call(payload: Mapping[str, Any], script: Script) -> list[dict[str, Any]]:
    """Return the tools to call.

    After a tool result, no tool is called, unless the request requires a call.
    """
    offered: list[dict[str, Any]] = payload["tools"]
    choice = payload.get("tool_choice")
    if choice not in (None, "auto", "none", "required"):
        return [_offered(choice, offered)]
    answered = payload["messages"][-1]["role"] == "tool" if payload["messages"] else False
    if choice == "none" or (choice != "required" and (not script.tool or answered)):
        return []
    if isinstance(script.tool, str):
        return [_offered(script.tool, offered)]
    every = script.parallel and payload.get("parallel_tool_calls") is not False
    return (offered or [DEFAULT_TOOL])[: None if every else 1]


def _offered(name: str | None, offered: list[dict[str, Any]]) -> dict[str, Any]:
    for tool in offered:
        if tool["name"] == name:
            return tool
    names = ", ".join(tool["name"] for tool in offered) or "none"
    raise ProviderFailure(
        Failure(
            "request",
            kind=StreamErrorKind.INVALID_REQUEST,
            message=f"tool {name!r} cannot be called: the request offers {names}",
        )
    )


def _calls(
    tools: list[dict[str, Any]], payload: Mapping[str, Any], script: Script, text: str
) -> list[_ToolCall]:
    calls = []
    for number, tool in enumerate(tools, _made(payload) + 1):
        arguments = script.arguments
        if arguments is None:
            schema = {"type": "object", **tool["parameters"]}
            arguments = _made_up(schema, text, f"tool {tool['name']!r}")
        calls.append(_ToolCall(f"echo_call_{number}", tool["name"], _written(arguments)))
    return calls


def _scripted(payload: Mapping[str, Any], script: Script) -> list[_ToolCall]:
    first = 1 + _made(payload)
    return [
        _ToolCall(call.id or f"echo_call_{number}", call.name, _written(call.arguments))
        for number, call in enumerate(script.calls, first)
    ]


def _made(payload: Mapping[str, Any]) -> int:
    """Return the number of tool calls in the conversation."""
    return sum(len(message.get("tool_calls", ())) for message in payload["messages"])


def _written(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _made_up(schema: Mapping[str, Any], text: str, owner: str) -> Any:
    try:
        return sample(schema, text)
    except NoSample as error:
        raise ProviderFailure(
            Failure(
                "request",
                kind=StreamErrorKind.INVALID_REQUEST,
                message=f"echo cannot generate data for the schema of {owner}: {error}",
                resolution='Provide the data: settings={"script": {"reply": …}} for an '
                'answer, {"calls": […]} for tools.',
            )
        ) from error


def _words_in(payload: Mapping[str, Any]) -> int:
    words = count_words(payload["system"] or "")
    for message in payload["messages"]:
        words += count_words(message["text"])
        for call in message.get("tool_calls", ()):
            words += count_words(json.dumps(call["arguments"], ensure_ascii=False))
    return words
