"""Compare the vendor's record of a request with the answer that its caller got."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from lab.exchanges import received, words
from lab.exchanges.failures import EXCEPTIONS, cause_of, kinds_of
from lab.exchanges.plan import Conversation
from lab.exchanges.received import Atom
from lab.exchanges.talk import NOT_JSON, Entry, Said, Seen, User
from lab.vendor import Exchange

__all__ = ["answer", "arrived", "atoms_of", "failure", "produced"]

_STOPS = {
    "stop": "stop",
    "sequence": "stop",
    "length": "length",
    "tools": "tool_use",
    "filter": "content_filter",
    "pause": "pause",
}
_WITHOUT_WORD_FOR_CALLS = ("generateContent", "ollama")
"""APIs that give `stop` also for an answer with calls."""

_FILLER = Atom("said", "OK.")
"""The answer that stands between results and a user's text where an API wants one."""

_TEXTS = ("user", "said", "system")
_CENT = 1e-9


def produced(exchange: Exchange, choice: int = 0) -> tuple[str, str, list[tuple[str, str]]]:
    """Return the text, the thoughts and the calls (name, JSON text) that the vendor produced."""
    text: list[str] = []
    thoughts: list[str] = []
    calls: list[tuple[str, str]] = []
    for part in exchange.produced[choice] if exchange.produced else []:
        if part["type"] == "call":
            calls.append((part["name"], part["text"]))
        elif part["type"] == "thought":
            thoughts.append(part["text"])
        else:
            text.append(part["text"])
    return "".join(text), "".join(thoughts), calls


def answer(
    exchange: Exchange, seen: Seen, *, usage: bool = True, client: str = "library"
) -> Iterator[str]:
    """Yield where a complete answer differs from the record."""
    text, thoughts, calls = produced(exchange)
    if exchange.api == "cohere" and calls:
        # What is said beside calls is a plan, of which the caller may make a thought.
        text, thoughts = _plan(exchange, seen)
    if seen.text != text:
        yield f"text: the vendor produced {_cut(text)}, the caller got {_cut(seen.text)}"
    parts = [part["text"] for part in exchange.produced[0] if part["type"] in ("thought", "text")]
    if seen.thinking and seen.thinking not in (thoughts, "".join(reversed(parts))):
        yield f"thinking: produced {_cut(thoughts)}, got {_cut(seen.thinking)}"
    yield from _calls(calls, seen, exchange)
    yield from _stop(exchange, seen, calls, client)
    if usage:
        yield from _usage(exchange, seen, client)


def _plan(exchange: Exchange, seen: Seen) -> tuple[str, str]:
    text, thoughts, _ = produced(exchange)
    if not seen.text:
        return "", thoughts + text
    return text, thoughts


def _calls(calls: list[tuple[str, str]], seen: Seen, exchange: Exchange) -> Iterator[str]:
    got = [(call.name, call.arguments) for call in seen.calls]
    wanted = [(name, _object(text)) for name, text in calls]
    if len(wanted) == len(got) + 1 and wanted[-1][1] is None:
        wanted.pop()  # cut before its arguments were whole; some APIs do not send it at all
    for at, (name, arguments) in enumerate(wanted):
        if at >= len(got) or got[at][0] != name:
            yield f"calls: the vendor produced {_cut(calls)}, the caller got {_cut(got)}"
            return
        if arguments is not None and got[at][1] != arguments:
            yield f"arguments: produced {_cut(arguments)}, got {_cut(got[at][1])}"
        if arguments is None and got[at][1] and exchange.stops[:1] != ["length"]:
            yield f"arguments: the vendor's are cut ({_cut(calls[at][1])}), got {_cut(got[at][1])}"
    if len(got) != len(wanted):
        yield f"calls: the vendor produced {_cut(calls)}, the caller got {_cut(got)}"


def _stop(exchange: Exchange, seen: Seen, calls: list[Any], client: str) -> Iterator[str]:
    wanted = {_STOPS.get(exchange.stops[0] if exchange.stops else "stop", "stop")}
    if "tool_use" in wanted and exchange.api in _WITHOUT_WORD_FOR_CALLS:
        wanted.add("stop")
    if exchange.api == "ollama" and "content_filter" in wanted:
        wanted.add("stop")
    if calls and wanted & {"stop"} and exchange.api in (*_WITHOUT_WORD_FOR_CALLS, "responses"):
        wanted.add("tool_use")
    if client in ("ollama", "gemini") and "tool_use" in wanted:
        wanted.add("stop")
    if client == "ollama" and "content_filter" in wanted:
        wanted.add("stop")
    if client == "responses" and calls:
        wanted.add("tool_use")
    if seen.stop not in wanted:
        yield f"stop: the vendor's is {exchange.stops[:1]}, the caller's {seen.stop}"


