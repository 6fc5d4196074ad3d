"""Data URLs of clients are decoded in pieces."""

from __future__ import annotations

from base64 import b64decode, b64encode
from urllib.parse import unquote_to_bytes

import pytest

from swink_core import Base64Source
from swink_gateway.protocols import BadRequest, media
from swink_gateway.protocols.media import source_of


def test_an_escape_at_the_end_of_a_piece_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "PIECE", 4)
    for data in ("%41%42%43", "a%41%4", "abc%%41é", "%e6%9d%b1%", "abcd%4", "%%%%%%%%41"):
        source = source_of(f"data:,{data}", "url")
        assert isinstance(source, Base64Source)
        assert b64decode(source.data) == unquote_to_bytes(data), data


def test_the_word_base64_may_have_capitals() -> None:
    data = b64encode(b"a b").decode()
    assert source_of(f"DATA:TEXT/PLAIN;BASE64,{data}", "url") == Base64Source("TEXT/PLAIN", data)


@pytest.mark.parametrize(
    ("url", "media_type"),
    [
        (
            "data:text/csv;header=present;Charset=windows-1252;base64,6Q==",
            "text/csv;Charset=windows-1252",
        ),
        ("data:text/csv;charset=windows-1252,%E9", "text/csv;charset=windows-1252"),
        ("data:;charset=latin1,%E9", "text/plain;charset=latin1"),
        ("data:image/png;charset=latin1;base64,6Q==", "image/png"),
    ],
)
def test_a_text_keeps_its_charset(url: str, media_type: str) -> None:
    assert source_of(url, "url") == Base64Source(media_type, "6Q==")


def test_an_incomplete_character_is_refused() -> None:
    with pytest.raises(BadRequest, match="an incomplete character"):
        source_of("data:,\ud800", "url")
