"""Convert images, documents, video and audio to the media blocks of Converse.

A media block contains the name of the format and, as its source, either bytes or an S3 URI.

The formats are those of the API: https://docs.aws.amazon.com/bedrock/latest/APIReference/
API_runtime_ImageBlock.html, …_DocumentBlock.html, …_VideoBlock.html and …_AudioBlock.html.
"""

from __future__ import annotations

from typing import Any

from swink_core import (
    AudioBlock,
    Block,
    DocumentBlock,
    ImageBlock,
    UrlSource,
)
from swink_core.providers import Source, media_base64, media_form, media_type_of, unsupported

__all__ = ["DOCUMENT_FIELDS", "media"]

DOCUMENT_FIELDS = ("citations", "context")
"""Metadata fields that are sent with a document."""

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
    "text/*": "txt",
}
VIDEO = {
    "video/3gpp": "three_gp",
    "video/matroska": "mkv",
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
    "video/mpg": "mpg",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/wmv": "wmv",
    "video/x-flv": "flv",
    "video/x-matroska": "mkv",
    "video/x-ms-wmv": "wmv",
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


def media(block: Block, vendor: str = "") -> dict[str, Any] | None:
    """Return a media block in the API's format, without the name of a document.

    Return `None` for a block without media. Raises MediaError if a file cannot be read, and
    ProviderFailure (`unsupported`) for media that the API or the models of `vendor` do not support.
    """
    match block:
        case ImageBlock():
            if vendor == "anthropic" and isinstance(block.source, UrlSource):
                raise unsupported("images", "Claude on Bedrock accepts images only as data")
            return {"image": _of(block.source, IMAGES, "images")}
        case AudioBlock():
            return {"audio": _of(block.source, AUDIO, "audio")}
        case DocumentBlock() if (media_type_of(block.source) or "").startswith("video/"):
            if vendor == "anthropic":
                raise unsupported("video", "Claude on Bedrock does not accept video")
            return {"video": _of(block.source, VIDEO, "video")}
        case DocumentBlock():
            document = _of(block.source, DOCUMENTS, "documents")
            known = block.metadata or {}
            options = {name: known[name] for name in DOCUMENT_FIELDS if name in known}
            return {"document": {**document, **options}}
    return None


def _of(source: Source, forms: dict[str, str], what: str) -> dict[str, Any]:
    form = media_form(source, forms, what)
    if isinstance(source, UrlSource):
        if not source.url.startswith("s3://"):
            raise unsupported(
                what, f"Bedrock accepts {what} as data or from S3, not from other addresses"
            )
        return {"format": form, "source": {"s3Location": {"uri": source.url}}}
    data = media_base64(source)
    assert data is not None  # otherwise it would be a URL
    return {"format": form, "source": {"bytes": data.data}}
