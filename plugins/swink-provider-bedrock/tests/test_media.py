"""Images, documents and sound as Converse gets them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from converse_model import misfits

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    FileSource,
    ImageBlock,
    MediaError,
    Message,
    Model,
    ProviderFailure,
    StreamErrorKind,
    StreamOptions,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_provider_bedrock import BedrockProvider

PROVIDER = BedrockProvider("bedrock")
DATA = base64.b64encode(b"\x89PNG").decode()
BYTES = {"bytes": DATA}
IN_S3 = {"s3Location": {"uri": "s3://shelf/a.png"}}


def _turns(*messages: Message) -> list[dict[str, Any]]:
    native = PROVIDER.convert(Model("bedrock", "any"), Context(list(messages)), StreamOptions())
    assert misfits(native) == []
    turns: list[dict[str, Any]] = native["messages"]
    return turns


def _said(*blocks: Block) -> list[dict[str, Any]]:
    [turn] = _turns(UserMessage([*blocks, TextBlock("See?")]))
    content: list[dict[str, Any]] = turn["content"]
    assert content.pop() == {"text": "See?"}
    return content


MEDIA: list[tuple[str, Block, dict[str, Any]]] = [
    (
        "an image",
        ImageBlock(Base64Source("image/png", DATA)),
        {"image": {"format": "png", "source": BYTES}},
    ),
    (
        "an image in capitals, with parameters",
        ImageBlock(Base64Source("IMAGE/JPG; q=1", DATA)),
        {"image": {"format": "jpeg", "source": BYTES}},
    ),
    (
        "an image in S3",
        ImageBlock(UrlSource("s3://shelf/a.png")),
        {"image": {"format": "png", "source": IN_S3}},
    ),
    (
        "a document",
        DocumentBlock(Base64Source("application/pdf", DATA), "a.pdf"),
        {"document": {"format": "pdf", "name": "a", "source": BYTES}},
    ),
    (
        "a document of no special text",
        DocumentBlock(Base64Source("text/x-python", DATA), "a.py"),
        {"document": {"format": "txt", "name": "a", "source": BYTES}},
    ),
    (
        "a document to be cited",
        DocumentBlock(
            Base64Source("text/markdown", DATA),
            "a",
            {"citations": {"enabled": True}, "context": "Old.", "elsewhere": 1},
        ),
        {
            "document": {
                "format": "md",
                "name": "a",
                "source": BYTES,
                "citations": {"enabled": True},
                "context": "Old.",
            }
        },
    ),
    (
        "a film",
        DocumentBlock(Base64Source("video/mp4", DATA), "a.mp4"),
        {"video": {"format": "mp4", "source": BYTES}},
    ),
    (
        "a film in S3",
        DocumentBlock(UrlSource("s3://shelf/a.png", "video/quicktime")),
        {"video": {"format": "mov", "source": IN_S3}},
    ),
    (
        "sound",
        AudioBlock(Base64Source("audio/mpeg", DATA)),
        {"audio": {"format": "mp3", "source": BYTES}},
    ),
]


@pytest.mark.parametrize(("name", "block", "expected"), MEDIA, ids=[row[0] for row in MEDIA])
def test_media(name: str, block: Block, expected: dict[str, Any]) -> None:
    assert _said(block) == [expected]


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "Tides, 2026.csv"
    path.write_bytes(b"\x89PNG")
    expected = {"format": "csv", "name": "Tides 2026", "source": BYTES}
    assert _said(DocumentBlock(FileSource(str(path)))) == [{"document": expected}]


def test_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MediaError):
        _said(ImageBlock(FileSource("/nowhere/a.png")))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (ImageBlock(Base64Source("image/tiff", DATA)), "gif, jpeg, png, webp, not image/tiff"),
        (ImageBlock(UrlSource("https://example.com/a.png")), "not from other addresses"),
        (DocumentBlock(Base64Source("application/zip", DATA)), "not application/zip"),
        (DocumentBlock(UrlSource("https://example.com/a")), "not unknown"),
        (AudioBlock(Base64Source("audio/midi", DATA)), "not audio/midi"),
        (DocumentBlock(Base64Source("video/ogg", DATA)), "three_gp, webm, wmv, not video/ogg"),
    ],
)
def test_what_the_api_does_not_take_is_refused(block: Block, words: str) -> None:
    with pytest.raises(ProviderFailure, match=words) as caught:
        _said(block)
    assert caught.value.failure.kind is StreamErrorKind.UNSUPPORTED


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (ImageBlock(UrlSource("s3://shelf/a.png")), "images only as data"),
        (DocumentBlock(Base64Source("video/mp4", DATA)), "does not accept video"),
    ],
)
def test_what_claude_does_not_take_there_is_refused(block: Block, words: str) -> None:
    claude = Model("bedrock", "us.anthropic.claude-sonnet-4-6")
    with pytest.raises(ProviderFailure, match=words) as caught:
        PROVIDER.convert(claude, Context([UserMessage([block])]), StreamOptions())
    assert caught.value.failure.kind is StreamErrorKind.UNSUPPORTED


def _pdf(name: str | None) -> DocumentBlock:
    return DocumentBlock(Base64Source("application/pdf", DATA), name)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["report.pdf"], ["report"]),
        (["report v1.2"], ["report v1"]),
        (["a_b.c, d!  e.tar.gz"], ["a b c d e tar"]),
        (["[draft] (2)-x"], ["[draft] (2)-x"]),
        ([None], ["document"]),
        (["отчёт.pdf", ".pdf", None], ["document", "document 2", "document 3"]),
        (["a.pdf", "A.docx", "a"], ["a", "A 2", "a 3"]),
        (["x" * 300, "x" * 300], ["x" * 190, "x" * 190 + " 2"]),
    ],
)
def test_names_of_documents_are_made_to_fit(given: list[str | None], expected: list[str]) -> None:
    content = _said(*map(_pdf, given))
    assert [part["document"]["name"] for part in content] == expected


def test_no_two_documents_of_a_conversation_have_one_name() -> None:
    turns = _turns(
        UserMessage([_pdf("a"), TextBlock("See?")]),
        AssistantMessage([ToolCallBlock("t1", "look")]),
        ToolResultMessage("t1", "look", [_pdf("a"), TextBlock("found")]),
        UserMessage([_pdf("a"), TextBlock("And this?")]),
    )
    last = turns[-1]["content"]
    assert last[0]["toolResult"]["content"][0]["document"]["name"] == "a 2"
    assert last[1]["document"]["name"] == "a 3"


def test_a_document_alone_is_sent_with_words() -> None:
    [turn] = _turns(UserMessage([_pdf("Tides.pdf")]))
    assert turn["content"][1:] == [{"text": "Tides"}]
