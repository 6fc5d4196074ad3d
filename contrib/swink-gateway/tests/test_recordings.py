"""Recordings of every provider, through the gateway, to the vendors' SDKs.

What an SDK reads of an answer that came from another provider is what swink reads of it directly.
Where the provider speaks the client's own protocol, it is what the SDK reads of the vendor's own
bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sdks import READERS, STOPS, read
from serving import serving

import swink_core as swink
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_recorder.recording import Recording, bundled_recordings
from swink_testing.corpus import Case, ids, stream_cases
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, comparable

PROVIDERS = ("anthropic", "gemini", "ollama", "openai")


def recordings() -> Iterator[Recording]:
    for provider in PROVIDERS:
        for folder in bundled_recordings(f"swink_provider_{provider}"):
            recording = Recording.load(folder)
            if recording.provider != "vertex":  # which wants credentials of another kind
                yield recording


def own(recording: Recording) -> dict[str, Any]:
    """Return the options that a provider is asked with."""
    options = {"base_url": "http://upstream.invalid/v1", "api_key": "test"}
    if recording.wire_format == "openai-responses":
        options["api"] = "responses"
    return {recording.provider: options}


@pytest.mark.parametrize("recording", [*recordings()], ids=lambda r: f"{r.provider}-{r.name}")
@pytest.mark.parametrize("protocol", [*READERS])
async def test_an_sdk_reads_what_swink_reads(protocol: str, recording: Recording) -> None:
    model = f"{recording.provider}/{recording.model}"
    http = MemoryHTTPClient(*(MemoryResponse.of_recording(recording) for _ in range(2)))
    async with serving(http=http, providers=own(recording)) as gateway:
        client = gateway.client
        once = {"retry": swink.RetryPolicy.none()}
        async with client.stream(model, "Hi", **once) as stream:
            async for _ in stream.batches():
                pass
        direct = comparable(stream.message)
        found = await read(protocol, gateway, model)
    if direct.error_kind is not None:
        assert found.error is not None
        assert (direct.error_message or "").partition("\n")[0] in str(found.error)
        return
    assert found.error is None
    assert found.text == direct.text
    assert found.thinking == direct.thinking
    called = [(c.name, c.arguments) for c in direct.tool_calls]
    assert [call[1:] for call in found.calls] == called
    assert direct.stop_reason is not None
    assert found.stop == STOPS[protocol][direct.stop_reason]
    assert found.model == direct.model
    if direct.response_id is not None:
        assert found.id == direct.response_id
    if direct.usage is not None and direct.usage.output is not None:
        assert found.output == direct.usage.output


class Vendor(LoopbackServer):
    """Answers everything with one recorded body."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case

    async def respond(self, exchange: Exchange) -> None:
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        await exchange.write(self._case.body)
        await exchange.end()


DIFFERENCES = {
    "anthropic/vercel-anthropic-programmatic-tool-calling-1-part2": "who called is known at the "
    "end of a call and sealed beside it",
    "anthropic/vercel-spliced-message-start": "an answer that begins anew is a failure, since "
    "what was shown cannot be taken back",
    **dict.fromkeys(
        (
            "openai_chat/mirascope-async-stream",
            "openai_chat/openai-python-snapshot-569c877e",
            "openai_responses/mirascope-async-stream",
            "openai_chat/semantic-kernel-chat-completion-streaming-refusal-test-response",
        ),
        "a refusal is told by its reason",
    ),
    **dict.fromkeys(
        ("anthropic/truncated-before-message-stop", "openai_chat/truncated-inside-tool-args"),
        "a stream that was cut is a failure",
    ),
    "openai_responses/prism-stream-multiple-output-items-1": "the SDK does without a last event",
    "openai_responses/vercel-openai-custom-tool-1": "a tool that the request does not offer is "
    "called with arguments",
    "openai_chat/llm-tools-streaming-variant-a": "a second call under the index of another is a "
    "call of its own",
}
"""Where we know better than the vendor's SDK, or tell less."""

TURNED = [
    ("messages", "anthropic/any", "anthropic"),
    ("chat", "openai/any", "openai_chat"),
    ("responses", "openai/gpt-5.3-codex", "openai_responses"),
]


@pytest.mark.parametrize(
    ("protocol", "model", "case"),
    [(p, model, case) for p, model, folder in TURNED for case in stream_cases(folder)],
    ids=lambda value: ids(value) if isinstance(value, Case) else value,
)
async def test_the_corpus_turned_round_is_read_as_the_vendors_own(
    protocol: str, model: str, case: Case
) -> None:
    async with Vendor(case) as vendor:
        there = {"base_url": f"{vendor.url}/v1", "api_key": "test"}
        provider = model.partition("/")[0]
        original = await read(protocol, vendor.url, "any")
        async with serving(providers={provider: there}) as gateway:
            turned = await read(protocol, gateway, model)
    if case.name in DIFFERENCES:
        assert turned != original
    elif original.error is not None:
        assert turned.error is not None
    else:
        assert turned == original
