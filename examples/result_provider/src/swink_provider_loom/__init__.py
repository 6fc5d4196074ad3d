"""Loom's API: a table that the server looked up is fetched after the answer, with its own cost."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urljoin

import msgspec

import swink_core as swink
from swink_core import StopReason, providers
from swink_core import StreamErrorKind as Kind

STOPS = {"end": StopReason.STOP, "full": StopReason.LENGTH, "calls": StopReason.TOOL_USE}
KNOBS = {"temperature": "temperature", "max_tokens": "max_words"}
CODES = {"yarn_too_long": Kind.CONTEXT_WINDOW_EXCEEDED, "no_thread": Kind.OVERLOADED}


class Line(msgspec.Struct):
    kind: str = ""
    text: str = ""
    id: str = ""
    tool: str = ""
    args: str = ""
    code: str | None = None
    why: str = ""
    asked: int | None = None
    said: int | None = None
    table: str | None = None
    rows: list[Any] = []


class Table(msgspec.Struct):
    rows: list[Any]
    words: int


class Parser:
    def __init__(self) -> None:
        self.asked: int | None = None
        self.said: int | None = None

    def feed(self, frame: bytes, out: providers.EventWriter) -> None:
        line = msgspec.json.decode(frame, type=Line)
        match line.kind:
            case "word":
                out.text(line.text)
            case "call":
                out.tool_call(line.id, line.id, line.tool, line.args)
            case "snag":
                out.fail(swink.Failure("streaming", code=line.code, message=line.text))
            case "end":
                self.asked, self.said = line.asked, line.said
                out.usage(line.asked, line.said)
                if line.why not in STOPS:
                    out.notice("stop_reason", f"unknown: {line.why}")
                out.stop(STOPS.get(line.why, StopReason.STOP))
                if line.table is None:
                    out.finish()
            case "table":
                out.extension("table", line.rows)
                if self.said is not None and line.said is not None:
                    out.usage(self.asked, self.said + line.said)


def part(block: swink.Block) -> Any:
    match block:
        case swink.TextBlock(text=text):
            return {"text": text}
        case swink.ToolCallBlock(id=id, name=name, raw_arguments=raw, arguments=arguments):
            args = raw or msgspec.json.encode(arguments).decode()
            return {"call": id, "tool": name, "args": args}
        case swink.ThinkingBlock():
            return providers.LeftOut("reasoning was left out", "thinking_left_out")
        case swink.ExtensionBlock(kind="table", data=rows):
            return {"table": rows}
    raise providers.unsupported("block", f"Loom takes no {block.type}")


class Converter(providers.MessageConverter):
    block_fields = ()

    def user(self, message: swink.UserMessage) -> list[Any]:
        return [{"who": "you", "parts": self.blocks(message, part)}]

    def assistant(self, message: swink.AssistantMessage) -> list[Any]:
        return [{"who": "loom", "parts": self.blocks(message, part)}]

    def tool_results(self, messages: list[swink.ToolResultMessage]) -> list[Any]:
        return [
            {
                "who": "tool",
                "call": message.tool_call_id,
                "failed": message.is_error,
                "parts": self.blocks(message, part),
            }
            for message in messages
        ]


class Loom(providers.HTTPProvider):
    content_types = ("application/x-ndjson",)
    decoder = providers.NDJSONDecoder
    features = frozenset({"tools", "extensions"})
    knobs = KNOBS
    path = "/weave"

    def convert(self, model: swink.Model, context: swink.Context, options: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model.id, "turns": Converter(self.name).messages(context)}
        if context.system_prompt:
            body["pattern"] = context.system_prompt
        if context.tools:
            body["tools"] = [
                {"name": tool.name, "about": tool.description, "schema": tool.parameters}
                for tool in context.tools
            ]
        body |= providers.sent_options(self.knobs, model, options)
        return providers.with_extra(options.extra, body)

    async def exchange(self, x: providers.Exchange) -> AsyncIterator[bytes]:
        request = x.request()
        lines = providers.NDJSONDecoder()
        table: str | None = None
        async for data in x.stream(request):
            for frame in lines.feed(data):
                table = table or announced(frame)
            yield data
        if table is not None:
            where = providers.HTTPRequest(urljoin(request.url, table), method="GET")
            found = await x.read(where, Table)
            line = Line("table", rows=found.rows, said=found.words)
            yield x.frame(msgspec.json.encode(line))

    def parser(self, model: swink.Model) -> Parser:
        return Parser()

    def error_facts(self, failure: swink.Failure) -> None:
        line = msgspec.json.decode(failure.body, type=Line)
        failure.code, failure.message = line.code, line.text

    def classify(self, failure: swink.Failure) -> swink.Classification | None:
        return providers.by_tables(failure, CODES)


def announced(frame: bytes) -> str | None:
    try:
        return msgspec.json.decode(frame, type=Line).table
    except msgspec.DecodeError:
        return None
