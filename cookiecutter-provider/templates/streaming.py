"""{{ cookiecutter.title }}'s streaming API. Add links to its documentation here."""

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
    reason: str = ""
    usage: dict[str, int] = {}


class Parser:
    def feed(self, frame: bytes, out: providers.EventWriter) -> None:
        match (data := msgspec.json.decode(frame, type=Frame)).type:
            case "text":
                out.text(data.text)
            case "tool_call":
                out.tool_call(data.id, data.id, data.name, data.text)
            case "error":
                out.fail(swink.Failure("streaming", code=data.id, message=data.text))
            case "done":
                out.usage(data.usage.get("input"), data.usage.get("output"))
                if data.reason not in STOPS:
                    out.notice("stop_reason", f"unknown: {data.reason}")
                out.stop(STOPS.get(data.reason, swink.StopReason.STOP))
                out.finish()


class {{ cookiecutter.class_name }}(providers.HTTPProvider):
{%- if cookiecutter.auth == "header" %}
    features, credential_headers = frozenset({"tools"}), ("authorization", "x-api-key")
{%- else %}
    features = frozenset({"tools"})
{%- endif %}
    path = "/generate"
{%- if cookiecutter.kind == "ndjson" %}
    decoder, content_types = providers.NDJSONDecoder, ("application/x-ndjson",)
{%- endif %}

    def convert(self, model: swink.Model, context: swink.Context, options: Any) -> dict[str, Any]:
        messages = providers.normalise(context, self.name)
        said = swink.dump(swink.Context(messages, context.system_prompt or None, context.tools))
        tuning = providers.sent_options(self.knobs, model, options)
        return providers.with_extra(options.extra, {**said, **tuning, "model": model.id})

    def parser(self, model: swink.Model) -> Parser:
        return Parser()

    def classify(self, failure: swink.Failure) -> swink.Classification | None:
        return providers.by_tables(failure, {"rate_limit": swink.StreamErrorKind.THROTTLED})
{%- if cookiecutter.auth == "header" %}

    def sign(self, request: Any, credential: Any, options: Any) -> None:
        request.headers["x-api-key"] = credential
{%- endif %}
