"""Images and documents as the Messages API gets them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from swink_core import (
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    FileIdSource,
    FileSource,
    ImageBlock,
    MediaError,
    Model,
    ProviderFailure,
    StreamErrorKind,
    StreamOptions,
    UrlSource,
    UserMessage,
)
from swink_provider_anthropic import AnthropicProvider

PROVIDER = AnthropicProvider("anthropic")
PNG = base64.b64encode(b"\x89PNG").decode()
PDF = base64.b64encode(b"%PDF").decode()
HOUR = {"type": "ephemeral", "ttl": "1h"}
MARKDOWN = base64.b64encode("# Café".encode()).decode()


def _converted(block: Block) -> dict[str, Any]:
    context = Context([UserMessage([block])])
    native = PROVIDER.convert(Model("anthropic", "any"), context, StreamOptions())
    [[converted]] = [turn["content"] for turn in native["messages"]]
    assert isinstance(converted, dict)
    return converted


MEDIA: list[tuple[str, Block, dict[str, Any]]] = [
    (
        "an image as data",
        ImageBlock(Base64Source("image/png", PNG)),
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
        },
    ),
    (
        "an image with an alternative media type",
        ImageBlock(Base64Source("IMAGE/JPG; q=1", PNG)),
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG},
        },
    ),
    (
        "an image to be kept in the cache",
        ImageBlock(UrlSource("https://example.com/a"), {"cache_control": HOUR}),
        {
            "type": "image",
            "source": {"type": "url", "url": "https://example.com/a"},
            "cache_control": HOUR,
        },
    ),
    (
        "an image's address",
        ImageBlock(UrlSource("https://example.com/a.png")),
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    ),
    (
        "an uploaded image",
        ImageBlock(FileIdSource("anthropic", "file_1")),
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    ),
    (
        "an uploaded document",
        DocumentBlock(FileIdSource("anthropic", "file_1"), "a.pdf"),
        {
            "type": "document",
            "source": {"type": "file", "file_id": "file_1"},
            "title": "a.pdf",
        },
    ),
    (
        "a document with a name",
        DocumentBlock(Base64Source("application/pdf", PDF), "a.pdf"),
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            "title": "a.pdf",
        },
    ),
    (
        "a document's address, to be cited",
        DocumentBlock(
            UrlSource("https://example.com/a.pdf"),
            metadata={
                "citations": {"enabled": True},
                "context": "Old.",
                "else": 1,
                "cache_control": HOUR,
            },
        ),
        {
            "type": "document",
            "source": {"type": "url", "url": "https://example.com/a.pdf"},
            "citations": {"enabled": True},
            "context": "Old.",
            "cache_control": HOUR,
        },
    ),
    (
        "a document of text",
        DocumentBlock(Base64Source("text/markdown", MARKDOWN)),
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "# Café"},
        },
    ),
]


@pytest.mark.parametrize(
    ("name", "block", "expected"), MEDIA, ids=[name.replace(" ", "-") for name, *_ in MEDIA]
)
def test_media(name: str, block: Block, expected: dict[str, Any]) -> None:
    assert _converted(block) == expected


DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

REFUSED: list[tuple[Block, str]] = [
    (ImageBlock(Base64Source("image/tiff", PNG)), "images may be image/gif, .*, not image/tiff"),
    (ImageBlock(UrlSource("https://example.com/a.svg")), "not image/svg"),
    (DocumentBlock(Base64Source(DOCX, PDF)), "application/pdf, text/plain, not application/vnd"),
    (DocumentBlock(Base64Source("video/mp4", PDF)), "not video/mp4"),
    (DocumentBlock(UrlSource("https://example.com/a", "text/plain")), "application/pdf, not text/"),
]


@pytest.mark.parametrize(("block", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_media_that_the_api_refuses_are_refused_in_words(block: Block, words: str) -> None:
    with pytest.raises(ProviderFailure, match=words) as caught:
        _converted(block)
    assert caught.value.failure.kind is StreamErrorKind.UNSUPPORTED


def test_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG")
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    assert _converted(ImageBlock(FileSource(str(file)))) == {"type": "image", "source": source}


def test_a_file_that_is_gone_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"gone\.png"):
        _converted(ImageBlock(FileSource(str(tmp_path / "gone.png"))))
