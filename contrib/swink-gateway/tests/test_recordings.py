"""Recordings of every provider, read by the vendors' SDKs through the gateway.

An SDK must read from another provider's answer what swink reads from it directly, streamed or
complete. If the provider uses the client's own protocol, the SDK must read the same as from the
vendor's own bytes. With `SWINK_GATEWAY_CLIENTS`, the whole corpus is read; otherwise, a part.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from judging import check
from sdks import CLIENTS, Ask, Read
from serving import ask, serving
from upstream import (
    BEGUN_ANEW,
    CANNOT_TAKE_BACK,
    EVERYTHING,
    FOLDERS,
    Answers,
    Upstream,
    Vendor,
    about,
    corpus,
    shipped,
)

from swink_core import replace

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

GROUPS = shipped()
ASK = Ask()


NOT_FOR_GOOGLE = {
    "gemini/to-be-continued": "Google's SDK retries by itself after the end of the answer",
    "openai_responses/vercel-openai-image-generation-tool-1": "its images are not base64",
}
"""Answers that Google's SDK does not read, with the reason."""

MORE_CACHED = "azure/ruby-llm-chat-function-calling-azure-grok-4-1-fast-non-reasoning-can-use-2"
"""An answer with more cached tokens than its prompt has; Messages counts only the others."""


async def judged(protocol: str, upstreams: list[Upstream], whole: bool) -> None:
    answers = Answers()
    async with (
        serving(http=answers, providers=upstreams[0].providers) as gateway,
        CLIENTS[protocol](gateway.url) as client,
    ):
        for upstream in upstreams:
            if upstream.name in NOT_FOR_GOOGLE and protocol == "gemini":
                continue
            message, _ = await upstream.direct()
            if upstream.name == MORE_CACHED and protocol == "messages":
                message = replace(message, usage=None)
            for read in (client.stream, client.whole) if whole else (client.stream,):
                with about(upstream):
                    answers.next = upstream.answer()
                    found = await read(upstream.model, ASK)
                    begun_anew = upstream.name in BEGUN_ANEW and read == client.stream
                    if begun_anew and protocol in CANNOT_TAKE_BACK:
                        assert found.error is not None
                    else:
                        check(protocol, found, message)


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_a_recorded_answer_is_read_as_without_the_gateway(protocol: str) -> None:
    for group in GROUPS.values():
        await judged(protocol, group, whole=True)


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_the_corpus_is_read_as_without_the_gateway(protocol: str) -> None:
    parts = [found for part in FOLDERS if (found := corpus(part, 1000 if EVERYTHING else 2))]
    if not parts:
        pytest.skip("the corpus is not available")
    for upstreams in parts:
        await judged(protocol, upstreams, whole=False)


async def test_hidden_thinking_goes_back_like_visible_thinking() -> None:
    """The next request to a provider does not depend on whether its client saw the thinking."""
    thinking, thought = {"thinking": {"type": "adaptive"}}, 0
    for group in GROUPS.values():
        answers = Answers()
        async with serving(http=answers, providers=group[0].providers) as gateway:
            for upstream in group:
                with about(upstream):
                    nexts = []
                    for how in (thinking, {}):
                        said = await _said(gateway, answers, upstream, [HI], how)
                        is_shown = any(block.get("thinking") for block in said)
                        assert not is_shown or how
                        thought += is_shown
                        turns = [HI, {"role": "assistant", "content": said}, *_go_on(said)]
                        await _said(gateway, answers, upstream, turns, thinking)
                        nexts.append((answers.last.url, answers.last.body))
                    assert nexts[0] == nexts[1]
    assert thought >= 10


HI = {"role": "user", "content": "Hi"}


async def _said(
    gateway: Any, answers: Answers, upstream: Upstream, turns: Any, how: dict[str, Any]
) -> list[dict[str, Any]]:
    answers.next = upstream.answer()
    asked = {"model": upstream.model, "max_tokens": 9000, "messages": turns, **how}
    answer = await ask(gateway, "/v1/messages", asked)
    content: list[dict[str, Any]] = answer.json.get("content", [])
    return content


def _go_on(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    calls = [block["id"] for block in said if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": id, "content": "done"} for id in calls]
    return [{"role": "user", "content": results or "Go on."}]


# -- the corpus, encoded again ---------------------------------------------------------------------

CUT = "a truncated stream is a failure"
IN_PIECES = "a call with partial arguments is sent complete"

DIFFERENCES: dict[str, dict[str, str]] = {
    "messages": {
        "truncated-before-message-stop": CUT,
        "vercel-anthropic-compaction-1": "the billed tokens of a compaction are counted",
        "vercel-spliced-message-start": "an answer that begins anew is a failure",
    },
    "chat": {
        "truncated-inside-tool-args": CUT,
    },
    "responses": {
        "prism-stream-multiple-output-items-1": "the answer is read without its last event",
    },
    "gemini": {
        "firebase-vertexai-streaming-failure-malformed-content": "a damaged frame is a failure",
        "malformed-function-call": "an answer without content is a failure",
        "vercel-google-stream-no-args-tool-call": IN_PIECES,
        "vercel-google-stream-tool-call-array-arguments-missing-terminal-function-call": IN_PIECES,
        "vercel-google-vertex-stream-tool-call-arguments-nested-1": IN_PIECES,
    },
    "ollama": {},
}
"""Cases in which swink reports more or less than the vendor's SDK."""

TURNED = {
    "messages": ("anthropic", "", "any"),
    "chat": ("openai_chat", "/v1", "any"),
    "responses": ("openai_responses", "/v1", "gpt-5.3-codex"),
    "gemini": ("gemini", "", "any"),
    "ollama": ("ollama", "", "any"),
}
"""The part of the corpus in a vendor's protocol, the path prefix of requests, and a model."""


@pytest.mark.parametrize("protocol", [name for name in TURNED if name in CLIENTS])
async def test_the_corpus_encoded_again_is_read_as_the_vendors_own(protocol: str) -> None:
    folder, path, model = TURNED[protocol]
    upstreams, differ, ids = corpus(folder, most=1000), [], set[str | None]()
    if not upstreams:
        pytest.skip("the corpus is not available")
    async with Vendor() as vendor, CLIENTS[protocol](vendor.url) as direct:
        there = {"base_url": vendor.url + path}
        own = {name: {**given, **there} for name, given in upstreams[0].providers.items()}
        async with serving(providers=own) as gateway, CLIENTS[protocol](gateway.url) as client:
            for upstream in upstreams:
                vendor.answer = upstream
                original = await direct.stream(model, ASK)
                turned = await client.stream(f"{upstream.provider}/{model}", ASK)
                if original.id in ids and protocol == "responses":
                    original.id = turned.id  # two recordings have the same id
                ids.add(original.id)
                if not _same(original, turned):
                    differ.append(upstream.name.partition("/")[2])
    assert differ == sorted(DIFFERENCES[protocol])


def _same(original: Read, turned: Read) -> bool:
    """Tell whether both readings of an SDK are equal, except for data that the vendor left out."""
    if original.error is not None or turned.error is not None:
        return (original.error is None) is (turned.error is None)
    given = attrs.asdict(original)
    return all(said == getattr(turned, name) for name, said in given.items() if said)
