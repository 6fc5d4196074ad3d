"""Files that a user names: JSON of a known shape, media, and what is written for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import swink_core as swink

__all__ = ["encode_json", "media_block", "read_json"]


def read_json(path: Path, what: str, kind: type | tuple[type, ...]) -> Any:
    """This will read a JSON file that holds a `kind`. Raises UsageError, saying what is wrong."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise swink.MediaError(
            f"{path}: {error.strerror or error}",
            resolution="Check that the file exists and may be read.",
        ) from error
    except (ValueError, RecursionError) as error:
        raise swink.MediaError(
            f"{path} is not JSON: {error}", resolution=f"The file should hold a {what} in JSON."
        ) from error
    if not isinstance(data, kind):
        raise swink.MediaError(
            f"{path} holds a JSON {_json_name(data)}", resolution=f"The file should hold a {what}."
        )
    return data


def _json_name(data: object) -> str:
    names: dict[type, str] = {dict: "object", list: "array", str: "string", type(None): "null"}
    return names.get(type(data), "number or boolean")


def media_block(path: str, *, image: bool = False) -> swink.Block:
    """This will make a block of a file, read at once, so that it may change or go afterwards.

    Raises MediaError for one that cannot be read, or is not of a kind that a model may see.
    """
    source = swink.media_base64(swink.FileSource(str(Path(path).expanduser())))
    assert source is not None  # only an address has no data
    family = source.media_type.partition("/")[0]
    if family == "image":
        return swink.ImageBlock(source)
    if image:
        raise swink.MediaError(
            f"{path} is {source.media_type}, not an image",
            resolution="Attach other files with --attach (in a chat: /attach).",
        )
    if family == "audio":
        return swink.AudioBlock(source)
    return swink.DocumentBlock(source, name=Path(path).name)


def encode_json(data: Any, indent: int | None = None) -> bytes:
    """This will write JSON in UTF-8 with a line's end."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    # a lone surrogate, which models do produce, becomes the escape that JSON has for it
    return text.encode("utf-8", "backslashreplace") + b"\n"
