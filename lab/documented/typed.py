"""Hold request bodies against the types of the vendors' SDKs.

    .venv-sdks/NAME/bin/python -m lab.documented.typed NAME < bodies.jsonl

Each line of the input is a list: the wire format, the body. Each line of the output is a JSON list
of what does not fit, in the order of the input. `SDKS` says which SDK judges which wire format.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import GenericAlias
from typing import Any

from swink_test_helpers.typed_dicts import misfits

__all__ = ["SDKS", "main"]

SDKS = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic-messages": "anthropic",
    "gemini-generate-content": "google-genai",
    "bedrock-converse": "botocore",
    "cohere-chat": "cohere",
    "mistral-chat": "mistralai",
    "ollama-chat": "ollama",
}
"""The SDK whose types judge a wire format."""

Check = Callable[[Any], list[str]]


def _openai() -> dict[str, Check]:
    types = import_module("openai.types")
    chat = types.chat.completion_create_params.CompletionCreateParamsStreaming
    responses = types.responses.response_create_params.ResponseCreateParamsStreaming

    def streamed(body: Any) -> Any:
        return {**body, "stream": True}

    return {
        "openai-chat": lambda body: misfits(streamed(body), chat),
        "openai-responses": lambda body: misfits(streamed(body), responses),
    }


def _anthropic() -> dict[str, Check]:
    declared = import_module("anthropic.types.beta.message_create_params")

    def check(body: Any) -> list[str]:
        return misfits({**body, "stream": True}, declared.MessageCreateParamsStreaming)

    return {"anthropic-messages": check}


def _validated(kind: Any, data: Any) -> Iterator[str]:
    """Validate data by pydantic, and word each fault."""
    pydantic = import_module("pydantic")
    try:
        pydantic.TypeAdapter(kind).validate_python(data)
    except pydantic.ValidationError as error:
        for fault in error.errors():
            place = ".".join(map(str, fault["loc"]))
            yield f"{place}: {fault['msg']}"


def _list_of(kind: Any) -> Any:
    return GenericAlias(list, (kind,))


def _google() -> dict[str, Check]:
    types = import_module("google.genai.types")
    kinds: dict[str, Any] = {
        "contents": _list_of(types.Content),
        "systemInstruction": types.Content,
        "tools": _list_of(types.Tool),
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
        "safetySettings": _list_of(types.SafetySetting),
        "cachedContent": str,
        "labels": dict[str, str],
        "serviceTier": str,
    }

    def check(body: Any) -> list[str]:
        found = [f"{name} is not declared" for name in body if name not in kinds]
        for name, kind in kinds.items():
            if name in body:
                found += [f"{name}.{fault}" for fault in _validated(kind, body[name])]
        return found

    return {"gemini-generate-content": check}


def _botocore() -> dict[str, Check]:
    validate = import_module("botocore.validate")
    model = import_module("botocore.session").Session().get_service_model("bedrock-runtime")
    shape = model.operation_model("ConverseStream").input_shape

    def check(body: Any) -> list[str]:
        report = validate.ParamValidator().validate({"modelId": "any", **body}, shape)
        return report.generate_report().splitlines() if report.has_errors() else []

    return {"bedrock-converse": check}


def _cohere() -> dict[str, Check]:
    cohere = import_module("cohere")
    kinds: dict[str, Any] = {
        "messages": _list_of(cohere.ChatMessageV2),
        "tools": _list_of(cohere.ToolV2),
        "response_format": cohere.ResponseFormatV2,
        "thinking": cohere.Thinking,
    }

    def check(body: Any) -> list[str]:
        return [
            f"{name}.{fault}"
            for name, kind in kinds.items()
            if name in body
            for fault in _validated(kind, body[name])
        ]

    return {"cohere-chat": check}


def _mistral() -> dict[str, Check]:
    models = import_module("mistralai.client.models")

    def check(body: Any) -> list[str]:
        kind = models.ChatCompletionStreamRequest
        known = {field.alias or name for name, field in kind.model_fields.items()}
        found = [f"{name} is not declared" for name in body if name not in known]
        return [*found, *_validated(kind, body)]

    return {"mistral-chat": check}


def _ollama() -> dict[str, Check]:
    kind = import_module("ollama._types").ChatRequest

    def check(body: Any) -> list[str]:
        known = {field.alias or name for name, field in kind.model_fields.items()}
        found = [f"{name} is not declared" for name in body if name not in known]
        return [*found, *_validated(kind, body)]

    return {"ollama-chat": check}


_CHECKS = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google-genai": _google,
    "botocore": _botocore,
    "cohere": _cohere,
    "mistralai": _mistral,
    "ollama": _ollama,
}


def main() -> None:
    """Judge the lines of the input."""
    checks = _CHECKS[sys.argv[1]]()
    for line in sys.stdin:
        wire_format, body = json.loads(line)
        print(json.dumps(checks[wire_format](body)))


if __name__ == "__main__":
    main()
