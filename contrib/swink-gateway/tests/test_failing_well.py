"""Failures are reported so that clients react correctly: wait, retry, or stop.

`make clients` measures the reactions of real clients; the results are in
docs/reference/real-clients.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
from serving import ONCE, Scripted, ask, serving, until
from test_seed_scenarios import OWN, THINKING
from turned import Said, asked_for

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_gateway.policy.config import Source
from swink_gateway.policy.cooldowns import Cooldowns, ImpatientTimeouts
from swink_gateway.policy.limits import MemoryLedger
from swink_gateway.protocols import Asked, Facts
from swink_gateway.protocols.native.protocol import NativeProtocol
from swink_gateway.protocols.table import PROTOCOLS
from swink_gateway.serving.limits import Limits, timeouts_within
from swink_gateway.serving.relay import Line, relayed
from swink_gateway.serving.server import Gateway
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.clock import ManualClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

MODEL = "echo/echo"
NOBODY = "127.0.0.9:9"
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}

ASKING: dict[str, tuple[str, str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions",) * 2 + (CHAT,),
    "messages": ("/v1/messages",) * 2 + ({**CHAT, "max_tokens": 9},),
    "responses": ("/v1/responses",) * 2 + ({"input": "Hi"},),
    "gemini": (
        f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse",
        f"/v1beta/models/{MODEL}:generateContent", CONTENTS,
    ),
    "ollama": ("/api/chat",) * 2 + (CHAT,),
    "native": ("/v1/stream",) * 2 + (CHAT,),
}  # fmt: skip
"""The path and body of a streamed and of a complete request in each protocol."""

EACH = pytest.mark.parametrize("protocol", ASKING)


def failing(kind: Kind, wait: float | None = None, *before: Any) -> Scripted:
    error = swink.Error(error_message="it broke", error_kind=kind, retry_after=wait)
    return Scripted([swink.Start(), *before, error])


async def asked(gateway: Gateway, protocol: str, stream: bool, model: str = MODEL) -> Any:
    streamed, whole, body = ASKING[protocol]
    path = (streamed if stream else whole).replace(MODEL, model)
    return await ask(gateway, path, {"model": model, "stream": stream, **body})


UPSTREAM = "http://upstream.invalid/v1"
OPENAI = {"openai": {"base_url": UPSTREAM, "api_key": "k"}}

STATUSES = {400: 400, 404: 404, 413: 413, 422: 422, 429: 429, 500: 500, 503: 503, 504: 504}
"""The vendor's status and the gateway's."""


@EACH
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", STATUSES)
async def test_a_failure_before_the_answer_has_the_providers_status(
    protocol: str, stream: bool, status: int
) -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "it broke"}}, status))
    async with serving(http=http, providers=OPENAI) as gateway:
        answer = await asked(gateway, protocol, stream, "openai/gpt-4.1-mini")
    if (protocol, stream) == ("native", True):
        assert answer.status == 200
    else:
        assert answer.status == STATUSES[status]
    assert "it broke" in answer.body.decode()
    assert not {"Retry-After", "x-should-retry"} & answer.headers.keys()
    assert len(http.requests) == 1  # the client decides whether to retry


CODES_OF_A_BAD_REQUEST = {
    **dict.fromkeys(["content_policy_violation", "content_filter", "invalid_value"]),
    "unsupported_parameter": None,
    "invalid_request_error": "invalid_request",  # a type, which some services send as the code
    "INVALID_ARGUMENT": "invalid_request",
    "1210": "invalid_request",
}
"""For each code of a vendor, the code that clients get, or None if it is the same."""


@pytest.mark.parametrize("code", CODES_OF_A_BAD_REQUEST)
@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_a_bad_request_has_its_vendors_code(protocol: str, code: str) -> None:
    body = {"error": {"message": "it broke", "code": code}}
    http = MemoryHTTPClient(MemoryResponse.of_json(body, 400))
    async with serving(http=http, providers=OPENAI) as gateway:
        answer = await asked(gateway, protocol, True, "openai/gpt-4.1-mini")
    expected = CODES_OF_A_BAD_REQUEST[code] or code
    assert (answer.status, answer.json["error"]["code"]) == (400, expected)


@pytest.mark.parametrize(
    ("status", "word"),
    [(400, "invalid_request_error"), (408, "timeout_error"), (413, "request_too_large"),
     (500, "api_error"), (504, "timeout_error")],
)  # fmt: skip
async def test_anthropics_type_of_error_follows_the_status(status: int, word: str) -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "it broke"}}, status))
    async with serving(http=http, providers=OPENAI) as gateway:
        answer = await asked(gateway, "messages", True, "openai/gpt-4.1-mini")
    assert (answer.status, answer.json["error"]["type"]) == (status, word)


@pytest.mark.parametrize(
    ("status", "word"), [(500, "INTERNAL"), (503, "UNAVAILABLE"), (400, "INVALID_ARGUMENT")]
)
async def test_geminis_status_name_follows_the_status(status: int, word: str) -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "it broke"}}, status))
    async with serving(http=http, providers=OPENAI) as gateway:
        answer = await asked(gateway, "gemini", True, "openai/gpt-4.1-mini")
    assert (answer.status, answer.json["error"]["status"]) == (status, word)


@pytest.mark.parametrize(
    ("agent", "start"), [("GeminiCLI/0.61.0/m (linux; x64)", b"{"), ("google-genai", b"data: {")]
)
async def test_gemini_cli_gets_an_error_in_googles_stream_format(agent: str, start: bytes) -> None:
    async with serving(failing(Kind.OVERLOADED, None, *WORDS)) as gateway:
        path, _, body = ASKING["gemini"]
        answer = await ask(gateway, path, body, headers={"User-Agent": agent})
    *words, last = answer.body.strip().split(b"\n\n")
    assert words
    assert all(frame.startswith(b"data: ") for frame in words)
    assert last.startswith(start + b'"error":')


@pytest.mark.parametrize("protocol", ["chat", "messages", "responses", "gemini", "ollama"])
async def test_a_vendor_specific_status_reaches_only_that_vendors_clients(
    protocol: str,
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "it broke"}}
    http = MemoryHTTPClient(MemoryResponse.of_json(error, 529))
    async with serving(http=http, providers={"anthropic": OWN}) as gateway:
        answer = await asked(gateway, protocol, True, f"anthropic/{THINKING.model}")
    assert answer.status == (529 if protocol == "messages" else 503)


@EACH
@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_has_its_providers_retry_after_and_request_id(
    protocol: str, stream: bool
) -> None:
    headers = {"Retry-After": "7", "x-request-id": "req_1"}
    refused = MemoryResponse.of_json({"error": {"message": "no"}}, 429, headers)
    async with serving(http=MemoryHTTPClient(refused), providers=OPENAI) as gateway:
        answer = await asked(gateway, protocol, stream, "openai/gpt-4.1-mini")
    if (protocol, stream) != ("native", True):
        assert answer.headers["Retry-After"] == "7"
        assert answer.headers["x-request-id"] == answer.headers["request-id"] == "req_1"


@EACH
@pytest.mark.parametrize("kind", [Kind.OVERLOADED, Kind.RESOURCE])
async def test_a_failure_without_a_status_has_its_kinds_status(protocol: str, kind: Kind) -> None:
    for stream in {False, protocol != "native"}:
        async with serving(failing(kind)) as gateway:
            answer = await asked(gateway, protocol, stream)
        assert answer.status == 503
        assert "it broke" in str(answer.json["error"])


async def test_clients_do_not_retry_after_the_gateways_own_retries() -> None:
    repeating = swink.RetryPolicy(retries={Kind.OVERLOADED: 1}, base=0.0)
    for policy, requests in ((repeating, 2), (None, 1)):
        upstream = failing(Kind.OVERLOADED)
        async with serving(upstream, retry=policy) as gateway:
            answer = await asked(gateway, "chat", True)
        assert len(upstream.calls) == requests
        assert answer.headers.get("x-should-retry") == ("false" if requests > 1 else None)


@EACH
@pytest.mark.parametrize("stream", [True, False])
async def test_an_empty_answer_is_a_success(protocol: str, stream: bool) -> None:
    frames = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
         "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]  # fmt: skip
    body = b"".join(b"data: %b\n\n" % msgspec.json.encode(frame) for frame in frames)
    http = MemoryHTTPClient(MemoryResponse([body], 200, {"Content-Type": "text/event-stream"}))
    async with serving(http=http, providers={"anthropic": OWN}) as gateway:
        answer = await asked(gateway, protocol, stream, f"anthropic/{THINKING.model}")
    assert answer.status == 200
    if (protocol, stream) != ("native", True):  # its clients detect it themselves
        assert b"neither text" not in answer.body
    assert len(http.requests) == 1


@pytest.mark.parametrize("protocol", sorted({*ASKING} - {"native"}))  # differs in native
async def test_a_missing_provider_key_is_reported_to_the_operator(protocol: str) -> None:
    error = swink.Error(error_message="no API key for acme", error_kind=Kind.AUTH)
    error.resolution = "Set ACME_API_KEY, or pass api_key=… (https://acme.test/keys)."
    async with serving(Scripted([swink.Start(), error])) as gateway:
        answer = await asked(gateway, protocol, False)
    said = str(answer.json["error"])
    assert "ACME_API_KEY where the gateway runs" in said
    assert "api_key=" not in said


REFUSED = {"messages": 503, "gemini": 400}
"""The status that keeps clients from retrying that ignore `x-should-retry` with a 502."""

BLAMING = ("authentication_error", "invalid_api_key", "UNAUTHENTICATED")
"""Codes by which vendors' clients report to their user that the user's own key is wrong."""


@EACH
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [401, 403])
async def test_refused_gateway_credentials_are_not_reported_as_the_clients_key(
    protocol: str, stream: bool, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"error": {"message": "Incorrect API key provided: sk-ab***yz, for gpt-4.1-mini."}}
    http = MemoryHTTPClient(MemoryResponse.of_json(body, status))
    own = {"openai": {"base_url": "http://upstream.invalid/v1", "api_key": "k"}}
    routes = {"best": ["openai/gpt-4.1-mini"]}
    async with serving(http=http, providers=own, routes=routes) as gateway:
        answer = await asked(gateway, protocol, stream, "best")
    said = answer.body.decode()
    assert "does not accept the gateway's own credentials" in said
    assert "the operator of the gateway" in said
    told_to_others = ("OPENAI_API_KEY", "it may use", "for gpt", "sk-ab")
    assert [words for words in told_to_others if words in said] == []
    assert [word for word in BLAMING if word in said] == []
    if (protocol, stream) != ("native", True):
        assert answer.status == REFUSED.get(protocol, 502)
        assert answer.headers["x-should-retry"] == "false"
    assert "openai/gpt-4.1-mini are missing or refused: Incorrect API key provided" in caplog.text


@EACH
@pytest.mark.parametrize("stream", [True, False])
async def test_a_failed_token_service_is_not_described_to_clients(
    protocol: str, stream: bool
) -> None:
    refused = swink.Error(error_message="https://sts.internal refuses role 7", code="token")
    refused.error_kind = Kind.AUTH
    async with serving(Scripted([swink.Start(), refused])) as gateway:
        answer = await asked(gateway, protocol, stream)
    said = answer.body.decode()
    assert "does not accept the gateway's own credentials" in said
    assert "sts.internal" not in said


WORDS = (swink.TextStart(0), swink.TextDelta(0, "Hello"), swink.TextEnd(0))
ANSWER = [swink.Start(), *WORDS, swink.Done(swink.StopReason.STOP)]

POLICIES = {
    "the gateway's": "",
    "the route's": 'options.retry.fall_back_on = ["content_filtered"]',
    "a default": 'transforms.defaults.retry.fall_back_on = ["content_filtered"]',
}


@EACH
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
async def test_after_a_refused_key_the_next_account_is_tried(
    protocol: str, stream: bool, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = '[routes.two]\ntiers = [["echo/echo"], "echo/think"]\n' + POLICIES[policy]
    upstream = failing(Kind.AUTH)
    upstream.answers.append([ANSWER])
    async with serving(upstream, config=Source("team.toml", said).config({})) as gateway:
        answer = await asked(gateway, protocol, stream, "two")
    assert answer.status == 200
    assert "Hello" in answer.body.decode()
    assert len(upstream.calls) == 2
    assert caplog.text.count("credentials for echo/echo are missing or refused: it broke") == 1
    own = upstream.options.retry.fall_back_on - {Kind.AUTH}
    assert own == ({Kind.CONTENT_FILTERED} if POLICIES[policy] else set())


@pytest.mark.parametrize("read_ahead", [False, True])
@pytest.mark.parametrize("stream", [True, False])
async def test_the_log_names_the_account_that_failed(
    stream: bool, read_ahead: bool, caplog: pytest.LogCaptureFixture
) -> None:
    said = (
        '[[routes.two.tiers]]\nmodel = "echo/think"\n[[routes.two.tiers]]\n'
        'model = "echo/echo"\noptions.api_key = "sk-one"\n[[routes.two.tiers]]\n'
        'model = "echo/echo"\noptions.api_key = "sk-two"\n'
    )
    upstream = failing(Kind.OVERLOADED)
    upstream.answers += [*failing(Kind.AUTH).answers * 2]
    config, limits = Source("team.toml", said).config({}), Limits(coalesce=read_ahead)
    caplog.set_level("INFO", "swink_gateway")
    async with serving(upstream, config=config, limits=limits) as gateway:
        answer = await asked(gateway, "chat", stream, "two")
    assert "upstream_credentials" in answer.body.decode()
    logged = [
        (r.levelname, r.message) for r in caplog.records if r.name.startswith("swink_gateway")
    ]
    refused = "credentials for echo/echo are missing or refused"
    call = f"(call {answer.headers['x-swink-call']})"
    assert logged == [
        ("WARNING", f"routes.two.tiers[0][0]: echo/think failed: overloaded: it broke {call}"),
        ("WARNING", f"routes.two.tiers[1][0]: {refused}: it broke {call}"),
        ("WARNING", f"routes.two.tiers[2][0]: {refused}: it broke {call}"),
    ]
    assert "sk-" not in caplog.text


@EACH
@pytest.mark.parametrize("stream", [True, False])
async def test_clients_do_not_see_the_address_of_an_unreachable_upstream(
    protocol: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    own = {"openai": {"base_url": f"http://{NOBODY}/v1", "api_key": "k"}}
    again = swink.RetryPolicy(retries={Kind.NETWORK: 0}, circuit_threshold=2)
    route = {"two": ["openai/gpt-6.1-sol", "openai/gpt-6-luna"]}
    gates = [Cooldowns()]
    async with (
        swink.Client(providers=own, gates=gates, breaker=False) as client,
        Gateway(client, retry=again, routes=route) as gateway,
    ):
        for _ in range(3):  # the circuit of the first model is open for the third request
            answer = await asked(gateway, protocol, stream, "two")
            said = answer.body.decode() + str(answer.headers)
            assert "the model's provider cannot be reached" in said
            assert NOBODY not in said
    logged = [r.message for r in caplog.records if r.name == "swink_gateway.serving.upstream_call"]
    assert [f"network: Cannot connect to host {NOBODY}" in line for line in logged] == [True] * 5


OF_REQUESTS = {
    Kind.CONTEXT_WINDOW_EXCEEDED, Kind.CONTENT_FILTERED, Kind.INVALID_REQUEST, Kind.UNSUPPORTED,
    Kind.OUTPUT_TOO_LARGE, Kind.CANCELLED,
}  # fmt: skip


@pytest.mark.parametrize("kind", Kind)
async def test_a_failure_is_a_warning_unless_the_request_caused_it(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "swink_gateway")
    said = "".join(f'[routes.r{at}]\ntiers = "echo/echo"\n' for at in range(5))
    config = Source("team.toml", said).config({})
    for name in ("r4", "echo/think"):  # a name in the file, and one of a client
        error = swink.Error(error_message="it\n\nbroke " * 999, error_kind=kind)
        upstream = Scripted([swink.Start(), error])
        async with serving(upstream, config=config) as gateway:
            await asked(gateway, "chat", False, name)
    of_file, of_client = [
        r for r in caplog.records if r.name == "swink_gateway.serving.upstream_call"
    ]
    start = "routes.r0.tiers[0][0], routes.r1.tiers[0][0], routes.r2.tiers[0][0], …: "
    assert of_file.message.startswith(start)
    for record in (of_file, of_client):
        assert "it broke it broke" in record.message
        assert len(record.message) < 700
    assert of_file.levelname == ("INFO" if kind in OF_REQUESTS else "WARNING")
    expected = "INFO" if kind is Kind.MODEL_NOT_FOUND else of_file.levelname
    assert of_client.levelname == expected


class Blocked(Line):
    """A client that reads nothing before the call has ended."""

    def __init__(self, stream: swink.EventStream) -> None:
        super().__init__(Limits(coalesce=True), Counter())
        self._stream = stream

    async def send(self, data: bytes, *, last: bool = False) -> None:
        await until(lambda: self._stream.call.ended_at is not None)


class FailsOnce:
    """An upstream whose first answer is cut off after some reads."""

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        return self._events(call)

    async def _events(self, call: swink.Call) -> Any:
        for event in ANSWER[:-1]:
            yield event
        await asyncio.sleep(0.01)
        why = swink.Error(error_message="it broke", error_kind=Kind.AUTH)
        yield why if call.attempts == 1 else ANSWER[-1]


async def test_the_account_of_a_failure_is_logged_before_a_slow_client_reads() -> None:
    policy = swink.RetryPolicy(restart_after_output=True, fall_back_on=frozenset({Kind.AUTH}))
    heard = []

    def hear(batch: Any) -> None:
        if isinstance(batch[-1], swink.Retry):
            heard.append(str(stream.call.model))

    async with swink.Client(host=swink.Host([FailsOnce()])) as client:
        stream = client.stream(["echo/echo", "echo/think"], "Hi", retry=policy)
        encoder = NativeProtocol(()).encoder(Asked(MODEL, swink.Context([])), Facts("c1", 0))
        assert await relayed(stream, encoder, Blocked(stream), "native", hear)
    assert heard == ["echo/echo"]


FOR_CALLERS = ("extra=", "max_output_chars", "malformed=", "Timeouts(", "DEBUG", "swink models")
"""Words of the library's advice for Python programs and for operators."""


