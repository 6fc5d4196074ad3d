"""Read and write the user's files: JSON, media, output files, and the folders of settings and
state.
"""

from __future__ import annotations

import base64
import json
import mimetypes
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import swink_core as swink

__all__ = [
    "PIPE",
    "block_of",
    "changing",
    "encode_json",
    "media_block",
    "media_type_in",
    "private_folder",
    "read_json",
    "read_text",
    "replace_file",
    "state_folder",
    "tools_of",
    "user_folder",
    "user_path",
]

PIPE = "-"
"""The file name that means standard input."""

SVG = "image/svg+xml"
"""The media type of SVG images, which are text files and are sent to models as text."""


def read_json(path: Path, what: str, kind: type | tuple[type, ...]) -> Any:
    """Read a JSON file. Raises MediaError if the value does not have the type `kind`."""
    content = _read(path)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise swink.MediaError(
            f"{path} is not JSON: {error}", resolution=f"The file must contain a {what} in JSON."
        ) from error
    if not isinstance(data, kind):
        raise swink.MediaError(
            f"{path} contains a JSON {_json_name(data)}",
            resolution=f"The file must contain a {what}.",
        )
    return data


def tools_of(files: Sequence[str]) -> list[swink.Tool]:
    """Read tool definitions, one or several per file.

    Raises MediaError for an invalid definition.
    """
    tools: list[swink.Tool] = []
    for path in map(Path, files):
        if path.suffix == ".py":
            raise swink.MediaError(
                f"{path} is not a tool definition",
                title="Not a tool in JSON",
                resolution=f"To use its functions as tools, pass --functions {path}",
            )
        data = read_json(path, "tool, or a list of tools,", (dict, list))
        try:
            tools += swink.load(list[swink.Tool], data if isinstance(data, list) else [data])
        except swink.CodecError as error:
            wanted = "A tool is an object with name, description and parameters (a JSON schema)."
            raise swink.MediaError(f"{path}: {error}", resolution=wanted) from error
    return tools


def user_folder() -> Path:
    """Return the platform's folder for user settings.

    Raises UsageError if the user has no home folder.
    """
    from platformdirs import user_config_path

    try:
        # Some versions of platformdirs do not expand `~`.
        return user_config_path("swink").expanduser()
    except RuntimeError as error:
        raise swink.UsageError(
            "this user has no home folder to store swink's settings in",
            resolution="Set HOME to the full path of a folder.",
        ) from error


def state_folder() -> Path:
    """Return the user's folder for program state (XDG base directories).

    Raises UsageError if the user has no home folder.
    """
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or "~"
    else:
        base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return user_path(base) / "swink"


def user_path(given: str | Path) -> Path:
    """Expand `~` or `~name` in a path. Raises UsageError for an unknown user."""
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise swink.UsageError(
            f"{given}: this home folder does not exist",
            title="A file cannot be used",
            resolution="Write the full path, or set HOME.",
        ) from error


def read_text(path: str) -> str:
    """Read a text file. Raises MediaError if it cannot be read or is not text."""
    try:
        return _read(user_path(path)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise swink.MediaError(
            f"{path} is not UTF-8 text (byte {error.start})",
            resolution="Pass a text file after the @.",
        ) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise swink.MediaError(
            f"{path}: {error.strerror or error}",
            resolution="Check that the file exists and that you may read it.",
        ) from error


def _json_name(data: object) -> str:
    names: dict[type, str] = {dict: "object", list: "array", str: "string", type(None): "null"}
    return names.get(type(data), "number or boolean")


def media_block(path: str, *, image: bool = False) -> swink.Block:
    """Create a block from a file, which is read at once and may change or disappear later.

    The type is taken from the file's content, or from the file's name if the content does not show
    the type: an image named `.txt` is an image, and a PDF is never sent as text. A text file
    becomes text, which every model accepts; `-` is standard input; the provider downloads an `http`
    address. Raises MediaError for a file that cannot be read, or whose type models do not accept;
    with `image`, for any file that is not an image.
    """
    if path.lower().startswith(("https://", "http://")):
        return _linked(path, image)
    if path == PIPE:
        return block_of(sys.stdin.buffer.read(), "standard input", image=image)
    file = user_path(path)
    return block_of(_read(file), path, file.name, image=image)


def block_of(
    data: bytes, path: str, name: str | None = None, *, image: bool = False
) -> swink.Block:
    """Create a block from the content of a file.

    `path` names the source of the content in error messages. `name` is the file name (`None`: there
    is none). A text file is sent with its name before the text; the name of an image file must fit
    its content. Raises MediaError as `media_block` does.
    """
    named = mimetypes.guess_type(name)[0] if name else None
    media_type = media_type_in(data)
    if media_type is None and (named or "").startswith("image/") and named != SVG:
        raise swink.MediaError(
            f"{path} does not contain {named} data", resolution="Check the file, or its name."
        )
    if image and not (media_type or "").startswith("image/"):
        raise swink.MediaError(
            f"{path} is not an image",
            resolution="Attach other files with --attach (in a chat: /attach).",
        )
    if media_type is None and (text := _as_text(data)) is not None:
        return swink.TextBlock(f"{name}:\n\n{text}" if name else text)
    media_type = media_type or named
    if media_type is None:
        raise swink.MediaError(
            f"{path}: cannot detect the file type from its name or content",
            resolution="Give it the suffix of its type, for example .pdf or .png.",
        )
    source = swink.Base64Source(media_type, base64.b64encode(data).decode())
    match media_type.partition("/")[0]:
        case "image":
            return swink.ImageBlock(source)
        case "audio":
            return swink.AudioBlock(source)
    return swink.DocumentBlock(source, name=name)


def media_type_in(data: bytes) -> str | None:
    """Detect the media type from a file's first bytes; `None` for text and for unknown types."""
    from swink.media import begins_as

    return begins_as(data)


def _linked(url: str, image: bool) -> swink.Block:
    """Create a block for a URL; the file suffix in the URL, or `image`, determines the type."""
    media_type = mimetypes.guess_type(urlsplit(url).path)[0]
    source = swink.UrlSource(url, media_type)
    family = (media_type or "").partition("/")[0]
    if image or family == "image":
        return swink.ImageBlock(source)
    return swink.AudioBlock(source) if family == "audio" else swink.DocumentBlock(source)


def _as_text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


_CONTROL = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control and bidirectional characters that `json` does not escape and that affect terminals."""


def encode_json(data: Any, indent: int | None = None) -> bytes:
    """Return a line of JSON in UTF-8, with control and bidirectional characters escaped."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    # A lone surrogate, which models sometimes produce, is written as an escape.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def private_folder(path: Path) -> None:
    """Create a folder that only its user can read or write, unless the folder exists."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Lock a file against other processes while the caller reads and then writes it.

    Creates the file's folder, and a lock file in it. The system releases the lock however a process
    ends. Raises OSError if the file cannot be locked.
    """
    private_folder(path.parent)
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(lock)
        yield
    finally:
        os.close(lock)


def _lock(descriptor: int) -> None:
    """Wait for a lock; on Windows, at most ten seconds."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a private file atomically: if the disk is full, the old content remains."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:  # not even Ctrl-C may leave a temporary file, which may contain a key
        os.unlink(name)
        raise
