"""Downloads, from a loopback server that stands in for the hub."""

from __future__ import annotations

import hashlib
import logging
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from swink_core import ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_local import Hub, HubFile
from swink_provider_local.hub import default_cache
from swink_recorder.loopback import Exchange, LoopbackServer

CONTENT = bytes(range(256)) * 4096  # a megabyte
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FILE = HubFile("acme/tiny-GGUF", "Tiny Q4.gguf")
PATH = "/acme/tiny-GGUF/resolve/main/Tiny%20Q4.gguf"
HALF = len(CONTENT) // 2
TOKEN = "hf_secret"


class FakeHub(LoopbackServer):
    """Serve one file. `digest` is the reported digest; the first `cuts` responses break off."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = DIGEST
        self.cuts = 0
        self.status = 200
        self.storage: str | None = None  # where the bytes are, if not here
        self.ranges = True
        self.size: str | None = str(len(CONTENT))  # what it says of that
        self.more = b""  # what it sends beyond

    async def respond(self, exchange: Exchange) -> None:
        found = exchange.path == PATH
        if self.status != 200 or not found:
            await exchange.start(self.status if found else 404)
            if exchange.method != "HEAD":
                await exchange.end()
            exchange.close()
            return
        headers = {"X-Linked-Etag": f'"{self.digest}"'}
        if self.size is not None:
            headers["X-Linked-Size"] = self.size
        if self.storage is not None:
            await exchange.start(302, {**headers, "Location": self.storage + PATH})
            if exchange.method != "HEAD":
                await exchange.end()
            exchange.close()
        elif exchange.method == "HEAD":
            await exchange.start(200, headers)
            exchange.close()
        else:
            await self._send(exchange, headers)

    async def _send(self, exchange: Exchange, headers: dict[str, str]) -> None:
        start = 0
        if self.ranges and "range" in exchange.headers:
            start = int(exchange.headers["range"].removeprefix("bytes=").rstrip("-"))
        content = CONTENT[start:]
        await exchange.start(206 if start else 200, headers)
        half = len(content) // 2
        await exchange.write(content[:half])
        if self.cuts:
            self.cuts -= 1
            exchange.close()
            return
        await exchange.write(content[half:])
        await exchange.write(self.more)
        await exchange.end()
        exchange.close()

    def asked(self) -> list[tuple[str, str | None]]:
        return [(e.method, e.headers.get("range")) for e in self.exchanges]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server() -> Iterator[FakeHub]:
    with FakeHub() as server:
        yield server


@pytest.fixture
def hub(server: FakeHub, tmp_path: Path) -> Hub:
    return Hub(tmp_path / "cache", server.url, TOKEN, pause=0.0)


def failure_of(hub: Hub, file: HubFile = FILE) -> ProviderFailure:
    with pytest.raises(ProviderFailure) as caught:
        hub.download(file)
    assert TOKEN not in str(caught.value)
    return caught.value


def files(hub: Hub) -> list[str]:
    folder = hub.path(FILE).parent
    return sorted(p.name for p in folder.iterdir() if p.suffix != ".lock")


def test_a_file_is_downloaded_once(hub: Hub, server: FakeHub) -> None:
    seen: list[tuple[int, int | None]] = []
    path = hub.download(FILE, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert files(hub) == [FILE.name]
    asked = len(server.exchanges)
    assert hub.download(FILE) == path
    assert len(server.exchanges) == asked


def test_a_cut_download_goes_on_where_it_stopped(hub: Hub, server: FakeHub) -> None:
    server.cuts = 1
    assert hub.download(FILE).read_bytes() == CONTENT
    assert server.asked() == [("HEAD", None), ("GET", None), ("GET", f"bytes={HALF}-")]


def test_what_an_earlier_program_left_is_used(hub: Hub, server: FakeHub) -> None:
    path = hub.path(FILE)
    path.parent.mkdir(parents=True)
    path.with_name(f"{path.name}.{DIGEST[:16]}.part").write_bytes(CONTENT[:1000])
    assert hub.download(FILE).read_bytes() == CONTENT
    assert server.asked()[-1] == ("GET", "bytes=1000-")
    assert files(hub) == [FILE.name]


def test_what_was_left_of_other_content_is_not(hub: Hub, server: FakeHub) -> None:
    path = hub.path(FILE)
    path.parent.mkdir(parents=True)
    path.with_name(f"{path.name}.{'0' * 16}.part").write_bytes(b"other")
    assert hub.download(FILE).read_bytes() == CONTENT
    assert server.asked()[-1] == ("GET", None)


def test_a_part_that_is_already_whole_is_only_checked(hub: Hub, server: FakeHub) -> None:
    path = hub.path(FILE)
    path.parent.mkdir(parents=True)
    path.with_name(f"{path.name}.{DIGEST[:16]}.part").write_bytes(CONTENT)
    assert hub.download(FILE).read_bytes() == CONTENT
    assert server.asked() == [("HEAD", None)]


def test_a_server_that_ignores_ranges_sends_the_whole_again(hub: Hub, server: FakeHub) -> None:
    server.cuts, server.ranges = 1, False
    assert hub.download(FILE).read_bytes() == CONTENT


def test_a_download_that_gets_no_further_fails_as_network(hub: Hub, server: FakeHub) -> None:
    server.cuts, server.ranges = 1000, False
    failure = failure_of(hub).failure
    assert (failure.kind, failure.code) == (Kind.NETWORK, "download")
    assert hub.path(FILE).exists() is False
    assert len(server.exchanges) < 20


def test_a_wrong_checksum_is_refused_and_nothing_of_it_stays(hub: Hub, server: FakeHub) -> None:
    server.digest = "0" * 64
    failure = failure_of(hub).failure
    assert (failure.kind, failure.code) == (Kind.PROTOCOL, "checksum")
    assert DIGEST in (failure.message or "")
    assert files(hub) == []


def test_a_hub_without_checksums_is_believed_with_a_warning(
    hub: Hub, server: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    server.digest = ""
    with caplog.at_level(logging.WARNING):
        assert hub.download(FILE).read_bytes() == CONTENT
    assert "not checked" in caplog.text


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (401, Kind.AUTH, "HF_TOKEN"),
        (403, Kind.AUTH, "HF_TOKEN"),
        (404, Kind.MODEL_NOT_FOUND, "Check the repository"),
        (400, Kind.INVALID_REQUEST, "HF_ENDPOINT"),
        (503, Kind.NETWORK, "Try again later"),
    ],
)
def test_what_the_hub_refuses_is_said(
    hub: Hub, server: FakeHub, status: int, kind: Kind, advice: str
) -> None:
    server.status = status
    failure = failure_of(hub).failure
    assert failure.kind is kind
    assert str(FILE) in (failure.message or "")
    assert advice in (failure.resolution or "")
    assert str(status) in (failure.message or "")


def test_a_file_that_does_not_fit_on_the_disk_is_not_begun(server: FakeHub, tmp_path: Path) -> None:
    hub = Hub(tmp_path, server.url, free=lambda folder: len(CONTENT))
    failure = failure_of(hub).failure
    assert (failure.kind, failure.code) == (Kind.RESOURCE, "no_space")
    assert "SWINK_LOCAL_CACHE" in (failure.resolution or "")
    assert server.asked() == [("HEAD", None)]


def test_offline_names_the_file_and_its_place(server: FakeHub, tmp_path: Path) -> None:
    hub = Hub.of(
        {"HF_ENDPOINT": server.url, "SWINK_LOCAL_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    )
    failure = failure_of(hub).failure
    assert (failure.kind, failure.code) == (Kind.MODEL_NOT_FOUND, "offline")
    assert str(FILE) in (failure.message or "")
    assert str(hub.path(FILE)) in (failure.resolution or "")
    assert server.exchanges == []


def test_offline_uses_what_is_there(server: FakeHub, tmp_path: Path) -> None:
    hub = Hub(tmp_path, server.url, offline=True)
    hub.path(FILE).parent.mkdir(parents=True)
    hub.path(FILE).write_bytes(CONTENT)
    assert hub.download(FILE).read_bytes() == CONTENT


def test_the_token_goes_to_the_hub_and_not_to_its_storage(hub: Hub, server: FakeHub) -> None:
    with FakeHub() as storage:
        server.storage = storage.url
        assert hub.download(FILE).read_bytes() == CONTENT
        assert [e.headers.get("authorization") for e in storage.exchanges] == [None]
    assert {e.headers.get("authorization") for e in server.exchanges} == {f"Bearer {TOKEN}"}
    assert TOKEN not in repr(hub)


def test_two_downloads_of_one_file_are_one(hub: Hub, server: FakeHub) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: hub.download(FILE), range(4)))
    assert len(set(paths)) == 1
    assert paths[0].read_bytes() == CONTENT
    assert [method for method, _ in server.asked()].count("GET") == 1


def test_a_download_stops_when_it_is_told_to_and_keeps_what_came(hub: Hub, server: FakeHub) -> None:
    stopped = threading.Event()
    with pytest.raises(ProviderFailure) as caught:
        hub.download(FILE, lambda done, total: stopped.set(), stopped)
    assert caught.value.failure.kind is Kind.CANCELLED
    assert hub.path(FILE).exists() is False
    assert files(hub) == [f"{FILE.name}.{DIGEST[:16]}.part"]
    assert hub.download(FILE).read_bytes() == CONTENT
    assert (server.asked()[-1][1] or "").startswith("bytes=")


NAMES = [
    ("acme/tiny-GGUF:tiny.gguf", HubFile("acme/tiny-GGUF", "tiny.gguf")),
    ("acme/tiny:Q4/tiny.gguf", HubFile("acme/tiny", "Q4/tiny.gguf")),
    ("acme/tiny", None),
    ("acme/tiny:tiny.bin", None),
    ("tiny.gguf", None),
    ("/models/tiny.gguf", None),
    ("acme/tiny:../../../tiny.gguf", None),
    ("../..:tiny.gguf", None),
    ("acme/tiny:/etc/tiny.gguf", None),
    ("acme/tiny:..\\..\\tiny.gguf", None),
]


@pytest.mark.parametrize(("text", "expected"), NAMES, ids=[name for name, _ in NAMES])
def test_names(text: str, expected: HubFile | None) -> None:
    assert HubFile.parse(text) == expected


def test_the_environment_says_where_files_are_kept(tmp_path: Path) -> None:
    assert default_cache({"SWINK_LOCAL_CACHE": str(tmp_path)}) == tmp_path
    assert default_cache({}).name == "models"


@pytest.mark.parametrize("name", ["SWINK_LOCAL_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"])
def test_a_cache_in_a_home_that_nobody_has_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32" if name == "LOCALAPPDATA" else "linux")
    with pytest.raises(ProviderFailure, match="~nobody-here: there is no such home") as caught:
        default_cache({name: "~nobody-here"})
    assert "SWINK_LOCAL_CACHE" in str(caught.value.failure.resolution)


@pytest.mark.parametrize("digest", [DIGEST, "not-a-digest"])
def test_more_than_was_declared_is_neither_written_nor_accepted(
    hub: Hub, server: FakeHub, monkeypatch: pytest.MonkeyPatch, digest: str
) -> None:
    server.digest = digest
    server.more = b"x" * 4 * len(CONTENT)
    written: list[int] = []
    with pytest.raises(ProviderFailure) as caught:
        hub.download(FILE, lambda done, total: written.append(done))
    assert (caught.value.failure.kind, caught.value.failure.code) == (Kind.PROTOCOL, "too_long")
    assert max(written, default=0) <= len(CONTENT)
    assert files(hub) == []


@pytest.mark.parametrize("size", ["12abc", "-5", "1e3", "9" * 400])
def test_a_size_that_is_none_is_the_hubs_fault(hub: Hub, server: FakeHub, size: str) -> None:
    server.size = size
    failure = failure_of(hub).failure
    assert (failure.kind, failure.code) == (Kind.PROTOCOL, "size")


def test_a_file_of_unknown_size_ends_where_the_disk_does(hub: Hub, server: FakeHub) -> None:
    server.size = None
    room = iter([10**9])
    hub.free = lambda folder: next(room, 0)
    failure = failure_of(hub).failure
    assert (failure.kind, failure.code) == (Kind.RESOURCE, "no_space")


LINKS = {
    "a folder": lambda path: path.parents[1],
    "the file's folder": lambda path: path.parent,
    "the file": lambda path: path,
    "the part": lambda path: path.with_name(f"{path.name}.{DIGEST[:16]}.part"),
    "the lock": lambda path: path.with_name(f"{path.name}.lock"),
}


@pytest.mark.parametrize("which", LINKS)
def test_nothing_is_written_where_a_link_leads_out_of_the_folder(
    hub: Hub, tmp_path: Path, which: str
) -> None:
    link = LINKS[which](hub.path(FILE))
    outside = tmp_path / "outside"
    if which in ("the file", "the part", "the lock"):
        outside.write_bytes(b"")
    else:
        outside.mkdir()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    assert failure_of(hub).failure.code == "link"
    assert list(tmp_path.glob("outside/*")) == []
    assert outside.is_dir() or outside.read_bytes() == b""


def test_a_link_within_the_folder_is_followed(hub: Hub) -> None:
    (hub.cache / "elsewhere").mkdir(parents=True)
    (hub.cache / "acme").symlink_to(hub.cache / "elsewhere")
    assert hub.download(FILE).read_bytes() == CONTENT
