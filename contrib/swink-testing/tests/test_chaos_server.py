"""The chaos server itself: what it plays, what it records, how anyone gets at it."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_core.providers import FrameError, NDJSONDecoder, SSEDecoder
from swink_recorder.recording import Recording
from swink_testing.acme import acme_host
from swink_testing.calls import client_with
from swink_testing.chaos import (
    Answer,
    Broken,
    ChaosServer,
    Cut,
    Encore,
    Fault,
    Insert,
    Instead,
    Says,
    Stall,
    main,
    standard_faults,
)
from swink_testing.chaos_answers import framing_of

MODEL = "acme/large"
GOOD = Answer.of_body(b'data: {"text": "Hello"}\n\ndata: {"stop": "stop"}\n\n', SSEDecoder)


def acme(**options: Any) -> swink.Client:
    options = {"api_key": "test-key", "retry": swink.RetryPolicy.none(), **options}
    return client_with(host=acme_host(), **options)


async def last_of(stream: swink.EventStream) -> Any:
    return [event async for event in stream][-1]


# -- what is said ---------------------------------------------------------------------------------


SSE = Answer.of_body(b"data: 1\n\ndata: 2\n\n", SSEDecoder)
LINES = Answer.of_body(b"1\n2\n", NDJSONDecoder, "application/x-ndjson")


@pytest.mark.parametrize(
    ("answer", "fault", "said"),
    [
        (SSE, Fault(), b"data: 1\n\ndata: 2\n\n"),
        (SSE, Insert(b": hi\n\n", (0, 2)), b": hi\n\ndata: 1\n\ndata: 2\n\n: hi\n\n"),
        (SSE, Insert(b"x", (1, 1)), b"data: 1\n\nxxdata: 2\n\n"),
        (SSE, Insert(b"x", (9,)), b"data: 1\n\ndata: 2\n\nx"),
        (SSE, Broken((1,)), b'data: 1\n\ndata: {"broken\n\ndata: 2\n\n'),
        (LINES, Broken((0, 2)), b'{"broken\n1\n2\n{"broken\n'),
        (SSE, Says({"e": 1}, 1), b'data: 1\n\ndata: {"e":1}\n\n'),
        (SSE, Says({"e": 1}, 0, event="error"), b'event: error\ndata: {"e":1}\n\n'),
        (SSE, Says({"e": 1}, 1, goes_on=True), b'data: 1\n\ndata: {"e":1}\n\ndata: 2\n\n'),
        (LINES, Says(b"raw\n", 2), b"1\n2\nraw\n"),
        (SSE, Encore(), b"data: 1\n\ndata: 2\n\ndata: 2\n\n"),
        (SSE, Encore(0, 1), b"data: 1\n\ndata: 2\n\ndata: 1\n\n"),
        (SSE, Instead(200, b"hm"), b"hm"),
    ],
    ids=lambda value: repr(value) if isinstance(value, Fault) else "",
)
def test_a_fault_says_this_instead(answer: Answer, fault: Fault, said: bytes) -> None:
    spoilt = fault.spoil(answer)
    assert spoilt.body == said
    assert b"".join(spoilt.frames) == (said if spoilt.ends else b"")


def test_frames_of_a_binary_framing_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        Answer(b"\x00").frame(b"{}")


class OwnEvents:
    """A decoder of a provider's own, which is no `SSEDecoder`, but reads events by one."""

    def __init__(self) -> None:
        self._events = SSEDecoder()

    def feed(self, data: bytes) -> list[bytes]:
        return self._events.feed(data)

    def finish(self) -> list[bytes]:
        return self._events.finish()


class Checked(OwnEvents):
    """A decoder that finds checksums wrong."""

    def feed(self, data: bytes) -> list[bytes]:
        raise FrameError("the checksum is wrong")


@pytest.mark.parametrize(
    ("decoder", "framing"),
    [(SSEDecoder, "sse"), (OwnEvents, "sse"), (NDJSONDecoder, "ndjson"), (Checked, None)],
)
def test_how_frames_are_marked_off_is_told_by_what_a_decoder_reads(
    decoder: type[OwnEvents], framing: str | None
) -> None:
    assert framing_of(decoder) == framing


