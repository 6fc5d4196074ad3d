"""Options that a model refuses go out as options that it takes, with a notice."""

from __future__ import annotations

from typing import Any

import pytest
from serving import Answer, Scripted, ask, serving

import swink_core as swink

MODEL = "anthropic/claude-sonnet-5-5"
TAKES_ALL = "anthropic/claude-haiku-4-5"
DONE = [swink.Start(), swink.TextStart(0), swink.TextDelta(0, "{}"), swink.TextEnd(0)]
ANSWER = [*DONE, swink.Done(swink.StopReason.STOP)]
OWN = {"anthropic": {"api_key": "k"}, "openai": {"api_key": "k"}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
LOOK = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}}
REQUIRED = {"tools": [TOOL], "tool_choice": "required"}
JSON = {"response_format": {"type": "json_object"}}


async def asked(
    said: dict[str, Any], model: str = MODEL, routes: Any = None, **more: Any
) -> tuple[Scripted, Answer]:
    upstream = Scripted(ANSWER)
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], **said}
    async with serving(upstream, providers=OWN, routes=routes) as gateway:
        return upstream, await ask(gateway, "/v1/chat/completions", body, **more)


RELAXED: dict[str, tuple[dict[str, Any], str, bool]] = {
    "a tool": (LOOK, "does not support tool_choice 'look'", False),
    "any tool": (REQUIRED, "does not support tool_choice 'required'", False),
    "JSON": (JSON, "has no JSON mode", True),
    "both": ({**LOOK, **JSON}, "has no JSON mode", True),
}


@pytest.mark.parametrize(("said", "notice", "asks_for_json"), RELAXED.values(), ids=RELAXED)
async def test_a_refused_option_is_replaced_with_a_notice(
    said: dict[str, Any], notice: str, asks_for_json: bool
) -> None:
    upstream, answer = await asked(said)
    assert answer.status == 200
    assert notice in answer.headers["x-swink-notices"]
    assert upstream.options.tool_choice == ("auto" if "tools" in said else None)
    assert upstream.options.response_format is None
    prompt = upstream.context.system_prompt
    assert ("one JSON object" in str(prompt)) if asks_for_json else prompt is None


STRICT = {
    "a tool": (LOOK, "look", None),
    "any tool": (REQUIRED, "required", None),
    "JSON": (JSON, None, "json"),
}


@pytest.mark.parametrize(("said", "choice", "form"), STRICT.values(), ids=STRICT)
async def test_the_call_of_a_strict_client_stays(
    said: dict[str, Any], choice: str | None, form: str | None
) -> None:
    upstream, answer = await asked(said, headers={"x-swink-strict": "true"})
    assert "x-swink-notices" not in answer.headers
    assert (upstream.options.tool_choice, upstream.options.response_format) == (choice, form)
    assert upstream.context.system_prompt is None


async def test_a_strict_client_is_told_what_the_model_refuses() -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **JSON}
    async with serving(providers=OWN) as gateway:
        answer = await ask(
            gateway, "/v1/chat/completions", body, headers={"x-swink-strict": "true"}
        )
    assert answer.status == 400
    assert "does not support json" in answer.json["error"]["message"]


async def test_a_swink_client_is_told_what_the_model_refuses() -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
    body |= {"tools": [{"name": "look"}], "options": {"tool_choice": "look"}}
    async with serving(providers=OWN) as gateway:
        answer = await ask(gateway, "/v1/stream", body)
    assert "x-swink-notices" not in answer.headers
    assert "does not support tool choice" in answer.body.decode()


@pytest.mark.parametrize("said", [LOOK, REQUIRED], ids=["a tool", "any tool"])
async def test_a_model_that_takes_a_forced_choice_is_sent_it(said: dict[str, Any]) -> None:
    upstream, answer = await asked(said, TAKES_ALL)
    assert "x-swink-notices" not in answer.headers
    assert upstream.options.tool_choice in ("look", "required")
    assert upstream.context.system_prompt is None


async def test_each_model_of_a_chain_is_sent_what_it_takes() -> None:
    chain = {"two": ["openai/gpt-4.1", MODEL]}
    upstream, answer = await asked({**LOOK, **JSON}, "two", chain)
    assert upstream.options.tool_choice == "look"
    assert upstream.options.response_format == "json"
    assert MODEL in answer.headers["x-swink-notices"]
    assert "openai" not in answer.headers["x-swink-notices"]


async def test_a_choice_of_a_dropped_tool_is_dropped_for_each_model_of_a_chain() -> None:
    chain = ["mistral/mistral-small-latest", MODEL]
    own = {"mistral": {"api_key": "k"}, "anthropic": {"api_key": "k"}}
    body = {"model": "two", "input": "Hi", "tools": [{"type": "web_search"}]}
    upstream = Scripted(ANSWER)
    async with serving(upstream, providers=own, routes={"two": chain}) as gateway:
        answer = await ask(gateway, "/v1/responses", {**body, "tool_choice": "required"})
    assert answer.status == 200
    assert answer.headers["x-swink-dropped"] == "tools (web_search), tool_choice"
    assert upstream.options.tool_choice is None
