"""Images, documents and sound as Converse wants them: a format's name and bytes, or a place in S3.

The formats are those of the API: https://docs.aws.amazon.com/bedrock/latest/APIReference/
API_runtime_ImageBlock.html, …_DocumentBlock.html and …_AudioBlock.html.
"""

from __future__ import annotations

from typing import Any

from swink_core import (
    AudioBlock,
    Block,
    DocumentBlock,
    Failure,
    ImageBlock,
    ProviderFailure,
    Source,
    StreamErrorKind,
    UrlSource,
)
from swink_core.providers import media_base64, media_type_of

__all__ = ["media", "unsupported"]

IMAGES = {
    "image/gif": "gif",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/png": "png",
    "image/webp": "webp",
}
DOCUMENTS = {
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
}
AUDIO = {
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/m4a": "m4a",
    "audio/mp3": "mp3",
    "audio/mp4": "mp4",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/pcm": "pcm",
    "audio/wav": "wav",
    "audio/webm": "webm",
    "audio/x-aac": "x-aac",
    "audio/x-flac": "flac",
    "audio/x-m4a": "m4a",
    "audio/x-wav": "wav",
}


def media(block: Block) -> dict[str, Any] | None:
    """Return a block of media in the API's terms, a document without its name.

    `None` for a block that is no media. Raises MediaError for a file that cannot be read, and
    ProviderFailure (`unsupported`) for a format or an address that the API does not take.
    """
    match block:
        case ImageBlock():
            return {"image": _of(block.source, IMAGES, "images")}
        case AudioBlock():
            return {"audio": _of(block.source, AUDIO, "audio")}
        case DocumentBlock():
            document = _of(block.source, DOCUMENTS, "documents")
            known = block.metadata or {}
            options = {name: known[name] for name in ("citations", "context") if name in known}
            return {"document": {**document, **options}}
    return None


def _of(source: Source, formats: dict[str, str], what: str) -> dict[str, Any]:
    media_type = (media_type_of(source) or "").partition(";")[0].strip().lower()
    form = formats.get(media_type)
    if form is None and formats is DOCUMENTS and media_type.startswith("text/"):
        form = "txt"
    if form is None:
        names = ", ".join(sorted(set(formats.values())))
        raise unsupported(what, f"Bedrock takes {what} as {names}, not {media_type or 'unknown'}")
    if isinstance(source, UrlSource):
        if not source.url.startswith("s3://"):
            raise unsupported(
                what, f"Bedrock takes {what} as data or from S3, not by another address"
            )
        return {"format": form, "source": {"s3Location": {"uri": source.url}}}
    data = media_base64(source)
    assert data is not None  # only an address has none
    return {"format": form, "source": {"bytes": data.data}}


def unsupported(code: str, message: str) -> ProviderFailure:
    """Make the failure of a call that the API has no form for."""
    return ProviderFailure(
        Failure("request", kind=StreamErrorKind.UNSUPPORTED, code=code, message=message)
    )