def test_binary_framings_are_spared_the_faults_that_need_frames_to_be_written() -> None:
    assert "broken-frame" not in standard_faults(Answer(b"\x00\x01"))
    assert "meta-only" in standard_faults(SSE)
    assert "meta-only" not in standard_faults(LINES)


# -- what is recorded -----------------------------------------------------------------------------


async def test_faults_are_played_one_to_a_request_and_the_last_for_ever() -> None:
    async with ChaosServer() as chaos, acme() as client:
        url = chaos.add("flaky", GOOD, Cut(), Cut(0), Fault())
        ends = []
        for _ in range(4):
            async with client.stream(MODEL, "Hi", base_url=url) as stream:
                ends.append((await last_of(stream)).type)
        assert ends == ["error", "error", "done", "done"]
        assert len(chaos.exchanges_of("flaky")) == 4
        assert chaos.exchanges_of("other") == []


async def test_an_exchange_tells_what_was_asked_and_sent_and_when_the_client_left() -> None:
    async with ChaosServer() as chaos, acme() as client:
        url = chaos.add("case", GOOD, Stall(0))
        async with client.stream(MODEL, "Hi", base_url=url, api_key="k-e-y") as stream:
            reading = asyncio.ensure_future(last_of(stream))
            exchange = await chaos.asked("case")
            assert exchange.headers["authorization"] == "Bearer k-e-y"
            assert exchange.json == {"model": "large", "messages": 1}
            assert not await chaos.left(exchange)
            await stream.aclose()
            await reading
            assert await chaos.left(exchange)
        assert exchange.sent > 0
        assert exchange.disconnected_at is not None
        assert exchange.disconnected_at >= exchange.received_at


async def test_what_nobody_has_added_is_not_found() -> None:
    async with ChaosServer() as chaos, acme() as client:
        async with client.stream(MODEL, "Hi", base_url=f"{chaos.url}/nothing") as stream:
            end = await last_of(stream)
        assert end.error_kind is Kind.MODEL_NOT_FOUND


@pytest.mark.parametrize(("key", "faults"), [("", [Fault()]), ("a/b", [Fault()]), ("a", [])])
async def test_a_key_without_a_slash_and_a_fault_are_wanted(key: str, faults: list[Fault]) -> None:
    async with ChaosServer() as chaos:
        with pytest.raises(ValueError, match="wants a key"):
            chaos.add(key, GOOD, *faults)


# -- how anyone gets at it ------------------------------------------------------------------------


async def test_as_a_fixture_it_serves_coroutine_tests(chaos: ChaosServer) -> None:
    url = chaos.add("case", GOOD, Cut(40), Fault())
    async with acme(retry=swink.RetryPolicy(base=0.0)) as client:
        message = await client.complete(MODEL, "Hi", base_url=url)
    assert message.text == "Hello"
    assert [await chaos.left(exchange) for exchange in chaos.exchanges] == [True, True]


def test_as_a_fixture_it_serves_plain_tests(chaos: ChaosServer) -> None:
    url = chaos.add("case", GOOD, Instead(503))

    async def ask() -> Any:
        async with acme() as client, client.stream(MODEL, "Hi", base_url=url) as stream:
            return await last_of(stream)

    assert asyncio.run(ask()).error_kind is Kind.OVERLOADED


def test_a_folder_that_holds_no_recording_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["nowhere"])
    assert "nowhere/recording.json: No such file" in capsys.readouterr().err


def test_in_a_process_of_its_own_it_serves_every_standard_fault(tmp_path: Path) -> None:
    recording = Recording(
        "acme", "large", GOOD.body, [(0.0, len(GOOD.body))],
        headers={"Content-Type": "text/event-stream"},
    )  # fmt: skip
    recording.save(tmp_path)
    command = [sys.executable, "-m", "swink_testing.chaos", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        names = list(standard_faults(GOOD))
        urls = [process.stdout.readline().strip() for _ in names]
        assert [url.rsplit("/", 1)[1] for url in urls] == names

        async def ask(url: str) -> str:
            async with acme() as client, client.stream(MODEL, "Hi", base_url=url) as stream:
                return (await last_of(stream)).type

        assert asyncio.run(ask(urls[names.index("good")])) == "done"
        assert asyncio.run(ask(urls[names.index("status-500")])) == "error"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
