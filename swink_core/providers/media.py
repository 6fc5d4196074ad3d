"""Check and read the media of a conversation: images, audio and documents, also in local files.

Only regular files of limited size are read: reading a pipe could block, and a device has no end.
`check_file` does not read the file's content. `read_media` reads files in a thread, because a slow
disk would block the event loop.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import codecs
import os
import re
import stat
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from swink_core.failures.exceptions import InvalidContext, MediaError, ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.vocabulary.messages import (
    Base64Source,
    Context,
    ExtensionBlock,
    FileIdSource,
    FileSource,
    MediaBlock,
    Message,
    Source,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from swink_core.vocabulary.outcome import StreamErrorKind as Kind
from swink_core.vocabulary.structs import replace

MOST_FILE_BYTES = 50 * 1024 * 1024
"""The maximum size of a file in bytes, unless the caller of `read_media` sets another."""

MOST_CALL_BYTES = 100 * 1024 * 1024
"""The maximum size of all files of a call together, in bytes."""


MOST_CHECKED_AT_ONCE = 256 * 1024
"""The maximum number of base64 characters that a call checks on the event loop.

The rest is checked in a thread.
"""


MOST_ENCODED_AT_ONCE = 1024 * 1024
"""The maximum size of a conversation that is converted on the event loop, in characters.

A larger one is converted in a thread.
"""


def size_of(context: Context) -> int:
    """Return the approximate number of characters of a conversation's text and base64 data."""
    size = 0
    for message in context.messages:
        content = message.content
        size += len(content) if type(content) is str else sum(map(_size_of, content))
    return size


def _size_of(block: Any) -> int:
    kind = type(block)
    if kind is TextBlock:
        return len(block.text)
    if kind is ToolCallBlock:
        return len(block.raw_arguments or "")
    if kind is ThinkingBlock:
        return len(block.thinking) + len(block.signature or "")
    if isinstance(block, ExtensionBlock):
        values = block.data.values() if isinstance(block.data, dict) else ()
        return sum(len(value) for value in values if isinstance(value, str))
    return len(getattr(getattr(block, "source", None), "data", ""))


def media_type_of(source: Source) -> str | None:
    """Return a source's media type: as stated, or else by the suffix of the file or URL."""
    if isinstance(source, FileIdSource):
        return None
    if source.media_type or isinstance(source, Base64Source):
        return source.media_type
    import mimetypes

    name = source.path if isinstance(source, FileSource) else urlsplit(source.url).path
    return mimetypes.guess_type(name)[0]


def media_form(source: Source, forms: Mapping[str, str], what: str) -> str:
    """Return an API's name for a source's media type.

    `forms` maps the media types that the API accepts to its names for them; `text/*` stands for all
    other text types. `what` is a plural noun for the error message, such as "images". Raises
    ProviderFailure (`unsupported`) for a media type that the API does not accept.
    """
    kind = (media_type_of(source) or "unknown").partition(";")[0].strip().lower()
    form = forms.get(kind) or forms.get(kind.partition("/")[0] + "/*")
    if form is None:
        names = ", ".join(sorted({*forms.values()}))
        raise unsupported(what, f"{what} must be one of {names}, not {kind}")
    return form


def unsupported(
    code: str, message: str, title: str | None = None, resolution: str | None = None
) -> ProviderFailure:
    """Return the failure for content that an API does not support; `code` names the content.

    `title` and `resolution` replace the core's usual texts (`None`) for such failures.
    """
    failure = Failure("request", kind=Kind.UNSUPPORTED, code=code, message=message)
    failure.title, failure.resolution = title, resolution
    return ProviderFailure(failure)


def media_base64(source: Source) -> Base64Source | None:
    """Read media and return them as base64; return `None` for a URL or an uploaded file.

    Raises MediaError for a file that cannot be read or whose type is unknown.
    """
    if isinstance(source, Base64Source):
        return source
    if not isinstance(source, FileSource):
        return None
    check_file(source)
    return _read(source, MOST_FILE_BYTES)


_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encodings by the byte order mark with which a text begins; the longer marks first."""

_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([\w.:+-]{1,40})", re.ASCII | re.IGNORECASE)

_NO_CHARSETS = frozenset({
    "idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7",
})  # fmt: skip
"""Python's codecs that documents do not use, or that may return invalid text."""


def decoded(source: Base64Source) -> str:
    """Decode the data of a text document.

    A byte order mark determines the encoding and is left out. Otherwise, the parameter `charset` of
    the media type determines it; without this parameter, the text is UTF-8. Raises ValueError if
    the encoding is unknown or the data is invalid in it.
    """
    data = base64.b64decode(source.data)
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return _decoded(data, encoding)
    stated = _CHARSET.search(source.media_type)
    return _decoded(data, stated[1] if stated else "utf-8")


def _decoded(data: bytes, encoding: str) -> str:
    try:
        if codecs.lookup(encoding).name not in _NO_CHARSETS:
            return data.decode(encoding)
    except UnicodeDecodeError as error:
        named = encoding.upper().removesuffix("-SIG")
        raise ValueError(f"is not valid {named} (byte {error.start})") from error
    except LookupError:  # also for a codec that does not decode text
        pass
    raise ValueError(f"has the unknown charset {encoding!r}")


