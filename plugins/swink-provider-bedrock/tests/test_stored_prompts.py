"""Prompts of Bedrock's prompt management, whose ARN takes the place of a model's id."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import Client, Context, InvalidContext, Notice, RetryPolicy, Tool, UserMessage
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

PROMPT = "bedrock/arn:aws:bedrock:us-east-1:123456789012:prompt/PROMPT1234:1"
VARIABLES: dict[str, Any] = {"promptVariables": {"topic": {"text": "the sky"}}}


async def _asked(context: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    http = MemoryHTTPClient(MemoryResponse.of_json({"message": "no"}, 400))
    settings = {"region": "us-east-1"}
    async with (
        Client(http=http, retry=RetryPolicy.none()) as client,
        client.stream(
            PROMPT, context, api_key="k", settings=settings, extra=VARIABLES, **options
        ) as stream,
    ):
        events = [event async for event in stream]
    assert all("prompt%2FPROMPT1234:1" in request.url for request in http.requests)
    return http.bodies, events


async def test_a_stored_prompt_needs_no_message() -> None:
    assert (await _asked([]))[0] == [VARIABLES]


async def test_messages_are_added_to_a_stored_prompt() -> None:
    [body], _ = await _asked("Go on.")
    assert body == {**VARIABLES, "messages": [{"role": "user", "content": [{"text": "Go on."}]}]}


async def test_tuning_is_left_out_with_a_notice() -> None:
    [body], events = await _asked([], temperature=0.3, max_tokens=5)
    assert body == VARIABLES
    paths = {path for event in events if isinstance(event, Notice) for path in event.paths}
    assert paths == {"options.temperature", "options.max_tokens"}


@pytest.mark.parametrize(
    ("context", "options", "code"),
    [
        (Context([UserMessage("Hi")], tools=[Tool("f")]), {}, "tools"),
        (Context([UserMessage("Hi")], "Be brief."), {}, "system_prompt"),
        ("Hi", {"stop": "END"}, "stop"),
    ],
    ids=["tools", "system prompt", "stop"],
)
async def test_what_a_stored_prompt_brings_itself_is_refused(
    context: Any, options: dict[str, Any], code: str
) -> None:
    bodies, events = await _asked(context, **options)
    assert bodies == []
    assert (events[-1].error_kind, events[-1].code) == ("unsupported", code)


async def test_a_model_needs_a_message() -> None:
    async with Client() as client:
        with pytest.raises(InvalidContext, match="empty"):
            client.stream("bedrock/us.amazon.nova-pro-v1:0", [])
