"""Classification of errors beyond the rows of `errors.jsonl`: within a stream, and retry delays."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from swink_core import Error, Failure
from swink_core import StreamErrorKind as Kind
from swink_provider_openai import OpenAIProvider
from swink_testing.driver import drive_bytes, fold

FILE = files("swink_provider_openai") / "errors.jsonl"
IN_STREAM = [row for row in map(json.loads, FILE.read_text("utf-8").splitlines()) if "frame" in row]


@pytest.mark.parametrize("start", ["", '{"choices": [{"delta": {"content": "Hi"}}]}'])
@pytest.mark.parametrize("row", IN_STREAM, ids=lambda row: row["says"])
async def test_an_error_in_a_stream_ends_it_with_its_kind(row: dict[str, Any], start: str) -> None:
    frames = [*filter(None, [start]), json.dumps(row["frame"]), "[DONE]"]
    body = "".join(f"data: {frame}\n\n" for frame in frames).encode()

    terminal = (await drive_bytes(OpenAIProvider("openai"), "m", [body]))[-1]

    assert isinstance(terminal, Error)
    assert (terminal.error_kind, terminal.error_message) == (row["kind"], row["says"])


async def test_what_comes_beside_an_error_is_said_once_though_the_error_needs_repair() -> None:
    error = b'"error": {"message": "No", "note": "\\ud83d"}'
    body = b'data: {"choices": [{"delta": {"content": "Hi"}}], ' + error + b"}\n\n"

    events = await drive_bytes(OpenAIProvider("openai"), "m", [body])

    assert fold(events).text == "Hi"
    assert isinstance(events[-1], Error)
    assert events[-1].error_message == "No"


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 6.780999999s. Visit https://x", 6.780999999),
        ("Please try again in 6ms. Contact us", 0.006),
        ("Please try again in 1m2.5s.", 62.5),
        ("Please retry after 20s", 20.0),
        ("Please try again later", None),
    ],
)
def test_a_wait_is_read_from_the_wording(message: str, seconds: float | None) -> None:
    failure = Failure("request", 429, code="rate_limit_exceeded", message=message)

    found = OpenAIProvider("openai").classify(failure)

    assert found is not None
    assert found.retry_after == pytest.approx(seconds)


def test_a_header_outranks_the_wording() -> None:
    failure = Failure(
        "request", 429, {"retry-after": "7"}, code="rate_limit_exceeded", message="try again in 1s"
    )

    found = OpenAIProvider("openai").classify(failure)

    assert found is not None
    assert found.retry_after == 7.0


# -- why a WebSocket was closed -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "why", "kind"),
    [
        (1008, "invalid api key", Kind.AUTH),
        (1008, "the request is against a policy", Kind.INVALID_REQUEST),
        (1013, "try again later", Kind.OVERLOADED),
        (4000, "unheard of", None),
    ],
)
def test_a_socket_that_is_closed_says_why(code: int, why: str, kind: Kind | None) -> None:
    failure = Failure("streaming", code=f"close_{code}", message=why)
    found = OpenAIProvider("openai").classify(failure)
    assert (found and found.kind) == kind