# native clients are Python programs
@pytest.mark.parametrize("protocol", sorted({*ASKING} - {"native"}))
@pytest.mark.parametrize("stream", [True, False])
async def test_clients_get_no_advice_for_python_callers(protocol: str, stream: bool) -> None:
    upstream = Scripted()
    async with serving(upstream) as gateway:
        for kind in Kind:
            error = swink.Error(error_message="it broke", error_kind=kind)
            upstream.answers = [[[swink.Start(), error]]]
            said = (await asked(gateway, protocol, stream)).body.decode()
            assert "it broke" in said
            assert [words for words in FOR_CALLERS if words in said] == [], kind


BEGUN = (swink.TextStart(0), swink.TextDelta(0, "Hel"), swink.TextEnd(0))


REFUSED_KEY = "does not accept the gateway's own credentials"


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("before", [[], BEGUN])
def test_a_retry_after_a_refused_key_does_not_show_the_providers_message(
    name: str, before: Any
) -> None:
    again = swink.Retry(1, 6, 0.0, "sk-ab***yz", "acme/small", Kind.AUTH, "invalid_api_key")
    asked = asked_for(array=False, thoughts=False)
    encoder = PROTOCOLS[name].endpoints[0].make().encoder(asked, Facts("1", 1))
    batches = ([swink.Start(), *before], [again])
    out = [encoder.feed(batch, Said(swink.Model("acme", "large"))) for batch in batches]
    said = b"".join(out).decode()
    assert "sk-ab" not in said
    assert (REFUSED_KEY in said) is (bool(before) or name == "native")


