"""The confusion matrix: what every recorded error body means, read by people, to its provider.

Each body comes as its provider's HTTP answer or stream, through the whole of the client. A folder
of the corpus is judged by the provider that `PROVIDERS` names; a new case there wants a row in
`EXPECTED`, after its body was read.
"""

from __future__ import annotations

from collections import Counter

import pytest
from corpus import Case, error_cases, stream_cases

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

PROVIDERS = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "azure": "azure/gpt-5-mini",
    "bedrock": "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
    "bedrock_invoke": "bedrock/amazon.titan-text-express-v1",
    "deepseek": "deepseek/deepseek-chat",
    "gemini": "gemini/gemini-2.5-flash",
    "groq": "groq/llama-3.3-70b-versatile",
    "llamacpp": "llamacpp/any",
    "mistral": "mistral/mistral-small-latest",
    "ollama": "ollama/llama3.2",
    "openai_chat": "openai/gpt-4o",
    "openai_compat_other": "openai/gpt-4o",
    "openai_responses": "openai/gpt-5",
    "openrouter": "openrouter/anthropic/claude-haiku-4.5",
    "vllm": "vllm/any",
    "xai": "xai/grok-4",
    "xai_responses": "xai/grok-4",
}

OPTIONS = {"openai_responses": {"extra": {"api": "responses"}}}
"""How a folder's streams are asked for, where the provider has several APIs."""

CONTENT_TYPES = {"bedrock": "application/vnd.amazon.eventstream", "ollama": "application/x-ndjson"}

