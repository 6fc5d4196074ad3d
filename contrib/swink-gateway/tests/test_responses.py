"""Answers in OpenAI's Responses, read by swink's parser and by OpenAI's SDK."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from made import CALLS, TEXT, events
from sdks import openai_client
from serving import Scripted, ask, serving
from turned import asked_for, is_empty, last_attempt, read_by, whole, written

import swink_core as swink
from swink_core import StopReason, StreamErrorKind, Usage
from swink_gateway.protocols import Asked
from swink_gateway.protocols.responses.protocol import ResponsesProtocol
from swink_test_helpers.event_strategies import event_streams
from swink_testing.driver import fold

RESPONSES = ResponsesProtocol()
OF_GROUP = [
    swink.ToolCallStart(1, "c2", "ns__g") if getattr(event, "name", "") == "g" else event
    for event in CALLS
]
"""Two calls; the second is to a tool in a namespace."""
PARSED_AS = "gpt-5.3-codex"
ASK: dict[str, Any] = {"model": "echo/echo", "input": "one two"}
USAGE = Usage(10, 5, cache_read=4, cache_write=0, reasoning=2, total=15, reported=True)


def frames_of(pieces: list[bytes]) -> list[dict[str, Any]]:
    lines = b"".join(pieces).split(b"\n")
    return [msgspec.json.decode(line[6:]) for line in lines if line.startswith(b"data: ")]


def back(output: list[Any]) -> swink.AssistantMessage:
    """Return an answer as the client sends it back."""
    body = {"model": "m", "input": [{"role": "user", "content": "Hi"}, *output]}
    answer = RESPONSES.read(body, {}, {}).context.messages[1]
    assert isinstance(answer, swink.AssistantMessage)
    return answer


def test_events_are_numbered_and_every_item_is_added_once_and_done_once() -> None:
    frames = frames_of(written(RESPONSES, [events(*CALLS)]))
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    kinds = [frame["type"].removeprefix("response.") for frame in frames]
    assert kinds[:2] == ["created", "in_progress"]
    assert kinds[-1] == "completed"
    assert kinds.count("output_item.added") == kinds.count("output_item.done") == 2
    done = [f["item"] for f in frames if f["type"] == "response.output_item.done"]
    assert [item["arguments"] for item in done] == ['{"a":1}', '{"b":2}']
    assert frames[-1]["response"]["output"] == done


@pytest.mark.parametrize("is_whole", [False, True])
def test_an_empty_text_with_a_signature_is_no_message(is_whole: bool) -> None:
    notes = {"thought_signature": "abc"}
    ends = [swink.TextStart(1), swink.TextEnd(1, metadata=notes)]
    answer = events(swink.TextStart(0), swink.TextDelta(0, "Yes"), swink.TextEnd(0), *ends)
    message = fold(answer)
    message.provider = "gemini"
    if is_whole:
        output = msgspec.json.decode(whole(RESPONSES, message))["output"]
    else:
        frames = frames_of(written(RESPONSES, [answer], model="gemini/large"))
        output = frames[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "reasoning"]
    assert back(output).content == message.content


@pytest.mark.parametrize(("wire_format", "id"), [("openai-responses", "r1"), ("", "resp_f4c75")])
def test_ids_model_and_usage_of_an_answer(wire_format: str, id: str) -> None:
    """Only the ids of a provider with the same protocol are known to be unique."""
    cost = swink.Cost(total=0.25)
    answer = events(*TEXT, usage=USAGE, cost=cost, response_id="r1", model="large-1")
    frames = written(RESPONSES, [answer], wire_formats={"acme": wire_format})
    message, _ = read_by("openai", frames, PARSED_AS)
    assert (message.response_id, message.model, message.text) == (id, "large-1", "Hello")
    said = {frame["response"]["id"] for frame in frames_of(frames) if "response" in frame}
    assert said == {id}
    assert message.usage is not None
    assert (message.usage.input, message.usage.cache_read, message.usage.reasoning) == (10, 4, 2)
    assert frames_of(frames)[-1]["response"]["usage"]["cost"] == 0.25


@pytest.mark.parametrize("before", [[], TEXT])
def test_a_failure_is_one_failed_response_and_nothing_after_it(before: list[Any]) -> None:
    failed = swink.Error(error_message="full", error_kind=StreamErrorKind.OVERLOADED)
    frames = frames_of(written(RESPONSES, [[swink.Start(), *before, failed]]))
    kinds = [frame["type"] for frame in frames]
    assert kinds.count("response.failed") == 1
    assert kinds[-1] == "response.failed"
    assert "response.completed" not in kinds
    assert frames[-1]["response"]["error"]["code"] == "server_is_overloaded"


@pytest.mark.parametrize(
    ("reason", "word"),
    [(StopReason.LENGTH, "max_output_tokens"), (StopReason.CONTENT_FILTER, "content_filter")],
)
def test_a_truncated_answer_is_incomplete(reason: StopReason, word: str) -> None:
    last = frames_of(written(RESPONSES, [events(*TEXT, stop_reason=reason)]))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": word}


@pytest.mark.parametrize("reason", [StopReason.TOOL_USE, StopReason.CONTENT_FILTER])
def test_the_deltas_of_a_call_without_arguments_are_its_arguments(reason: StopReason) -> None:
    call = [swink.ToolCallStart(0, "c", "f"), swink.ToolCallEnd(0)]
    frames = frames_of(written(RESPONSES, [events(*call, stop_reason=reason)]))
    kind = "response.function_call_arguments.delta"
    assert [frame["delta"] for frame in frames if frame["type"] == kind] == ["{}"]
    assert frames[-1]["response"]["output"][0]["arguments"] == "{}"


def test_calls_have_the_clients_names_of_tools() -> None:
    free = {"type": "custom", "name": "patch", "description": "d", "format": {"type": "text"}}
    group = {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "g"}]}
    asked: Asked = RESPONSES.read({**ASK, "tools": [free, group]}, {}, {})
    assert [tool.name for tool in asked.context.tools] == ["patch", "ns__g"]
    said = [
        *OF_GROUP,
        swink.ToolCallStart(2, "c3", "patch"),
        swink.ToolCallDelta(2, '{"input": "a\\nb"}'),
        swink.ToolCallEnd(2),
    ]
    pieces = written(RESPONSES, [events(*said)], tools=asked.tools)
    output = frames_of(pieces)[-1]["response"]["output"]
    assert (output[1]["namespace"], output[1]["name"]) == ("ns", "g")
    assert (output[2]["type"], output[2]["name"]) == ("custom_tool_call", "patch")
    assert output[2]["input"] == "a\nb"
    assert [call.name for call in back(output).tool_calls] == ["f", "ns__g", "patch"]


def test_another_providers_opaque_data_survives_the_client() -> None:
    given = swink.AssistantMessage(
        [
            swink.ThinkingBlock("hm", "sig"),
            swink.ThinkingBlock("", "hidden", True),
            swink.ExtensionBlock("gemini", "executableCode", {"code": "1"}),
            swink.ToolCallBlock("c1", "f", {"a": 1}, '{"a":1}', metadata={"signature": "x"}),
            swink.TextBlock("so"),
        ],
        provider="gemini",
    )
    output = msgspec.json.decode(whole(RESPONSES, given))["output"]
    for item in output:
        item.pop("content", None) if item["type"] == "reasoning" else None  # like Codex
    returned = back(output)
    assert returned.content == given.content
    assert returned.provider == "gemini"


@settings(max_examples=40, phases=[Phase.generate])
@given(event_streams())
def test_only_declared_losses_occur(events: list[Any]) -> None:
    events = last_attempt(events)
    original = fold(events, "acme")
    pieces = written(RESPONSES, [[event] for event in events])
    message, terminal = read_by("openai", pieces, PARSED_AS)
    if isinstance(events[-1], swink.Error):
        assert isinstance(terminal, swink.Error)
        return
    assert original.model is None or message.model == original.model
    output = frames_of(pieces)[-1]["response"]["output"]
    if not original.content:
        return
    returned = back(output)
    assert [_plain(b) for b in returned.content] == [
        _plain(b) for b in original.content if not _is_empty(b)
    ]


def _is_empty(block: Any) -> bool:
    nothing = isinstance(block, swink.TextBlock) and not (block.text or block.metadata)
    return nothing or is_empty(block)


def _plain(block: Any) -> Any:
    """Return the parts of a block that have a field here or are sealed."""
    if isinstance(block, swink.TextBlock):
        return block.text, block.metadata or None
    if isinstance(block, swink.ToolCallBlock):
        return block.id, block.name, block.arguments, block.metadata or None
    return block


# -- OpenAI's SDK ----------------------------------------------------------------------------------


async def test_the_sdk_reads_a_streamed_and_a_complete_answer() -> None:
    thought = [swink.ThinkingStart(0), swink.ThinkingDelta(0, "hm"), swink.ThinkingEnd(0, "sig")]
    text = [swink.TextStart(1), swink.TextDelta(1, "Hello"), swink.TextEnd(1)]
    call = [
        swink.ToolCallStart(2, "c1", "f"),
        swink.ToolCallDelta(2, '{"a":1}'),
        swink.ToolCallEnd(2),
    ]
    answer = events(*thought, *text, *call, usage=USAGE, model="m1", response_id="r1")
    async with serving(Scripted(answer)) as gateway, openai_client(gateway.url) as client:
        async with client.responses.stream(**ASK) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
        whole = await client.responses.create(**ASK)
    assert "response.reasoning_text.delta" in kinds
    assert "response.function_call_arguments.done" in kinds
    for response in (final, whole):
        thinking, message, called = response.output
        assert thinking.content[0].text == "hm"
        assert (response.output_text, message.status) == ("Hello", "completed")
        assert (called.call_id, called.name, called.arguments) == ("c1", "f", '{"a":1}')
        assert response.id.startswith("resp_")
        assert (response.model, response.status) == ("m1", "completed")
        assert response.usage.input_tokens_details.cached_tokens == 4
        assert response.usage.output_tokens_details.reasoning_tokens == 2


def test_a_response_repeats_the_requests_options() -> None:
    asked = {**ASK, "instructions": "Be brief.", "temperature": 0.5, "metadata": {"a": "b"}}
    echo = RESPONSES.read(asked, {}, {}).said["echo"]
    last = frames_of(written(RESPONSES, [events(*TEXT)], echo=echo))[-1]["response"]
    assert (last["instructions"], last["temperature"]) == ("Be brief.", 0.5)
    assert asked_for().said == {}


OWN: Any = {"wire_formats": {"acme": "openai-responses"}}
ITEM_OF = {"thought": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}}


def own_answer() -> list[Any]:
    """Return the events of an answer from the API itself, including metadata of items."""
    said = {"item": {"id": "msg_1", "phase": "commentary"}, "annotations": [{"type": "file_path"}]}
    return events(
        swink.ThinkingStart(0), swink.ThinkingDelta(0, "hm"),
        swink.ThinkingEnd(0, metadata={"item": ITEM_OF["thought"]}),
        swink.TextStart(1), swink.TextDelta(1, "so"), swink.TextEnd(1, said),
        swink.ToolCallStart(2, "c1", "f"), swink.ToolCallDelta(2, "{}"),
        swink.ToolCallEnd(2, {"item": {"id": "fc_1"}}),
        stop_reason=StopReason.TOOL_USE,
    )  # fmt: skip


@pytest.mark.parametrize("at_once", [True, False], ids=["in one read", "in many"])
def test_an_item_keeps_its_first_id(at_once: bool) -> None:
    answer = own_answer()
    batches = [answer] if at_once else [[event] for event in answer]
    frames = frames_of(written(RESPONSES, batches, **OWN))
    ids: dict[int, set[str]] = {}
    for frame in frames:
        if "output_index" in frame:
            said = frame.get("item_id") or frame["item"]["id"]
            ids.setdefault(frame["output_index"], set()).add(said)
    last = [item["id"] for item in frames[-1]["response"]["output"]]
    assert [ids[place] for place in sorted(ids)] == [{id} for id in last]
    assert (last == ["rs_1", "msg_1", "fc_1"]) is at_once


SOURCES = [{"type": "url_citation", "url": f"https://{name}.example"} for name in "ab"]


@pytest.mark.parametrize("own", [OWN, {}], ids=["the API's own", "of Chat Completions"])
def test_each_source_of_a_text_is_an_event_before_the_end_of_its_part(own: Any) -> None:
    text = swink.TextDelta(0, "so"), swink.TextEnd(0, {"annotations": SOURCES})
    frames = frames_of(written(RESPONSES, [events(swink.TextStart(0), *text)], **own))
    kinds = [frame["type"] for frame in frames]
    end = kinds.index("response.content_part.done")
    part = frames[end]["part"]
    assert [one["url"] for one in part["annotations"]] == [one["url"] for one in SOURCES]
    item = frames[kinds.index("response.output_item.added")]
    place = {"item_id": item["item"]["id"], "output_index": 0, "content_index": 0}
    assert frames[end - 2 : end] == [
        {
            "type": "response.output_text.annotation.added",
            "sequence_number": end - 2 + number,
            **place,
            "annotation_index": number,
            "annotation": source,
        }
        for number, source in enumerate(part["annotations"])
    ]


@pytest.mark.parametrize("at_once", [True, False], ids=["in one read", "in many"])
def test_the_apis_own_metadata_of_items_survives_the_client(at_once: bool) -> None:
    answer = own_answer()
    batches = [answer] if at_once else [[event] for event in answer]
    returned = back(frames_of(written(RESPONSES, batches, **OWN))[-1]["response"]["output"])
    thought, text, _ = returned.content
    assert isinstance(thought, swink.ThinkingBlock)
    assert isinstance(text, swink.TextBlock)
    known = dict(ITEM_OF["thought"])
    if not at_once:
        known.pop("id")  # encrypted content is invalid with another id
    assert returned.provider == "acme"
    assert thought.metadata == {"item": known}
    about = {"item": {"phase": "commentary"}, "annotations": [{"type": "file_path"}]}
    assert text.metadata == about


async def test_an_unknown_previous_response_has_its_code_over_http() -> None:
    body = {"model": "echo/echo", "input": "Hi", "previous_response_id": "nobody's"}
    async with serving() as gateway:
        answer = await ask(gateway, "/v1/responses", body)
    assert answer.status == 400
    error = answer.json["error"]
    assert error["code"] == "previous_response_not_found"
    assert error["type"] == "invalid_request_error"
