"""Downloads of media: from public hosts alone, bounded in bytes, seconds and redirects."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from swink_core import (
    Context,
    ImageBlock,
    ProviderFailure,
    ProviderInfo,
    StreamErrorKind,
    TextBlock,
    UrlSource,
    UserMessage,
)
from swink_core.providers.downloads import downloaded, is_public, with_downloads
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.calls import call_of

NOT_HTTP = "only http:// and https:// addresses are downloaded"
PNG = b"\x89PNG\r\n\x1a\n and so on"
DATA = base64.b64encode(PNG).decode()

PRIVATE = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "::1",
    "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "2002:7f00:1::1", "2002:a00:1::1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2001:db8::1",
    "2001:0:53aa:64c:0:fbff:80ff:fffe", "fec0::1", "4000::1",
    "ff0e::1", "localhost", "",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1",
    "2002:808:808::1", "64:ff9b::808:808",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


class Files(LoopbackServer):
    """Serves an image, redirects and refusals, by the path."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.headers: dict[str, str] = {}

    async def respond(self, exchange: Exchange) -> None:
        self.seen.append(exchange.path)
        self.headers = exchange.headers
        status, headers, body = 200, {"Content-Type": "image/png"}, PNG
        match exchange.path.split("/")[1:]:
            case ["again", count] if int(count) > 0:
                status, headers = 302, {"Location": f"/again/{int(count) - 1}"}
            case ["to", *rest]:
                status, headers = 307, {"Location": base64.urlsafe_b64decode(rest[0]).decode()}
            case ["status", number]:
                status = int(number)
            case ["moved", number]:
                status, headers = int(number), {"Location": "/a"}
            case ["kind", *rest]:
                headers = {"Content-Type": "/".join(rest)}
            case ["named", kind, _]:
                headers = {"Content-Type": kind.replace("-", "/", 1)} if kind else {}
            case ["plain"]:
                headers["Content-Encoding"] = "identity"
            case ["unknown", *_]:
                headers = {"Content-Type": "application/octet-stream"}
            case ["empty"]:
                body = b""
            case ["packed", encoding]:
                head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 1"
                await exchange.raw(f"{head}\r\n\r\na".encode())
                return
            case ["leaves"]:
                exchange.close()
                return
            case ["hangs"]:
                await exchange.disconnected()
                return
        await exchange.start(status, headers)
        await exchange.write(body)
        await exchange.end()


def _of(*urls: str, media_type: str | None = None) -> Context:
    blocks = [ImageBlock(UrlSource(url, media_type)) for url in urls]
    return Context([UserMessage("Hi"), UserMessage([TextBlock("These:"), *blocks])])


async def _downloaded(*urls: str, **options: Any) -> list[Any]:
    given = {"allowed": lambda address: True, **options}
    context = await with_downloads(_of(*urls), lambda block: True, **given)
    blocks: Any = context.messages[1].content
    return [block.source for block in blocks[1:]]


async def _refusal(url: str, **options: Any) -> str:
    with pytest.raises(ProviderFailure) as caught:
        await _downloaded(url, **options)
    failure = caught.value.failure
    assert (failure.phase, failure.kind) == ("request", StreamErrorKind.INVALID_REQUEST)
    assert failure.code == "download"
    assert failure.resolution
    return failure.message or ""


async def test_an_address_becomes_data_and_one_address_is_fetched_once() -> None:
    async with Files() as server:
        found = await _downloaded(f"{server.url}/a", f"{server.url}/a", f"{server.url}/again/5")
    assert [(source.media_type, source.data) for source in found] == [("image/png", DATA)] * 3
    assert len(server.seen) == 1 + 6
    assert not {"cookie", "authorization"} & server.headers.keys()
    assert server.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed(status: int) -> None:
    async with Files() as server:
        (found,) = await _downloaded(f"{server.url}/moved/{status}")
    assert found.data == DATA
    assert server.seen == [f"/moved/{status}", "/a"]


async def test_an_answer_may_say_that_it_is_not_compressed() -> None:
    async with Files() as server:
        (found,) = await _downloaded(f"{server.url}/plain")
    assert found.data == DATA


