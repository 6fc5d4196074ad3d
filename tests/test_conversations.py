"""A conversation that began on any provider goes on on any other, and its API accepts it.

Every ordered pair of installed providers: a conversation created by the first (its kinds of ids,
signatures, metadata and opaque blocks, the answers of its recordings) is sent to the second. Of
providers that create the same conversation, one represents all as the first. The proxy sends it
unchanged, because its gateway converts it.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Client,
    Context,
    DocumentBlock,
    Error,
    ExtensionBlock,
    Host,
    ImageBlock,
    Message,
    RetryPolicy,
    StopReason,
    StreamErrorKind,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolResultMessage,
    UrlSource,
    UserMessage,
    dump,
    replace,
)
from swink_core.providers import Catalog, HTTPProvider, HTTPRequest, required_features, rule_of
from swink_judge import Judge, asked_of
from swink_judge.opening_answers import OPAQUE, PRIVATE
from swink_judge.participants import Participant, participants
from swink_judge.request_readers import Reading, read_request, strings_of
from swink_recorder.recording import Recording, bundled_recordings
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

HOST = Host()
HOST.join()  # what it loads stays loaded between the calls

CATALOG = Catalog(HOST)

JUDGE = Judge()

SEEN = "aW1hZ2Ugb2YgdGhlIHVzZXI="
FOUND = "aW1hZ2Ugb2YgdGhlIHRvb2w="

READ = "cGFwZXIgb2YgdGhlIHVzZXI="
SHELF = "https://files.example/paper.txt"
HEARD = "c3BlZWNoIG9mIHRoZSB1c2Vy"

PAPER = DocumentBlock(Base64Source("text/plain", READ), "paper.txt")
SPEECH = AudioBlock(Base64Source("audio/wav", HEARD))
MEDIA = {"images": ImageBlock, "documents": DocumentBlock, "audio": AudioBlock}

PARTICIPANTS = list(participants(HOST))
EVERYONE = list(participants(HOST, everyone=True))
PAIRS = [pytest.param(a, b, id=f"{a}-to-{b}") for a, b in product(PARTICIPANTS, EVERYONE)]


@cache
def _recorded(origin: Participant) -> tuple[AssistantMessage, ...]:
    return tuple(_answers(origin))


def _answers(origin: Participant) -> Iterator[AssistantMessage]:
    for folder in bundled_recordings(HOST.entry(origin.provider).package):
        recording = Recording.load(folder)
        message = recording.message
        own = (recording.provider, recording.wire_format) == (origin.provider, origin.wire)
        if own and message and message.error_kind is None:
            yield replace(message, provider=origin.provider)


def conversation(origin: Participant) -> Context:
    """Create a conversation as it looks after some answers of `origin`."""
    answer = AssistantMessage(
        origin.begins().content,
        provider=origin.provider,
        model=origin.model.id,
        stop_reason=StopReason.TOOL_USE,
    )
    first, second, _ = answer.tool_calls  # the third is never answered
    found: list[Block] = [TextBlock("found it"), ImageBlock(Base64Source("image/png", FOUND))]
    image = ImageBlock(Base64Source("image/png", SEEN))
    messages: list[Message] = [
        SystemMessage("Be kind."),
        UserMessage([TextBlock("What is on it?"), TextBlock(""), image, PAPER, SPEECH]),
        answer,
        SystemMessage([TextBlock("Be quick.")]),
        ToolResultMessage(first.id, first.name, found),
        ToolResultMessage(second.id, second.name, "the tool broke", is_error=True),
    ]
    for message in _recorded(origin):
        messages += [UserMessage("Go on."), message]
        messages += [ToolResultMessage(c.id, c.name, "found more") for c in message.tool_calls]
    messages += [SystemMessage("Be bold."), UserMessage("And now?")]
    return Context(messages, "Be brief.", [Tool("look_up", "Looks something up.")])


def _within(context: Context, features: frozenset[str]) -> Context:
    """Returns the conversation without what a provider does not have."""
    kinds = tuple(kind for feature, kind in MEDIA.items() if feature not in features)

    def kept(message: Message) -> Message:
        if isinstance(message, AssistantMessage) or isinstance(message.content, str):
            return message
        blocks: list[Block] = [b for b in message.content if not isinstance(b, kinds)]
        return replace(message, content=blocks)

    messages = [kept(message) for message in context.messages]
    return replace(context, messages=messages, tools=context.tools if "tools" in features else [])


def _by_address(context: Context) -> Context:
    """Returns the conversation with its document where a service can fetch it."""
    paper = DocumentBlock(UrlSource(SHELF, "text/plain"), "paper.txt")

    def moved(message: Message) -> Message:
        if isinstance(message.content, str) or PAPER not in message.content:
            return message
        return replace(message, content=[paper if b == PAPER else b for b in message.content])

    return replace(context, messages=[moved(message) for message in context.messages])


def _provider(participant: Participant) -> Any:
    return HOST.bind(participant.provider).provider


def _features(participant: Participant) -> set[str]:
    api, model = _provider(participant), CATALOG.resolve(participant.model)
    if isinstance(api, HTTPProvider):
        api = api.api(model, StreamOptions(**participant.options))
    refused = {name for name, taken in rule_of(model, api).takes.items() if taken is False}
    return {*api.features} - refused


async def _sent(target: Participant, context: Context) -> tuple[list[HTTPRequest], Error | None]:
    """Returns the requests that a call makes, and how it failed."""
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "enough"}}, 400))
    options = {"api_key": "test", "base_url": "http://server.example", **target.options}
    async with (
        Client(host=HOST, http=http, retry=RetryPolicy.none()) as client,
        client.stream(str(target.model), context, **options) as stream,
    ):
        events = [event async for event in stream]
    failed = events[-1] if isinstance(events[-1], Error) else None
    return http.requests, failed


def _request(target: Participant, context: Context) -> Any:
    if target.rules.in_words:
        options = StreamOptions(**target.options)
        return _provider(target).convert_messages(target.model, context, options)
    requests, _ = asyncio.run(_sent(target, context))
    *questions, request = requests  # a server may be asked what its model can do
    assert all(asked_of(target.provider, one.url, one.body) is None for one in questions)
    asked = asked_of(target.provider, request.url, request.body)
    assert asked is not None or target.provider not in JUDGE.providers
    if asked is not None:
        refused = JUDGE.refusals(asked.provider, asked.api, asked.model, asked.body)
        assert [(rule.id, rule.source) for rule in refused] == []
    return json.loads(request.body)


def _opaque(context: Context) -> set[str]:
    """Returns the strings of opaque state that are not also said in the conversation."""
    blocks = [b for m in context.messages if not isinstance(m.content, str) for b in m.content]
    said = json.dumps([dump(_bare(block)) for block in blocks], ensure_ascii=False)
    return {
        text
        for block in blocks
        for text in _values(_state(block))
        if len(text) >= 12 and text not in said
    }


def _values(data: Any) -> Iterator[str]:
    """Yields what could only come from where it came from: no names and no types."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from _values([value for name, value in data.items() if name != "type"])
    elif isinstance(data, list):
        for item in data:
            yield from _values(item)


