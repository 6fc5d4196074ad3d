"""{{ cookiecutter.title }}'s streaming API. Name its documentation here, page by page."""

from typing import Any

import msgspec
import swink_core as swink
from swink_core import providers

STOPS = {"stop": swink.StopReason.STOP, "length": swink.StopReason.LENGTH}


class Frame(msgspec.Struct):
    type: str = ""
    text: str = ""
    id: str | None = None
    name: str | None = None
    usage: dict[str, int] = {}


class Parser:
    decode = staticmethod(msgspec.json.Decoder(Frame).decode)

    def feed(self, frame: bytes, out: providers.EventWriter) -> None:
        match (data := self.decode(frame)).type:
            case "text":
                out.text(data.text)
            case "tool_call":
                out.tool_call(data.id, data.id, data.name, data.text)
            case "error":
                out.fail(swink.Failure("streaming", code=data.id, message=data.text))
            case "done":
                out.usage(data.usage.get("input"), data.usage.get("output"))
                out.stop(STOPS.get(data.text, swink.StopReason.STOP))
                out.finish()


class {{ cookiecutter.class_name }}(providers.HTTPProvider):
    features = frozenset({"tools"})
{%- if cookiecutter.kind == "ndjson" %}
    decoder = providers.NDJSONDecoder
    content_types = ("application/x-ndjson",)
{%- endif %}

    def convert(self, model: swink.Model, context: swink.Context, options: Any) -> Any:
        messages = [swink.dump(message) for message in providers.normalise(context, self.name)]
        tools = [swink.dump(tool) for tool in context.tools]
        return {"system": context.system_prompt, "messages": messages, "tools": tools}

    def request(self, model: swink.Model, payload: Any, options: Any) -> providers.HTTPRequest:
        tuning = {n: v for n in self.knobs if (v := getattr(options, n)) is not None}
        body = providers.with_extra(options.extra, {**payload, **tuning, "model": model.id})
        return self.json_request(f"{self.base_url(options)}/generate", body)

    def parser(self, model: swink.Model) -> Parser:
        return Parser()

    def classify(self, failure: swink.Failure) -> swink.Classification | None:
        return providers.by_tables(failure, {"rate_limit": swink.StreamErrorKind.THROTTLED})
{%- if cookiecutter.auth == "header" %}

    async def authorize(self, request: Any, options: Any, call: swink.Call) -> None:
        request.headers["x-api-key"] = self.api_key(options) or ""
{%- endif %}
