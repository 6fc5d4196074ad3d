"""Compare what vendors' SDKs return directly with what they return through the gateway.

    python -m lab.clients.objects           # print each value that is lost or another one
    python -m lab.clients.objects --write   # and write the table of the page anew

Each SDK asks its own vendor (`lab/vendor`) for an answer, streamed and whole, and then asks models
of all vendors through the gateway for the same answer. A value is a field of the SDK's object.
`REASONS` declares the losses; exit code 1 for a loss without a reason. The table is stored beside
this module, and `make reference` puts it into docs/reference/what-the-gateway-carries.md.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field

import swink_core as swink
from lab.clients.installed import ROOT
from lab.vendor import Vendor
from lab.vendor.writer import Script
from swink_gateway.serving.server import Gateway

__all__ = ["TABLE", "Loss", "compared", "table"]

TABLE = ROOT / "lab" / "clients" / "objects.md"
"""The page's table, which `tools/generate_gateway.py` puts into the page."""

KEY = "key-of-the-client"

HI = [{"role": "user", "content": "Hi"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**PARAMETERS, "additionalProperties": False}
NAMED = {"name": "place", "strict": True, "schema": CLOSED}
FUNCTION = {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}

MODELS = {
    "gpt-4.1": "openai/gpt-4.1",
    "gpt-5.4-mini": "openai/gpt-5.4-mini",
    "claude-haiku-4-5": "anthropic/claude-haiku-4-5",
    "gemini-3.6-flash": "gemini/gemini-3.6-flash",
    "llama3.2": "ollama/llama3.2",
}
"""Models behind the gateway, by their names there and at the vendor."""


@define
class Scene:
    """An answer: its parts in the vendor's script, and what a request for it has.

    `needs` is a word for the fields of a request; SDKs whose API lacks them skip the scene.
    `stop` ends the answer.
    """

    parts: Sequence[dict[str, Any]]
    needs: str = ""
    stop: str | None = None


SCENES = {
    "words": Scene([{"text": "All is well."}]),
    "thought": Scene([{"thought": "Hm."}, {"text": "All is well."}], "thinking"),
    "calls": Scene(
        [
            {"text": "I look."},
            {"call": "weather", "arguments": {"city": "Brest"}},
            {"call": "weather", "arguments": {"city": "Ouessant"}},
        ],
        "tools",
    ),
    "refusal": Scene([{"refusal": "I cannot do that."}], "refusals"),
    "filter": Scene([{"text": "All is"}], stop="filter"),
    "limit": Scene([{"text": "All is well, and more follows."}], "limit"),
    "stop sequence": Scene([{"text": "All is well. END Never."}], "stop"),
    "JSON": Scene([{"text": '{"city":"Brest"}'}], "schema"),
    "log probabilities": Scene([{"text": "All is well."}], "logprobs"),
}

Request = dict[str, Any]


def _chat(model: str, needs: str) -> Request | None:
    more: dict[str, Request] = {
        "": {},
        "refusals": {},
        "tools": {"tools": [{"type": "function", "function": FUNCTION}]},
        "limit": {"max_completion_tokens": 3},
        "stop": {"stop": ["END"]},
        "schema": {"response_format": {"type": "json_schema", "json_schema": NAMED}},
        "logprobs": {"logprobs": True},
    }
    return None if needs not in more else {"model": model, "messages": HI, **more[needs]}


async def chat(base: str, request: Request, stream: bool) -> Any:
    """Return the completion that OpenAI's SDK has in the end."""
    completions = _openai(base).chat.completions
    if not stream:
        return await completions.create(**request)
    options = {"include_usage": True}
    openai: Any = importlib.import_module("openai")
    async with completions.stream(**request, stream_options=options) as events:
        try:
            return await events.get_final_completion()
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as ended:
            return ended.completion


def _responses(model: str, needs: str) -> Request | None:
    more: dict[str, Request] = {
        "": {},
        "refusals": {},
        "thinking": {"reasoning": {"effort": "low", "summary": "auto"}},
        "tools": {"tools": [{"type": "function", "strict": False, **FUNCTION}]},
        "limit": {"max_output_tokens": 16},
        "schema": {"text": {"format": {"type": "json_schema", **NAMED}}},
    }
    return None if needs not in more else {"model": model, "input": "Hi", **more[needs]}


async def responses(base: str, request: Request, stream: bool) -> Any:
    """Return the response that OpenAI's SDK has in the end."""
    if not stream:
        return await _openai(base).responses.create(**request)
    last: Any = None
    async with _openai(base).responses.stream(**request) as events:
        async for event in events:  # its own helper raises where the answer is incomplete
            last = event
    return last.response


def _openai(base: str) -> Any:
    openai: Any = importlib.import_module("openai")
    return openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)