EXPECTED: dict[str, Kind] = {
    # -- anthropic
    "anthropic/http-400-pydantic-ai-anthropic-explicit-effort-xhigh-unsupported-model-errors":
        Kind.INVALID_REQUEST,
    "anthropic/http-400-ruby-llm-chat-real-error-scenarios-anthropic-claude-haiku-4-5-handles-co":
        Kind.CONTEXT_WINDOW_EXCEEDED,
    "anthropic/http-401-rig-auth-rejection-carries-identity": Kind.AUTH,
    "anthropic/http-403-permission-error": Kind.AUTH,
    "anthropic/http-404-pydantic-ai-model-name-suggestion-anthropic": Kind.MODEL_NOT_FOUND,
    "anthropic/http-404-rig-provider-error-response-surfaces-cleanly": Kind.MODEL_NOT_FOUND,
    # a limit of bytes, not of tokens: a model with a larger window would not help
    "anthropic/http-413-request-too-large": Kind.INVALID_REQUEST,
    "anthropic/http-429-rate-limit-with-retry-after": Kind.THROTTLED,
    "anthropic/http-500-api-error": Kind.NETWORK,
    "anthropic/http-529-overloaded": Kind.OVERLOADED,
    "anthropic/midstream-overloaded-after-text": Kind.OVERLOADED,
    "anthropic/truncated-before-message-stop": Kind.NETWORK,
    # -- azure
    "azure/http-400-prompt-content-filter-2": Kind.CONTENT_FILTERED,
    "azure/http-400-prompt-content-filter-3": Kind.CONTENT_FILTERED,
    "azure/http-400-prompt-content-filter-4": Kind.CONTENT_FILTERED,
    "azure/http-401-ruby-llm-chat-error-handling-with-azure-grok-4-1-fast-non-reasoning-rais":
        Kind.AUTH,
    "azure/http-404-openllmetry-chat-reasoning": Kind.MODEL_NOT_FOUND,
    "azure/http-413-tokens-limit-reached": Kind.CONTEXT_WINDOW_EXCEEDED,
    "azure/http-429-ruby-llm-chat-real-error-scenarios-azure-grok-4-1-fast-non-reasoning-han":
        Kind.THROTTLED,
    # -- bedrock
    "bedrock/http-400-input-too-long": Kind.CONTEXT_WINDOW_EXCEEDED,
    "bedrock/http-400-opentelemetry-python-contrib-converse-stream-with-invalid-model":
        Kind.MODEL_NOT_FOUND,
    "bedrock/http-400-pydantic-ai-model-name-suggestion-bedrock": Kind.MODEL_NOT_FOUND,
    "bedrock/http-403-dd-trace-py-bedrock-converse-error": Kind.AUTH,
    "bedrock/http-404-rig-retired-model-id-preserves-provider-error": Kind.MODEL_NOT_FOUND,
    "bedrock/http-429-throttling": Kind.THROTTLED,
    "bedrock/corrupt-prelude-crc": Kind.PROTOCOL,
    "bedrock/error-frame-unmodeled": Kind.NETWORK,
    "bedrock/exception-frame-internal-server-exception": Kind.NETWORK,
    "bedrock/exception-frame-model-stream-error-exception": Kind.NETWORK,
    "bedrock/exception-frame-validation-exception": Kind.CONTEXT_WINDOW_EXCEEDED,
    "bedrock/truncated-mid-frame": Kind.NETWORK,
    "bedrock_invoke/http-400-newrelic-amazon-titan-text-express-v1-malformed-request-body":
        Kind.INVALID_REQUEST,
    "bedrock_invoke/http-400-opentelemetry-python-contrib-invoke-model-with-invalid-model":
        Kind.MODEL_NOT_FOUND,
    "bedrock_invoke/http-403-dd-trace-py-meta-invoke-error": Kind.AUTH,
    # -- deepseek
    "deepseek/http-400-rig-blocking-audio-part-reaches-the-wire": Kind.INVALID_REQUEST,
    "deepseek/http-400-ruby-llm-chat-real-error-scenarios-deepseek-deepseek-chat-handles-contex":
        Kind.CONTEXT_WINDOW_EXCEEDED,
    # its code says invalid_request_error, its type and its status do not
    "deepseek/http-401-ruby-llm-chat-error-handling-with-deepseek-deepseek-chat-raises-appropri":
        Kind.AUTH,
    # -- gemini
    "gemini/http-400-firebase-vertexai-streaming-failure-http-error": Kind.INVALID_REQUEST,
    "gemini/http-400-firebase-vertexai-unary-failure-api-key": Kind.AUTH,
    "gemini/http-400-firebase-vertexai-unary-failure-http-error": Kind.INVALID_REQUEST,
    "gemini/http-400-firebase-vertexai-unary-failure-invalid-context-cache-id":
        Kind.INVALID_REQUEST,
    "gemini/http-400-firebase-vertexai-unary-failure-unsupported-user-location":
        Kind.UNSUPPORTED,
    "gemini/http-400-input-token-count": Kind.CONTEXT_WINDOW_EXCEEDED,
    "gemini/http-400-opentelemetry-python-contrib-generate-content-invalid-temperature":
        Kind.INVALID_REQUEST,
    "gemini/http-401-newrelic-python-agent-cassette-2": Kind.AUTH,
    "gemini/http-403-firebase-googleai-unary-failure-generativelanguage-api-not-enabled":
        Kind.AUTH,
    "gemini/http-403-firebase-vertexai-unary-failure-firebaseml-api-not-enabled": Kind.AUTH,
    "gemini/http-403-firebase-vertexai-unary-failure-firebasevertexai-api-not-enabled": Kind.AUTH,
    "gemini/http-404-firebase-vertexai-unary-failure-model-not-found": Kind.MODEL_NOT_FOUND,
    "gemini/http-404-mirascope-google-gemini-2-5-flash": Kind.MODEL_NOT_FOUND,
    "gemini/http-404-newrelic-python-agent-cassette-2": Kind.MODEL_NOT_FOUND,
    # it says "quota", and means so many tokens a minute: it asks to come back in 48 s
    "gemini/http-429-ruby-llm-chat-real-error-scenarios-gemini-gemini-2-5-flash-handles-conte":
        Kind.THROTTLED,
    "gemini/http-503-high-demand": Kind.OVERLOADED,
    # -- groq
    # the model's tool call did not fit the schema: nothing is wrong with the request
    "groq/http-400-pydantic-ai-tool-use-failed-error": Kind.EMPTY_RESPONSE,
    "groq/pydantic-ai-tool-use-failed-error-streaming": Kind.EMPTY_RESPONSE,
    "groq/http-401-rig-auth-rejection-classifies-with-contract": Kind.AUTH,
    "groq/http-404-pydantic-ai-tool-regular-error": Kind.MODEL_NOT_FOUND,
    "groq/http-404-rig-provider-error-response-carries-request-id": Kind.MODEL_NOT_FOUND,
    # one request is more than a minute's allowance: no waiting helps, a shorter one does
    "groq/http-413-request-too-large-tpm": Kind.CONTEXT_WINDOW_EXCEEDED,
    "groq/http-429-rate-limit": Kind.THROTTLED,
    # -- llama.cpp
    "llamacpp/http-400-exceed-context-size": Kind.CONTEXT_WINDOW_EXCEEDED,
    "llamacpp/http-400-rig-context-overflow-blocking": Kind.CONTEXT_WINDOW_EXCEEDED,
    "llamacpp/http-400-rig-malformed-data-uri": Kind.INVALID_REQUEST,
    "llamacpp/http-401-rig-missing-api-key-is-401": Kind.AUTH,
    "llamacpp/http-500-rig-image-without-mmproj": Kind.UNSUPPORTED,
    "llamacpp/http-500-rig-schema-and-grammar-conflict": Kind.INVALID_REQUEST,
    "llamacpp/http-500-rig-unfetchable-image-url": Kind.NETWORK,
    # -- mistral
    "mistral/http-400-rig-blocking-error-carries-the-correlation-id": Kind.MODEL_NOT_FOUND,
    "mistral/http-401-ruby-llm-chat-error-handling-with-mistral-mistral-small-laraises-appropr":
        Kind.AUTH,
    "mistral/http-429-rate-limited-older": Kind.THROTTLED,
    # -- ollama
    "ollama/http-404-openinference-chat-error-records-model-name": Kind.MODEL_NOT_FOUND,
    "ollama/midstream-error": Kind.NETWORK,
    # -- openai
    "openai_chat/http-400-context-length": Kind.CONTEXT_WINDOW_EXCEEDED,
    "openai_chat/http-400-openllmetry-vision": Kind.INVALID_REQUEST,
    "openai_chat/http-401-dd-trace-py-chat-completion-error": Kind.AUTH,
    "openai_chat/http-401-openinference-async-pipeline-with-chat-prompt-builder-and-chat-generator":
        Kind.AUTH,
    "openai_chat/http-404-mirascope-openai-gpt-4o-completions": Kind.MODEL_NOT_FOUND,
    "openai_chat/http-404-opentelemetry-python-contrib-async-chat-completion-404":
        Kind.MODEL_NOT_FOUND,
    "openai_chat/http-404-pydantic-ai-model-name-suggestion-openai-chat": Kind.MODEL_NOT_FOUND,
    "openai_chat/http-429-rate-limit-legacy": Kind.THROTTLED,
    "openai_chat/http-500-ruby-openai-vector-store-file-batches-list": Kind.NETWORK,
    "openai_chat/http-503-service-unavailable": Kind.OVERLOADED,
    "openai_chat/midstream-server-error": Kind.NETWORK,
    "openai_chat/truncated-inside-tool-args": Kind.NETWORK,
    "openai_responses/http-400-mirascope-model-call-with-tools": Kind.INVALID_REQUEST,
    "openai_responses/http-400-opentelemetry-python-contrib-responses-create-api-error-content-mode0":
        Kind.MODEL_NOT_FOUND,
    "openai_responses/http-400-ruby-llm-chat-real-error-scenarios-openai-gpt-5-nano-handles-context-len":
        Kind.CONTEXT_WINDOW_EXCEEDED,
    "openai_responses/http-401-dd-trace-py-response-error": Kind.AUTH,
    "openai_responses/http-401-ruby-llm-chat-error-handling-with-openai-gpt-5-nano-raises-appropriate-a":
        Kind.AUTH,
    # more than the minute's allowance in one request, as with Groq
    "openai_responses/prism-stream-rate-limited-1": Kind.CONTEXT_WINDOW_EXCEEDED,
    # its error's message is "Foobar", and that is all
    "openai_responses/prism-stream-unknown-error-responses-1": Kind.UNKNOWN,
    "openai_responses/truncated-before-completed": Kind.NETWORK,
    # -- others that speak OpenAI's dialect
    "openai_compat_other/doubleword-http-403-rig-invalid-key-blocking": Kind.AUTH,
    "openai_compat_other/doubleword-http-404-rig-unknown-model-blocking": Kind.MODEL_NOT_FOUND,
    "openai_compat_other/ollama_v1-http-400-ruby-llm-chat-real-error-scenarios-ollama-cloud-gpt-oss-120b-handles-con":
        Kind.CONTEXT_WINDOW_EXCEEDED,
    "openai_compat_other/perplexity-http-401-ruby-llm-chat-error-handling-with-perplexity-sonar-raises-appropriate-au":
        Kind.AUTH,
    "openrouter/http-400-ruby-llm-chat-real-error-scenarios-openrouter-claude-haiku-4-5-handles-c":
        Kind.CONTEXT_WINDOW_EXCEEDED,
    "openrouter/http-401-ruby-llm-chat-error-handling-with-openrouter-claude-haiku-4-5-raises-app":
        Kind.AUTH,
    "openrouter/http-429-pydantic-ai-openrouter-errors-raised": Kind.THROTTLED,
    "openrouter/pydantic-ai-openrouter-stream-error": Kind.INVALID_REQUEST,
    "vllm/http-400-context-length": Kind.CONTEXT_WINDOW_EXCEEDED,
    # -- xai
    "xai/http-429-rate-limit-tpm": Kind.THROTTLED,
    "xai_responses/http-400-ruby-llm-chat-error-handling-with-xai-grok-4-1-fast-non-reasoning-raises":
        Kind.AUTH,
}  # fmt: skip

