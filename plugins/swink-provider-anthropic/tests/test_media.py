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
    StreamOptions,
    UrlSource,
    UserMessage,
)
from swink_provider_anthropic import AnthropicProvider

PROVIDER = AnthropicProvider("anthropic")
PNG = base64.b64encode(b"\x89PNG").decode()
PDF = base64.b64encode(b"%PDF").decode()
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
            metadata={"citations": {"enabled": True}, "context": "Old.", "else": 1},
        ),
        {
            "type": "document",
            "source": {"type": "url", "url": "https://example.com/a.pdf"},
            "citations": {"enabled": True},
            "context": "Old.",
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


def test_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG")
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    assert _converted(ImageBlock(FileSource(str(file)))) == {"type": "image", "source": source}


def test_a_file_that_is_gone_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"gone\.png"):
        _converted(ImageBlock(FileSource(str(tmp_path / "gone.png"))))
