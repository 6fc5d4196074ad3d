"""Bytes that were made to hold a decoder up: none costs more than its length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from swink_core.providers import NDJSONDecoder, SSEDecoder
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, cpu_seconds

# What is repeated up to the size.
PIECES = [
    b"\n", b"\r", b"\r\n", b":", b": x\n", b"data", b"data:", b"data: x\n", b"data: \r", b"\n\n",
    b"event: x\n", b"event: ", b"id: 1\n", b"retry: 1\n", b"retry: 11111", b"x", b"\0", b"{}\n",
    b"\r\r\n\n", b"data: x\n\n", b"data: x\r\n\r\n", b"\xef\xbb\xbf", b" \n",
    b"data: x\n\nevent: y\n",
]  # fmt: skip


@pytest.mark.parametrize("size", [1024, HOSTILE_SIZE], ids=["in_pieces", "in_one"])
@pytest.mark.parametrize("decoder", [SSEDecoder, NDJSONDecoder])
@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_no_bytes_hold_a_decoder_up(piece: bytes, decoder: Callable[[], Any], size: int) -> None:
    def work() -> None:
        reader = decoder()
        for at in range(0, len(data), size):
            reader.feed(data[at : at + size])
        reader.finish()

    data = piece * (HOSTILE_SIZE // len(piece))
    assert cpu_seconds(work, 2 * FREEZE) < 2 * FREEZE  # events of two bytes are many
