"""Files of a conversation: regular ones, of bounded size, read away from the event loop."""

from __future__ import annotations

import base64
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    CodecError,
    Context,
    DocumentBlock,
    FileIdSource,
    FileSource,
    ImageBlock,
    MediaError,
    ProviderFailure,
    StreamErrorKind,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
    dump,
    load,
)
from swink_core.conversation import check_context
from swink_core.providers import media, media_base64, media_form
from swink_core.providers.media import MOST_FILE_BYTES, check_file, decoded, read_media

PNG = b"\x89PNG"


def _sparse(path: Path, size: int) -> FileSource:
    with path.open("wb") as file:
        file.truncate(size)
    return FileSource(str(path))


def _pipe(path: Path) -> FileSource:
    os.mkfifo(path)
    return FileSource(str(path))


def _closed(path: Path) -> FileSource:
    path.write_bytes(PNG)
    path.chmod(0)
    return FileSource(str(path))


# (name, how it is made at a path, what is said of it)
UNFIT: list[tuple[str, Any, str]] = [
    ("a_pipe", _pipe, "not a regular file"),
    ("a_device", lambda _: FileSource("/dev/zero", "image/png"), "not a regular file"),
    ("a_folder", lambda path: FileSource(str(path.parent), "image/png"), "not a regular file"),
    ("of_the_kernel", lambda _: FileSource("/proc/self/environ", "image/png"), "is empty"),
    ("missing", lambda path: FileSource(str(path)), "No such file"),
    ("empty", lambda path: _sparse(path, 0), "is empty"),
    ("too_large", lambda path: _sparse(path, MOST_FILE_BYTES + 1), "52,428,800 more can be sent"),
    ("a_nul_in_its_name", lambda _: FileSource("\0.png"), "null"),
    (
        "of_unknown_kind",
        lambda path: _sparse(path.with_suffix(".unheard-of"), 1),
        "does not determine the media type",
    ),
]


@pytest.mark.parametrize("read", [check_file, media_base64], ids=["looked_at", "read"])
@pytest.mark.parametrize(
    ("made", "what"), [case[1:] for case in UNFIT], ids=[case[0] for case in UNFIT]
)
def test_a_file_that_is_unfit_is_refused_and_never_waited_for(
    made: Any, what: str, read: Any, tmp_path: Path
) -> None:
    with pytest.raises(MediaError, match=what) as caught:
        read(made(tmp_path / "a.png"))
    assert caught.value.resolution


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="permission to read it"):
        check_file(_closed(tmp_path / "a.png"))


def test_the_file_type_of_the_system_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    with pytest.raises(MediaError, match=r"a\.png: permission to read it was denied"):
        check_file(FileSource(str(tmp_path / "a.png")))


# (name, how another file takes its place, what is said of it)
SWAPPED: list[tuple[str, Any, str]] = [
    ("a_pipe", os.mkfifo, "not a regular file"),
    ("nothing", lambda path: None, "No such file"),
    ("a_larger_one", lambda path: _sparse(path, MOST_FILE_BYTES + 1), "more can be sent"),
    ("an_empty_one", lambda path: path.touch(), "is empty"),
]