def sources_of(context: Context) -> list[Source]:
    """Return the sources of all media of a conversation."""
    return [
        block.source
        for message in context.messages
        if type(message.content) is not str
        for block in message.content
        if type(block) not in _WITHOUT_MEDIA and isinstance(block, MediaBlock)
    ]


_WITHOUT_MEDIA = frozenset({TextBlock, ThinkingBlock, ToolCallBlock})


def check_base64(source: Base64Source, where: str) -> None:
    """Raise InvalidContext for media that are not valid base64."""
    try:
        binascii.a2b_base64(source.data, strict_mode=True)
    except ValueError as error:
        raise InvalidContext(
            f"{where}: the data of a Base64Source is not valid base64: {error}",
            resolution="Pass base64.b64encode(data).decode(), without a prefix or line breaks.",
        ) from error


def check_file(source: FileSource, most: int = MOST_FILE_BYTES) -> int:
    """Return the size of a file in bytes, without reading the file.

    Raises MediaError if the file cannot be opened, is not a regular file, is empty, exceeds `most`
    bytes, or has an unknown media type.
    """
    try:
        found = os.stat(source.path)
        if not os.access(source.path, os.R_OK):
            raise PermissionError("permission to read it was denied")
    except (OSError, ValueError) as error:  # ValueError: the name contains a NUL
        raise _unreadable(source, error) from error
    _check(source, found, most)
    return found.st_size


async def read_media(
    context: Context, each: int = MOST_FILE_BYTES, in_all: int = MOST_CALL_BYTES
) -> Context:
    """Replace the files of a conversation by their content, read in a thread.

    Base64 data that is too large to be checked on the event loop is checked in a thread, too.
    `each` and `in_all` are limits in bytes for one file and for all together. Raises MediaError for
    a file that cannot be read, and InvalidContext for invalid base64.
    """
    sources = sources_of(context)
    if not sources:
        return context
    files = [source for source in sources if isinstance(source, FileSource)]
    given = sum(len(source.data) for source in sources if isinstance(source, Base64Source))
    if given > MOST_CHECKED_AT_ONCE:
        await asyncio.to_thread(_check_all, context)
    if not files:
        return context
    return with_sources(context, await asyncio.to_thread(_read_all, files, each, in_all))


def with_sources(context: Context, read: Mapping[int, Base64Source]) -> Context:
    """Replace sources of media in a conversation.

    `read` maps the `id()` of a source object to the source that replaces it.
    """

    def whole(message: Message) -> Message:
        if isinstance(message.content, str):
            return message
        content: list[Any] = [*message.content]
        found = [read.get(id(getattr(block, "source", None))) for block in content]
        if not any(found):
            return message
        pairs = zip(content, found, strict=True)
        return replace(message, content=[replace(b, source=d) if d else b for b, d in pairs])

    return replace(context, messages=[*map(whole, context.messages)])


def _check_all(context: Context) -> None:
    for number, message in enumerate(context.messages):
        for source in sources_of(Context([message])):
            if isinstance(source, Base64Source):
                check_base64(source, f"message {number}")


def _read_all(files: list[FileSource], each: int, in_all: int) -> dict[int, Base64Source]:
    read: dict[int, Base64Source] = {}
    for source in files:
        in_all -= check_file(source, min(each, in_all))
        read[id(source)] = _read(source, each)
    return read


def _read(source: FileSource, most: int) -> Base64Source:
    # O_NONBLOCK: a pipe may have replaced the file since it was checked, and must not block.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(source.path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            data = b""
            if stat.S_ISREG(found.st_mode) and found.st_size <= most:
                data = file.read(found.st_size)
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from error
    return Base64Source(_check(source, found, most), base64.b64encode(data).decode())


def _check(source: FileSource, found: os.stat_result, most: int) -> str:
    """Return the media type of a file.

    Raises MediaError if the file is not a regular file, is empty, exceeds `most` bytes, or has an
    unknown media type.
    """
    if not stat.S_ISREG(found.st_mode):
        what = "not a regular file"
        hint = "Pass a file, or its data as Base64Source."
    elif found.st_size == 0:
        what = "the file is empty"
        hint = "Leave it out."
    elif found.st_size > most:
        what = f"{found.st_size:,} bytes, but only {most:,} more can be sent"
        hint = "Make it smaller, or upload it to the provider."
    elif (media_type := media_type_of(source)) is None:
        what = "the file name does not determine the media type"
        hint = "Pass media_type=…, for example image/png."
    else:
        return media_type
    raise MediaError(f"{source.path}: {what}", resolution=hint)


def _unreadable(source: FileSource, error: Exception) -> MediaError:
    why = getattr(error, "strerror", None) or error
    hint = "Check that the file exists and may be read."
    return MediaError(f"{source.path}: {why}", resolution=hint)
