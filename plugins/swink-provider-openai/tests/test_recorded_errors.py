"""The expected classification of every recorded error, reviewed by hand."""

from __future__ import annotations

from typing import ClassVar

from swink_core import StreamErrorKind as Kind
from swink_test_helpers.recorded_errors import RecordedErrors


class TestOpenAIErrors(RecordedErrors):
    models: ClassVar = {
        "openai_chat": "openai/gpt-4o",
        "openai_responses": "openai/gpt-5",
        "openai_compat_other": "openai/gpt-4o",
        "deepseek": "deepseek/deepseek-v4-flash",
        "groq": "groq/llama-3.3-70b-versatile",
        "llamacpp": "llamacpp/any",
        "openrouter": "openrouter/anthropic/claude-haiku-4.5",
        "vllm": "vllm/any",
    }
    options: ClassVar = {"openai_responses": {"settings": {"api": "responses"}}}
    expected: ClassVar = {
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
        "openai_compat_other/doubleword-http-403-rig-invalid-key-blocking": Kind.AUTH,
        "openai_compat_other/doubleword-http-404-rig-unknown-model-blocking": Kind.MODEL_NOT_FOUND,
        "openai_compat_other/ollama_v1-http-400-ruby-llm-chat-real-error-scenarios-ollama-cloud-gpt-oss-120b-handles-con":
            Kind.CONTEXT_WINDOW_EXCEEDED,
        "openai_compat_other/perplexity-http-401-ruby-llm-chat-error-handling-with-perplexity-sonar-raises-appropriate-au":
            Kind.AUTH,
        "deepseek/http-400-rig-blocking-audio-part-reaches-the-wire": Kind.INVALID_REQUEST,
        "deepseek/http-400-ruby-llm-chat-real-error-scenarios-deepseek-deepseek-chat-handles-contex":
            Kind.CONTEXT_WINDOW_EXCEEDED,
        # its code says invalid_request_error, its type and its status do not
        "deepseek/http-401-ruby-llm-chat-error-handling-with-deepseek-deepseek-chat-raises-appropri":
            Kind.AUTH,
        # the model's tool call did not fit the schema: nothing is wrong with the request
        "groq/http-400-pydantic-ai-tool-use-failed-error": Kind.EMPTY_RESPONSE,
        "groq/pydantic-ai-tool-use-failed-error-streaming": Kind.EMPTY_RESPONSE,
        "groq/http-401-rig-auth-rejection-classifies-with-contract": Kind.AUTH,
        "groq/http-404-pydantic-ai-tool-regular-error": Kind.MODEL_NOT_FOUND,
        "groq/http-404-rig-provider-error-response-carries-request-id": Kind.MODEL_NOT_FOUND,
        # one request is more than a minute's allowance: no waiting helps, a shorter one does
        "groq/http-413-request-too-large-tpm": Kind.CONTEXT_WINDOW_EXCEEDED,
        "groq/http-429-rate-limit": Kind.THROTTLED,
        "llamacpp/http-400-exceed-context-size": Kind.CONTEXT_WINDOW_EXCEEDED,
        "llamacpp/http-400-rig-context-overflow-blocking": Kind.CONTEXT_WINDOW_EXCEEDED,
        "llamacpp/http-400-rig-malformed-data-uri": Kind.INVALID_REQUEST,
        "llamacpp/http-401-rig-missing-api-key-is-401": Kind.AUTH,
        "llamacpp/http-500-rig-image-without-mmproj": Kind.UNSUPPORTED,
        "llamacpp/http-500-rig-schema-and-grammar-conflict": Kind.INVALID_REQUEST,
        "llamacpp/http-500-rig-unfetchable-image-url": Kind.NETWORK,
        "openrouter/http-400-ruby-llm-chat-real-error-scenarios-openrouter-claude-haiku-4-5-handles-c":
            Kind.CONTEXT_WINDOW_EXCEEDED,
        "openrouter/http-401-ruby-llm-chat-error-handling-with-openrouter-claude-haiku-4-5-raises-app":
            Kind.AUTH,
        "openrouter/http-429-pydantic-ai-openrouter-errors-raised": Kind.THROTTLED,
        "openrouter/pydantic-ai-openrouter-stream-error": Kind.INVALID_REQUEST,
        "vllm/http-400-context-length": Kind.CONTEXT_WINDOW_EXCEEDED,
    }  # fmt: skip
