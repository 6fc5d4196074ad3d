"""Tools that OpenAI defines and the caller runs, and conversations that the service keeps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    Client,
    Context,
    Error,
    ExtensionBlock,
    ImageBlock,
    InvalidContext,
    Message,
    RetryPolicy,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_test_helpers.typed_dicts import misfits
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SETTINGS = {"api": "responses"}
CLICK = {
    "type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed",
    "action": {"type": "click", "button": "left", "x": 1, "y": 2}, "pending_safety_checks": [],
}  # fmt: skip
SCREEN = {
    "type": "computer_call_output", "call_id": "call_1",
    "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="},
}  # fmt: skip
SHELL = {"type": "shell_call", "id": "sh_1", "call_id": "call_2", "status": "completed",
         "action": {"commands": ["ls"], "max_output_length": None, "timeout_ms": None}}  # fmt: skip
LISTED = {
    "type": "shell_call_output", "call_id": "call_2",
    "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}  # fmt: skip
LOCAL = {"type": "local_shell_call", "id": "ls_1", "call_id": "call_3", "status": "completed",
         "action": {"type": "exec", "command": ["ls"], "env": {}}}  # fmt: skip
RAN = {"type": "local_shell_call_output", "id": "call_3", "output": "{}"}
PATCH = {"type": "apply_patch_call", "id": "ap_1", "call_id": "call_4", "status": "completed",
         "operation": {"type": "delete_file", "path": "a"}}  # fmt: skip
PATCHED = {"type": "apply_patch_call_output", "call_id": "call_4", "status": "completed"}
ASK = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}",
       "server_label": "s"}  # fmt: skip
ALLOW = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
SEARCH = {"type": "tool_search_call", "id": "ts_1", "call_id": "call_5", "execution": "client",
          "status": "completed", "arguments": {"q": "x"}}  # fmt: skip
FOUND = {"type": "tool_search_output", "call_id": "call_5", "execution": "client", "tools": []}

ROUNDS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (CLICK, SCREEN, "call_1"),
    (SHELL, LISTED, "call_2"),
    (LOCAL, RAN, "call_3"),
    (PATCH, PATCHED, "call_4"),
    (ASK, ALLOW, "mcpr_1"),
    (SEARCH, FOUND, "call_5"),
]

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def completed(*items: dict[str, Any]) -> bytes:
    """Write a stream whose answer consists of these items."""
    events = [
        {"type": "response.output_item.done", "output_index": number, "item": item}
        for number, item in enumerate(items)
    ]
    last = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
    return b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in [*events, last])


HELLO = completed(
    {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}
)


async def answer(*items: dict[str, Any]) -> AssistantMessage:
    async with Client(http=MemoryHTTPClient(MemoryResponse([completed(*items)]))) as client:
        return await client.complete("openai/any", "Go.", api_key="k", settings=SETTINGS)


async def body_of(messages: list[Message], **extra: Any) -> dict[str, Any]:
    http = MemoryHTTPClient(MemoryResponse([HELLO]))
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        options = {"api_key": "k", "settings": SETTINGS, "extra": extra}
        await client.complete("openai/any", Context(messages), **options)
    body: dict[str, Any] = http.bodies[0]
    declared = pytest.importorskip("openai.types.responses.response_create_params")
    assert misfits(body, declared.ResponseCreateParamsStreaming) == []
    return body


async def refused(messages: list[Message]) -> Error:
    async with Client(http=MemoryHTTPClient(), retry=RetryPolicy.none()) as client:
        options: dict[str, Any] = {"api_key": "k", "settings": SETTINGS}
        events = [e async for e in client.stream("openai/any", Context(messages), **options)]
    assert isinstance(events[-1], Error)
    return events[-1]


def own(item: dict[str, Any]) -> ExtensionBlock:
    return ExtensionBlock("openai", item["type"], item)


# -- what asks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "output", "id"), ROUNDS, ids=[row[0]["type"] for row in ROUNDS])
async def test_what_the_caller_runs_stops_for_tool_use_and_is_answered_in_either_role(
    call: dict[str, Any], output: dict[str, Any], id: str
) -> None:
    said = await answer(REASONING, call)

    assert said.stop_reason is StopReason.TOOL_USE
    asked = [block for block in said.content if isinstance(block, ExtensionBlock)]
    assert [block.data for block in asked] == [call]

    for reply in (UserMessage([own(output)]), ToolResultMessage(id, call["type"], [own(output)])):
        body = await body_of([UserMessage("Go."), said, reply])
        assert body["input"] == [{"role": "user", "content": "Go."}, REASONING, call, output]


async def test_a_result_need_not_name_the_call_twice() -> None:
    output = {name: value for name, value in SCREEN.items() if name != "call_id"}
    said = AssistantMessage([own(CLICK)], "openai")

    result = ToolResultMessage("call_1", "computer", [own(output)])
    body = await body_of([UserMessage("Go."), said, result])

    assert body["input"][-1] == SCREEN


@pytest.mark.parametrize(
    "items",
    [
        [SHELL, LISTED],
        [{**SEARCH, "execution": "server"}, {**FOUND, "execution": "server"}],
        [{"type": "web_search_call", "id": "ws_1", "status": "completed"}],
    ],
)
async def test_what_the_service_ran_itself_asks_for_nothing(items: list[dict[str, Any]]) -> None:
    assert (await answer(*items)).stop_reason is StopReason.STOP


async def test_items_among_what_the_user_says_stand_beside_the_message() -> None:
    said = AssistantMessage([own(CLICK), own(ASK)], "openai")
    image = ImageBlock(UrlSource("https://a.example/b.png"), metadata={"detail": "high"})
    reply = UserMessage([own(SCREEN), TextBlock("Go on."), image, own(ALLOW)])

    body = await body_of([UserMessage("Go."), said, reply])

    assert body["input"][3:] == [
        SCREEN,
        {"role": "user", "content": [
            {"type": "input_text", "text": "Go on."},
            {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "high"}]},
        ALLOW,
    ]  # fmt: skip


async def test_a_call_that_nobody_answered_is_left_out_with_the_reasoning_before_it() -> None:
    thought = ThinkingBlock("", metadata={"item": REASONING})
    said = AssistantMessage([thought, own(CLICK)], "openai")

    body = await body_of([UserMessage("Go."), said, UserMessage("Stop.")])

    assert body["input"] == [
        {"role": "user", "content": "Go."},
        {"role": "user", "content": "Stop."},
    ]


async def test_words_are_no_answer_to_what_wants_an_item() -> None:
    said = AssistantMessage([own(CLICK)], "openai")
    error = await refused([UserMessage("Go."), said, ToolResultMessage("call_1", "c", "Done.")])

    assert error.error_kind is Kind.UNSUPPORTED
    assert "ExtensionBlock" in error.error_message


async def test_a_result_of_nothing_is_still_a_mistake() -> None:
    said = AssistantMessage([own(CLICK)], "openai")
    with pytest.raises(InvalidContext, match="call_9"):
        await body_of([UserMessage("Go."), said, ToolResultMessage("call_9", "c", "x")])


# -- what the service keeps -------------------------------------------------------------------


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
async def test_results_alone_go_on_with_what_the_service_keeps(field: str) -> None:
    body = await body_of([ToolResultMessage("call_1", "f", "42")], **{field: "x_1"})

    assert body[field] == "x_1"
    assert body["input"] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "42"},
    ]


async def test_what_came_up_to_the_previous_response_is_not_sent_again() -> None:
    said = await answer(CLICK)
    result = ToolResultMessage("call_1", "computer", [own(SCREEN)])

    body = await body_of(
        [UserMessage("Go."), said, result], previous_response_id=said.response_id, store=True
    )

    assert body["input"] == [SCREEN]


@pytest.mark.parametrize(
    ("settings", "options", "address"),
    [
        ({}, {}, "/v1/responses/resp_1?stream=true"),
        ({"starting_after": 0}, {}, "/v1/responses/resp_1?stream=true&starting_after=0"),
        ({"api": "chat"}, {}, "/v1/responses/resp_1?stream=true"),
        ({}, {"transport": "websocket"}, "/v1/responses/resp_1?stream=true"),
        ({"resume": "a/../b"}, {}, "/v1/responses/a%2F..%2Fb?stream=true"),
    ],
)
async def test_a_response_that_the_service_has_begun_is_asked_for_by_its_id(
    settings: dict[str, Any], options: dict[str, Any], address: str
) -> None:
    http = MemoryHTTPClient(MemoryResponse([HELLO]))
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        asked = {"resume": "resp_1", **settings}
        message = await client.complete(
            "openai/any", "Go.", api_key="k", settings=asked, temperature=0.5, **options
        )
    [request] = http.requests
    assert message.text == "Hi"
    assert (request.method, request.body) == ("GET", b"")
    assert request.url.endswith(address)
    assert request.headers["Authorization"] == "Bearer k"


async def test_what_is_made_in_the_background_is_kept() -> None:
    assert (await body_of([UserMessage("Go.")], background=True))["store"] is True
    assert (await body_of([UserMessage("Go.")]))["store"] is False


# -- instructions -------------------------------------------------------------------------------


async def test_instructions_stand_where_they_were_given() -> None:
    body = await body_of([
        SystemMessage("Be brief."), UserMessage("Hi"), AssistantMessage([TextBlock("Hi.")]),
        SystemMessage("Be long."), UserMessage("Go on."),
    ])  # fmt: skip

    assert body["input"] == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hi."},
        {"role": "developer", "content": "Be long."},
        {"role": "user", "content": "Go on."},
    ]
