"""A server that says the caller's key wherever it can: it is in nothing that anyone reads."""

import json
import logging
import re
import traceback
from typing import Any

import pytest

import swink_core as swink
from swink_test_helpers.fault_matrix import FaultSubject, Outcome, call, subjects
from swink_testing.chaos import Cut, Fault, Insert, Instead, Says
from swink_testing.chaos_faults import UNPARSABLE
from swink_testing.conformance import CANARY_KEY

pytestmark = pytest.mark.parametrize("subject", subjects(), ids=repr)

ECHO = f"you sent me {CANARY_KEY}, which is no good"


def shown(value: Any) -> str:
    """All that a developer might print of a value."""
    return f"{value!r} {value!s}"


async def everything_shown(
    subject: FaultSubject, faults: list[Fault], caplog: pytest.LogCaptureFixture, **options: Any
) -> tuple[str, Outcome]:
    """The text of call, events, message, logs and exceptions."""
    caplog.set_level(logging.DEBUG)
    outcome = await call(subject, faults, **options)
    texts = [shown(event) for event in outcome.events]
    texts += [shown(outcome.message), shown(outcome.call), shown(outcome.call.options)]
    texts += [record.getMessage() for record in caplog.records]
    texts += [str(record.exc_text) for record in caplog.records]
    if isinstance(outcome.terminal, swink.Error):
        try:
            await outcome.stream.result()
        except swink.StreamError as error:
            texts += [shown(error), shown(vars(error)), *traceback.format_exception(error)]
    return "\n".join(texts), outcome


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a refusal", Instead(401, f'{{"error": {{"message": "{ECHO}"}}}}'.encode())),
        ("a refusal in plain text", Instead(403, ECHO.encode(), "text/plain")),
        ("a message at the top", Instead(400, f'{{"message": "{ECHO}"}}'.encode())),
        ("text where an object was expected", Instead(429, f'{{"error": "{ECHO}"}}'.encode())),
        ("a page", Instead(200, f"<p>{ECHO}</p>".encode(), "text/html")),
        (
            "a page cut in the middle of the key",
            Instead(200, b"x" * 70 + CANARY_KEY.encode(), "a/b"),
        ),
        ("a redirect", Instead(307, headers={"Location": f"http://elsewhere/?key={CANARY_KEY}"})),
        ("a request id", Instead(500, headers={"x-request-id": CANARY_KEY})),
        ("an encoding", Instead(200, b"", headers={"Content-Encoding": CANARY_KEY})),
        ("a broken connection", Cut()),
    ],
)
async def test_a_key_that_the_server_echoes_is_shown_nowhere(
    subject: FaultSubject, name: str, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    text, outcome = await everything_shown(subject, [fault], caplog)
    assert isinstance(outcome.terminal, swink.Error)
    assert CANARY_KEY not in text
    assert CANARY_KEY[:20] not in text


def framed(subject: FaultSubject, data: bytes) -> bytes:
    """Return data as a frame, also for a decoder of a provider's own that reads events."""
    answer = subject.answer()
    if answer.framing is not None:
        return answer.frame(data)
    if answer.content_type != "text/event-stream":
        pytest.skip("this wire format's frames are binary")
    return b"data: " + data + b"\n\n"


async def test_a_key_in_a_malformed_frame_is_shown_nowhere(
    subject: FaultSubject, caplog: pytest.LogCaptureFixture
) -> None:
    for padding in (0, 100, 110):
        frame = framed(subject, UNPARSABLE + b"x" * padding + CANARY_KEY.encode())
        for policy in ("skip", "fail"):
            fault = Insert(frame, (0,))
            text, outcome = await everything_shown(subject, [fault], caplog, malformed=policy)
            assert "malformed_frame" in outcome.notices or outcome.kind == "protocol"
            assert CANARY_KEY[:16] not in text


TOLD = {"type": "error", "message": ECHO, "error": {"code": 500, "message": ECHO}}
"""An error in the words of most wire formats at once."""


async def test_a_key_in_an_error_in_the_stream_is_shown_nowhere(
    subject: FaultSubject, caplog: pytest.LogCaptureFixture
) -> None:
    frames = [framed(subject, json.dumps(TOLD).encode())]
    for recording in await subject.told_errors():
        frame, is_framed = await subject.error_frame(recording)
        echo, count = re.subn(
            rb'("message": ?|"error": ?)"[^"]*"', rb'\1"%s"' % ECHO.encode(), frame
        )
        frames += [echo] if is_framed and count else []
    for frame in frames:
        none = swink.RetryPolicy.none()
        text, outcome = await everything_shown(subject, [Says(frame)], caplog, retry=none)
        assert outcome.kind is not None
        assert CANARY_KEY not in text
