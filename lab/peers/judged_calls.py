"""The calls whose requests are judged, as data for every library."""

from __future__ import annotations

import base64
import json
from typing import Any

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Context,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
)
from swink_judge.matrix.cases import Case
from swink_judge.matrix.conversations import conversation
from swink_judge.matrix.models import AskedModel
from swink_judge.matrix.options import SCHEMA

MODELS = {
    "openai": (
        "gpt-6.1-sol", "gpt-6-luna", "gpt-5.6-terra", "gpt-5.5", "gpt-5.5-pro", "gpt-5.4",
        "gpt-5.4-mini", "gpt-5.2", "gpt-5.4-2026-03-05", "gpt-6.2-sol", "gpt-7",
    ),
    "anthropic": (
        "claude-opus-5-5", "claude-fable-5-2", "claude-sonnet-5", "claude-opus-4-8",
        "claude-opus-4-6", "claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-opus-6",
    ),
}  # fmt: skip
"""Current models, a dated id, and successors that no catalogue lists."""

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("plain", {}),
    ("plain", {"temperature": 0.2}),
    ("plain", {"temperature": 0}),
    ("plain", {"top_p": 0.9}),
    ("plain", {"temperature": 0.2, "top_p": 0.9}),
    ("plain", {"max_tokens": 15}),
    ("plain", {"max_tokens": 9_999_999}),
    ("plain", {"stop": ["nonce_stop"]}),
    ("plain", {"stop": [f"nonce_stop{n}" for n in range(5)]}),
    ("plain", {"seed": 7}),
    ("plain", {"thinking": "off"}),
    ("plain", {"thinking": "low"}),
    ("plain", {"thinking": "high"}),
    ("plain", {"thinking": "high", "temperature": 0.2}),
    ("plain", {"response_format": SCHEMA}),
    ("tools", {}),
    ("tools", {"thinking": "high"}),
    ("tools", {"tool_choice": "required"}),
    ("tools", {"tool_choice": "required", "thinking": "high"}),
    ("tools", {"parallel_tool_calls": False}),
    ("tools", {"response_format": SCHEMA}),
    ("tool used", {}),
    ("tool used, then a user", {}),
    ("parallel calls", {}),
    ("odd ids", {}),
    ("tool name with dots", {}),
    ("tool name of 70", {}),
    ("schema deep", {}),
    ("schema anyOf at the root", {}),
    ("system prompt", {}),
    ("system message inside", {}),
    ("prefill", {}),
    ("image", {}),
    ("image in a result", {}),
    ("audio", {}),
)


def cases() -> list[Case]:
    """Return the calls to every model."""
    return [
        Case(provider, AskedModel(id, "listed", id), name, options)
        for provider, ids in MODELS.items()
        for id in ids
        for name, options in CALLS
    ]


# -- a conversation as every library takes it ----------------------------------------------------


def chat_messages(context: Context) -> list[dict[str, Any]]:
    """Write a conversation in the words of Chat Completions."""
    said: list[dict[str, Any]] = []
    if context.system_prompt:
        said.append({"role": "system", "content": context.system_prompt})
    for message in context.messages:
        if isinstance(message, ToolResultMessage):
            result = {"role": "tool", "tool_call_id": message.tool_call_id}
            said.append({**result, "name": message.tool_name, "content": _content(message.content)})
        elif isinstance(message, AssistantMessage):
            calls = [_call(block) for block in message.content if isinstance(block, ToolCallBlock)]
            text = "".join(b.text for b in message.content if isinstance(b, TextBlock))
            more = {"tool_calls": calls} if calls else {}
            said.append({"role": "assistant", "content": text or None, **more})
        else:
            role = "system" if isinstance(message, SystemMessage) else "user"
            said.append({"role": role, "content": _content(message.content)})
    return said


def _call(block: ToolCallBlock) -> dict[str, Any]:
    function = {"name": block.name, "arguments": json.dumps(block.arguments)}
    return {"id": block.id, "type": "function", "function": function}


def _content(content: str | list[Block]) -> Any:
    if isinstance(content, str):
        return content
    return [_part(block) for block in content if not isinstance(block, ThinkingBlock)]


def _part(block: Block) -> dict[str, Any]:
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ImageBlock(Base64Source(media_type, data)):
            url = f"data:{media_type};base64,{data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case AudioBlock(Base64Source(_, data)):
            assert base64.b64decode(data).startswith(b"RIFF")
            return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    raise AssertionError(f"no call has such a part: {block}")


def asked(case: Case) -> dict[str, Any]:
    """Return a call as data, for a library in another process."""
    context = conversation(case.conversation).context
    tools = [
        {"name": t.name, "description": t.description, "parameters": t.parameters}
        for t in context.tools
    ]
    return {
        "provider": case.provider,
        "model": case.model.id,
        "messages": chat_messages(context),
        "tools": tools,
        "options": case.options,
    }