def _usage(exchange: Exchange, seen: Seen, client: str) -> Iterator[str]:
    charge = exchange.charge
    assert charge is not None
    usage = charge.usage
    wanted = {
        "input": usage.prompt,
        "output": usage.output,
        "cached": usage.cached,
        "written": usage.written + usage.written_long,
        "reasoning": usage.reasoning,
        "total": usage.total,
    }
    if not usage.output and exchange.api == "generateContent":
        return  # Google leaves a count of 0 out: swink takes it for unknown
    for name in ("input", "output"):
        if seen.usage.get(name) is None:
            yield f"usage: no {name}"
    for name, number in wanted.items():
        got = seen.usage.get(name)
        if got == 0 and not _reports(exchange.api, name) and client != "library":
            continue  # a number that the client's schema wants and the provider does not report
        if got is not None and got != number:
            yield f"usage: {name} is {number}, got {got}"
    for name in ("cached", "reasoning"):
        if client == "ollama" or not _reports(exchange.api, name):
            continue
        if wanted[name] and seen.usage.get(name) is None:
            yield f"usage: {name} is {wanted[name]}, got none"
    if seen.cost is not None and abs(float(charge.cost) - seen.cost) > _CENT + 1e-6 * seen.cost:
        yield f"bill: {charge.cost} for {charge.model} ({charge.tier}), got {seen.cost}; {usage}"
    if seen.estimated:
        yield "bill: the cost is an estimate although usage was reported"


def _reports(api: str, name: str) -> bool:
    if name == "reasoning":
        return api in ("chat", "responses", "generateContent", "messages")
    return name not in ("cached", "written") or api not in ("ollama", "cohere")


def failure(exchange: Exchange, seen: Seen) -> Iterator[str]:
    """Yield where the documents promise another failure for this exchange."""
    failed = seen.failed
    assert failed is not None
    allowed = kinds_of(exchange)
    if failed.kind == "empty_response" and _is_empty(exchange):
        allowed.add("empty_response")
    cause = cause_of(exchange)
    if cause is not None and failed.kind not in allowed:
        yield (
            f"exception: {failed.exception} ({failed.kind}, {failed.code}) for "
            f"{cause}, ended {exchange.ended}; expected {sorted(allowed)}"
        )
    if failed.kind is not None and failed.exception not in EXCEPTIONS.get(failed.kind, set()):
        yield f"exception: {failed.exception} for the kind {failed.kind}"
    if failed.kind == "empty_response" and _is_empty(exchange):
        return
    if cause is None:
        yield (
            f"refused: {exchange.ended} {exchange.status} {exchange.rule}: {exchange.message}; "
            f"the caller got {failed.exception}: {failed.message[:200]}"
        )
    yield from partial(exchange, seen)


def _is_empty(exchange: Exchange) -> bool:
    """Return whether an answer has neither text nor a call that can be read."""
    text, _, calls = produced(exchange)
    return not text and not any(_object(raw) for _, raw in calls)


def partial(exchange: Exchange, seen: Seen) -> Iterator[str]:
    """Yield where a partial answer differs from the beginning of the vendor's answer."""
    text, _, calls = produced(exchange)
    damaged = exchange.fault is not None and exchange.fault["kind"] in ("damaged", "garbage")
    if not (_is_within(seen.text, text) if damaged else text.startswith(seen.text)):
        yield f"partial text: produced {_cut(text)}, got {_cut(seen.text)}"
    for call, (name, raw) in zip(seen.calls, calls, strict=False) if not damaged else ():
        if call.name != name:
            yield f"partial call: produced {name}, got {call.name}"
        elif call.arguments and call.arguments != (_object(raw) or {}):
            yield f"partial arguments: produced {_cut(raw)}, got {_cut(call.arguments)}"
    if len(seen.calls) > len(calls):
        yield f"partial calls: produced {len(calls)}, got {len(seen.calls)}"


def _is_within(part: str, whole: str) -> bool:
    """Return whether a text is another one with pieces missing."""
    rest = iter(whole)
    return all(each in rest for each in part)