async def test_a_retry_without_a_key_names_the_missing_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    routes = {"two": ["groq/any", "echo/echo"]}
    policy = swink.RetryPolicy(fall_back_on=frozenset({Kind.AUTH}))
    async with serving(http=MemoryHTTPClient(), retry=policy, routes=routes) as gateway:
        answer = await asked(gateway, "native", True, "two")
    assert "GROQ_API_KEY" in next(f for f in answer.frames if f["type"] == "retry")["error"]


@EACH
async def test_a_failure_after_output_is_inside_the_stream(protocol: str) -> None:
    async with serving(failing(Kind.OVERLOADED, None, *BEGUN)) as gateway:
        answer = await asked(gateway, protocol, True)
    assert answer.status == 200
    assert "Hel" in answer.body.decode()
    assert answer.body.decode().count("it broke") == (2 if protocol == "responses" else 1)


class Broken(LoopbackServer):
    """A server that closes the connection in the middle of each answer."""

    async def respond(self, exchange: Exchange) -> None:
        await exchange.start(headers=dict(THINKING.headers))
        await exchange.write(THINKING.body[: len(THINKING.body) // 2])
        exchange.close()


AGENTS = [
    None,
    "OpenAI/Python 3.0",
    "ai-sdk/openai-compatible/3.0.37 ai-sdk/provider-utils/5.0.30 runtime/bun/1.3.13",  # cline
    "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14",
]


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("protocol", [name for name in ASKING if name != "native"])
async def test_a_broken_connection_breaks_for_clients_that_expect_it(
    protocol: str, agent: str | None
) -> None:
    streamed, _, body = ASKING[protocol]
    model = f"anthropic/{THINKING.model}"
    headers = {} if agent is None else {"User-Agent": agent}
    said = b""
    async with (
        Broken() as vendor,
        serving(providers={"anthropic": {**OWN, "base_url": vendor.url}}) as gateway,
        aiohttp.ClientSession() as session,
    ):
        path = gateway.url + streamed.replace(MODEL, model)
        asked = {"model": model, "stream": True, **body}
        async with session.post(path, json=asked, headers=headers) as response:
            assert response.status == 200
            ending = pytest.raises(aiohttp.ClientPayloadError) if agent else nullcontext()
            with ending:
                async for piece in response.content.iter_any():
                    said += piece
    assert (BROKEN_WORDS in said) is (agent is None)


BROKEN_WORDS = b"before the end of the response"


async def test_a_failed_response_has_the_error_where_openais_sdks_look_for_it() -> None:
    async with serving(failing(Kind.OVERLOADED, None, *BEGUN)) as gateway:
        last = (await asked(gateway, "responses", True)).frames[-1]
    assert last["type"] == "response.failed"
    assert last["error"] == last["response"]["error"]
    assert last["error"]["code"] == "server_is_overloaded"


async def test_a_limit_with_a_known_reset_asks_the_client_to_wait() -> None:
    async with serving(failing(Kind.THROTTLED, 6.5)) as gateway:
        whole = await asked(gateway, "chat", False)
        codex = await asked(gateway, "responses", True)
    assert (whole.status, whole.headers["Retry-After"]) == (429, "7")
    assert (codex.status, codex.headers["Retry-After"]) == (429, "7")
    assert "x-should-retry" not in whole.headers
    error = codex.json["error"]
    assert error["code"] == "rate_limit_exceeded"
    assert error["message"].endswith(". Please try again in 6.5s.")
    async with serving(failing(Kind.THROTTLED, 60.6328)) as gateway:
        assert "try again in 60.7s." in (await asked(gateway, "chat", False)).body.decode()


async def test_a_providers_rate_limit_headers_are_forwarded_with_failures() -> None:
    said = {"x-ratelimit-remaining-requests": "0", "Anthropic-RateLimit-Tokens-Reset": "soon"}
    refused = MemoryResponse.of_json({"error": {"message": "no"}}, 429, {**said, "Set-Cookie": "a"})
    own = {"openai": {"base_url": "http://upstream.invalid/v1", "api_key": "k"}}
    async with serving(http=MemoryHTTPClient(refused), providers=own) as gateway:
        answer = await asked(gateway, "chat", False, "openai/gpt-4.1-mini")
    assert answer.status == 429
    assert {name: answer.headers[name] for name in said} == said
    assert "Set-Cookie" not in answer.headers


ANSWERED = [(p, s) for p in ASKING for s in (True, False) if (p, s) != ("native", True)]
"""Protocols in which a stream begins before the provider's first output."""


@pytest.mark.parametrize(("protocol", "stream"), ANSWERED)
async def test_a_providers_rate_limit_headers_are_forwarded_with_answers(
    protocol: str, stream: bool
) -> None:
    said = {"x-ratelimit-remaining-tokens": "7", "anthropic-ratelimit-requests-reset": "soon"}
    upstream = MemoryResponse([THINKING.body], 200, {**THINKING.headers, **said})
    http = MemoryHTTPClient(upstream)
    async with serving(http=http, providers={"anthropic": OWN}) as gateway:
        answer = await asked(gateway, protocol, stream, f"anthropic/{THINKING.model}")
    assert answer.status == 200
    assert {name: answer.headers[name] for name in said} == said


@EACH
async def test_an_error_falls_back_only_before_output(
    protocol: str,
) -> None:
    words = (swink.TextStart(0), swink.TextDelta(0, "Hel"), swink.TextEnd(0))
    answer = (swink.TextStart(0), swink.TextDelta(0, "Hello"), swink.TextEnd(0))
    done = swink.Done(swink.StopReason.STOP)
    for before in ((), words):
        upstream = failing(Kind.OVERLOADED, None, *before)
        upstream.answers.append([[swink.Start(), *answer, done]])
        async with serving(upstream, routes={"two": ["echo/echo", "echo/think"]}) as gateway:
            streamed, _, body = ASKING[protocol]
            path = streamed.replace(MODEL, "two")
            found = await ask(gateway, path, {"model": "two", "stream": True, **body})
        assert len(upstream.calls) == (1 if before else 2)
        assert ("it broke" in found.body.decode()) == (bool(before) or protocol == "native")
        assert ("Hello" in found.body.decode()) != bool(before)


GEMINI_ERRORS = {
    Kind.CONTEXT_WINDOW_EXCEEDED: "INVALID_ARGUMENT",
    Kind.AUTH: "FAILED_PRECONDITION",
    Kind.MODEL_NOT_FOUND: "NOT_FOUND",
    Kind.OVERLOADED: "UNAVAILABLE",
    Kind.NETWORK: "UNAVAILABLE",
}


@pytest.mark.parametrize("kind", GEMINI_ERRORS)
async def test_an_error_in_a_gemini_stream_is_a_frame(kind: Kind) -> None:
    path = f"/v1beta/models/{MODEL}:streamGenerateContent"
    async with serving(failing(kind, None, *BEGUN)) as gateway:
        events = await ask(gateway, path + "?alt=sse", CONTENTS)
        array = await ask(gateway, path, CONTENTS)
    assert events.headers["Content-Type"] == "text/event-stream"
    *frames, rest = events.body.split(b"\n\n")
    assert rest == b""
    assert [frame[:6] for frame in frames] == [b"data: "] * len(frames)
    assert array.headers["Content-Type"].startswith("application/json")
    for found in (events.frames, array.json):
        assert [("error" in one) for one in found] == [False, True]
        assert found[-1]["error"]["status"] == GEMINI_ERRORS[kind]
        assert found[-1]["error"]["message"].startswith("it broke")


class Refusing:
    """An upstream that refuses all requests; `asked` counts them."""

    def __init__(self) -> None:
        self.asked = 0

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        self.asked += 1
        error = swink.Error(error_message="full", error_kind=Kind.OVERLOADED)
        error.retry_after = STATED
        return Scripted([swink.Start(), error]).stream(call)


STATED = 20.0
"""The seconds that a provider asks clients to wait."""


async def test_if_all_models_cool_down_requests_fail_without_a_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, upstream = ManualClock(jump=True), Refusing()
    gates = [Cooldowns(MemoryLedger(clock), clock)]
    route = {"two": ["echo/echo", "echo/think"]}
    async with (
        swink.Client(plugins=[upstream], gates=gates, clock=clock) as client,
        Gateway(client, retry=ONCE, routes=route) as gateway,
    ):
        for _ in range(ONCE.circuit_threshold):
            assert (await asked(gateway, "chat", False, "two")).status == 503
        before = upstream.asked
        for protocol in ("chat", "messages", "responses", "ollama", "native"):
            answer = await asked(gateway, protocol, False, "two")
            assert answer.status == 503
            assert answer.headers["Retry-After"] == f"{STATED:.0f}"
            assert "the model is failing: overloaded" in answer.body.decode()
        assert upstream.asked == before
        opened = [r.message for r in caplog.records if r.name == "swink_gateway.policy.cooldowns"]
        until = (clock.now() + timedelta(seconds=STATED)).isoformat(timespec="seconds")
        assert opened == [
            f"{model} failed 5 requests in a row; its circuit is open for 20 s, until {until}: "
            "overloaded: full"
            for model in ("echo/echo", "echo/think")
        ]
        logged = [r for r in caplog.records if r.name == "swink_gateway.serving.upstream_call"]
        assert len(logged) == before  # without a call, there is no failure
        await clock.advance(STATED)
        await asked(gateway, "chat", False, "two")
        assert before < upstream.asked <= before + 2


class Aim:
    """The attributes of a target that a gate uses."""

    is_last = False
    model = "echo/echo"

    def __init__(self, key: str) -> None:
        self.key = key
        self.options = swink.StreamOptions()


async def test_a_circuit_admits_one_probe_after_a_cooldown_and_closes_with_an_answer() -> None:
    clock = ManualClock()
    gate, target, policy = Cooldowns(MemoryLedger(clock)), Aim("a"), swink.RetryPolicy()
    down = swink.Error(error_message="full", error_kind=Kind.OVERLOADED)
    for _ in range(policy.circuit_threshold):
        target = Aim("a")  # each call has a new target
        await gate.enter(target)  # type: ignore[arg-type]  # it is all that the gate looks at
        gate.leave(target, down, None)  # type: ignore[arg-type]  # the same
    with pytest.raises(swink.ProviderFailure) as refused:
        await gate.enter(target)  # type: ignore[arg-type]  # the same
    assert refused.value.failure.retry_after == policy.circuit_cooldown
    await clock.advance(policy.circuit_cooldown)
    await gate.enter(target)  # type: ignore[arg-type]  # the same
    with pytest.raises(swink.ProviderFailure):
        await gate.enter(target)  # type: ignore[arg-type]  # the same
    gate.leave(target, swink.Done(swink.StopReason.STOP), None)  # type: ignore[arg-type]  # the same
    await gate.enter(target)  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize(("seconds", "is_open"), [(5.0, False), (60.0, True)])
async def test_the_time_limits_of_impatient_clients_open_no_circuit(
    seconds: float, is_open: bool
) -> None:
    gate, target = Cooldowns(MemoryLedger(ManualClock())), Aim("a")
    late = swink.Error(error_message="late", error_kind=Kind.TIMEOUT)
    for _ in range(swink.RetryPolicy().circuit_threshold):
        target = Aim("a")
        target.options = swink.StreamOptions(timeouts=timeouts_within(seconds, is_whole=False))
        await gate.enter(target)  # type: ignore[arg-type]  # it is all that the gate looks at
        gate.leave(target, late, None)  # type: ignore[arg-type]  # the same
    with pytest.raises(swink.ProviderFailure) if is_open else nullcontext():
        await gate.enter(target)  # type: ignore[arg-type]  # the same


OF_CLIENTS: dict[str, tuple[dict[str, str], float | None]] = {
    "nothing": ({}, None),
    "OpenAI's and Anthropic's SDKs": ({"X-Stainless-Timeout": "300"}, 285.0),
    "OpenAI's SDK for Python": ({"x-stainless-read-timeout": "600.0"}, 570.0),
    "Google's SDKs": ({"X-Server-Timeout": "20"}, 19.0),
    "no number": ({"X-Stainless-Timeout": "NOT_GIVEN"}, None),
    "no limit": ({"X-Stainless-Timeout": "inf"}, None),
}
"""Clients' time limits, and the seconds after which the gateway ends a call."""


@pytest.mark.parametrize("name", OF_CLIENTS)
async def test_a_call_ends_before_its_clients_time_limit(name: str) -> None:
    headers, limit = OF_CLIENTS[name]
    upstream, usual = Scripted(ANSWER), swink.Timeouts()
    async with serving(upstream) as gateway:
        for stream in (False, True):
            body = {"model": MODEL, "stream": stream, **CHAT}
            await ask(gateway, "/v1/chat/completions", body, headers=headers)
            limits = upstream.options.timeouts
            if stream:
                assert limits.total is None
                assert limits.first_event == limits.idle == min(limit or 300.0, 300.0)
            else:
                assert limits.total == limit
                assert limits.first_event == usual.first_event
            is_short = limit is not None and limit < (30 if stream else 300)
            assert isinstance(limits, ImpatientTimeouts) is is_short


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_timed_out_is_not_retried(stream: bool) -> None:
    upstream = failing(Kind.TIMEOUT)
    async with serving(upstream, retry=None) as gateway:
        answer = await asked(gateway, "chat", stream)
    assert answer.status == 504
    assert len(upstream.calls) == 1
