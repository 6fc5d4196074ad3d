"""Tarn's API: a key is exchanged for a ticket that expires, one for each realm."""

from typing import Any

import msgspec
from attrs import define, field

import swink_core as swink
from swink_core import StopReason, providers
from swink_core import StreamErrorKind as Kind

TICKETS = "https://id.tarn.example/tickets"
STOPS = {"done": StopReason.STOP, "longest": StopReason.LENGTH}
KNOBS = {"temperature": "heat", "max_tokens": "longest"}
FAULTS = {"turns_too_long": Kind.CONTEXT_WINDOW_EXCEEDED, "drained": Kind.OVERLOADED}


class Line(msgspec.Struct):
    type: str = ""
    text: str | None = None
    fault: str | None = None
    why: str | None = None
    read: int | None = None
    wrote: int | None = None


class Parser:
    def feed(self, frame: bytes, out: providers.EventWriter) -> None:
        match (line := msgspec.json.decode(frame, type=Line)).type:
            case "say":
                out.text(line.text or "")
            case "fault":
                out.fail(swink.Failure("streaming", code=line.fault, message=line.text))
            case "end":
                out.usage(line.read, line.wrote)
                if line.why not in STOPS:
                    out.notice("stop_reason", f"unknown: {line.why}")
                out.stop(STOPS.get(line.why or "", StopReason.STOP))
                out.finish()


def read_fault(failure: swink.Failure) -> None:
    line = msgspec.json.decode(failure.body, type=Line)
    failure.code, failure.message = line.fault, line.text


class Given(msgspec.Struct):
    ticket: str
    valid_ms: float


@define(frozen=True)
class Key(providers.Grant):
    key: str = field(repr=False)
    realm: str
    url: str

    async def fetch(self, http: providers.TokenHTTP) -> providers.Token:
        body = msgspec.json.encode({"key": self.key, "realm": self.realm})
        headers = {"content-type": "application/json"}
        given = await http.read(providers.HTTPRequest(self.url, body, headers), Given)
        return providers.Token(given.ticket, given.valid_ms / 1000)

    def refuses(self, failure: swink.Failure) -> bool:
        return failure.status == 401 and failure.code != "no_access"

    def error_facts(self, failure: swink.Failure) -> None:
        read_fault(failure)


def text_of(block: swink.Block) -> str | providers.LeftOut:
    if isinstance(block, swink.ThinkingBlock):
        return providers.LeftOut("reasoning was left out", "thinking_left_out")
    if isinstance(block, swink.TextBlock):
        return block.text
    raise providers.unsupported("block", f"Tarn takes no {block.type}")


class Converter(providers.MessageConverter):
    block_fields = ()

    def user(self, message: swink.UserMessage) -> list[Any]:
        return [{"by": "person", "text": "".join(self.blocks(message, text_of))}]

    def assistant(self, message: swink.AssistantMessage) -> list[Any]:
        return [{"by": "model", "text": "".join(self.blocks(message, text_of))}]

    def tool_results(self, messages: list[swink.ToolResultMessage]) -> list[Any]:
        raise providers.unsupported("tools", "Tarn has no tools")


class Tarn(providers.HTTPProvider):
    content_types = ("application/x-ndjson",)
    decoder = providers.NDJSONDecoder
    features = frozenset[str]()
    knobs = KNOBS
    path = "/say"

    def convert(self, model: swink.Model, context: swink.Context, options: Any) -> dict[str, Any]:
        tuning = providers.sent_options(self.knobs, model, options)
        turns = Converter(self.name).messages(context)
        body = {"model": model.id, "rules": context.system_prompt or "", "turns": turns, **tuning}
        return providers.with_extra(options.extra, body)

    def credential(self, request: providers.HTTPRequest, options: Any) -> providers.Grant:
        realm = options.settings.get("realm", "prod")
        url = options.settings.get("tickets", TICKETS)
        return Key(self.api_key(options) or "", realm, url)

    def sign(self, request: providers.HTTPRequest, credential: Any, options: Any) -> None:
        request.headers["Authorization"] = f"Ticket {credential.value}"

    def parser(self, model: swink.Model) -> Parser:
        return Parser()

    def error_facts(self, failure: swink.Failure) -> None:
        read_fault(failure)

    def classify(self, failure: swink.Failure) -> swink.Classification | None:
        return providers.by_tables(failure, FAULTS)
