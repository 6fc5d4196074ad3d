"""Tool loops, many prompts and typed answers: one call of the library, several requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import swink
from lab.exchanges import compare, library
from lab.exchanges.outcome import Outcome, attempts, break_request, requests_since
from lab.exchanges.plan import Conversation
from lab.exchanges.talk import Call, Entry, Result, Seen, User, said_of
from lab.vendor import Exchange, Vendor

__all__ = ["answer", "gather", "run"]

_TURNS = 6


async def run(
    client: swink.Client, talk: Conversation, vendor: Vendor, outcome: Outcome
) -> Iterator[str]:
    """Run a tool loop on the first prompt of a conversation."""
    entries: list[Entry] = [*talk.history, talk.prompts[0]]
    options = library.options_of(talk, tools=False)
    if talk.fault is not None:
        break_request(vendor, talk)
    tools = [library.FUNCTIONS[name] for name in talk.options.tools]
    context = library.context_of(entries)
    failed: swink.SwinkError | None = None
    made: Any = None
    try:
        made = client.run(talk.target.name, context, tools=tools, max_turns=_TURNS, **options)
        await made.result()
    except swink.SwinkError as error:
        failed = error
    exchanges = await requests_since(vendor, talk.tenant, 0)
    said = [] if made is None else made.conversation[len(context) :]
    return _of_run(talk, entries, exchanges, said, failed, outcome)


def _of_run(
    talk: Conversation,
    entries: list[Entry],
    exchanges: list[Exchange],
    said: list[Any],
    failed: swink.SwinkError | None,
    outcome: Outcome,
) -> Iterator[str]:
    outcome.counts["requests"] += len(exchanges)
    answers = [each for each in said if isinstance(each, swink.AssistantMessage)]
    whole = _whole(exchanges, len(answers))
    if failed is None:
        outcome.counts["complete"] += 1
    else:
        outcome.counts["failed"] += 1
    if failed is None and len(whole) != len(answers):
        yield f"run: {len(whole)} whole answers of the vendor, {len(answers)} in the conversation"
        return
    results = [each for each in said if isinstance(each, swink.ToolResultMessage)]
    for exchange, message in zip(whole, answers, strict=False):
        yield from compare.arrived(exchange, talk, entries, None)
        seen = library.seen_of(message)
        yield from compare.answer(exchange, seen, usage=exchange.ended == "complete")
        entries.append(said_of(seen))
        for call in seen.calls:
            if results:
                given = results.pop(0)
                if exchange.stops[0] == "filter":
                    yield from _not_called(call, given)
                else:
                    yield from _result(call, given)
                text = given.content if isinstance(given.content, str) else ""
                entries.append(Result(call.id, call.name, text, given.is_error))
    if isinstance(failed, swink.StreamError) and exchanges:
        seen = Seen() if failed.partial is None else library.seen_of(failed.partial)
        seen.failed = library.failed_of(failed)
        if exchanges[-1].fault is not None or exchanges[-1].ended == "refused":
            yield from compare.failure(exchanges[-1], seen)
    elif failed is None or isinstance(failed, swink.TooManyTurns):
        return
    elif library.failed_of(failed).kind != "unsupported":
        yield f"run: {type(failed).__name__}: {failed}"


def _whole(exchanges: list[Exchange], number: int) -> list[Exchange]:
    """Return the requests whose answers were taken: a broken one may have been whole before."""
    complete = [each for each in exchanges if each.ended == "complete" and each.produced]
    if len(complete) == number:
        return complete
    return [each for each in exchanges if each.produced and each.stops[0]]


def _not_called(call: Call, given: swink.ToolResultMessage) -> Iterator[str]:
    """Yield where a call of a filtered answer was carried out."""
    if given.tool_call_id != call.id or not given.is_error:
        yield f"run: the answer is filtered, but {call.name} returned {given.content!r}"


def _result(call: Call, given: swink.ToolResultMessage) -> Iterator[str]:
    """Yield where the result of a function is not what it returns for the call."""
    if given.tool_call_id != call.id:
        yield f"run: a result of {given.tool_call_id} for the call {call.id}"
    arguments = call.arguments
    if arguments is None:
        if not given.is_error:
            yield f"run: arguments that are no JSON were carried out: {call.raw!r}"
        return
    text = given.content if isinstance(given.content, str) else str(given.content)
    wanted: Any = None
    if call.name == "get_weather" and {"city", "unit"} <= arguments.keys():
        wanted = library.get_weather(**arguments)
    elif call.name == "file_report" and {"title", "place", "tags"} <= arguments.keys():
        wanted = library.file_report(**arguments)
    elif (
        call.name == "add"
        and {"numbers", "exact"} <= arguments.keys()
        and len(arguments["numbers"]) <= 3
    ):
        wanted = {"sum": sum(arguments["numbers"]), "exact": arguments["exact"]}
        text = json.loads(text) if not given.is_error else text
    if wanted is None:
        if not given.is_error:
            yield f"run: {call.name} fails, and the result is {given.content!r}"
    elif text != wanted:
        yield f"run: {call.name} returns {wanted!r}, and the result is {given.content!r}"


async def gather(
    client: swink.Client, talk: Conversation, vendor: Vendor, outcome: Outcome
) -> Iterator[str]:
    """Answer all prompts of a conversation at the same time."""
    options = library.options_of(talk)
    if talk.fault is not None:
        break_request(vendor, talk)
    nonces = [f"nonce-{number}-end" for number in range(len(talk.prompts))]
    users = [
        User((f"{nonce} {prompt.texts[0]}",), prompt.images)
        for nonce, prompt in zip(nonces, talk.prompts, strict=True)
    ]
    prompts = [library.context_of([user]) for user in users]
    try:
        batch = await client.gather(talk.target.name, prompts, limit=2, **options)
    except swink.SwinkError as error:
        return iter([f"gather: {type(error).__name__}: {error}"])
    exchanges = await requests_since(vendor, talk.tenant, 0)
    return _of_batch(talk, list(zip(nonces, users, batch.results, strict=True)), exchanges, outcome)


def _of_batch(
    talk: Conversation,
    prompts: list[tuple[str, User, Any]],
    exchanges: list[Exchange],
    outcome: Outcome,
) -> Iterator[str]:
    from lab.exchanges.holding import judged

    for nonce, user, result in prompts:
        own = [each for each in exchanges if nonce.encode() in each.body]
        if isinstance(result, swink.AssistantMessage):
            seen = library.seen_of(result)
        else:
            partial = getattr(result, "partial", None)
            seen = Seen() if partial is None else library.seen_of(partial)
            seen.failed = library.failed_of(result)
        yield from judged(talk, [user], own, seen, None, outcome)


async def answer(
    client: swink.Client, talk: Conversation, vendor: Vendor, outcome: Outcome
) -> Iterator[str]:
    """Ask for an answer of a type."""
    entries: list[Entry] = [*talk.history, talk.prompts[0]]
    options = library.options_of(talk)
    if talk.fault is not None:
        break_request(vendor, talk)
    context = library.context_of(entries)
    failed: swink.SwinkError | None = None
    made: Any = None
    try:
        made = await client.answer(talk.target.name, context, type=library.Note, **options)
    except swink.SwinkError as error:
        failed = error
    exchanges = await requests_since(vendor, talk.tenant, 0)
    return _of_answer(talk, entries, exchanges, made, failed, outcome)


def _of_answer(
    talk: Conversation,
    entries: list[Entry],
    exchanges: list[Exchange],
    made: Any,
    failed: swink.SwinkError | None,
    outcome: Outcome,
) -> Iterator[str]:
    outcome.counts["requests"] += len(exchanges)
    if exchanges and exchanges[0].body:
        yield from compare.arrived(exchanges[0], talk, entries, None)
    if made is not None:
        outcome.counts["complete"] += 1
        text, _, calls = compare.produced(exchanges[-1])
        wanted = json.loads(calls[0][1] if calls else text)
        got = {"title": made.parsed.title, "count": made.parsed.count, "tags": made.parsed.tags}
        if wanted != got:
            yield f"answer: the vendor produced {wanted}, the caller got {got}"
        whole = exchanges[-1].ended == "complete"
        yield from compare.answer(exchanges[-1], library.seen_of(made.message), usage=whole)
        return
    outcome.counts["failed"] += 1
    if isinstance(failed, swink.BadAnswer):
        stops = exchanges[-1].stops if exchanges else []
        if stops[:1] == ["stop"] and not talk.options.stop:
            yield f"answer: BadAnswer for an answer that fits: {exchanges[-1].produced}"
        return
    if isinstance(failed, swink.StreamError) and exchanges:
        seen = Seen() if failed.partial is None else library.seen_of(failed.partial)
        seen.failed = library.failed_of(failed)
        yield from attempts(talk, exchanges, seen)
        yield from compare.failure(exchanges[-1], seen)
    elif library.failed_of(failed or swink.SwinkError("nothing")).kind != "unsupported":
        yield f"answer: {type(failed).__name__}: {failed}"
