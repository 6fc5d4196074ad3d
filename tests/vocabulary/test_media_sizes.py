"""The sizes of media, read from headers that are whole, cut short or wrong."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from random import Random

import pytest

from swink_core.vocabulary.media_sizes import audio_seconds, image_size, pdf_pages


def encoded(raw: bytes) -> str:
    return b64encode(raw).decode()


def webp(kind: bytes, data: bytes) -> bytes:
    return b"RIFF\xaa\xaa\xaa\xaaWEBP" + kind + b"\xaa\xaa\xaa\xaa" + data


def segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 66_000, 70_001)
GIF = b"GIF87a" + struct.pack("<HH", 258, 515)
VP8X = webp(b"VP8X", b"\xaa\xaa\xaa\xaa\x01\x02\x03\x04\x05\x06")
VP8L = webp(b"VP8L", b"\x2f" + struct.pack("<I", 1000 | 2000 << 14 | 0xF << 28) + bytes(5))
VP8 = webp(b"VP8 ", b"\xaa\xaa\xaa\x9d\x01\x2a" + struct.pack("<HH", 0x4000 | 640, 0x8000 | 480))
FRAME = b"\x08" + struct.pack(">HH", 300, 400)
APP = segment(0xE0, b"JFIF" + bytes(300))


def jpeg(*segments: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(segments)


# (name, file, width and height)
IMAGES: list[tuple[str, bytes, tuple[int, int] | None]] = [
    ("png", PNG, (66_000, 70_001)),
    ("png_with_data", PNG + b"\xaa" * 40, (66_000, 70_001)),
    ("png_cut_short", PNG[:-1], None),
    ("gif", GIF, (258, 515)),
    ("gif_with_data", GIF + b"\xaa" * 40, (258, 515)),
    ("gif_cut_short", GIF[:-1], None),
    ("gif_without_height", GIF[:8] + bytes(2), None),
    ("gif_without_width", GIF[:6] + bytes(2) + GIF[8:], None),
    ("webp_extended", VP8X, (0x030201 + 1, 0x060504 + 1)),
    ("webp_lossless", VP8L, (1001, 2001)),
    ("webp_lossy", VP8, (640, 480)),
    ("webp_lossy_with_data", VP8 + b"\xaa" * 40, (640, 480)),
    ("webp_lossless_with_data", VP8L + b"\xaa" * 40, (1001, 2001)),
    ("webp_extended_with_data", VP8X + b"\xaa" * 40, (0x030201 + 1, 0x060504 + 1)),
    ("webp_cut_short", VP8[:-1], None),
    ("jpeg", jpeg(APP, segment(0xC0, FRAME)), (400, 300)),
    ("jpeg_with_data", jpeg(segment(0xC0, FRAME + bytes(40))), (400, 300)),
    ("jpeg_progressive", jpeg(APP, APP, segment(0xC2, FRAME)), (400, 300)),
    ("jpeg_of_the_last_kind", jpeg(segment(0xCF, FRAME)), (400, 300)),
    ("jpeg_after_tables", jpeg(segment(0xC4, FRAME), segment(0xC1, FRAME[:3] + b"\0\1")), (1, 300)),
    ("jpeg_after_an_extension", jpeg(segment(0xC8, bytes(5)), segment(0xC0, FRAME)), (400, 300)),
    ("jpeg_after_conditioning", jpeg(segment(0xCC, bytes(5)), segment(0xC0, FRAME)), (400, 300)),
    ("jpeg_after_a_scan", jpeg(segment(0xD0, bytes(5)), segment(0xC0, FRAME)), (400, 300)),
    ("jpeg_cut_short", jpeg(segment(0xC0, FRAME))[:-1], None),
    ("jpeg_without_a_frame", jpeg(APP), None),
    ("jpeg_with_a_gap", jpeg(b"\0", segment(0xC0, FRAME), bytes(9)), None),
    ("another_file", b"BM" + bytes(60), None),
]


@pytest.mark.parametrize(("raw", "size"), [r[1:] for r in IMAGES], ids=[r[0] for r in IMAGES])
def test_an_image_has_the_size_that_its_header_states(
    raw: bytes, size: tuple[int, int] | None
) -> None:
    assert image_size(encoded(raw)) == size


def test_the_size_is_looked_for_in_the_header_alone() -> None:
    def padded(length: int) -> str:
        padding = segment(0xE1, bytes(length))
        return encoded(jpeg(padding, segment(0xC0, FRAME)))

    room = 65_536 // 4 * 3 - 2 - 4 - 9
    assert image_size(padded(room)) == (400, 300)
    assert image_size(padded(room + 1)) is None
    assert image_size(encoded(PNG + bytes(65_536))) == (66_000, 70_001)


def wav(rate: int, length: int, samples: int = 0, block: int = 0, form: int = 0) -> bytes:
    fields = struct.pack("<HHIIH", form, 1, samples, rate, block)
    header = b"RIFF\xaa\xaa\xaa\xaaWAVEfmt " + struct.pack("<I", 16) + fields
    return header[:length] if length < len(header) else header.ljust(length, b"\1")


def after_junk(raw: bytes) -> bytes:
    return raw[:12] + b"JUNK" + struct.pack("<I", 3) + b"fmt\0" + raw[12:]


def ogg(samples: int, length: int, head: bytes = b"OpusHead") -> bytes:
    page = b"OggS\0\0" + struct.pack("<q", samples) + bytes(14)
    return (b"OggS\0\2" + bytes(22) + head).ljust(length - len(page), b"\1") + page


def vorbis(rate: int) -> bytes:
    return b"\x01vorbis" + bytes(5) + struct.pack("<I", rate)


VORBIS = vorbis(16_000)
ID3 = b"ID3\4\0\0" + bytes([0, 0, 1, 2]) + bytes(130)
LARGE_ID3 = b"ID3\4\0\0" + bytes([0, 1, 1, 2]) + bytes(16_384 + 130)

# (name, file, expected seconds, most seconds)
SOUNDS: list[tuple[str, bytes, float, float]] = [
    ("wav", wav(16_000, 48_000), 3.0, 3.0),
    ("wav_of_a_header_alone", wav(32, 32), 33 / 32, 33 / 32),
    ("wav_cut_short", wav(100, 32)[:30], 30 / 8_000, 30 / 750),
    ("wav_without_a_rate", wav(0, 24_000), 3.0, 32.0),
    ("wav_of_pcm", wav(16_000, 48_000, 8_000, 2, 1), 3.0, 3.0),
    ("wav_with_a_rate_above_all", wav(2**31, 1_536_000), 1.0, 1.0),
    ("wav_with_a_rate_above_its_samples", wav(2**31, 48_000, 8_000, 2, 1), 3.0, 3.0),
    ("wav_with_samples_above_its_rate", wav(16_000, 48_000, 2**31, 2, 1), 3.0, 3.0),
    ("wav_of_floats", wav(2**31, 48_000, 8_000, 2, 3), 3.0, 3.0),
    ("wav_of_a_law", wav(2**31, 48_000, 8_000, 2, 6), 3.0, 3.0),
    ("wav_of_mu_law", wav(2**31, 48_000, 8_000, 2, 7), 3.0, 3.0),
    ("wav_of_an_extended_format", wav(2**31, 48_000, 8_000, 2, 0xFFFE), 3.0, 3.0),
    ("wav_of_an_unknown_format", wav(2**31, 24_000, 8_000, 2, 8), 3.0, 32.0),
    ("wav_of_mp3", wav(2**31, 24_000, 8_000, 1, 0x55), 3.0, 32.0),
    ("wav_with_other_chunks_first", after_junk(wav(16_000, 48_000)), 3.00075, 3.00075),
    ("riff_of_another_kind", b"RIFF\0\0\0\0AVI " + wav(16_000, 24_000)[12:], 3.0, 32.0),
    ("wav_of_another_byte_order", b"RIFX" + wav(16_000, 24_000)[4:], 3.0, 32.0),
    ("mp3", b"\xff\xfb".ljust(24_000, b"\1"), 3.0, 6.0),
    ("mp3_after_a_tag", (ID3 + b"\xff\xfa").ljust(24_000, b"\1"), 3.0, 6.0),
    ("mp3_after_a_large_tag", (LARGE_ID3 + b"\xff\xfb").ljust(24_000, b"\1"), 3.0, 6.0),
    ("mp3_of_low_rates", b"\xff\xf3".ljust(24_000, b"\1"), 3.0, 32.0),
    ("opus", ogg(20 * 48_000, 24_000), 20.0, 32.0),
    ("opus_that_lasts_too_long", ogg(2**60, 24_000), 32.0, 32.0),
    ("opus_that_lasts_too_short", ogg(1, 24_000), 3.0, 32.0),
    ("opus_without_a_length", ogg(-1, 24_000), 3.0, 32.0),
    ("opus_of_many_pages", ogg(200 * 48_000, 240_000), 200.0, 320.0),
    ("opus_of_another_size", ogg(20 * 48_000, 24_006), 20.0, 32.008),
    ("opus_of_one_page", ogg(20 * 48_000, 0)[-28:].ljust(24_000, b"\1"), 20.0, 32.0),
    ("vorbis_without_a_rate", ogg(20 * 48_000, 24_000, vorbis(0)), 20.0, 32.0),
    ("vorbis_without_a_length", ogg(-1, 120, vorbis(1)), 0.015, 0.16),
    ("opus_of_a_single_page", ogg(20 * 48_000, 0)[36:].ljust(24_000, b"\1"), 20.0, 32.0),
    ("vorbis_without_a_rate", ogg(20 * 48_000, 24_000, VORBIS[:-4] + bytes(4)), 20.0, 32.0),
    ("vorbis", ogg(20 * 16_000, 24_000, VORBIS), 20.0, 32.0),
    ("without_a_header", bytes(24_000), 3.0, 32.0),
    ("nothing", b"", 0.0, 0.0),
]


@pytest.mark.parametrize(
    ("raw", "seconds", "most"), [r[1:] for r in SOUNDS], ids=[r[0] for r in SOUNDS]
)
def test_sound_lasts_as_long_as_its_rate_says(raw: bytes, seconds: float, most: float) -> None:
    assert audio_seconds(encoded(raw)) == pytest.approx((seconds, most), rel=1e-9)


def compressed(objects: bytes, end: bytes = b"\nendstream") -> bytes:
    return b"<< /Type /ObjStm /N 3 >>\nstream\r\n" + zlib.compress(objects) + end


MANY_STREAMS = b"".join(
    compressed(b"/Type /Page " + Random(number).randbytes(900).hex().encode())
    for number in range(400)
)


def after_gaps(before: int, inside: int) -> bytes:
    """Return 40 pages in a stream, with gaps before the word `stream` and after it."""
    objects = zlib.compress(b"/Type /Page " * 40)
    return b"/ObjStm" + b" " * before + b"stream" + b" " * inside + b"\n" + objects + b"endstream"


def without_its_last_byte() -> bytes:
    """Return pages in a stream whose last byte is missing, but is the first one after it."""
    texts = (b"/Type /Page " * 40 + b"%" * size for size in range(256))
    objects = next(raw for raw in map(zlib.compress, texts) if raw.endswith(b"e"))
    return b"/ObjStm stream\n" + objects[:-1] + b"endstream"


# (name, file, pages)
DOCUMENTS: list[tuple[str, bytes, int]] = [
    ("pages", b"/Type /Page /Type/Page\n/Type\n/Page ", 3),
    ("a_count_outranks_fewer_pages", b"/Type /Page /Count 12", 12),
    ("pages_outrank_a_lower_count", b"/Type /Page /Type /Page /Count 1", 2),
    ("the_highest_count", b"/Count 2 /Count 7 /Count 3", 7),
    ("the_tree_is_no_page", b"/Type /Pages", 1),
    ("a_count_in_a_comment", b"% /Count 1\n".ljust(150_000, b"\1"), 4),
    ("hexadecimal_names", b"/#54ype /P#61ge /Type /Page /C#6funt 3", 3),
    ("comments_inside", b"/Type%a\n/Page /Count%b\r\n 3", 3),
    ("zeros_before_a_count", b"/Type /Page /Count +0000000003", 3),
    ("compressed", bytes(150_000), 4),
    ("compressed_objects", compressed(b"/Type /Page " * 40), 40),
    ("compressed_objects_and_a_comment", b"% /Type /Page\n" + compressed(b"/Count 30"), 30),
    ("two_streams", compressed(b"/Type /Page ") + compressed(b"/Type/Page"), 2),
    ("damaged_objects", b"/Type /Page /Type /ObjStm stream\n".ljust(150_000, b"\1"), 4),
    ("no_compressed_objects", b"/ObjStm stream\nabcendstream".ljust(150_000, b"\1"), 4),
    ("objects_cut_short", (b"/Type /Page " + compressed(b"x" * 99)[:-20]).ljust(99_999), 2),
    ("objects_without_their_last_byte", without_its_last_byte(), 1),
    ("objects_above_the_limit", b"/Type /Page " + compressed(bytes(9_000_000)).ljust(60_000), 2),
    (
        "objects_below_the_limit_together",
        (b"/Type /Page " + compressed(bytes(4_194_303)) + compressed(bytes(4_194_304))).ljust(
            120_000
        ),
        1,
    ),
    (
        "objects_that_reach_the_limit_together",
        (b"/Type /Page " + compressed(bytes(4_194_304)) * 2).ljust(120_000),
        3,
    ),
    (
        "objects_after_those_above_the_limit",
        b"/Type /Page " + compressed(bytes(5_000_000)) * 2 + compressed(b"/Count 99"),
        1,
    ),
    (
        "two_streams_above_the_limit",
        b"/Type /Page " + compressed(bytes(5_000_000)) * 2 + compressed(b"/Count 9").ljust(60_000),
        2,
    ),
    ("many_streams", compressed(b"/Type /Page ") * 3_000, 3_000),
    ("as_many_streams_as_are_read", b"/ObjStm stream\nendstream" * 9_999 + after_gaps(1, 0), 40),
    ("more_streams_than_are_read", b"/ObjStm stream\nendstream" * 10_000 + after_gaps(1, 0), 5),
    ("more_bytes_than_are_read", b"/ObjStm stream\n" * 6_000 + after_gaps(1, 0), 2),
    ("a_stream_after_a_gap", after_gaps(250, 2), 40),
    ("a_stream_after_too_large_a_gap", after_gaps(251, 2), 1),
    ("a_stream_without_a_line_end", after_gaps(1, 3), 1),
    ("a_name_before_the_objects", b"% /ObjStm\n".ljust(500) + compressed(b"/Type /Page " * 40), 40),
    ("two_names_before_the_objects", b"% /ObjStm\n" + compressed(b"/Type /Page " * 40), 40),
    ("many_large_streams", MANY_STREAMS, 400),
    ("many_names_in_a_comment", b"/ObjStm " * 20_000 + compressed(b"/Type /Page "), 4),
    ("scanned_pages", b"/Type /Page ".ljust(150_000, b"\1"), 1),
    ("nothing", b"", 1),
]


@pytest.mark.parametrize(
    ("raw", "pages"), [r[1:] for r in DOCUMENTS], ids=[r[0] for r in DOCUMENTS]
)
def test_pages_of_a_document_are_counted_or_estimated(raw: bytes, pages: int) -> None:
    assert pdf_pages(encoded(raw)) == pages


def test_text_that_is_not_base64_has_no_size() -> None:
    assert image_size("abc!") is None
    assert image_size("\u00fc") is None
    assert audio_seconds("abc") == pytest.approx((3 * 3 / 4 / 8_000, 3 * 3 / 4 / 750))
    assert pdf_pages("a") == 1
