"""The access log has a line for each request with key, model, usage and outcome."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import aiohttp
import pytest
from serving import Scripted, ask, serving, until

import swink_core as swink
from swink_core import Cost, Done, Error, Start, StopReason, TextDelta, TextEnd, TextStart, Usage
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import MemoryLedger
from swink_gateway.serving.access_log import ACCESS_LOGGER, AccessLog
from swink_gateway.serving.metrics import Monitor
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

CONFIG = Source("t", '[keys.alice]\nkey = "${A}"').config({"A": "key-of-alice"})
ALICE = {"Authorization": "Bearer key-of-alice"}
WORDS = [Start(), TextStart(0), TextDelta(0, "A secret answer"), TextEnd(0)]
ANSWER = [*WORDS, Done(StopReason.STOP, Usage(12, 5), Cost(total=0.25))]
BUSY = [Start(), Error(error_message="busy", error_kind=swink.StreamErrorKind.OVERLOADED)]
ASKED: dict[str, Any] = {
    "model": "echo/echo",
    "messages": [{"role": "user", "content": "A secret question"}],
}
PATH = "/v1/chat/completions"


async def lines(
    caplog: pytest.LogCaptureFixture, events: list[Any], format: str = "json", **more: Any
) -> list[str]:
    """Return the lines of one request."""
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with serving(
            Scripted(events), config=CONFIG, access_log=AccessLog(format, lambda: 1.0, lambda: 0.0)
        ) as gateway:
            await ask(
                gateway, PATH, {**ASKED, **more.pop("body", {})}, **{"headers": ALICE, **more}
            )
    return [one.getMessage() for one in caplog.records if one.name == ACCESS_LOGGER]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_line_has_key_model_and_usage(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    [line] = await lines(caplog, ANSWER, body={"stream": stream})
    row = json.loads(line)
    assert row.pop("call")
    assert row == {
        "at": "1970-01-01T00:00:00.000+00:00",
        "key": "alice",
        "method": "POST",
        "path": PATH,
        "status": 200,
        "seconds": 0.0,
        "model": "echo/echo",
        "attempts": 1,
        "input": 12,
        "output": 5,
        "dollars": 0.25,
        "ended": "stop",
    }
    assert "secret" not in line


async def test_a_line_has_no_key_that_the_path_contains(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with serving(Scripted(ANSWER), config=CONFIG, access_log=AccessLog()) as gateway:
            for path in ("/v1/models/key-of-alice", "/key-of-alice/x", "/v1/models/key-of-alice:x"):
                await ask(gateway, path, headers=ALICE)
    text = "".join(one.getMessage() for one in caplog.records)
    assert "path=/v1/models/[key]:x" in text
    assert "key-of-alice" not in text


async def test_a_line_has_the_failure_of_a_call(caplog: pytest.LogCaptureFixture) -> None:
    [line] = await lines(caplog, BUSY)
    row = json.loads(line)
    assert (row["status"], row["ended"]) == (503, "overloaded")


async def test_a_request_without_a_key_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    [line] = await lines(caplog, ANSWER, "text", headers={"Authorization": "Bearer wrong"})
    at = "1970-01-01T00:00:00.000+00:00"
    call, space, rest = line.rpartition(" call=")[::-1]
    assert rest == f"at={at} key=- method=POST path={PATH} status=401 seconds=0.0"
    assert (len(call), space) == (12, " call=")


async def test_a_line_has_the_reason_of_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    [line] = await lines(caplog, ANSWER, body={"model": "nobody/x"})
    row = json.loads(line)
    assert (row["status"], row["ended"]) == (404, "model_not_found")


async def test_a_line_of_another_host_has_its_name(caplog: pytest.LogCaptureFixture) -> None:
    [line] = await lines(caplog, ANSWER, headers={"Host": "vm:8300"})
    row = json.loads(line)
    assert (row["status"], row["ended"]) == (403, "unknown Host 'vm:8300'")


# (the body, further headers, the status)
ANSWERS: list[tuple[Any, dict[str, str], int]] = [
    (ASKED, ALICE, 200),
    ({**ASKED, "stream": True}, ALICE, 200),
    ({**ASKED, "model": "nobody/x"}, ALICE, 404),
    (b"{", ALICE, 400),
    (ASKED, {"Authorization": "Bearer wrong"}, 401),
    (ASKED, {"Host": "evil.example"}, 403),
    (ASKED, {**ALICE, "Content-Encoding": "gzip"}, 415),
]


@pytest.mark.parametrize(("body", "headers", "status"), ANSWERS)
async def test_the_id_of_each_answer_is_in_its_line(
    body: Any, headers: dict[str, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with serving(
            Scripted(ANSWER), config=CONFIG, access_log=AccessLog("json")
        ) as gateway:
            answer = await ask(gateway, PATH, body, headers=headers)
            missing = await ask(gateway, "/nowhere", headers=ALICE)
    rows = [json.loads(one.getMessage()) for one in caplog.records if one.name == ACCESS_LOGGER]
    assert [row["status"] for row in rows] == [status, 404]
    ids = [one.headers["x-swink-call"] for one in (answer, missing)]
    assert [row["call"] for row in rows] == ids
    assert len({*ids}) == 2


async def test_a_line_has_the_request_id_of_the_vendor(caplog: pytest.LogCaptureFixture) -> None:
    refused = MemoryResponse([b"{}"], status=429, headers={"x-request-id": "req_1"})
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with serving(
            http=MemoryHTTPClient(refused),
            providers={"openai": {"api_key": "k"}},
            config=CONFIG,
            access_log=AccessLog("json"),
        ) as gateway:
            answer = await ask(gateway, PATH, {**ASKED, "model": "openai/gpt-4o"}, headers=ALICE)
    [row] = [json.loads(one.getMessage()) for one in caplog.records if one.name == ACCESS_LOGGER]
    assert (answer.status, answer.headers["x-request-id"]) == (429, "req_1")
    assert (row["request_id"], row["call"]) == ("req_1", answer.headers["x-swink-call"])


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
async def test_probes_have_a_line_only_if_they_fail(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = Monitor()
    headers = {"Authorization": "Bearer k1"}
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with serving(keys=["k1"], monitor=monitor, access_log=AccessLog()) as gateway:
            assert (await ask(gateway, path, headers=headers)).status == 200
            assert not caplog.records
            await ask(gateway, path, headers={**headers, "Host": "evil.example"})
    [record] = caplog.records
    assert f"path={path} status=403" in record.getMessage()


async def test_dollars_have_no_rounding_errors(caplog: pytest.LogCaptureFixture) -> None:
    cost = Cost(total=1.2800000000000001e-05)
    [line] = await lines(caplog, [*WORDS, Done(StopReason.STOP, Usage(12, 5), cost)])
    assert json.loads(line)["dollars"] == 1.28e-05


class SlowLedger(MemoryLedger):
    """A ledger that settles a charge when `settling` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.settling = asyncio.Event()

    async def settle(self, *given: Any, **more: Any) -> None:
        await self.settling.wait()
        await super().settle(*given, **more)