async def test_the_kind_that_the_caller_states_outranks_the_servers() -> None:
    async with Files() as server:
        url = f"{server.url}/a"
        blocks = [ImageBlock(UrlSource(url, kind)) for kind in ("image/webp", None, "image/webp")]
        context = Context([UserMessage([*blocks])])
        found: Any = await with_downloads(context, lambda _: True, allowed=lambda _: True)
    kinds = [block.source.media_type for block in found.messages[0].content]
    assert kinds == ["image/webp", "image/png", "image/webp"]
    assert server.seen == ["/a", "/a"]


async def test_only_wanted_blocks_are_fetched() -> None:
    context = _of("http://example.invalid/a.png")
    assert await with_downloads(context, lambda block: False) is context


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/kind/image/webp;q=1", "image/webp"),
        ("/unknown?a", None),
        ("/unknown?a.png", None),
        ("/unknown/a.png", "image/png"),
        ("/unknown/a.webp?b#c", "image/webp"),
        ("/kind/binary/octet-stream", None),
        ("/kind/png", None),
        ("/kind/", None),
        ("/kind/IMAGE/PNG", "image/png"),
        ("/named/application-octet-stream/a.png", "image/png"),
        ("/named/binary-octet-stream/a.png", "image/png"),
        ("/named/png/a.png?name=a.webp", "image/png"),
        ("/named//a.png", "image/png"),
        ("/named/image-webp/a.png", "image/webp"),
    ],
)
async def test_the_kind_is_what_the_server_says(path: str, kind: str | None) -> None:
    async with Files() as server:
        if kind is None:
            assert "media type" in await _refusal(f"{server.url}{path}")
        else:
            assert (await _downloaded(f"{server.url}{path}"))[0].media_type == kind


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/again/6", "more than 5 redirects"),
        ("/status/404", "the server answered HTTP 404"),
        ("/status/206", "the server answered HTTP 206"),
        ("/status/302", "the server answered HTTP 302"),  # without a location
        ("/moved/404", "the server answered HTTP 404"),
        ("/moved/300", "the server answered HTTP 300"),
        ("/empty", "the answer is empty"),
        ("/leaves", "the server closed the connection without an answer"),
        ("/packed/gzip", "the server sent it compressed"),
        ("/packed/br", "the server sent it compressed"),
        ("/packed/zstd", "the server sent it compressed"),
        ("/unknown", "the server did not state the media type"),
        ("/to/ZmlsZTovLy9ldGMvcGFzc3dk", NOT_HTTP),  # file:///etc/passwd
    ],
)
async def test_an_answer_that_cannot_be_sent_is_refused(path: str, what: str) -> None:
    async with Files() as server:
        said = await _refusal(f"{server.url}{path}")
    # a redirect that is refused is named itself, all others by the caller's address
    named = said.partition(" ")[0] if what == NOT_HTTP else f"{server.url}{path}"
    assert said == f"{named} was not downloaded: {what}"


async def test_sizes_are_bounded_for_each_and_in_all() -> None:
    async with Files() as server:
        url = f"{server.url}/a"
        assert f"more than {len(PNG) - 1} bytes" in await _refusal(url, each=len(PNG) - 1)
        assert len(await _downloaded(url, each=len(PNG))) == 1
        counted = len(DATA) * 3 // 4  # whole groups of three bytes
        with pytest.raises(ProviderFailure, match="more than"):
            await _downloaded(url, f"{url}b", in_all=counted + len(PNG) - 1)
        assert len(await _downloaded(url, f"{url}b", in_all=counted + len(PNG))) == 2


async def test_the_time_is_bounded() -> None:
    async with Files() as server:
        url = f"{server.url}/hangs"
        said = await _refusal(url, seconds=0.05)
        assert said == f"{url} was not downloaded: the download took longer than 0.05 s"


