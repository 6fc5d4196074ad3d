"""A check that calls with different options or content make different requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    DocumentBlock,
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
    replace,
)
from swink_judge.matrix.asker import Asker, Outcome
from swink_judge.matrix.conversations import LOOK_UP, TEXT
from swink_judge.matrix.expected_values import Said, encoded
from swink_testing.conformance.check import fail
from swink_testing.conformance.subject import Subject

__all__ = ["check_differences_are_sent", "further_conversations"]

_ELSEWHERE = "https://nonce.example/"

_PNG = b"\x89PNG\r\n\x1a\n nonce of "

_LONG = f"nonce_long{' word' * 10_000}."

_FALSY: dict[str, Any] = {
    "nonce_word": "",
    "nonce_zero": 0,
    "nonce_false": False,
    "nonce_null": None,
    "nonce_list": [],
    "nonce_object": {},
}


def check_differences_are_sent(subject: Subject) -> None:
    """If options or content can change the answer, they change the request or cause a Notice."""
    subject.require_http()
    models = subject.catalog.models(subject.name)
    thinking = {m.id for m in models if "thinking" in (m.capabilities or ())}

    async def ask() -> None:
        async with subject.asker() as asker:
            for id in dict.fromkeys((subject.model.id, *sorted(thinking)[:1])):
                for each in _differences():
                    if "thinking" not in each.options[0] or id in thinking:
                        await _require_told_apart(asker, subject, id, each)

    asyncio.run(ask())


@define
class _Difference:
    """Two calls with a single difference, in the conversation or in the options.

    `shows` is a word that only the second request may contain, if there is such a word.
    """

    name: str
    contexts: tuple[Context, Context] = field(factory=lambda: (_asked(), _asked()))
    options: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    shows: str | None = None


async def _require_told_apart(
    asker: Asker, subject: Subject, id: str, difference: _Difference
) -> None:
    outcomes: list[Outcome] = []
    for context, options in zip(difference.contexts, difference.options, strict=True):
        outcomes.append(await subject.outcome(asker, difference.name, context, options, id))
    one, other = outcomes
    if one.asked is None or other.asked is None:
        return
    names = [f"options.{name}" for options in difference.options for name in options]
    paths = [path for each in outcomes for notice in each.notices for path in notice.paths]
    if any(path.startswith((*names, "messages", "tools", "system_prompt")) for path in paths):
        return
    if one.asked.body == other.asked.body:
        why = f"{subject.name}/{id}: {difference.name} changes nothing, and no Notice says so"
        fail(why, one.asked.body, "another request, or a Notice")
    if difference.shows is not None and difference.shows in _words(one) - _words(other):
        why = f"{subject.name}/{id}: {difference.name} is said where it was not given"
        fail(why, one.asked.body, f"nothing of {difference.shows!r}")


def _words(outcome: Outcome) -> set[str]:
    """Return the words in a request's strings, and the first word of each true field's name."""
    assert outcome.asked is not None
    return {word for text in _told(outcome.asked.body) for word in re.findall(r"\w+", text.lower())}


def _told(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, list):
        for value in data:
            yield from _told(value)
    elif isinstance(data, dict):
        yield from (name.partition("_")[0] for name, value in data.items() if value is True)
        for value in data.values():
            yield from _told(value)


def _asked(*blocks: Any, tools: Any = ()) -> Context:
    return Context([UserMessage([TextBlock("nonce_question"), *blocks])], tools=list(tools))


def _document(name: str | None = "nonceFile") -> DocumentBlock:
    return DocumentBlock(Base64Source("text/plain", TEXT), name)


def _answered(
    content: Any = "nonce_result",
    *,
    is_error: bool = False,
    id: str = "call_nonceA",
    arguments: dict[str, Any] | None = None,
) -> Context:
    call = ToolCallBlock(id, LOOK_UP.name, arguments or {"nonce_word": "nonce_argument"})
    said: list[Message] = [
        UserMessage("nonce_question"),
        AssistantMessage([call], stop_reason=StopReason.TOOL_USE),
        ToolResultMessage(id, LOOK_UP.name, content, is_error=is_error),
    ]
    return Context(said, tools=[LOOK_UP])


def _both(one: Any, other: Any) -> Context:
    """Return a conversation in which one answer calls the tool twice."""
    ids = ("call_nonceA", "call_nonceB")
    calls: list[Any] = [
        ToolCallBlock(id, LOOK_UP.name, {"nonce_word": f"nonce_{id}"}) for id in ids
    ]
    said: list[Message] = [
        UserMessage("nonce_question"),
        AssistantMessage(calls, stop_reason=StopReason.TOOL_USE),
        *(ToolResultMessage(i, LOOK_UP.name, c) for i, c in zip(ids, (one, other), strict=True)),
    ]
    return Context(said, tools=[LOOK_UP])


def _differences() -> Iterator[_Difference]:
    strict = replace(LOOK_UP, strict=True)
    loose = replace(LOOK_UP, parameters={"type": "object"})
    plain = (_asked(tools=[LOOK_UP]), _asked(tools=[strict]))
    yield _Difference("strict", plain, shows="strict")
    plain = (_asked(tools=[loose]), _asked(tools=[replace(loose, strict=True)]))
    yield _Difference("strict of a tool that requires nothing", plain, shows="strict")
    plain = (_answered(), _answered(is_error=True))
    yield _Difference("a result's is_error", plain, shows="error")
    plain = (_asked(_document(None)), _asked(_document("nonceOther")))
    yield _Difference("a document's name", plain)
    ruled = Context([UserMessage("nonce_question")], "nonce_rule")
    asked_twice = Context([UserMessage("nonce_rule"), UserMessage("nonce_question")])
    yield _Difference("a rule in the system prompt instead of a message", (ruled, asked_twice))
    question, more, said = UserMessage("nonce_question"), UserMessage("nonce_more"), "nonce_said"
    answer = AssistantMessage([TextBlock(said)], stop_reason=StopReason.STOP)
    turns = (Context([question, UserMessage(said), more]), Context([question, answer, more]))
    yield _Difference("a turn of the model instead of the user", turns)
    offered = (_asked(tools=[LOOK_UP]), _asked(tools=[LOOK_UP]))
    for choice in ("none", "required"):
        either = ({"tool_choice": "auto"}, {"tool_choice": choice})
        yield _Difference(f"{choice} instead of auto for tool_choice", offered, either)
    for levels in (("off", "high"), ("low", "high"), (1100, 9000)):
        options = ({"thinking": levels[0]}, {"thinking": levels[1]})
        yield _Difference(f"{levels[1]} instead of {levels[0]} for thinking", options=options)


def further_conversations() -> Iterator[Said]:
    """Yield conversations with parts in unusual positions, or with many, long or falsy parts."""
    images = [ImageBlock(Base64Source("image/png", encoded(_PNG + n))) for n in (b"one", b"other")]
    yield Said("two images", _asked(*images))
    yield Said(
        "a result of two texts", _answered([TextBlock("nonce_result"), TextBlock("nonce_more")])
    )
    yield Said("two results, the first an image", _both(images[:1], "nonce_more"))
    yield Said("two results, an image each", _both(images[:1], images[1:]))
    yield Said("falsy arguments", _answered(arguments=_FALSY))
    long = replace(_answered(_LONG), system_prompt=_LONG)
    yield Said("long texts", replace(long, messages=[UserMessage(_LONG), *long.messages[1:]]))
    turns: list[Message] = [UserMessage("nonce_first")]
    for number in range(40):
        said = AssistantMessage([TextBlock(f"nonce_said{number}.")], stop_reason=StopReason.STOP)
        turns += [said, UserMessage(f"nonce_asked{number}.")]
    yield Said("many turns", Context(turns))
    yield Said("a named document", _asked(_document("nonceNamed")), also=("nonceNamed",))
    yield Said("a call's id of nine letters", _answered(id="nonceid01"))
    yield Said("two documents", _asked(_document(), _document("nonceOther")))
    yield Said("a text document alone", Context([UserMessage([_document()])]))
    yield Said("a text document by its URL", _asked(DocumentBlock(UrlSource(f"{_ELSEWHERE}d.txt"))))
    latin = Base64Source("text/plain", encoded(b"nonce \xe9"))
    yield Said("a text document that is no UTF-8", _asked(DocumentBlock(latin)))
    in_a_result = [TextBlock("nonce_result"), _document()]
    yield Said("a document in a result", _answered(in_a_result))
    yield Said("a document for a result", _answered([_document()]))
