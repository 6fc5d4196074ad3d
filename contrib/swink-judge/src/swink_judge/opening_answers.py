"""Answers with opaque data, in the format of each API, for tests that continue a conversation.

Opaque strings contain `OPAQUE` and reasoning contains `PRIVATE`. Tests search for these words in
requests to other providers, which must not contain them.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from swink_core import (
    Block,
    ExtensionBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

__all__ = ["BY_API", "OPAQUE", "PRIVATE", "Beginning", "beginning"]

OPAQUE = "opaque-"
PRIVATE = "private thought"

SIGNATURE = f"{OPAQUE}signature=="
REDACTED = f"{OPAQUE}redacted=="
CITED = f"{OPAQUE}citation=="
CALLED = f"{OPAQUE}call=="
SERVED = f"{OPAQUE}server-tool=="
SAID = "I look it up."


@define
class Beginning:
    """The content of an answer with three tool calls.

    `returned` are the strings of the answer that the next request to the same provider must
    contain. If a test has removed the tool calls from the answer, the request must also contain the
    strings in `said`.
    """

    content: list[Block]
    returned: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[str, ...]:
        """The strings that the next request must contain if the tool calls are removed."""
        of_calls = [
            str(block.metadata) for block in self.content if isinstance(block, ToolCallBlock)
        ]
        return (*self.said, *(m for m in self.returned if not any(m in own for own in of_calls)))


def _calls(*ids: str, metadata: dict[str, object] | None = None) -> list[Block]:
    return [
        ToolCallBlock(
            id, "look_up", {"at": n}, f'{{"at": {n}}}', metadata=metadata if not n else None
        )
        for n, id in enumerate(ids)
    ]


def _messages(provider: str) -> Beginning:
    asked = {"type": "server_tool_use", "id": f"srvtoolu_{OPAQUE}1", "name": "web", "input": {}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": f"srvtoolu_{OPAQUE}1",
        "content": [{"type": "web_search_result", "encrypted_content": SERVED}],
    }
    return Beginning(
        [
            ThinkingBlock(PRIVATE, SIGNATURE),
            ThinkingBlock("", REDACTED, redacted=True),
            ExtensionBlock(provider, "server_tool_use", asked),
            ExtensionBlock(provider, "web_search_tool_result", found),
            TextBlock(SAID, {"citations": [{"type": "page_location", "encrypted_index": CITED}]}),
            *_calls("toolu_01AbCdEfGhIjKlMnOpQrStUv", "toolu_02", "toolu_03"),
        ],
        (PRIVATE, SIGNATURE, REDACTED, CITED, SERVED),
    )


def _converse(provider: str) -> Beginning:
    asked = {"toolUseId": "srv_1", "name": "web", "input": {}, "type": "server_tool_use"}
    found = {"toolUseId": "srv_1", "content": [{"text": SERVED}], "status": "success"}
    return Beginning(
        [
            ThinkingBlock(PRIVATE, SIGNATURE),
            ThinkingBlock("", REDACTED, redacted=True),
            ExtensionBlock(provider, "toolUse", {"toolUse": asked}),
            ExtensionBlock(provider, "toolResult", {"toolResult": found}),
            TextBlock(SAID, {"citations": [{"title": CITED}]}),
            *_calls("tooluse_AbC-dEf_1234567890abcd", "tooluse_2", "tooluse_3"),
        ],
        (PRIVATE, SIGNATURE, REDACTED, CITED, SERVED),
    )


def _generate_content(provider: str) -> Beginning:
    code = {"executableCode": {"language": "PYTHON", "code": SERVED}}
    ran = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    return Beginning(
        [
            ThinkingBlock(PRIVATE, SIGNATURE),
            ExtensionBlock(provider, "executableCode", code),
            ExtensionBlock(provider, "codeExecutionResult", ran),
            TextBlock(SAID, {"thoughtSignature": CITED}),
            *_calls(
                "swink_call_0330bb3b4ded_0_0", "swink_call_0330bb3b4ded_0_1",
                "0b6f9d3c-5d0e-4f7c-9a41-6b1f0c1f2e3d",
                metadata={"thoughtSignature": CALLED},
            ),
        ],
        (PRIVATE, SIGNATURE, CITED, CALLED, SERVED),
    )  # fmt: skip


def _chat(provider: str) -> Beginning:
    return Beginning(
        [
            ThinkingBlock(PRIVATE),
            TextBlock(SAID, {"annotations": [{"type": "url_citation", "title": CITED}]}),
            *_calls(
                "call_AbCdEfGhIjKlMnOpQrStUvWx",
                "chatcmpl-tool-0123456789abcdef0123456789abcdef",
                "functions.look_up:2",
                metadata={"extra_content": {"google": {"thought_signature": CALLED}}},
            ),
        ],
        (CALLED,),
    )


def _replayed(provider: str) -> Beginning:
    plain = _chat(provider)
    return Beginning(plain.content, (PRIVATE, CALLED))


def _details(provider: str) -> Beginning:
    details = [{"type": "reasoning.encrypted", "data": SIGNATURE, "index": 0}]
    plain = _chat(provider)
    thought = ThinkingBlock(PRIVATE, metadata={"reasoning_details": details})
    return Beginning([thought, *plain.content[1:]], (SIGNATURE, CALLED))


def _mistral(provider: str) -> Beginning:
    content: list[Block] = [ThinkingBlock(PRIVATE), TextBlock(SAID, {"reference_ids": [CITED]})]
    return Beginning([*content, *_calls("D681PevKs", "aBcDeFgH1", "012345678")], (PRIVATE, CITED))


def _responses(provider: str) -> Beginning:
    reasoning = {
        "type": "reasoning",
        "id": f"rs_{OPAQUE}1",
        "summary": [{"type": "summary_text", "text": PRIVATE}],
        "encrypted_content": SIGNATURE,
    }
    searched = {"type": "web_search_call", "id": f"ws_{OPAQUE}1", "status": "completed"}
    return Beginning(
        [
            ThinkingBlock(PRIVATE, metadata={"item": reasoning}),
            ExtensionBlock(provider, "web_search_call", searched),
            TextBlock(SAID, {"item": {"id": f"msg_{OPAQUE}1"}, "annotations": [{"title": CITED}]}),
            *_calls(
                "call_AbCdEfGhIjKlMnOpQrStUvWx", "call_2", "call_3",
                metadata={"item": {"id": f"fc_{OPAQUE}1"}},
            ),
        ],
        (PRIVATE, SIGNATURE, CITED, searched["id"], f"fc_{OPAQUE}1"),
    )  # fmt: skip


def _agent(provider: str) -> Beginning:
    """Return an answer of the Agent API.

    Its item ids, and the results of server-side tools, are not sent back.
    """
    found = {"type": "search_results", "results": [{"title": SERVED}]}
    said = TextBlock(SAID, {"item": {"id": f"msg_{OPAQUE}1"}})
    calls = _calls("call_1", "call_2", "call_3", metadata={"item": {"id": f"fc_{OPAQUE}1"}})
    searched = ExtensionBlock(provider, "search_results", found)
    return Beginning([ThinkingBlock(PRIVATE), searched, said, *calls])


def _ollama(provider: str) -> Beginning:
    ids = (f"swink_call_0330bb3b4ded_0_{n}" for n in range(3))
    return Beginning([ThinkingBlock(PRIVATE), TextBlock(SAID), *_calls(*ids)], (PRIVATE,))


def _cohere(provider: str) -> Beginning:
    content: list[Block] = [ThinkingBlock(PRIVATE), TextBlock(SAID, {"citations": [CITED]})]
    return Beginning(
        [*content, *_calls("look_up_0a1b2c3d", "look_up_1", "look_up_2")], (PRIVATE,), (CITED,)
    )


def _echo(provider: str) -> Beginning:
    ids = ("echo_1", f"echo|{'2' * 80}", "3")
    content: list[Block] = [ThinkingBlock(PRIVATE, SIGNATURE), TextBlock(SAID)]
    return Beginning([*content, *_calls(*ids)], (PRIVATE, SIGNATURE))


def _stream_json(provider: str) -> Beginning:
    """Return an answer without calls of server-side tools. Only its text is sent back."""
    return Beginning(_messages(provider).content)


BY_API: dict[str, Callable[[str], Beginning]] = {
    "anthropic-messages": _messages,
    "bedrock-converse": _converse,
    "claude-stream-json": _stream_json,
    "cohere-chat": _cohere,
    "gemini-generate-content": _generate_content,
    "mistral": _mistral,
    "none": _echo,
    "ollama-chat": _ollama,
    "openai-chat": _chat,
    "openai-chat reasoning": _replayed,
    "openai-chat reasoning_content": _replayed,
    "openai-chat reasoning_details": _details,
    "openai-responses": _responses,
    "perplexity-agent": _agent,
    "swink": _messages,
}


def beginning(api: str, provider: str) -> Beginning:
    """Return an answer in the format of `provider`; `api` is a key of `BY_API`."""
    return BY_API[api](provider)