def _messages(model: str, needs: str) -> Request | None:
    tool = {"name": "weather", "description": "The weather.", "input_schema": PARAMETERS}
    more: dict[str, Request] = {
        "": {},
        "thinking": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000},
        "tools": {"tools": [tool]},
        "limit": {"max_tokens": 3},
        "stop": {"stop_sequences": ["END"]},
        "schema": {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
    }
    plain = {"model": model, "messages": HI, "max_tokens": 900}
    return None if needs not in more else {**plain, **more[needs]}


async def messages(base: str, request: Request, stream: bool) -> Any:
    """Return the message that Anthropic's SDK has in the end."""
    anthropic: Any = importlib.import_module("anthropic")
    client = anthropic.AsyncAnthropic(base_url=base, api_key=KEY, max_retries=0)
    if not stream:
        return await client.messages.create(**request)
    async with client.messages.stream(**request) as events:
        return await events.get_final_message()


def _gemini(model: str, needs: str) -> Request | None:
    thoughts = {"thinking_level": "low", "include_thoughts": True}
    declared = {"name": "weather", "parameters_json_schema": PARAMETERS}
    more: dict[str, Request] = {
        "": {},
        "thinking": {"thinking_config": thoughts},
        "tools": {"tools": [{"function_declarations": [declared]}]},
        "limit": {"max_output_tokens": 3},
        "stop": {"stop_sequences": ["END"]},
        "schema": {"response_mime_type": "application/json", "response_json_schema": PARAMETERS},
    }
    if needs not in more:
        return None
    return {"model": model, "contents": "Hi", "config": more[needs]}


async def gemini(base: str, request: Request, stream: bool) -> Any:
    """Return the response that Google's SDK has, or all of a stream."""
    genai: Any = importlib.import_module("google.genai")
    models = genai.Client(api_key=KEY, http_options={"base_url": base}).aio.models
    if not stream:
        return await models.generate_content(**request)
    return [chunk async for chunk in await models.generate_content_stream(**request)]


@define
class Sdk:
    """An SDK: its own model, its requests, and its call."""

    name: str
    own: str
    request: Callable[[str, str], Request | None]
    call: Callable[[str, Request, bool], Awaitable[Any]]


SDKS = {
    "chat": Sdk("openai, Chat", "gpt-4.1", _chat, chat),
    "responses": Sdk("openai, Responses", "gpt-5.4-mini", _responses, responses),
    "messages": Sdk("anthropic", "claude-haiku-4-5", _messages, messages),
    "gemini": Sdk("google-genai", "gemini-3.6-flash", _gemini, gemini),
}
"""By the name of the gateway's protocol."""

Values = dict[str, str]
"""Fields of an object by their paths, each with its values."""


def values_of(data: Any) -> Values:
    """Return the fields of an SDK's object; those of a stream's pieces together."""
    found: dict[str, list[Any]] = {}
    for each in data if isinstance(data, list) else [data]:
        for path, value in _leaves(each.model_dump(mode="json", exclude_none=True), ""):
            found.setdefault(path, []).append(value)
    joined = {}
    for path, values in found.items():
        is_text = isinstance(data, list) and path.endswith(".text")
        kept = values[-1:] if isinstance(data, list) and not is_text else values
        joined[path] = "".join(map(str, kept)) if is_text else " ".join(map(repr, kept))
    return joined


