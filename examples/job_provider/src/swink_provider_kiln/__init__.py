"""Kiln's API: a job (a firing) is created, streamed, and cancelled if the call ends early."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urljoin

import msgspec

import swink_core as swink
from swink_core import StopReason, providers
from swink_core import StreamErrorKind as Kind

KNOBS = {"temperature": "temperature", "max_tokens": "limit"}
STOPS = {"complete": StopReason.STOP, "limit": StopReason.LENGTH}
SLUGS = {
    "prompt_too_long": Kind.CONTEXT_WINDOW_EXCEEDED,
    "kiln_full": Kind.OVERLOADED,
    "kiln_cracked": Kind.OVERLOADED,
}


class Firing(msgspec.Struct):
    watch: str
    halt: str


class Data(msgspec.Struct):
    add: str = ""
    why: str = ""
    slug: str | None = None
    say: str | None = None
    input: int | None = msgspec.field(default=None, name="in")
    output: int | None = msgspec.field(default=None, name="out")


class Event(msgspec.Struct):
    type: str = ""
    data: Data | None = None


class Refusal(msgspec.Struct):
    problem: Data = msgspec.field(default_factory=Data)


class Parser:
    def feed(self, frame: bytes, out: providers.EventWriter) -> None:
        event = msgspec.json.decode(frame, type=Event)
        data = event.data or Data()
        match event.type:
            case "piece":
                out.text(data.add)
            case "broken":
                out.fail(swink.Failure("streaming", code=data.slug, message=data.say))
            case "closed":
                out.usage(data.input, data.output)
                if data.why not in STOPS:
                    out.notice("stop_reason", f"unknown: {data.why}")
                out.stop(STOPS.get(data.why, StopReason.STOP))
                out.finish()


def text_of(block: swink.Block) -> str | providers.LeftOut:
    if isinstance(block, swink.ThinkingBlock):
        return providers.LeftOut("reasoning was left out", "thinking_left_out")
    if isinstance(block, swink.TextBlock):
        return block.text
    raise providers.unsupported("block", f"Kiln takes no {block.type}")


class Converter(providers.MessageConverter):
    block_fields = ()

    def user(self, message: swink.UserMessage) -> list[Any]:
        return [{"role": "user", "text": "".join(self.blocks(message, text_of))}]

    def assistant(self, message: swink.AssistantMessage) -> list[Any]:
        return [{"role": "assistant", "text": "".join(self.blocks(message, text_of))}]

    def tool_results(self, messages: list[swink.ToolResultMessage]) -> list[Any]:
        raise providers.unsupported("tools", "Kiln has no tools")


class Kiln(providers.HTTPProvider):
    credential_headers = ("authorization", "x-kiln-key")
    decoder = providers.SSEDecoder.named
    features = frozenset[str]()
    knobs = KNOBS
    path = "/firings"

    def convert(self, model: swink.Model, context: swink.Context, options: Any) -> dict[str, Any]:
        turns = Converter(self.name).messages(context)
        if context.system_prompt:
            turns.insert(0, {"role": "system", "text": context.system_prompt})
        tuning = providers.sent_options(self.knobs, model, options)
        return providers.with_extra(options.extra, {"model": model.id, "turns": turns, **tuning})

    def sign(self, request: providers.HTTPRequest, credential: Any, options: Any) -> None:
        request.headers["x-kiln-key"] = credential

    async def exchange(self, x: providers.Exchange) -> AsyncIterator[bytes]:
        create = x.request()
        firing = await x.read(create, Firing)
        x.on_abandon(providers.HTTPRequest(urljoin(create.url, firing.halt)))
        watch = providers.HTTPRequest(urljoin(create.url, firing.watch), method="GET")
        async for data in x.stream(watch):
            yield data

    def parser(self, model: swink.Model) -> Parser:
        return Parser()

    def error_facts(self, failure: swink.Failure) -> None:
        problem = msgspec.json.decode(failure.body, type=Refusal).problem
        failure.code, failure.message = problem.slug, problem.say

    def classify(self, failure: swink.Failure) -> swink.Classification | None:
        return providers.by_tables(failure, SLUGS)
