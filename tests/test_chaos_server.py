"""The chaos server itself: what it plays, what it records, how anyone gets at it."""

import asyncio
import json
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import HELLO, MODEL, NO_RETRY, client_of, collect, types
from hostile import openssl_certificate

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_core.framing import NDJSONDecoder, SSEDecoder
from swink_recorder.recording import Recording
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
    standard_faults,
)

GOOD = Answer.of_body(b"".join(HELLO), SSEDecoder)


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


def test_binary_framings_are_spared_the_faults_that_need_frames_to_be_written() -> None:
    assert "broken-frame" not in standard_faults(Answer(b"\x00\x01"))
    assert "meta-only" in standard_faults(SSE)
    assert "meta-only" not in standard_faults(LINES)


# -- what is recorded -----------------------------------------------------------------------------


async def test_faults_are_played_one_to_a_request_and_the_last_for_ever() -> None:
    async with ChaosServer() as chaos, client_of() as client:
        url = chaos.add("flaky", GOOD, Cut(), Cut(0), Fault())
        ends = []
        for _ in range(4):
            async with client.stream(MODEL, "Hi", base_url=url) as stream:
                ends.append(types(await collect(stream))[-1])
        assert ends == ["error", "error", "done", "done"]
        assert len(chaos.exchanges_of("flaky")) == 4
        assert chaos.exchanges_of("other") == []


async def test_an_exchange_tells_what_was_asked_and_sent_and_when_the_client_left() -> None:
    async with ChaosServer() as chaos, client_of() as client:
        url = chaos.add("case", GOOD, Stall(0))
        async with client.stream(MODEL, "Hi", base_url=url, api_key="k-e-y") as stream:
            reading = asyncio.ensure_future(collect(stream))
            exchange = await chaos.asked("case")
            assert exchange.headers["authorization"] == "Bearer k-e-y"
            assert exchange.json["messages"] == [{"role": "user", "content": "Hi"}]
            assert not await chaos.left(exchange, within=0.01)
            await stream.aclose()
            await reading
            assert await chaos.left(exchange)
        assert exchange.sent > 0
        assert exchange.disconnected_at is not None
        assert exchange.disconnected_at >= exchange.received_at


async def test_what_nobody_has_added_is_not_found() -> None:
    async with ChaosServer() as chaos, client_of() as client:
        async with client.stream(MODEL, "Hi", base_url=f"{chaos.url}/nothing") as stream:
            events = await collect(stream)
        assert events[-1].error_kind is Kind.MODEL_NOT_FOUND


@pytest.mark.parametrize(("key", "faults"), [("", [Fault()]), ("a/b", [Fault()]), ("a", [])])
async def test_a_key_without_a_slash_and_a_fault_are_wanted(key: str, faults: list[Fault]) -> None:
    async with ChaosServer() as chaos:
        with pytest.raises(ValueError, match="wants a key"):
            chaos.add(key, GOOD, *faults)


# -- how anyone gets at it ------------------------------------------------------------------------


async def test_as_a_fixture_it_serves_coroutine_tests(chaos: ChaosServer) -> None:
    url = chaos.add("case", GOOD, Cut(40), Fault())
    async with client_of(retry=swink.RetryPolicy(base=0.0)) as client:
        message = await client.complete(MODEL, "Hi", base_url=url)
    assert message.text == "Hello"
    assert [await chaos.left(exchange) for exchange in chaos.exchanges] == [True, True]


def test_as_a_fixture_it_serves_plain_tests(chaos: ChaosServer) -> None:
    url = chaos.add("case", GOOD, Instead(503))

    async def ask() -> Any:
        async with client_of() as client, client.stream(MODEL, "Hi", base_url=url) as stream:
            return (await collect(stream))[-1]

    assert asyncio.run(ask()).error_kind is Kind.OVERLOADED


