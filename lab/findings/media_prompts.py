"""Print which ways to write a prompt with media are understood.

    python -m lab.findings.media_prompts

Text beside an image, and a single message, are what people write first.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import swink
from lab.findings.gateways import verdict


def png() -> bytes:
    """Return an image of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    data = zlib.compress(b"\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 0>>endobj\n"
)


def prompts(image: Path, document: Path) -> dict[str, tuple[bool, Callable[[], Any]]]:
    """Return each way to write a prompt: whether it should work, and a function that makes it."""
    return {
        "a message of blocks": (
            True,
            lambda: [
                swink.UserMessage(
                    [swink.TextBlock("?"), swink.image(image), swink.document(document)]
                )
            ],
        ),
        "a message of text and an image": (
            True,
            lambda: [swink.UserMessage(["Look.", swink.image(image)])],
        ),
        "one message": (True, lambda: swink.UserMessage("Hi")),
        "text and an image": (True, lambda: ["Look.", swink.image(image)]),
        "blocks": (True, lambda: [swink.TextBlock("Look."), swink.image(image)]),
        "an image that does not exist": (False, lambda: [swink.image(image.with_name("no.png"))]),
        "a PDF as an image": (False, lambda: [swink.image(document)]),
    }


def main() -> None:
    """Print one line for each way."""
    with tempfile.TemporaryDirectory() as place, swink.SyncClient() as client:
        image = Path(place, "a.png")
        image.write_bytes(png())
        document = Path(place, "a.pdf")
        document.write_bytes(PDF)
        for name, (works, make) in prompts(image, document).items():
            try:
                seen = f"answered {client.complete('echo/echo', make()).text!r}"
                worked = True
            except (swink.SwinkError, TypeError, AttributeError) as error:
                seen = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
                worked = False
            verdict(worked == works, f"{name}: {seen}")


if __name__ == "__main__":
    main()