def _leaves(data: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _leaves(value, f"{path}.{name}" if path else name)
    elif isinstance(data, list):
        for value in data:
            yield from _leaves(value, f"{path}[]")
    elif data not in (None, ""):
        yield path, data


@define
class Loss:
    """A value of an SDK's object that is lost or another one for some models, in some scenes."""

    protocol: str
    path: str
    is_lost: bool
    models: dict[str, None] = field(factory=dict)
    scenes: dict[str, None] = field(factory=dict)
    example: str = ""


@define
class Compared:
    """The losses, and the number of values that were compared by protocol."""

    losses: dict[tuple[str, str, bool], Loss] = field(factory=dict)
    counts: dict[str, int] = field(factory=dict)
    failures: list[str] = field(factory=list)


@asynccontextmanager
async def _stand() -> AsyncIterator[tuple[Vendor, str]]:
    async with Vendor({"clients": [KEY]}) as vendor:
        own: dict[str, Any] = {
            "openai": {"base_url": f"{vendor.url}/v1", "api_key": KEY},
            **{
                n: {"base_url": vendor.url, "api_key": KEY}
                for n in ("anthropic", "gemini", "ollama")
            },
        }
        routes = {name: [model] for name, model in MODELS.items()}
        async with swink.Client(providers=own) as client, Gateway(client, routes=routes) as gateway:
            yield vendor, gateway.url


async def compared(protocols: Sequence[str] = tuple(SDKS)) -> Compared:
    """Ask for each answer directly and through the gateway, and compare the objects."""
    result = Compared()
    async with _stand() as (vendor, gateway):
        for protocol in protocols:
            for scene in SCENES:
                for stream in (False, True):
                    await _compare(result, vendor, gateway, protocol, scene, stream)
    return result


async def _compare(
    result: Compared, vendor: Vendor, gateway: str, protocol: str, name: str, stream: bool
) -> None:
    sdk, scene = SDKS[protocol], SCENES[name]
    request = sdk.request(sdk.own, scene.needs)
    if request is None:
        return

    async def values(base: str, model: str) -> Values:
        vendor.state.scripts.clear()
        vendor.state.scripts.append(Script((tuple(scene.parts),), scene.stop))  # type: ignore[arg-type]  # a stop
        return values_of(await sdk.call(base, {**request, "model": model}, stream))

    try:
        direct = await values(vendor.url, sdk.own)
    except Exception as error:
        result.failures.append(f"{protocol}, {name}, DIRECT: {type(error).__name__}: {error}")
        return
    result.counts[protocol] = result.counts.get(protocol, 0) + len(direct)
    for model in MODELS:
        try:
            through = await values(gateway, model)
        except Exception as error:
            result.failures.append(f"{protocol}, {name}, {model}: {type(error).__name__}: {error}")
            continue
        for path, value in direct.items():
            is_lost = path not in through
            if not is_lost and (through[path] == value or _varies(path)):
                continue
            key = (protocol, path, is_lost)
            loss = result.losses.setdefault(key, Loss(protocol, path, is_lost))
            loss.models[model] = None
            loss.scenes[name] = None
            loss.example = f"{value} / {through.get(path)}"


_VARYING = re.compile(
    r"(^|[._\[\]])(id|created(_at)?|completed_at|create_time|response_id|call_id|signature"
    r"|thought_signature|encrypted_content|model|model_version)$"
)


def _varies(path: str) -> bool:
    """Tell whether a value differs in every answer."""
    return path.startswith("sdk_http_response.") or _VARYING.search(path) is not None


OTHER = "*"
"""Stands in `REASONS` for every model but the SDK's own."""

ALL = "all"
"""Stands in `REASONS` for every model."""

Reason = tuple[str, str, str, str]
"""A protocol, a pattern of paths, the models, and the reason of a loss or of another value."""

_REPORTED = "the other API does not report it"
_LEAST = "the Responses API accepts no token limit below 16"
_COUNTED = "each API counts the tokens of a prompt with tools differently"
_ECHO = "OpenAI reports the default of an option that the request did not set"
_DIALECT = "Ollama's API has no such finish reason"

REASONS: Sequence[Reason] = (
    ("chat", r"usage\.(prompt_tokens|total_tokens)", OTHER, f"{_COUNTED}; {_LEAST}"),
    ("chat", r"usage\.completion_tokens|.*\.content", OTHER, _LEAST),
    ("chat", r"system_fingerprint|service_tier|usage\..*", OTHER, _REPORTED),
    ("chat", r"service_tier", ALL, "in a stream, OpenAI's SDK reads the value from the first "
     "chunk, when the gateway does not know the value yet"),
    ("chat", r".*\.refusal", OTHER, "other vendors do not mark refusals; `finish_reason` is "
     "`content_filter`"),
    ("chat", r".*\.logprobs\..*", OTHER, _REPORTED),
    ("chat", r".*\.logprobs\..*", ALL, "the vendor splits a streamed text into different tokens"),
    ("chat", r".*\.finish_reason", OTHER, f"{_LEAST}; {_DIALECT}"),
    ("responses", r"service_tier", OTHER, _REPORTED),
    ("responses", r"(temperature|top_p|background|prompt_cache_retention|reasoning\.effort|store"
     r"|text\..*|top_logprobs|truncation|frequency_penalty|presence_penalty)", ALL, _ECHO),
    ("responses", r"completed_at", ALL, "the gateway reports only `created_at`"),
    ("responses", r"output\[\]\.(summary|content)\[\]\.(text|type)|output\[\]\.(role|type)", OTHER,
     "the reasoning of other vendors is in `content` and not in `summary`; their opaque data is a "
     "separate reasoning item; gpt-4.1 does not reason"),
    ("responses", r"output\[\]\.status", ALL,
     "an item ends before the gateway knows the finish reason, which only the response reports"),
    ("responses", r".*\.refusal", OTHER, "other vendors do not mark refusals; the response has the "
     "status `incomplete`"),
    ("responses", r"usage\.output_tokens_details\..*", OTHER, _REPORTED),
    ("responses", r"usage\..*", OTHER, _COUNTED),
    ("responses", r"status|incomplete_details\.reason", OTHER, _DIALECT),
    ("messages", r"usage\.(cache_.*|inference_geo|service_tier|output_tokens_details\..*)", OTHER,
     _REPORTED),
    ("messages", r"usage\.input_tokens", OTHER, _COUNTED),
    ("messages", r"usage\.output_tokens|content\[\]\.text", OTHER, _LEAST),
    ("messages", r"content\[\]\.(thinking|signature|type)", OTHER, "gpt-4.1 does not reason; the "
     "opaque data of other vendors, if any, is in `redacted_thinking`"),
    ("messages", r"stop_details\..*", OTHER, "only Anthropic reports why a model refuses"),
    ("messages", r"stop_sequence", OTHER, "other APIs do not report which sequence stopped "
     "an answer"),
    ("messages", r"stop_reason", OTHER,
     f"other APIs do not report that a stop sequence ended an answer; {_DIALECT}; {_LEAST}"),
    ("gemini", r".*\.thought_signature", OTHER, "only Google sends this opaque data"),
    ("gemini", r".*\.parts\[\]\.(thought|text)", OTHER, f"gpt-4.1 does not reason; {_LEAST}"),
    ("gemini", r"usage_metadata\.(prompt_tokens_details.*|thoughts_token_count)", OTHER, _REPORTED),
    ("gemini", r"usage_metadata\..*", OTHER, f"{_COUNTED}; {_LEAST}"),
    ("gemini", r".*finish_reason", OTHER, f"{_DIALECT}; {_LEAST}"),
)  # fmt: skip


def reason_of(loss: Loss) -> str | None:
    """Return the declared reason of a loss; `None` without one."""
    own = SDKS[loss.protocol].own
    for protocol, pattern, models, why in REASONS:
        is_meant = protocol == loss.protocol and (models == ALL or own not in loss.models)
        if is_meant and re.fullmatch(pattern, loss.path):
            return why
    return None


def table(result: Compared) -> str:
    """Return the table of all losses."""
    lines = [
        "| SDK | field | models that lose the value | models with a different value | reason |",
        "|---|---|---|---|---|",
    ]
    for protocol, sdk in SDKS.items():
        paths = dict.fromkeys(path for p, path, _ in result.losses if p == protocol)
        for path in paths:
            lost = result.losses.get((protocol, path, True))
            other = result.losses.get((protocol, path, False))
            why = dict.fromkeys(str(reason_of(each)) for each in (lost, other) if each is not None)
            cells = (sdk.name, f"`{path}`", _models(lost), _models(other), "; ".join(why))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _models(loss: Loss | None) -> str:
    if loss is None:
        return ""
    return "all" if len(loss.models) == len(MODELS) else ", ".join(sorted(loss.models))


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="protocols; none: all")
    parser.add_argument("--write", action="store_true", help="write the table anew")
    given = parser.parse_args()
    result = asyncio.run(compared(given.names or tuple(SDKS)))
    wrong = [*result.failures]
    for loss in result.losses.values():
        why = reason_of(loss)
        verb = "lost" if loss.is_lost else "another value"
        scenes = ", ".join(loss.scenes)
        words = f"{loss.protocol} {loss.path}: {verb} for {_models(loss)} ({scenes})"
        if why is None:
            wrong.append(f"{words}: {loss.example[:200]}")
        print(words, flush=True)
    for protocol, count in result.counts.items():
        print(f"{protocol}: {count} values")
    if given.write:
        TABLE.write_text(table(result), "utf-8")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