async def test_the_address_whose_download_takes_too_long_is_named() -> None:
    seconds = 0.1
    async with Files() as server:
        urls = [f"{server.url}/a", f"{server.url}/hangs"]
        while "/hangs" not in server.seen:  # until there is time for the first
            with pytest.raises(ProviderFailure, match="took longer") as caught:
                await _downloaded(*urls, seconds=seconds)
            seconds *= 4
    assert f"{urls[1]} was not downloaded" in str(caught.value.failure.message)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/a", "http://localhost:{port}/a", "http://0.0.0.0:{port}/a",
        "http://2130706433:{port}/a", "http://0x7f000001:{port}/a", "http://127.1:{port}/a",
        "http://[::1]:{port}/a", "http://[::ffff:127.0.0.1]:{port}/a", "http://LOCALHOST:{port}/a",
        "http://１２７.0.0.1:{port}/a", "http://127。0。0。1:{port}/a", "http://ｌocalhost:{port}/a",
        "http://[::ffff:１２７.0.0.1]:{port}/a", "http://[::1%25a%25b]:{port}/a",
    ],
)  # fmt: skip
async def test_this_machine_is_not_connected_to(url: str) -> None:
    async with Files() as server:
        port = server.url.rpartition(":")[2]
        await _refusal(url.format(port=port), allowed=is_public)
    assert server.seen == []


async def test_a_redirect_into_this_machine_is_not_followed() -> None:
    async with Files() as inner, Files() as outer:
        inside = base64.urlsafe_b64encode(f"{inner.url}/secret".encode()).decode()
        calls: list[str] = []

        def allowed(address: str) -> bool:
            calls.append(address)
            return len(calls) == 1  # the first host counts as public

        said = await _refusal(f"{outer.url}/to/{inside}", allowed=allowed)
    assert "not on the public internet" in said
    assert (len(outer.seen), inner.seen) == (1, [])


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://a:b@example.com/a.png", "a user name or password"),
        ("http://a@example.com/a.png", "a user name or password"),
        ("http://:b@example.com/a.png", "a user name or password"),
        ("http://example.com:x/a.png", "not a valid address"),
        ("ftp://example.com/a", "only http:// and https://"),
        ("http:///a", "only http:// and https://"),
        ("https://10.0.0.1/a", "10.0.0.1 is not on the public internet"),
        ("http://[fe80::1%25eth0]/a", "fe80::1%25eth0 is not on the public internet"),
        ("http://[fe80::1%25a%25b]/a", "fe80::1%25a%25b is not on the public internet"),
        ("http://１０.0.0.1/a", "10.0.0.1 is not on the public internet"),
    ],
)
async def test_an_address_of_another_form_is_refused(url: str, what: str) -> None:
    said = await _refusal(url, allowed=lambda address: False)
    assert what in said
    assert "a:b" not in said


async def test_a_host_name_is_resolved_and_each_of_its_addresses_is_checked() -> None:
    checked: list[str] = []

    def allowed(address: str) -> bool:
        checked.append(address)
        return True

    async with Files() as server:
        url = f"http://localhost:{server.url.rpartition(':')[2]}/a"
        found = await _downloaded(url, allowed=allowed)
    assert [source.data for source in found] == [DATA]
    assert "127.0.0.1" in checked


async def test_a_host_name_of_another_address_is_named_in_the_refusal() -> None:
    said = await _refusal("http://localhost:1/a", allowed=lambda address: False)
    what = "localhost is not on the public internet"
    assert said == f"http://localhost:1/a was not downloaded: {what}"


async def test_a_provider_without_a_say_fetches_addresses_itself() -> None:
    class Acme:
        info = ProviderInfo("acme", "Acme")

    context = _of("http://127.0.0.1/a")
    assert await downloaded(context, call_of(Acme(), "large").attempt) is context


@pytest.mark.parametrize("fetches", [True, False])
async def test_a_call_downloads_what_its_api_does_not_fetch(fetches: bool) -> None:
    asked: list[Any] = []

    class Acme:
        info = ProviderInfo("acme", "Acme")

        def takes_address(self, *arguments: Any) -> bool:
            asked.extend(arguments)
            return fetches

    attempt = call_of(Acme(), "large").attempt
    context = _of("http://127.0.0.1/a")
    if fetches:
        assert await downloaded(context, attempt) is context
    else:
        with pytest.raises(ProviderFailure, match="is not on the public internet"):
            await downloaded(context, attempt)
    assert asked == [attempt.model, context.messages[1].content[1], attempt.options]


async def test_a_call_downloads_nothing_for_a_provider_that_does_not_say_what_it_fetches() -> None:
    class Plain:
        info = ProviderInfo("acme", "Acme")

    context = _of("http://127.0.0.1/a")
    assert await downloaded(context, call_of(Plain(), "large").attempt) is context