FAILED = ("midstream-error", "truncated", "corrupt-frame")
"""Features of recorded streams that fail."""

INSTALLED = frozenset(swink.Host().provider_names())


def failed_cases() -> list[Case]:
    found = []
    for folder, model in PROVIDERS.items():
        if model.partition("/")[0] in INSTALLED:
            found += error_cases(folder)
            found += [c for c in stream_cases(folder) if c.features & {*FAILED}]
    return found


CASES = failed_cases()


async def judged(case: Case) -> swink.Error:
    folder = case.name.partition("/")[0]
    content_type = "application/json"
    if case.status == 200:
        content_type = CONTENT_TYPES.get(folder, "text/event-stream")
    headers = {"Content-Type": content_type, **case.headers}
    http = MemoryHTTPClient(MemoryResponse([case.body], case.status, headers))
    options = OPTIONS.get(folder, {})
    client = swink.Client(http=http, api_key="test-key", retry=swink.RetryPolicy.none())
    async with (
        client,
        client.stream(
            PROVIDERS[folder], "Hello", base_url="http://provider.invalid", **options
        ) as stream,
    ):
        events = [event async for event in stream]
    assert len(http.requests) == 1
    assert isinstance(events[-1], swink.Error)
    return events[-1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_error_means_to_its_provider_what_people_read_in_it(case: Case) -> None:
    assert case.name in EXPECTED, "read the body and say what it means"
    error = await judged(case)
    assert error.error_kind == EXPECTED[case.name], error
    assert error.error_message
    assert error.rule


def test_every_expectation_is_of_a_case_that_is_there() -> None:
    if not CASES:
        pytest.skip("the corpus is not here")
    judged_folders = {case.name.partition("/")[0] for case in CASES}
    there = {case.name for case in CASES}
    expected = {name for name in EXPECTED if name.partition("/")[0] in judged_folders}
    assert expected <= there


def test_the_kinds_that_are_easily_confused_are_all_in_the_matrix() -> None:
    counts = Counter(EXPECTED.values())
    for kind in (
        Kind.THROTTLED, Kind.OVERLOADED, Kind.MODEL_NOT_FOUND, Kind.INVALID_REQUEST,
        Kind.CONTEXT_WINDOW_EXCEEDED, Kind.AUTH, Kind.NETWORK, Kind.UNKNOWN,
    ):  # fmt: skip
        assert counts[kind] > 0, kind


NONSENSE = [
    b'{"error": {"message": "Foobar", "code": "foobar", "type": "foobar"}}',
    b'{"strange": true}',
    b"Foobar",
    b"",
]


@pytest.mark.parametrize("model", sorted({*PROVIDERS.values()}))
@pytest.mark.parametrize("body", NONSENSE)
async def test_what_matches_nothing_is_unknown_and_not_guessed(model: str, body: bytes) -> None:
    if model.partition("/")[0] not in INSTALLED:
        pytest.skip("this provider is not installed")
    headers = {"Content-Type": "application/json"}
    http = MemoryHTTPClient(MemoryResponse([body], 418, headers))
    client = swink.Client(http=http, api_key="test-key", retry=swink.RetryPolicy())
    with pytest.raises(swink.UnknownFailure) as caught:
        await client.complete(model, "Hello", base_url="http://provider.invalid")
    assert caught.value.kind is Kind.UNKNOWN
    assert caught.value.rule == "none"