@pytest.mark.parametrize(
    ("swap", "what"), [case[1:] for case in SWAPPED], ids=[case[0] for case in SWAPPED]
)
def test_a_file_is_looked_at_again_when_it_is_opened(
    swap: Any, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, check = tmp_path / "a.png", media.check_file
    path.write_bytes(PNG)

    def swapped(source: FileSource) -> int:
        size = check(source)
        path.unlink()
        swap(path)
        return size

    monkeypatch.setattr(media, "check_file", swapped)
    with pytest.raises(MediaError, match=what):
        media_base64(FileSource(str(path)))


FORMS = {"image/png": "png", "text/*": "text"}

# (name, source, the API's word for it)
MEDIA: list[tuple[str, Any, str]] = [
    ("its_own_type", Base64Source("image/png", "eA=="), "png"),
    ("in_capitals_with_a_parameter", Base64Source(" Image/PNG; q=1", "eA=="), "png"),
    ("another_text", Base64Source("text/x-rst", "eA=="), "text"),
    ("a_name", FileSource("a.PNG"), "png"),
    ("an_address", UrlSource("https://a.example/b.png?c=d.txt"), "png"),
    ("a_type_that_is_stated", FileSource("a.bin", "image/png"), "png"),
]


@pytest.mark.parametrize(
    ("source", "form"), [case[1:] for case in MEDIA], ids=[case[0] for case in MEDIA]
)
def test_media_have_the_apis_word_for_their_type(source: Any, form: str) -> None:
    assert media_form(source, FORMS, "documents") == form


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (Base64Source("image/gif", "eA=="), "image/gif"),
        (FileSource("a.unheard-of"), "unknown"),
        (FileIdSource("toy", "file-1"), "unknown"),
    ],
)
def test_media_without_a_word_are_refused_with_those_that_there_are(source: Any, kind: str) -> None:
    with pytest.raises(
        ProviderFailure, match=f"documents must be one of png, text, not {kind}"
    ) as caught:
        media_form(source, FORMS, "documents")
    failure = caught.value.failure
    assert (failure.phase, failure.code) == ("request", "documents")
    assert failure.kind is StreamErrorKind.UNSUPPORTED


def _asks(*sources: Any) -> Context:
    return Context([UserMessage([TextBlock("?"), *(ImageBlock(source) for source in sources)])])


def test_the_check_of_a_call_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", None)
    check_context(_asks(_sparse(tmp_path / "a.png", MOST_FILE_BYTES)))


def test_the_files_of_a_call_are_bounded_in_all(tmp_path: Path) -> None:
    files = [_sparse(tmp_path / f"{number}.png", MOST_FILE_BYTES) for number in range(3)]
    check_context(_asks(*files[:2]))
    with pytest.raises(MediaError, match=r"2\.png: .* 0 more"):
        check_context(_asks(*files))


async def test_files_are_read_in_a_thread_and_take_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = set()
    read = media._read

    def note(*arguments: Any) -> Any:
        readers.add(threading.current_thread())
        return read(*arguments)

    monkeypatch.setattr(media, "_read", note)
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.pdf").write_bytes(b"%PDF")
    image, document = FileSource(str(tmp_path / "a.png")), FileSource(str(tmp_path / "b.pdf"))
    call = ToolCallBlock("c", "look")
    context = Context(
        [
            UserMessage([TextBlock("?"), ImageBlock(image, {"detail": "low"})]),
            AssistantMessage([call]),
            ToolResultMessage("c", "look", [DocumentBlock(document, "B"), ImageBlock(image)]),
            UserMessage("and?"),
        ],
        "be brief",
    )
    before = dump(context)
    whole = await read_media(context)
    png = Base64Source("image/png", base64.b64encode(PNG).decode())
    pdf = Base64Source("application/pdf", base64.b64encode(b"%PDF").decode())
    assert whole == Context(
        [
            UserMessage([TextBlock("?"), ImageBlock(png, {"detail": "low"})]),
            AssistantMessage([call]),
            ToolResultMessage("c", "look", [DocumentBlock(pdf, "B"), ImageBlock(png)]),
            UserMessage("and?"),
        ],
        "be brief",
    )
    assert dump(context) == before
    assert threading.current_thread() not in readers


async def test_a_conversation_without_files_is_returned_as_it_is() -> None:
    context = _asks(Base64Source("image/png", "eA=="))
    assert await read_media(context) is context


