"""The `openai` package as a second opinion on what the answers mean.

Its stream reader and accumulator get the same bytes over a loopback connection. Where the two
differ, `DIFFERENCES` says in what and why.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from chat_cases import STREAMS, provider_of

from swink_core import AssistantMessage
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.corpus import Case, ids
from swink_test_helpers.recorded_chat import STOPS
from swink_testing.driver import fold, run_bytes

ERROR = "the SDK raises what it finds in the stream; we end with it"
REFUSAL = "the API reports `stop` for a refusal; swink has a separate stop reason"
NO_INDEX = "the SDK needs an index on every call; recordings of this age have none"
REASONING_BESIDE = "reasoning is counted beside the completion, as the total shows; ours are parts"
X_GROQ = "the usage is in x_groq, where the SDK does not look"
NO_DELTA = "the SDK fails over a choice whose delta is missing or null"
CONTENT_ARRAY = "the SDK joins content arrays like deltas of objects"

DIFFERENCES: dict[str, dict[str, str]] = {
    "openrouter/rig-streaming-gpt41-low-model": {
        "stop": "the SDK does not read the native reason, by which the answer was cut off"
    },
    "openai_chat/midstream-server-error": {"end": ERROR},
    "groq/pydantic-ai-tool-use-failed-error-streaming": {"end": ERROR},
    "openrouter/pydantic-ai-openrouter-stream-error": {"end": ERROR},
    "openai_chat/truncated-inside-tool-args": {
        "stop": "the SDK accepts a truncated stream; without a finish reason it is incomplete"
    },
    "openai_chat/llm-tools-streaming-variant-a": {
        "calls": "the SDK doubles an id and a name that the server repeats; the id is one call",
        "stop": "no finish reason came, though [DONE] did: the calls are what it stopped for",
    },
    "openai_compat_other/snowflake-pydantic-ai-snowflake-thinking-streaming": {
        "stop": "no finish reason came, though [DONE] did"
    },
    "openai_chat/mirascope-async-stream": {"stop": REFUSAL},
    "openai_chat/openai-python-snapshot-569c877e": {"stop": REFUSAL},
    "openai_chat/semantic-kernel-chat-completion-streaming-refusal-test-response": {
        "stop": REFUSAL
    },
    "openrouter/rig-streaming-raw-model-surfaces-refusal": {"stop": REFUSAL},
    "groq/openllmetry-chat-streaming-legacy": {"usage": X_GROQ},
    "groq/pydantic-ai-groq-model-web-search-tool-stream": {"usage": X_GROQ},
    "openai_compat_other/litellm_proxy-dd-trace-py-completion-stream-multiple-choices-proxy": {
        "usage": "the SDK forgets usage that the next chunk does not repeat"
    },
    "together/pydantic-ai-hf-model-thinking-part-iter": {
        "text": "the SDK knows no think tags; the dialect declares them"
    },
    "xai/fantasy-complex-object-streaming": {"usage": REASONING_BESIDE},
    "xai/fantasy-multi-tool-streaming-2": {"usage": REASONING_BESIDE},
    "xai/fantasy-simple-object-streaming": {"usage": REASONING_BESIDE},
    "xai/fantasy-tool-streaming-2": {"usage": REASONING_BESIDE},
    "xai/vercel-xai-text": {"usage": REASONING_BESIDE},
    "xai/vercel-xai-text-2": {"usage": REASONING_BESIDE},
    "mistral/rig-streaming-agent-sends-audio": {
        "usage": "sound is counted beside the prompt, as the total shows; ours is a part of it"
    },
    "openrouter/pydantic-ai-openrouter-web-search-annotations-stream": {
        "end": "the SDK needs an index on every annotation; OpenRouter sends none"
    },
    "azure/semantic-kernel-chat-completion-streaming-async-filter-response": {"end": NO_DELTA},
    "azure/semantic-kernel-chat-completion-streaming-multiple-function-calls-"
    "test-async-filter-resp": {"end": NO_DELTA},
    "mistral/openinference-synchronous-streaming-chat-completions-with-tool-call-resp": {
        "end": NO_INDEX
    },
    "mistral/openinference-synchronous-streaming-chat-completions-with-tool-call-resp-2": {
        "end": NO_INDEX
    },
    "mistral/semantic-kernel-chat-completions-streaming-function-call-response": {"end": NO_INDEX},
    "mistral/vercel-mistral-tool-call": {"end": NO_INDEX},
    "mistral/ruby-llm-chat-mistral-hybrid-reasoning-streams-thinking-separately-from": {
        "text": CONTENT_ARRAY
    },
    "mistral/vercel-mistral-reasoning": {"end": CONTENT_ARRAY},
    "openai_compat_other/anthropic-openai-compat-tool-call": {
        "end": "the SDK takes an index for a place in a list; the only call's index is 1"
    },
}


def _by_sdk(client: Any) -> dict[str, Any]:
    state = pytest.importorskip("openai.lib.streaming.chat").ChatCompletionStreamState()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains of every field that is not as declared
        try:
            for chunk in client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": "Hello"}], stream=True
            ):
                state.handle_chunk(chunk)
        except Exception as error:
            return {"end": type(error).__name__}
    final = state.current_completion_snapshot
    [choice] = [choice for choice in final.choices if choice.index == 0]
    message, usage = choice.message, final.usage
    return {
        "end": "completed",
        "text": (message.content or "") + (message.refusal or ""),
        "calls": [
            (call.id, call.function.name, call.function.arguments or "")
            for call in message.tool_calls or ()
        ],
        "stop": STOPS.get(choice.finish_reason or ""),
        "usage": usage and (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens),
    }


def _by_swink(message: AssistantMessage) -> dict[str, Any]:
    usage = message.usage
    return {
        "end": "completed",
        "text": message.text,
        "calls": [(call.id, call.name, call.raw_arguments) for call in message.tool_calls],
        "stop": message.stop_reason,
        "usage": usage and (usage.input, usage.output, usage.total),
    }


@pytest.mark.parametrize("case", STREAMS, ids=ids)
def test_the_sdk_reads_the_same(case: Case, server: CaptureServer, sdk: Any) -> None:
    server.body = case.body

    theirs = _by_sdk(sdk)
    ours = _by_swink(fold(run_bytes(provider_of(case), "any", [case.body])))

    different = {name for name, value in theirs.items() if value != ours[name]}
    assert different == DIFFERENCES.get(case.name, {}).keys()


@pytest.mark.skipif(not STREAMS, reason="the corpus is not here (SWINK_CORPUS)")
def test_every_difference_is_that_of_a_case() -> None:
    assert DIFFERENCES.keys() <= {case.name for case in STREAMS}
