"""The vendor before the google-genai SDK."""

from __future__ import annotations

import io
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from lab.tests.vendor_sdk import (
    ANSWER,
    CALLS,
    SCHEMA,
    THOUGHT,
    last,
    refused_with,
    scripted,
    vendor,
)
from lab.vendor import Fault, Vendor

__all__ = ["vendor"]

# newest SDKs leave sockets to the collector, and warn of models that retire
pytestmark = pytest.mark.filterwarnings("default")

MODEL = "gemini-3.6-flash"
DECLARATION = types.FunctionDeclaration(
    name="add", description="Add.", parameters_json_schema=SCHEMA
)
CONFIG = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[DECLARATION])],
    thinking_config=types.ThinkingConfig(include_thoughts=True),
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


def client(vendor: Vendor, key: str = "key-alpha") -> genai.Client:
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=vendor.url))


def user(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=list(parts))


def test_thoughts_and_calls_are_streamed_and_come_back(vendor: Vendor) -> None:
    google = client(vendor)
    contents: list[Any] = [user(types.Part(text=scripted()))]
    for _ in range(2):
        parts: list[types.Part] = []
        stream = google.models.generate_content_stream(
            model=MODEL, contents=contents, config=CONFIG
        )
        for chunk in stream:
            assert chunk.candidates
            assert chunk.candidates[0].content
            parts += chunk.candidates[0].content.parts or []
        calls = [part.function_call for part in parts if part.function_call]
        contents.append(types.Content(role="model", parts=parts))
        contents.append(
            user(
                *(
                    types.Part(
                        function_response=types.FunctionResponse(
                            id=call.id, name=call.name, response={"sum": 3}
                        )
                    )
                    for call in calls
                )
            )
        )
    turn = contents[1].parts
    assert "".join(part.text for part in turn if part.thought) == THOUGHT
    assert [part.function_call.args for part in turn if part.function_call] == CALLS
    answer = [part.text or "" for part in contents[3].parts if not part.thought]
    assert "".join(answer) == ANSWER
    charge = last(vendor).charge
    assert charge is not None
    assert chunk.usage_metadata is not None
    assert chunk.usage_metadata.total_token_count == charge.usage.total
    stranger = client(vendor, "key-beta")
    with pytest.raises(errors.ClientError, match="signature"):
        stranger.models.generate_content(model=MODEL, contents=contents[:3], config=CONFIG)


ERRORS = [
    (Fault("rate_limit", retry_after=1), errors.ClientError, 429),
    (Fault("overload"), errors.ServerError, 503),
    (Fault("server"), errors.ServerError, 500),
    (Fault("overflow"), errors.ClientError, 400),
    (Fault("overload", after=2), errors.ServerError, 503),
]


@pytest.mark.parametrize(("fault", "error", "code"), ERRORS, ids=lambda each: str(each))
def test_faults_raise_the_sdks_own_errors(
    vendor: Vendor, fault: Fault, error: type[errors.APIError], code: int
) -> None:
    google = client(vendor)
    raised = refused_with(
        vendor,
        fault,
        error,
        lambda: list(google.models.generate_content_stream(model=MODEL, contents="hi")),
    )
    assert isinstance(raised, errors.APIError)
    assert raised.code == code


def test_an_unknown_key_and_a_broken_rule(vendor: Vendor) -> None:
    unknown = client(vendor, "unknown")
    with pytest.raises(errors.ClientError, match="API key not valid"):
        unknown.models.generate_content(model=MODEL, contents="hi")
    google = client(vendor)
    with pytest.raises(errors.ClientError, match="candidates"):
        google.models.generate_content(
            model=MODEL, contents="hi", config=types.GenerateContentConfig(candidate_count=2)
        )


def test_models_counts_files_and_batches(vendor: Vendor) -> None:
    google = client(vendor)
    assert f"models/{MODEL}" in [model.name for model in google.models.list()]
    counted = google.models.count_tokens(model=MODEL, contents="hi")
    google.models.generate_content(model=MODEL, contents="hi")
    charge = last(vendor).charge
    assert charge is not None
    assert counted.total_tokens == charge.usage.prompt
    file = google.files.upload(file=io.BytesIO(b"hello"), config={"mime_type": "text/plain"})
    assert google.models.generate_content(model=MODEL, contents=[file, "What is it?"]).text
    stranger = client(vendor, "key-beta")
    assert file.name is not None
    with pytest.raises(errors.ClientError):
        stranger.files.get(name=file.name)
    source: Any = [{"contents": [{"parts": [{"text": "hi"}], "role": "user"}]}] * 2
    job = google.batches.create(model=MODEL, src=source)
    assert job.name is not None
    job = google.batches.get(name=job.name)
    assert job.dest is not None
    assert [each.response is not None for each in job.dest.inlined_responses or []] == [True, True]
