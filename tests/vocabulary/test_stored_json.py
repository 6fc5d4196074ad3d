"""JSON that earlier versions wrote is read, and written alike.

Messages and events were classes of attrs then.

Recordings, logs, journals and cassettes hold such data.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Context,
    Cost,
    DocumentBlock,
    Done,
    Error,
    Event,
    Extension,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    Notice,
    Retry,
    Start,
    StopReason,
    StreamErrorKind,
    SystemMessage,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    Tool,
    ToolCallBlock,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResultMessage,
    UrlSource,
    Usage,
    UserMessage,
    dump,
    load,
)

ANSWER = AssistantMessage(
    [
        ThinkingBlock("Let me look.", "sig==", False, {"item": {"id": "rs_1"}}),
        TextBlock("It rains.", {"citations": [{"url": "https://a.example"}]}),
        ToolCallBlock("call_1", "look", {"place": "K\u00f6ln"}, '{"place": "K\u00f6ln"}'),
        ExtensionBlock("acme", "search", {"id": "s1", "results": [1, None, 2.5]}),
    ],
    "acme",
    "acme-large-1",
    "resp_1",
    "req_1",
    Usage(10, 20, 3, None, 5, 30, {"tier": "x"}, True),
    Cost(0.001, 0.002, 0.0, None, 0.003, None),
    StopReason.TOOL_USE,
    None,
    None,
    {"service_tier": "default"},
    Usage(20, 40, reported=True),
    Cost(total=0.006),
)
STORED_ANSWER = """
{
 "role": "assistant",
 "content": [
  {
   "type": "thinking",
   "thinking": "Let me look.",
   "signature": "sig==",
   "metadata": {
    "item": {
     "id": "rs_1"
    }
   }
  },
  {
   "type": "text",
   "text": "It rains.",
   "metadata": {
    "citations": [
     {
      "url": "https://a.example"
     }
    ]
   }
  },
  {
   "type": "tool_call",
   "id": "call_1",
   "name": "look",
   "arguments": {
    "place": "K\\u00f6ln"
   },
   "raw_arguments": "{\\"place\\": \\"K\\u00f6ln\\"}"
  },
  {
   "type": "extension",
   "provider": "acme",
   "kind": "search",
   "data": {
    "id": "s1",
    "results": [
     1,
     null,
     2.5
    ]
   }
  }
 ],
 "provider": "acme",
 "model": "acme-large-1",
 "response_id": "resp_1",
 "request_id": "req_1",
 "usage": {
  "input": 10,
  "output": 20,
  "cache_read": 3,
  "reasoning": 5,
  "total": 30,
  "extra": {
   "tier": "x"
  },
  "reported": true
 },
 "cost": {
  "input": 0.001,
  "output": 0.002,
  "cache_read": 0.0,
  "total": 0.003
 },
 "stop_reason": "tool_use",
 "metadata": {
  "service_tier": "default"
 },
 "total_usage": {
  "input": 20,
  "output": 40,
  "reported": true
 },
 "total_cost": {
  "total": 0.006
 }
}
"""

CONVERSATION = Context(
    [
        SystemMessage("Be brief."),
        UserMessage(
            [
                TextBlock("Look:"),
                ImageBlock(Base64Source("image/png", "AA=="), {"detail": "low"}),
                DocumentBlock(UrlSource("https://a.example/b.pdf"), "b.pdf"),
                AudioBlock(FileIdSource("acme", "file_1")),
            ]
        ),
        ToolResultMessage("call_1", "look", [TextBlock("rain")], True),
        UserMessage("And now?"),
    ],
    "Answer in German.",
    [
        Tool("look", "Looks.", {"type": "object"}, True, {"acme": {"defer": True}}),
        Tool("bare"),
    ],
)
STORED_CONVERSATION = """
{
 "messages": [
  {
   "role": "system",
   "content": "Be brief."
  },
  {
   "role": "user",
   "content": [
    {
     "type": "text",
     "text": "Look:"
    },
    {
     "type": "image",
     "source": {
      "type": "base64",
      "media_type": "image/png",
      "data": "AA=="
     },
     "metadata": {
      "detail": "low"
     }
    },
    {
     "type": "document",
     "source": {
      "type": "url",
      "url": "https://a.example/b.pdf"
     },
     "name": "b.pdf"
    },
    {
     "type": "audio",
     "source": {
      "type": "file_id",
      "provider": "acme",
      "id": "file_1"
     }
    }
   ]
  },
  {
   "role": "tool_result",
   "tool_call_id": "call_1",
   "tool_name": "look",
   "content": [
    {
     "type": "text",
     "text": "rain"
    }
   ],
   "is_error": true
  },
  {
   "role": "user",
   "content": "And now?"
  }
 ],
 "system_prompt": "Answer in German.",
 "tools": [
  {
   "name": "look",
   "description": "Looks.",
   "parameters": {
    "type": "object"
   },
   "strict": true,
   "metadata": {
    "acme": {
     "defer": true
    }
   }
  },
  {
   "name": "bare"
  }
 ]
}
"""

EVENTS: list[tuple[Event, str]] = [
    (
        Start(),
        '{"type": "start"}',
    ),
    (
        ThinkingStart(0),
        '{"type": "thinking_start", "content_index": 0}',
    ),
    (
        ThinkingDelta(0, "Hm."),
        '{"type": "thinking_delta", "content_index": 0, "delta": "Hm."}',
    ),
    (
        ThinkingEnd(0, "sig", True, {"a": 1}),
        '{"type": "thinking_end", "content_index": 0, "signature": "sig", '
        '"redacted": true, "metadata": {"a": 1}}',
    ),
    (
        TextStart(1),
        '{"type": "text_start", "content_index": 1}',
    ),
    (
        TextDelta(1, "Hi \ud800"),
        '{"type": "text_delta", "content_index": 1, "delta": "Hi \\ud800"}',
    ),
    (
        TextEnd(1),
        '{"type": "text_end", "content_index": 1}',
    ),
    (
        ToolCallStart(2, "call_1", "look"),
        '{"type": "tool_call_start", "content_index": 2, "id": "call_1", "name": "look"}',
    ),
    (
        ToolCallDelta(2, "{}"),
        '{"type": "tool_call_delta", "content_index": 2, "delta": "{}"}',
    ),
    (
        ToolCallEnd(2),
        '{"type": "tool_call_end", "content_index": 2}',
    ),
    (
        Extension(3, "acme", "search", {"q": [1]}),
        '{"type": "extension", "content_index": 3, "provider": "acme", "kind": '
        '"search", "data": {"q": [1]}}',
    ),
    (
        Notice("buffered", "why"),
        '{"type": "notice", "code": "buffered", "detail": "why"}',
    ),
    (
        Retry(2, 3, 0.5, "overloaded", "acme/large", StreamErrorKind.OVERLOADED),
        '{"type": "retry", "attempt": 2, "max_attempts": 3, "delay": 0.5, '
        '"error": "overloaded", "model": "acme/large", "error_kind": '
        '"overloaded"}',
    ),
    (
        Done(
            StopReason.STOP,
            Usage(1, 2),
            Cost(total=0.1),
            "resp_1",
            "acme-large-1",
            "req_1",
            {"x": 1},
        ),
        '{"type": "done", "stop_reason": "stop", "usage": {"input": 1, '
        '"output": 2}, "cost": {"total": 0.1}, "response_id": "resp_1", '
        '"model": "acme-large-1", "request_id": "req_1", "metadata": {"x": 1}}',
    ),
    (
        Error(StopReason.ABORTED, "closed", None, StreamErrorKind.CANCELLED),
        '{"type": "error", "stop_reason": "aborted", "error_message": "closed",'
        ' "error_kind": "cancelled"}',
    ),
]


def read(stored: str) -> Any:
    return json.loads(stored)


def test_a_stored_answer_is_read_and_written_alike() -> None:
    loaded = load(AssistantMessage, read(STORED_ANSWER))
    assert loaded == ANSWER
    assert (loaded.total_usage, loaded.total_cost) == (ANSWER.total_usage, ANSWER.total_cost)
    assert json.dumps(dump(ANSWER)) == json.dumps(read(STORED_ANSWER))


def test_a_stored_conversation_is_read_and_written_alike() -> None:
    assert load(Context, read(STORED_CONVERSATION)) == CONVERSATION
    assert json.dumps(dump(CONVERSATION)) == json.dumps(read(STORED_CONVERSATION))


@pytest.mark.parametrize(("event", "stored"), EVENTS, ids=lambda each: getattr(each, "type", ""))
def test_a_stored_event_is_read_and_written_alike(event: Event, stored: str) -> None:
    assert load(Event, read(stored)) == event
    assert json.dumps(dump(event)) == stored


def test_the_rule_of_an_event_of_before_is_not_taken_for_a_code() -> None:
    stored = {"type": "error", "error_message": "slow down", "error_kind": "throttled"}
    loaded = load(Event, {**stored, "rule": "status:429"})
    assert loaded == Error(error_message="slow down", error_kind=StreamErrorKind.THROTTLED)
    assert dump(loaded) == stored
