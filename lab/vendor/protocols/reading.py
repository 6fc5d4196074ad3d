"""Parts of requests that several APIs have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lab.vendor import jsons, tokens
from lab.vendor.ask import Ask, Segment, Tool
from lab.vendor.catalog import Model
from lab.vendor.failures import Failure, Refused
from lab.vendor.media import image_tokens

__all__ = ["add_tool", "invalid", "key_of", "limit_of", "text_and_media", "turn"]

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)")
_IMAGES = {"image", "image_url", "input_image"}
_MEDIA = {
    "document": tokens.DOCUMENT,
    "file": tokens.DOCUMENT,
    "input_file": tokens.DOCUMENT,
    "input_audio": tokens.AUDIO,
    "video": tokens.DOCUMENT,
    "audio": tokens.AUDIO,
}


def key_of(headers: dict[str, str], query: dict[str, str]) -> str | None:
    """Return the API key of a request, or its AWS access key id; `None` where it has neither.

    The address of an upload to Google carries its own permission.
    """
    authorization = headers.get("authorization", "")
    credential = _CREDENTIAL.search(authorization)
    if credential is not None:
        return credential.group(1)
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    for name in ("x-api-key", "x-goog-api-key", "api-key"):
        if headers.get(name):
            return headers[name]
    return query.get("key") or query.get("upload_id")


def invalid(message: str, param: str | None = None, code: str | None = None) -> Refused:
    """Return the refusal of a request that is wrong."""
    return Refused(Failure("invalid", message, 400, code=code, param=param))


def text_and_media(model: Model, content: Any) -> tuple[str, int]:
    """Return the text and the media tokens of a message."""
    if isinstance(content, str):
        return content, 0
    texts = []
    media = 0
    for block in jsons.objects(content):
        kind = jsons.text(block.get("type"))
        if isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif kind in _IMAGES:
            media += _image(model, block)
        elif kind in _MEDIA:
            media += _MEDIA[kind]
        else:
            texts.append(jsons.compact(block))
    return "".join(texts), media


def _image(model: Model, block: dict[str, Any]) -> int:
    """Return the tokens of an image, as OpenAI, Anthropic or Cohere write it."""
    url = block.get("image_url")
    detail = block.get("detail")
    if isinstance(url, dict):
        detail = url.get("detail")
        url = url.get("url")
    data = jsons.text(jsons.obj(block.get("source")).get("data")) or jsons.text(url)
    return image_tokens(model, data, low=detail == "low")


def add_tool(ask: Ask, name: str, schema: Any, definition: Any, cache: Any = None) -> None:
    """Add a tool's definition to the prompt."""
    ask.tools.append(Tool(name, jsons.obj(schema)))
    text = jsons.compact(definition)
    ask.segments.append(Segment("tool", text, overhead=tokens.PER_TOOL, cache=cache))


def turn(ask: Ask, role: str, text: str) -> None:
    """Keep count of turns: the user's last text, and how often the model spoke since.

    Messages of the model in a row are one turn.
    """
    if role == "user" and text:
        ask.user_text = text
        ask.steps = 0
    elif role == "assistant" and ask.last_role != "assistant":
        ask.steps += 1
    ask.last_role = role


def limit_of(values: Iterable[Any]) -> int | None:
    """Return the first limit of tokens that is set."""
    return next((value for value in values if isinstance(value, int)), None)