async def test_a_file_may_be_as_large_as_the_limits(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    context = _asks(FileSource(str(tmp_path / "a.png")))
    whole = await read_media(context, each=len(PNG), in_all=len(PNG))
    assert whole == _asks(Base64Source("image/png", base64.b64encode(PNG).decode()))


@pytest.mark.parametrize(
    ("limits", "what"), [({"each": 3}, "a.png"), ({"in_all": 7}, "b.png: 4 bytes, but only 3 more")]
)
async def test_the_limits_may_be_set(limits: dict[str, int], what: str, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(PNG)
    context = _asks(FileSource(str(tmp_path / "a.png")), FileSource(str(tmp_path / "b.png")))
    assert len((await read_media(context)).messages) == 1
    with pytest.raises(MediaError, match=what):
        await read_media(context, **limits)


# -- the text of documents -----------------------------------------------------------------------

PRICES = "Café;5 €"

# (name, media type, data)
ENCODED: list[tuple[str, str, bytes]] = [
    ("utf_8", "text/csv", PRICES.encode()),
    ("utf_8_with_a_mark", "text/csv", PRICES.encode("utf-8-sig")),
    ("utf_16_little_endian", "text/csv", b"\xff\xfe" + PRICES.encode("utf-16-le")),
    ("utf_16_big_endian", "text/csv", b"\xfe\xff" + PRICES.encode("utf-16-be")),
    ("utf_32", "text/csv", PRICES.encode("utf-32")),
    ("stated", "text/csv;charset=windows-1252", PRICES.encode("cp1252")),
    (
        "stated_in_quotes",
        'text/csv; header=present; Charset="UTF-16LE"',
        PRICES.encode("utf-16-le"),
    ),
    ("a_mark_before_the_charset", "text/csv;charset=latin1", PRICES.encode("utf-8-sig")),
]


@pytest.mark.parametrize(
    ("media_type", "data"), [case[1:] for case in ENCODED], ids=[case[0] for case in ENCODED]
)
def test_a_document_is_decoded_by_its_mark_or_its_charset(media_type: str, data: bytes) -> None:
    assert decoded(Base64Source(media_type, base64.b64encode(data).decode())) == PRICES


# (name, media type, data, what is said of it)
UNDECODABLE: list[tuple[str, str, bytes, str]] = [
    ("no_charset", "text/csv", PRICES.encode("cp1252"), r"is not valid UTF-8 \(byte 3\)"),
    ("cut", "text/csv", b"\xff\xfea", r"is not valid UTF-16 \(byte 2\)"),
    ("another_charset", "text/csv;charset=ascii", b"\xe9", r"is not valid ASCII \(byte 0\)"),
    ("an_unknown_charset", "text/csv;charset=acme", b"a", "has the unknown charset 'acme'"),
    ("no_text", "text/csv;charset=zlib", b"a", "has the unknown charset 'zlib'"),
    ("no_charset_but_a_codec", "text/csv;charset=punycode", b"a", "unknown charset 'punycode'"),
    ("lone_surrogates", "text/csv;charset=utf7", b"+2AA-", "unknown charset 'utf7'"),
]


@pytest.mark.parametrize(
    ("media_type", "data", "what"),
    [case[1:] for case in UNDECODABLE],
    ids=[case[0] for case in UNDECODABLE],
)
def test_a_document_in_another_encoding_is_refused(media_type: str, data: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        decoded(Base64Source(media_type, base64.b64encode(data).decode()))


# -- data from elsewhere -------------------------------------------------------------------------

FILE = {"type": "file", "path": "/etc/passwd", "media_type": "image/png"}
IMAGE = {"type": "image", "source": FILE}

# (kind, data)
NAMING: list[tuple[Any, Any]] = [
    (FileSource, FILE),
    (ImageBlock, IMAGE),
    (ImageBlock, {"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}}),
    (ImageBlock, {"type": "image", "source": {"type": "url", "url": " FILE:/etc/passwd"}}),
    (UserMessage, {"role": "user", "content": [IMAGE]}),
    (Context, {"messages": [{"role": "user", "content": [IMAGE]}]}),
]


@pytest.mark.parametrize(("kind", "data"), NAMING)
def test_data_names_no_file_of_this_machine_unless_it_may(kind: Any, data: Any) -> None:
    with pytest.raises(CodecError, match="allow_files=True"):
        load(kind, data)
    assert "/etc/passwd" in repr(load(kind, data, allow_files=True))
    with pytest.raises(CodecError, match="allow_files=True"):
        load(kind, data)