def test_in_a_process_of_its_own_it_serves_every_standard_fault(tmp_path: Path) -> None:
    recording = Recording(
        "toy", "large", GOOD.body, [(0.0, len(GOOD.body))],
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
            async with client_of() as client, client.stream(MODEL, "Hi", base_url=url) as stream:
                return types(await collect(stream))[-1]

        assert asyncio.run(ask(urls[names.index("good")])) == "done"
        assert asyncio.run(ask(urls[names.index("status-500")])) == "error"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()


# -- TLS ------------------------------------------------------------------------------------------


async def test_a_certificate_that_nobody_vouches_for_is_refused_once(tmp_path: Path) -> None:
    key, certificate = openssl_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    policy = swink.RetryPolicy(base=0.0)
    async with ChaosServer(tls) as chaos, client_of(retry=policy) as client:
        url = chaos.add("case", GOOD, Fault())
        assert url.startswith("https://")
        with pytest.raises(swink.NetworkError) as caught:
            await client.complete(MODEL, "Hi", base_url=url)
        assert chaos.exchanges == []
    assert caught.value.rule == "core:tls"
    assert caught.value.attempts == 1
    assert caught.value.title == "No secure connection to Toy"


# -- a consumer that is slower than the network ---------------------------------------------------


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_slow_reader_loses_nothing_when_the_connection_breaks(reset: bool) -> None:
    async with ChaosServer() as chaos, client_of(retry=NO_RETRY) as client:
        url = chaos.add("case", GOOD, _FrameByFrame(reset))
        async with client.stream(MODEL, "Hi", base_url=url) as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    [exchange] = chaos.exchanges
                    await chaos.left(exchange, within=2.0)  # everything has come, and broken off
                    await asyncio.sleep(0.01)
        assert stream.message.text == "Hello"
        assert stream.message.stop_reason == "stop"


class _FrameByFrame(Fault):
    """Sends each frame in a write of its own, and then breaks the connection."""

    def __init__(self, reset: bool) -> None:
        object.__setattr__(self, "_reset", reset)

    async def play(self, answer: Answer, exchange: Any) -> None:
        await exchange.start(200, {"Content-Type": answer.content_type})
        for frame in answer.frames:
            await exchange.write(frame)
            await asyncio.sleep(0.01)
        exchange.reset() if self._reset else exchange.close()  # type: ignore[attr-defined]  # set above


# -- running out of descriptors -------------------------------------------------------------------


EXHAUSTION = """
import asyncio, json, os, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
from fakes import HELLO, MODEL, Observer, client_of
from swink_core import RetryPolicy, StreamError
from swink_core.framing import SSEDecoder
from swink_testing.chaos import Answer, ChaosServer, Fault

async def settled():
    # both ends of a closed connection give their descriptors back a little later
    same, before = 0, -1
    while same < 20:
        now = len(os.listdir("/proc/self/fd"))
        same, before = (same + 1, now) if now == before else (0, now)
        await asyncio.sleep(0.005)

async def main(has_idle):
    answer = Answer.of_body(b"".join(HELLO), SSEDecoder)
    observer = Observer()
    with ChaosServer() as other, ChaosServer() as chaos:
        url = chaos.add("case", answer, Fault())
        async with client_of(observer, retry=RetryPolicy(base=0.001)) as client:
            await client.complete(MODEL, "Hi", base_url=other.add("idle", answer, Fault()))
            if not has_idle:
                client._http.close_idle()
                await settled()
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
            held = []
            try:
                while True:
                    held.append(os.dup(0))
            except OSError:
                pass
            observer.events = []
            try:
                await client.complete(MODEL, "Hi", base_url=url)
                outcome = {}
            except StreamError as error:
                outcome = {"rule": error.rule, "title": error.title, "advice": error.resolution}
            for each in held:
                os.close(each)
            retries = [event.error_kind for event in observer.events if event.type == "retry"]
            print(json.dumps({**outcome, "retries": retries}))

asyncio.run(main(sys.argv[2] == "idle"))
"""


def without_descriptors(has: str) -> dict[str, Any]:
    paths = json.dumps([path for path in sys.path if path])
    command = [sys.executable, "-W", "ignore", "-c", EXHAUSTION, paths, has]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    outcome: dict[str, Any] = json.loads(found.stdout)
    return outcome


def test_without_descriptors_idle_connections_are_closed_and_the_call_is_made_again() -> None:
    assert without_descriptors("idle") == {"retries": ["resource"]}


def test_without_descriptors_and_nothing_to_close_the_advice_says_what_to_raise() -> None:
    outcome = without_descriptors("nothing")
    assert outcome["retries"] == ["resource", "resource"]
    assert outcome["rule"] == "core:no_descriptors"
    assert outcome["title"] == "Too many open files"
    assert "ulimit -n" in outcome["advice"]
