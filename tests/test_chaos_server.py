"""Certificates, slow readers and want of descriptors, before a server that breaks connections."""

import asyncio
import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from certificates import openssl_certificate
from fakes import HELLO, MODEL, NO_RETRY, client_of

import swink_core as swink
from swink_core.framing.sse import SSEDecoder
from swink_testing.chaos import Answer, ChaosServer, Fault

GOOD = Answer.of_body(b"".join(HELLO), SSEDecoder)


# -- TLS ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("transport")
async def test_an_untrusted_certificate_is_refused_once(tmp_path: Path) -> None:
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
    assert caught.value.code == "tls"
    assert caught.value.attempts == 1
    assert caught.value.title == "No secure connection to Toy"


# -- a consumer that is slower than the network ---------------------------------------------------


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_slow_reader_loses_nothing_when_the_connection_breaks(reset: bool) -> None:
    async with ChaosServer() as chaos, client_of(retry=NO_RETRY) as client:
        url = chaos.add("case", GOOD, _FrameByFrame(reset))
        async with client.stream(MODEL, "Hi", base_url=url) as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    [exchange] = chaos.exchanges
                    await exchange.disconnected()  # everything has come, and broken off
                    await asyncio.sleep(0.01)
        assert stream.message.text == "Hello"
        assert stream.message.stop_reason == "stop"


class _FrameByFrame(Fault):
    """Sends each frame in a separate write, and then resets the connection."""

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
import asyncio, json, os, pkgutil, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
from fakes import HELLO, MODEL, Observer, client_of
import swink_core.client
from swink_core import RetryPolicy, StreamError
from swink_core.framing.sse import SSEDecoder
from swink_testing.chaos import Answer, ChaosServer, Fault

async def settled():
    # both ends of a closed connection give their descriptors back a little later
    same, before = 0, -1
    while same < 20:
        now = len(os.listdir("/proc/self/fd"))
        same, before = (same + 1, now) if now == before else (0, now)
        await asyncio.sleep(0.005)

async def main(has_idle, transport):
    swink_core.client.AiohttpClient = pkgutil.resolve_name(transport)
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
                outcome = {"code": error.code, "title": error.title, "advice": error.resolution}
            for each in held:
                os.close(each)
            retries = [event.error_kind for event in observer.events if event.type == "retry"]
            print(json.dumps({**outcome, "retries": retries}))

asyncio.run(main(sys.argv[2] == "idle", sys.argv[3]))
"""


def without_descriptors(has: str, transport: type) -> dict[str, Any]:
    paths = json.dumps([path for path in sys.path if path])
    command = [sys.executable, "-W", "ignore", "-c", EXHAUSTION, paths, has]
    command.append(f"{transport.__module__}:{transport.__name__}")
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    outcome: dict[str, Any] = json.loads(found.stdout)
    return outcome


def test_without_descriptors_idle_connections_are_closed_and_the_call_is_made_again(
    transport: type,
) -> None:
    assert without_descriptors("idle", transport) == {"retries": ["resource"]}


def test_without_descriptors_and_nothing_to_close_the_advice_says_what_to_raise(
    transport: type,
) -> None:
    outcome = without_descriptors("nothing", transport)
    assert outcome["retries"] == ["resource", "resource"]
    assert outcome["code"] == "no_descriptors"
    assert outcome["title"] == "Too many open files"
    assert "ulimit -n" in outcome["advice"]