async def test_a_client_that_disconnects_after_the_end_has_its_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = json.dumps({**ASKED, "stream": True}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += f"Authorization: {ALICE['Authorization']}\r\n\r\n"
    ledger = SlowLedger()
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with serving(
            Scripted(ANSWER), config=CONFIG, ledger=ledger, access_log=AccessLog("json")
        ) as gateway:
            port = int(gateway.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
            writer.close()
            await until(lambda: bool(caplog.records))
            ledger.settling.set()
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    [row] = [json.loads(one.getMessage()) for one in caplog.records]
    assert (row["status"], row["ended"]) == (200, "stop")


async def test_each_turn_over_a_websocket_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    turn = {"type": "response.create", "model": "echo/echo", "input": "A secret question"}
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with (
            serving(
                Scripted(ANSWER), config=CONFIG, access_log=AccessLog("json", lambda: 1.0)
            ) as gateway,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{gateway.url}/v1/responses", headers=ALICE) as socket,
        ):
            for asked in (turn, turn, {**turn, "previous_response_id": "nobody"}):
                await socket.send_json(asked)
                while (await socket.receive_json())["type"] not in ("response.completed", "error"):
                    pass
    rows = [json.loads(one.getMessage()) for one in caplog.records if one.name == ACCESS_LOGGER]
    turns = [row for row in rows if row["method"] == "WEBSOCKET"]
    assert [(row["key"], row["status"], row.get("ended")) for row in turns] == [
        ("alice", 200, "stop"), ("alice", 200, "stop"), ("alice", 400, "invalid_request"),
    ]  # fmt: skip
    assert (turns[0]["path"], turns[0]["output"], turns[0]["dollars"]) == ("/v1/responses", 5, 0.25)
    assert [(row["method"], row["status"]) for row in rows if row not in turns] == [("GET", 101)]
    assert "secret" not in caplog.text


async def test_a_line_names_the_guards_that_acted(caplog: pytest.LogCaptureFixture) -> None:
    text = '[guards.words]\nblock = "secret"\n[keys.alice]\nkey = "${A}"\nguards = "words"'
    config = Source("t", text).config({"A": "key-of-alice"})
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with serving(config=config, access_log=AccessLog("text")) as gateway:
            await ask(gateway, PATH, ASKED, headers=ALICE)
    [line] = [one.getMessage() for one in caplog.records if one.name == ACCESS_LOGGER]
    assert "status=400" in line
    assert "guards=words ended=content_filtered" in line
