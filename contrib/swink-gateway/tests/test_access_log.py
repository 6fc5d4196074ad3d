"""The access log has a line for each request with key, model, usage and outcome."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from serving import Scripted, ask, serving

import swink_core as swink
from swink_core import Cost, Done, Error, Start, StopReason, TextDelta, TextEnd, TextStart, Usage
from swink_gateway.policy.config import Source
from swink_gateway.serving.access_log import ACCESS_LOGGER, AccessLog

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
            Scripted(events), config=CONFIG, access_log=AccessLog(format, lambda: 1.0)
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


async def test_a_line_has_the_failure_of_a_call(caplog: pytest.LogCaptureFixture) -> None:
    [line] = await lines(caplog, BUSY)
    row = json.loads(line)
    assert (row["status"], row["ended"]) == (503, "overloaded")


async def test_a_request_without_a_key_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    [line] = await lines(caplog, ANSWER, "text", headers={"Authorization": "Bearer wrong"})
    assert line == f"key=- method=POST path={PATH} status=401 seconds=0.0"
