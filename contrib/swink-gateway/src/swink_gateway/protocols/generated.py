"""Images that a vendor generated and code that it ran, for protocols with fields for them.

Each vendor has its own format for these blocks. `image_of` and `run_of` read all formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from swink_core import Extension, ExtensionBlock

__all__ = ["Image", "Run", "image_of", "run_of"]

_DATA_URL = "data:"


class Image(NamedTuple):
    """A generated image: its media type, and its data in base64."""

    media_type: str
    data: str

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"{_DATA_URL}{self.media_type};base64,{self.data}"


class Run(NamedTuple):
    """Code that the vendor ran, or its output; a field is `None` if the block lacks it."""

    code: str | None
    output: str | None


def image_of(block: Extension | ExtensionBlock) -> Image | None:
    """Return the image in a block, or `None`.

    Sources: the API references of Gemini (`inlineData`), OpenAI's Responses
    (`image_generation_call`) and OpenRouter (`images` of a chat message).
    """
    data = block.data if isinstance(block.data, dict) else {}
    match block.kind:
        case "inlineData":
            inline = _object(data, "inlineData")
            media_type, value = inline.get("mimeType"), inline.get("data")
        case "image_generation_call":
            media_type, value = f"image/{data.get('output_format') or 'png'}", data.get("result")
        case "image":
            url = _object(data, "image_url").get("url")
            if not isinstance(url, str) or not url.startswith(_DATA_URL):
                return None
            media_type, _, value = url.removeprefix(_DATA_URL).partition(";base64,")
        case _:
            return None
    if isinstance(media_type, str) and isinstance(value, str) and value:
        return Image(media_type, value) if media_type.startswith("image/") else None
    return None


def run_of(block: Extension | ExtensionBlock) -> Run | None:
    """Return the code in a block, or the output of code; `None` for other blocks.

    Sources: the API references of Gemini (`executableCode`, `codeExecutionResult`), OpenAI's
    Responses (`code_interpreter_call`) and Anthropic's Messages (`server_tool_use`).
    """
    data = block.data if isinstance(block.data, dict) else {}
    match block.kind:
        case "executableCode":
            return _run(_object(data, "executableCode").get("code"), None)
        case "codeExecutionResult":
            return _run(None, _object(data, "codeExecutionResult").get("output"))
        case "code_interpreter_call":
            outputs = data.get("outputs")
            logs = [each.get("logs") for each in outputs or () if isinstance(each, dict)]
            texts = [text for text in logs if isinstance(text, str)]
            return _run(data.get("code"), "".join(texts) if texts else None)
        case "server_tool_use":
            given = _object(data, "input")
            return _run(given.get("code") or given.get("command"), None)
        case "code_execution_tool_result" | "bash_code_execution_tool_result":
            return _run(None, _object(data, "content").get("stdout"))
    return None


def _run(code: Any, output: Any) -> Run | None:
    found = Run(
        code if isinstance(code, str) else None, output if isinstance(output, str) else None
    )
    return None if found == (None, None) else found


def _object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}