def atoms_of(entries: Sequence[Entry], system: str | None) -> list[Atom]:
    """Return the parts that a conversation has in a request."""
    made = [Atom("system", system)] if system else []
    for entry in entries:
        if isinstance(entry, User):
            made += [Atom("user", text) for text in entry.texts]
            made += [Atom("image", words.base64_of(data)) for data in entry.images]
        elif isinstance(entry, Said):
            if entry.text:
                made.append(Atom("said", entry.text))
            for call in entry.calls:
                cut = {NOT_JSON: call.raw} if call.arguments is None else call.arguments
                made.append(Atom("call", "", call.name, cut))
        else:
            made.append(Atom("result", entry.text))
    return made


def arrived(
    exchange: Exchange, talk: Conversation, entries: Sequence[Entry], named: Sequence[str] | None
) -> Iterator[str]:
    """Yield where the request that the vendor received differs from the caller's."""
    got = received.read(exchange)
    wanted = _kept(atoms_of(entries, talk.options.system))
    yield from _conversation(wanted, _kept(got.atoms))
    yield from _options(got, talk, named, exchange)


def _kept(atoms: Sequence[Atom]) -> list[Atom]:
    """Drop texts of white space alone, which APIs refuse."""
    return [each for each in atoms if each.kind not in _TEXTS or each.text.strip()]


def _conversation(wanted: list[Atom], got: list[Atom]) -> Iterator[str]:
    """Yield the first part that is missing, changed or too much.

    Texts of one side in a row may be one text, or several.
    """
    rest = list(wanted)
    left = list(got)
    while rest:
        atom = rest.pop(0)
        while left and left[0].kind == "plan" and not _same(atom, left[0]):
            left.pop(0)
        if not left:
            yield f"request: this part is missing: {_cut(atom)}"
            return
        found = left.pop(0)
        if found == _FILLER and atom.kind == "user" and left:
            found = left.pop(0)
        if _same(atom, found):
            continue
        after = _after(atom, found)
        before = _after(found, atom)
        if after is not None:
            left.insert(0, after)
        elif before is not None:
            rest.insert(0, before)
        else:
            yield f"request: a part is {_cut(atom)}, the vendor received {_cut(found)}"
            return
    left = [each for each in left if each.kind != "plan"]
    if left:
        yield f"request: the vendor received more than was sent: {_cut(left)}"


def _after(part: Atom, whole: Atom) -> Atom | None:
    """Return the rest of a text that begins with another one; `None` if it does not."""
    if part.kind != whole.kind or part.kind not in _TEXTS or not part.text:
        return None
    if not whole.text.startswith(part.text):
        return None
    return Atom(whole.kind, whole.text[len(part.text) :].lstrip("\n"))


def _same(wanted: Atom, got: Atom) -> bool:
    if wanted.kind == "result" and got.kind == "result":
        # An API without a field for errors may have the fact in the text.
        return wanted.text == got.text or wanted.text in got.text
    if wanted.kind == "said" and got.kind == "plan":
        return wanted.text == got.text
    if wanted.kind == "call" and isinstance(wanted.data, dict) and NOT_JSON in wanted.data:
        return got.name == wanted.name and got.data in (
            wanted.data, wanted.data[NOT_JSON], {} if not wanted.data[NOT_JSON] else wanted.data
        )  # fmt: skip
    return wanted == got


def _options(
    got: received.Received, talk: Conversation, named: Sequence[str] | None, exchange: Exchange
) -> Iterator[str]:
    given = talk.options
    wanted: dict[str, Any] = {
        "max_tokens": given.max_tokens,
        "temperature": given.temperature,
        "top_p": given.top_p,
        "stop": list(given.stop) or None,
        "tier": given.tier,
    }
    if given.tools:
        wanted["choice"] = given.choice
    for name, value in wanted.items():
        if value is None or got.options.get(name) == value:
            continue
        if named is None or _is_named(name, named):
            continue
        if name == "choice" and value == "auto":
            continue
        if name == "choice" and value == "none" and not got.tools:
            continue
        yield f"option: {name} is {value}, the vendor received {got.options.get(name)} ({named})"
    missing = [name for name in given.tools if name not in got.tools]
    if missing and given.choice != "none":
        yield f"option: the tools {missing} are missing"
    if given.schema is not None and "schema" not in got.options and not got.tools:
        yield "option: the schema is missing"


def _is_named(name: str, named: Sequence[str]) -> bool:
    other = {"choice": "tool_choice", "tier": "service_tier"}.get(name, name)
    return any(other in path or name in path for path in named)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} … {text[-90:]}"
