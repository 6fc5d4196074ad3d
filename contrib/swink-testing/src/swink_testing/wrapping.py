"""The checks of wrappers, which pass on a provider's events or repeat earlier answers."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

from swink_core import (
    AssistantMessage,
    Client,
    Context,
    Model,
    ProviderFailure,
    RetryPolicy,
    StreamOptions,
    TextBlock,
    UsageError,
    UserMessage,
)
from swink_core.plugins.binding import Binding
from swink_core.vocabulary import events as ev
from swink_testing.calls import call_of
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.plugins.subject import AnsweringProvider, PluginSubject
from swink_testing.conformance.requests.conversations import conversations

__all__ = [
    "check_calls_are_told_apart",
    "check_conversations_stay",
    "check_leaving_reaches_the_provider",
    "check_order_is_kept",
    "check_repeats_cost_nothing",
]


def check_order_is_kept(subject: PluginSubject) -> None:
    """With the wrapper, the events of `stream` follow the grammar and are complete."""
    binding = _wrapping(subject, "stream")
    call = call_of(binding, Model("scripted", "model"))

    async def collect() -> list[ev.Event]:
        source = binding.hook.stream(
            model=call.model, context=call.context, options=call.options, call=call
        )
        return [event async for event in source]

    events = asyncio.run(collect())
    if (broken := broken_rule(events)) is not None:
        fail(broken)
    require(isinstance(events[-1], ev.Done), f"a whole answer ends in {events[-1]!r:.200}")


def check_leaving_reaches_the_provider(subject: PluginSubject) -> None:
    """If a call is abandoned, the provider's stream is closed (a wrapper can use `aclosing()`)."""
    _wrapping(subject, "stream")
    host = subject.host()
    binding = host.bind("scripted")
    provider = binding.provider

    async def leave() -> bool:
        async with Client(host=host, retry=RetryPolicy.none()) as client:
            async with client.stream("scripted/model", "Hello") as stream:
                async for event in stream:
                    if isinstance(event, ev.TextDelta):
                        break
            # checked before the event loop closes a stream that the wrapper only dropped
            return bool(provider.is_open)

    was_open = asyncio.run(leave())
    require(not was_open, "the provider's stream is open after the call was left")


def check_conversations_stay(subject: PluginSubject) -> None:
    """The hook `convert_messages` does not change the conversation and returns a JSON object."""
    binding = _wrapping(subject, "convert_messages")
    for conversation in conversations():
        context, before = conversation.context, copy.deepcopy(conversation.context)
        where = f"the conversation {conversation.name}"
        try:
            payload = binding.hook.convert_messages(
                model=Model("scripted", "model"), context=context, options=StreamOptions()
            )
        except (ProviderFailure, UsageError):
            payload = {}  # a wrapper may refuse a call
        require(context == before, f"{where} was changed by converting it")
        require(isinstance(payload, dict), f"{where} becomes {type(payload).__name__}, no dict")
        try:
            json.dumps(payload)
        except (TypeError, ValueError) as error:
            fail(f"{where} does not become JSON data: {error}")


def check_calls_are_told_apart(subject: PluginSubject) -> None:
    """Calls that differ in the conversation or an option get different answers."""
    _wrapping(subject, "stream")
    first, *others = asyncio.run(_answered(subject, [{}, *_DIFFERENCES.values()]))
    for what, (message, asked) in zip(_DIFFERENCES, others, strict=True):
        require(
            asked or message.content != first[0].content,
            f"a call of another {what} gets the first one's answer, and nobody was asked",
        )


def check_repeats_cost_nothing(subject: PluginSubject) -> None:
    """An answer that is repeated without the provider has no tokens and no cost."""
    _wrapping(subject, "stream")
    (paid, _), (again, asked) = asyncio.run(_answered(subject, [{}, {}]))
    if asked or again.content != paid.content:
        raise DoesNotApply("it gives no answer again")
    require(
        not (again.usage and (again.usage.input or again.usage.output or again.usage.total)),
        f"what it gives again is counted again: {again.usage!r:.200}",
    )
    require(
        not (again.cost and again.cost.known),
        f"what it gives again is paid for again: {again.cost!r:.200}",
    )


_SAID = "What is the capital of France?"

_DIFFERENCES: dict[str, dict[str, Any]] = {
    "question": {"context": "And of Spain?"},
    "system prompt": {"context": Context([UserMessage(_SAID)], system_prompt="Answer in Latin.")},
    "beginning": {
        "context": Context(
            [UserMessage("Of Italy?"), AssistantMessage([TextBlock("Rome.")]), UserMessage(_SAID)]
        )
    },
    "model": {"model": "scripted/other"},
    "temperature": {"temperature": 0.5},
    "limit of tokens": {"max_tokens": 5},
}
"""Further calls, named after their single difference from a first call without options."""


async def _answered(
    subject: PluginSubject, calls: list[dict[str, Any]]
) -> list[tuple[AssistantMessage, bool]]:
    """Make consecutive calls; return their messages, and whether the provider was called."""
    host = subject.host(AnsweringProvider)
    binding = host.bind("scripted")
    provider, found = binding.provider, []
    async with Client(host=host, retry=RetryPolicy.none()) as client:
        for call in calls:
            given = {"model": "scripted/model", "context": _SAID, **call}
            before = provider.asked
            async with client.stream(given.pop("model"), given.pop("context"), **given) as stream:
                async for _ in stream:
                    pass
            found.append((stream.message, provider.asked > before))
    await subject.aclose()
    return found


def _wrapping(subject: PluginSubject, hook: str) -> Binding:
    binding = subject.bound()
    if len(getattr(binding.hook, hook).get_hookimpls()) < 2:  # the scripted provider has one
        raise DoesNotApply(f"it has no {hook} hook")
    return binding
