"""The vendor before the openai SDK."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from lab.tests.vendor_sdk import ANSWER, CALLS, SCHEMA, last, refused_with, scripted, vendor
from lab.vendor import Fault, Vendor

__all__ = ["vendor"]

# newest SDKs leave sockets to the collector, and warn of models that retire
pytestmark = pytest.mark.filterwarnings("default")

CHAT_TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}
TOOL: Any = {"type": "function", "name": "add", "parameters": SCHEMA, "strict": False}


def client(vendor: Vendor, key: str = "key-alpha") -> openai.OpenAI:
    return openai.OpenAI(base_url=vendor.url + "/v1", api_key=key, max_retries=0)


def test_chat_streams_two_calls_and_then_an_answer(vendor: Vendor) -> None:
    messages: list[Any] = [{"role": "user", "content": scripted()}]
    for _ in range(2):
        with client(vendor).chat.completions.stream(
            model="gpt-4.1",
            messages=messages,
            tools=[CHAT_TOOL],
            stream_options={"include_usage": True},
        ) as stream:
            final = stream.get_final_completion()
        message = final.choices[0].message
        messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in message.tool_calls or []:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "3"})
    calls = messages[1]["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == CALLS
    assert final.choices[0].message.content == ANSWER
    charge = last(vendor).charge
    assert charge is not None
    assert final.usage is not None
    assert final.usage.completion_tokens == charge.usage.output
    assert final.usage.prompt_tokens == charge.usage.prompt


def test_chat_is_typed_and_whole(vendor: Vendor) -> None:
    whole = client(vendor).chat.completions.create(
        model="gpt-4.1", messages=[{"role": "user", "content": "hello"}], n=2
    )
    assert [choice.message.content for choice in whole.choices] == last(vendor).texts


def test_responses_stream_reasoning_and_calls_and_go_on_from_a_stored_one(vendor: Vendor) -> None:
    given: Any = scripted()
    previous = None
    for _ in range(2):
        with client(vendor).responses.stream(
            model="gpt-6.2-sol",
            input=given,
            previous_response_id=previous,
            tools=[TOOL],
            reasoning={"summary": "auto"},
        ) as stream:
            final = stream.get_final_response()
        calls = [item for item in final.output if item.type == "function_call"]
        if calls:
            assert [json.loads(call.arguments) for call in calls] == CALLS
            assert final.output[0].type == "reasoning"
        given = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "3"}
            for call in calls
        ]
        previous = final.id
    assert final.output_text == ANSWER
    assert client(vendor).responses.retrieve(final.id).output_text == ANSWER
    assert len(client(vendor).responses.input_items.list(final.id).data) == 2
    with pytest.raises(openai.NotFoundError):
        client(vendor, "key-beta").responses.retrieve(final.id)


ERRORS = [
    (Fault("rate_limit", retry_after=1), openai.RateLimitError),
    (Fault("quota"), openai.RateLimitError),
    (Fault("server"), openai.InternalServerError),
    (Fault("overload"), openai.InternalServerError),
    (Fault("overflow"), openai.BadRequestError),
    (Fault("status", status=403), openai.PermissionDeniedError),
    (Fault("cut"), openai.APIConnectionError),
    (Fault("reset"), openai.APIConnectionError),
    (Fault("overload", after=2), openai.APIError),
    (Fault("cut", after=2), openai.APIConnectionError),
]


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(("fault", "error"), ERRORS, ids=lambda each: str(each))
def test_faults_raise_the_sdks_own_errors(
    vendor: Vendor, api: str, fault: Fault, error: type[Exception]
) -> None:
    def call() -> None:
        if api == "chat":
            list(
                client(vendor).chat.completions.create(
                    model="gpt-4.1", messages=[{"role": "user", "content": "hi"}], stream=True
                )
            )
        else:
            list(client(vendor).responses.create(model="gpt-4.1", input="hi", stream=True))

    refused_with(vendor, fault, error, call)


def test_an_unknown_key_and_a_broken_rule(vendor: Vendor) -> None:
    with pytest.raises(openai.AuthenticationError):
        client(vendor, "sk-unknown").models.list()
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client(vendor).responses.create(model="gpt-5", input="hi", temperature=0.2)


def test_models_files_and_batches(vendor: Vendor) -> None:
    assert "gpt-4.1" in [model.id for model in client(vendor).models.list()]
    body = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    file = client(vendor).files.create(
        file=("in.jsonl", json.dumps(line).encode()), purpose="batch"
    )
    batch = client(vendor).batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    batch = client(vendor).batches.retrieve(batch.id)
    assert batch.status == "completed"
    assert batch.output_file_id is not None
    result = json.loads(client(vendor).files.content(batch.output_file_id).text)
    assert result["response"]["body"]["choices"][0]["message"]["content"]
    with pytest.raises(openai.NotFoundError):
        client(vendor, "key-beta").batches.retrieve(batch.id)
