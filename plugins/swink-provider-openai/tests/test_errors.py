"""What errors mean: wordings and shapes beyond the recorded ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import Error, Failure
from swink_core import StreamErrorKind as Kind
from swink_core.failures.classification import classify_default
from swink_provider_openai import OpenAIProvider
from swink_testing.driver import drive_bytes, fold


def _body(message: str = "", **error: Any) -> dict[str, Any]:
    return {"error": {"message": message, **error}}


HTTP_ERRORS: list[tuple[int, dict[str, Any], Kind]] = [
    (429, _body("You exceeded it", code="insufficient_quota"), Kind.QUOTA_EXHAUSTED),
    (429, _body("You exceeded your current quota"), Kind.QUOTA_EXHAUSTED),
    (429, _body("Rate limit reached for model `m` on tokens per day (TPD): Limit 100000",
                code="rate_limit_exceeded", type="tokens"), Kind.QUOTA_EXHAUSTED),
    (429, _body("Rate limit exceeded: free-models-per-day", code=429), Kind.QUOTA_EXHAUSTED),
    (429, _body("Quota exceeded for metric, limit: 0, model: m"), Kind.QUOTA_EXHAUSTED),
    (429, _body("Limit: 100000, used 99999"), Kind.THROTTLED),
    (429, _body("Request too large for gpt-4o: the input or output tokens must be reduced",
                code="rate_limit_exceeded"), Kind.CONTEXT_WINDOW_EXCEEDED),
    (402, _body("Insufficient Balance", type="unknown_error"), Kind.QUOTA_EXHAUSTED),
    (402, _body("This request requires more credits", code=402), Kind.QUOTA_EXHAUSTED),
    (400, _body("The total length of all messages is too long.",
                type="too_many_prompt_tokens", code=400), Kind.CONTEXT_WINDOW_EXCEEDED),
    (400, {"code": 400, "message": "Validation: Temperature must be between 0 and 2",
           "type": "Bad Request"}, Kind.INVALID_REQUEST),
    (400, _body("Incorrect API key provided", code="invalid-argument"), Kind.AUTH),
    (400, {"code": "Client specified an invalid argument",
           "error": "Incorrect API key provided: xa***ey."}, Kind.AUTH),
    (403, {"code": "forbidden", "error": "Content violates usage guidelines."},
     Kind.CONTENT_FILTERED),
    (403, _body("m requires moderation on OpenAI. Your input was flagged", code=403),
     Kind.CONTENT_FILTERED),
    (400, _body("The response was filtered due to the prompt triggering Azure OpenAI's content "
                "management policy.", code="content_filter"), Kind.CONTENT_FILTERED),
    (400, _body("The model `old` has been decommissioned", code="model_decommissioned"),
     Kind.MODEL_NOT_FOUND),
    (400, _body("x/y is not a valid model ID", code=400), Kind.MODEL_NOT_FOUND),
    (404, _body("No endpoints found that support tool use.", code=404), Kind.UNSUPPORTED),
    (400, _body("Unsupported parameter: 'temperature'", code="unsupported_parameter"),
     Kind.INVALID_REQUEST),
    (422, {"detail": [{"loc": ["body", "stop"], "msg": "Input should be a list"}]},
     Kind.INVALID_REQUEST),
    (400, _body("Provider returned error", code=400,
                metadata={"raw": '{"message": "prompt is too long: 9 > 8"}'}),
     Kind.CONTEXT_WINDOW_EXCEEDED),
    (400, _body("This model's maximum prompt length is 131072 but the request contains 200000"),
     Kind.CONTEXT_WINDOW_EXCEEDED),
    (429, _body("The service is overloaded"), Kind.OVERLOADED),
    (503, _body("Slow down", code="slow_down"), Kind.OVERLOADED),
    (502, _body("Bad gateway"), Kind.NETWORK),
    (200, _body("Bad", code=400, type="invalid_request_error"), Kind.INVALID_REQUEST),
    (200, _body("Busy", code="429"), Kind.THROTTLED),
    (200, _body("It broke", type="server_error"), Kind.NETWORK),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind"), HTTP_ERRORS)
def test_codes_outrank_wordings_and_wordings_statuses(
    status: int, body: dict[str, Any], kind: Kind
) -> None:
    provider = OpenAIProvider("openai")
    failure = Failure("request", status, body=json.dumps(body).encode())
    provider.error_facts(failure)

    found = provider.classify(failure) or classify_default(failure)

    assert found.kind is kind
    assert failure.message


IN_STREAM: list[tuple[str, dict[str, Any], Kind, str]] = [
    ("openai", _body("It broke", type="server_error", code=None), Kind.NETWORK, "It broke"),
    ("openai, throttled", _body("Slowly", code="rate_limit_exceeded"), Kind.THROTTLED, "Slowly"),
    ("openai, quota", _body("No", type="insufficient_quota"), Kind.QUOTA_EXHAUSTED, "No"),
    ("openai, refused", _body("Bad", type="invalid_request_error"), Kind.INVALID_REQUEST, "Bad"),
    ("openrouter, beside a chunk",
     {"id": "x", "choices": [{"delta": {"content": ""}, "finish_reason": "error"}],
      **_body("Provider disconnected", code=502)}, Kind.NETWORK, "Provider disconnected"),
    ("openrouter, throttled upstream", _body("Provider returned error", code=429,
     metadata={"raw": "busy"}), Kind.THROTTLED, "Provider returned error: busy"),
    ("groq, with a status", _body("No call", code="odd", status_code=400),
     Kind.INVALID_REQUEST, "No call"),
    ("groq, beside a chunk", {"choices": [], "x_groq": {"error": "over capacity"}},
     Kind.OVERLOADED, "over capacity"),
    ("xai, a string", {"code": "The service is currently unavailable", "error": "At capacity"},
     Kind.OVERLOADED, "At capacity"),
    ("vllm, flat", {"object": "error", "message": "Bad", "type": "BadRequestError", "code": 400},
     Kind.INVALID_REQUEST, "Bad"),
    ("vllm, flat, overflow", {"object": "error", "type": "BadRequestError", "code": 400,
     "message": "This model's maximum context length is 8 tokens."},
     Kind.CONTEXT_WINDOW_EXCEEDED, "This model's maximum context length is 8 tokens."),
    ("llama.cpp, status 200", _body("request exceeds", code=400, type="exceed_context_size_error"),
     Kind.CONTEXT_WINDOW_EXCEEDED, "request exceeds"),
    ("mistral, flat", {"object": "error", "message": "Rate limit exceeded", "code": "1300",
     "type": "rate_limited"}, Kind.THROTTLED, "Rate limit exceeded"),
    ("qwen, with a finish reason", {"choices": [{"delta": {"content": "Throttling: TPM(9/8)"},
     "finish_reason": "error_finish"}]}, Kind.THROTTLED, "Throttling: TPM(9/8)"),
    ("qwen, without a word", {"choices": [{"delta": {}, "finish_reason": "error_finish"}]},
     Kind.NETWORK, "the provider broke the answer off"),
    ("a bare string", {"error": "it is what it is"}, Kind.UNKNOWN, "it is what it is"),
    ("no message", _body(code="odd"), Kind.UNKNOWN,
     "the provider reported an error without a message"),
]  # fmt: skip


MESSAGES = [
    ({"code": 400, "message": "Validation: Temperature must be lower", "type": "Bad Request"},
     "Validation: Temperature must be lower"),
    (_body("Failed to call a function.", code="tool_use_failed", failed_generation="maybe"),
     "Failed to call a function. The model said: maybe"),
    ({"message": "Too many requests"}, "Too many requests"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), MESSAGES)
def test_an_error_speaks_in_the_service_s_words(body: dict[str, Any], message: str) -> None:
    failure = Failure("request", 400, body=json.dumps(body).encode())
    OpenAIProvider("openai").error_facts(failure)
    assert failure.message == message


@pytest.mark.parametrize("start", ["", '{"choices": [{"delta": {"content": "Hi"}}]}'])
@pytest.mark.parametrize(("name", "frame", "kind", "message"), IN_STREAM)
async def test_an_error_in_the_stream_ends_it_with_its_kind(
    name: str, frame: dict[str, Any], kind: Kind, message: str, start: str
) -> None:
    frames = [*filter(None, [start]), json.dumps(frame), "[DONE]"]
    body = "".join(f"data: {frame}\n\n" for frame in frames).encode()

    terminal = (await drive_bytes(OpenAIProvider("openai"), "m", [body]))[-1]

    assert isinstance(terminal, Error)
    assert (terminal.error_kind, terminal.error_message) == (kind, message)


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