def _bare(block: Block) -> Block:
    if isinstance(block, ThinkingBlock | ExtensionBlock):
        return TextBlock("")
    return replace(block, metadata=None)


def _state(block: Block) -> Any:
    data = block.data if isinstance(block, ExtensionBlock) else None
    thought = block.thinking if isinstance(block, ThinkingBlock) else None
    values = block.metadata or {}
    return [data, thought, getattr(block, "signature", None), list(values.values())]


@pytest.mark.parametrize(("origin", "target"), PAIRS)
def test_a_conversation_goes_on_elsewhere(origin: Participant, target: Participant) -> None:
    context = conversation(origin)
    if missing := required_features(context, StreamOptions()) - _features(target):
        requests, failed = asyncio.run(_sent(target, context))
        assert requests == []
        assert failed is not None
        assert failed.error_kind is StreamErrorKind.UNSUPPORTED
        assert not missing & _features(target)
        context = _within(context, _features(target))
    if target.rules.documents_by_address:
        context = _by_address(context)
    before = copy.deepcopy(context)
    body = _request(target, context)
    assert context == before
    if target.wire == "swink":
        _check_whole(body, context, target)
        return
    _check_state(list(strings_of(body)), context, origin, target)
    _check_words(list(strings_of(body)), target)
    _check_turns(read_request(target.wire, body), target)


def _check_whole(body: Any, context: Context, target: Participant) -> None:
    """Its answers become messages for the next model."""
    own = target.provider
    sent = [
        replace(m, provider=None) if isinstance(m, AssistantMessage) and m.provider == own else m
        for m in context.messages
    ]
    assert body["messages"] == json.loads(json.dumps([dump(message) for message in sent]))


def _check_state(
    strings: list[str], context: Context, origin: Participant, target: Participant
) -> None:
    if origin == target:
        assert set(origin.begins().returned) <= set(strings)
        return
    everything = "\n".join(strings)
    if (origin.provider, origin.family) != (target.provider, target.family):
        assert [text for text in _opaque(context) if text in everything] == []
        assert PRIVATE not in everything
    assert OPAQUE not in everything


def _check_words(strings: list[str], target: Participant) -> None:
    everything = "\n".join(strings)
    for said in ("Be brief.", "What is on it?", "I look it up.", "found it", "the tool broke"):
        assert said in everything
    for instruction in ("Be kind.", "Be quick.", "Be bold."):
        assert instruction in everything
    if "images" in _features(target) and not target.rules.in_words:
        assert SEEN in everything
        assert FOUND in everything
    for feature, data in (("documents", READ), ("audio", HEARD)):
        if feature == "documents" and target.rules.documents_by_address:
            assert SHELF in everything
        elif feature in _features(target) and not target.rules.in_words:
            assert data in everything or b64decode(data).decode() in everything


def _check_turns(reading: Reading, target: Participant) -> None:
    calls, results = reading.ids("call"), reading.ids("result")
    assert reading.empty == []
    assert Counter(calls) == Counter(results)
    allowed = re.compile(target.rules.tool_ids)
    assert [id for id in calls if not allowed.fullmatch(id)] == []
    waiting: Counter[str] = Counter()
    for step, id in reading.steps:
        if step == "user":
            assert waiting.total() == 0, "the user speaks before a call has its result"
        elif step == "call":
            waiting[id] += 1
        else:
            assert waiting[id] > 0, "a result comes before its call"
            waiting[id] -= 1
    pairs = set(zip(reading.roles, reading.roles[1:], strict=False))
    if target.rules.alternating:
        assert reading.roles[0] == "user"
        assert [pair for pair in pairs if pair[0] == pair[1]] == []
    if not target.rules.user_after_result:
        assert ("tool", "user") not in pairs


def test_every_installed_provider_takes_part_or_has_one_like_it() -> None:
    packages = {HOST.entry(participant.provider).package for participant in PARTICIPANTS}
    assert packages == {HOST.entry(name).package for name in HOST.provider_names()}


@pytest.mark.parametrize("origin", PARTICIPANTS, ids=str)
def test_the_conversations_have_state_that_could_leak(origin: Participant) -> None:
    assert PRIVATE in _opaque(conversation(origin))
