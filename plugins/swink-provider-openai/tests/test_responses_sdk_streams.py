"""The `openai` package as a second opinion on what the answers of the Responses API mean.

Its stream reader and accumulator get the same bytes over a loopback connection. Where the two
differ, `DIFFERENCES` says in what and why.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from responses_cases import MODEL, STREAMS, provider_of

from swink_core import AssistantMessage, StopReason
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.corpus import Case, ids
from swink_testing.driver import fold, run_bytes

ERROR = "the SDK's helper wants a completed answer; we end with the error that came"
INCOMPLETE = "the SDK's helper knows no other end than completed; this answer is incomplete"

DIFFERENCES: dict[str, dict[str, str]] = {
    "openai_responses/prism-stream-rate-limited-1": {"end": ERROR},
    "openai_responses/prism-stream-unknown-error-responses-1": {"end": ERROR},
    "openai_responses/truncated-before-completed": {"end": ERROR},
    "openai_responses/rig-incomplete-max-output-tokens": {"end": INCOMPLETE},
    "openai_responses/rig-incomplete-mid-tool-call": {"end": INCOMPLETE},
    "openai_responses/prism-stream-multiple-output-items-1": {
        "end": "the last frame has no empty line after it, and the SDK leaves it out"
    },
    "openai_responses/mirascope-async-stream": {
        "text": "a refusal is not text for the SDK; swink returns it as text, with a stop reason"
    },
    "openai_responses/vercel-openai-custom-tool-1": {
        "calls": "free text for a tool becomes a tool call, with the text as its argument"
    },
    "openai_responses/vercel-openai-phase-1": {
        "deltas": "deltas were removed by hand; swink adds text that only the whole has, at its end"
    },
}


def _by_sdk(client: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains of every field that is not as declared
        try:
            with client.responses.stream(model="any", input="Hello") as stream:
                text = "".join(
                    event.delta
                    for event in stream
                    if event.type in ("response.output_text.delta", "response.refusal.delta")
                )
                final = stream.get_final_response()
        except Exception as error:
            return {"end": type(error).__name__}
    usage = final.usage
    calls = [item for item in final.output if item.type == "function_call"]
    return {
        "end": "completed",
        "deltas": text,
        "text": final.output_text,
        "calls": [(call.call_id, call.name, call.arguments) for call in calls],
        "length": final.status == "incomplete",
        "usage": usage and (usage.input_tokens, usage.output_tokens, usage.total_tokens),
    }


def _by_swink(message: AssistantMessage) -> dict[str, Any]:
    usage = message.usage
    return {
        "end": "completed",
        "deltas": message.text,
        "text": message.text,
        "calls": [(call.id, call.name, call.raw_arguments) for call in message.tool_calls],
        "length": message.stop_reason is StopReason.LENGTH,
        "usage": usage and (usage.input, usage.output, usage.total),
    }


@pytest.mark.parametrize("case", STREAMS, ids=ids)
def test_the_sdk_reads_the_same(case: Case, server: CaptureServer, sdk: Any) -> None:
    server.body = case.body

    theirs = _by_sdk(sdk)
    ours = _by_swink(fold(run_bytes(provider_of(case), MODEL, [case.body])))

    different = {name for name, value in theirs.items() if value != ours[name]}
    assert different == DIFFERENCES.get(case.name, {}).keys()


@pytest.mark.skipif(not STREAMS, reason="the corpus is not here (SWINK_CORPUS)")
def test_every_difference_is_that_of_a_case() -> None:
    assert DIFFERENCES.keys() <= {case.name for case in STREAMS}
