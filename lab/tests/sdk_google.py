"""The vendor before the google-genai SDK."""

from __future__ import annotations

import io
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

import swink_core as swink
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
from swink_gateway.serving.server import Gateway

__all__ = ["vendor"]

# newest SDKs leave sockets to the collector, and warn of models that retire
pytestmark = pytest.mark.filterwarnings("default")

MODEL = "gemini-3.6-flash"
SEVERAL = "gemini-2.5-flash"
"""A model that gives several answers."""

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


@pytest.mark.parametrize("streamed", [False, True])
async def test_several_candidates_are_the_same_directly_and_through_the_gateway(
    streamed: bool,
) -> None:
    key = "key-alpha"

    async def read(base: str, contents: str, tools: Any) -> tuple[dict[Any, list[Any]], Any]:
        """Return the candidates by index, each with its texts, calls and end, and the counts."""
        models = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=base)).aio.models
        found: dict[Any, list[Any]] = {}
        config = types.GenerateContentConfig(candidate_count=3, tools=tools)
        asked: Any = {"model": SEVERAL, "contents": contents, "config": config}
        if streamed:
            chunks = [each async for each in await models.generate_content_stream(**asked)]
        else:
            chunks = [await models.generate_content(**asked)]
        for candidate in (each for chunk in chunks for each in chunk.candidates or []):
            told = found.setdefault(candidate.index, ["", "", [], None])
            assert candidate.content is not None
            for part in candidate.content.parts or []:
                told[bool(part.thought)] += part.text or ""
                if part.function_call:
                    told[2].append((part.function_call.name, part.function_call.args))
            told[3] = candidate.finish_reason or told[3]
        return found, chunks[-1].usage_metadata

    async with Vendor() as vendor:
        own = {"gemini": {"base_url": vendor.url, "api_key": key}}
        routes = {SEVERAL: [f"gemini/{SEVERAL}"]}
        async with (
            swink.Client(providers=own) as asking,
            Gateway(asking, keys=[key], routes=routes) as gateway,
        ):
            # tools are sent in another form, on which invented answers depend
            for contents, tools in (("hi", None), (scripted(), CONFIG.tools)):
                candidates, counts = await read(vendor.url, contents, tools)
                assert sorted(candidates) == [0, 1, 2]
                assert all(end == types.FinishReason.STOP for *_, end in candidates.values())
                through = await read(gateway.url, contents, tools)
                assert through[0] == candidates
                if tools is None:
                    assert through[1] == counts
                else:
                    assert candidates[2][2] == [("add", each) for each in CALLS]


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
