"""Find the values of a call that are missing in its request and are not reported by a notice."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from swink_core import AssistantMessage, CacheStrategy, ThinkingLevel, ToolResultMessage, dump
from swink_core.providers import OPTIONS, TUNING
from swink_judge.matrix.asker import Outcome
from swink_judge.request_readers import READERS, SIZE, read_request, strings_of

__all__ = ["invented_values", "is_told", "lost_values"]

_SENT_AS_GIVEN = frozenset(name for name in TUNING if OPTIONS[name].types <= {int, float, str}) | {
    "stop"
}
"""Options whose value must be in the request unchanged."""

_NAME_LENGTH = 64
"""A `session_id` or `user` of up to this many characters must be in the request unchanged."""

_OF_TOOLS = ("tool_choice", "parallel_tool_calls")
"""Options that have no effect in a call without tools."""

_AS_IT_IS: Mapping[str, tuple[Any, ...]] = {
    "thinking": (ThinkingLevel.OFF, 0),
    "tool_choice": ("auto",),
    "parallel_tool_calls": (True,),
    "cache": (CacheStrategy("none"), "none"),
    "session_id": ("",),
    "user": ("",),
    "stop": ([""],),
}
"""Values of options that need not change the request."""


def lost_values(outcome: Outcome, plain: Outcome) -> list[str]:
    """Return the values that are missing in the request and are not reported by a notice.

    `plain` is the outcome of the same conversation without options. A notice reports a value if it
    contains the path of the value. The id of a tool call may be replaced if the call and its result
    get the same id. Names that the model does not read may be replaced as well.
    """
    if outcome.asked is None:
        return []
    texts = "\n".join(outcome.strings)
    values = outcome.said.values
    told = {form for value in values if is_told(outcome, value.path) for form in value.forms}
    missing = [
        value.forms[0]
        for value in values
        if not any(form in texts or form in told for form in value.forms)
    ]
    missing += _wrong_types(outcome, texts)
    missing += _spoilt_arguments(outcome)
    if fault := _unpaired(outcome):
        missing.append(fault)
    if plain.asked is not None and outcome.case.options:
        sent, gone = outcome.leaves - plain.leaves, plain.leaves - outcome.leaves
        for name, value in outcome.case.options.items():
            idle = name in _OF_TOOLS and not outcome.said.context.tools
            if idle or value in _AS_IT_IS.get(name, ()) or is_told(outcome, f"options.{name}"):
                continue
            too_long = isinstance(value, str) and len(value) > _NAME_LENGTH
            if name not in _SENT_AS_GIVEN or too_long:
                if not (sent or gone):
                    missing.append(f"{name}={value!r}")
            elif not _all_sent(value, [*outcome.headers, *(leaf for _, leaf in sent)]):
                missing.append(f"{name}={value!r:.80}")
    return missing


def is_told(outcome: Outcome, path: str) -> bool:
    """Return True if a notice contains the path of a value, or of an object that contains it."""
    paths = [told for notice in outcome.notices for told in notice.paths]
    return any(f"{path}.".startswith((f"{told}.", f"{told}[")) for told in paths)


def invented_values(outcome: Outcome, plain: Outcome, most: int | None) -> Iterator[str]:
    """Yield the names of options whose field is in the request although the call did not set them.

    `plain` is the outcome without options. `most` is the model's maximum number of output tokens; a
    request may contain it as the limit.
    """
    if outcome.asked is None or plain.asked is None:
        return
    for name, value in outcome.case.options.items():
        if name not in _SENT_AS_GIVEN or isinstance(value, str | list):
            continue
        if is_told(plain, f"options.{name}"):
            continue
        unset = dict(plain.scalars)
        for path, leaf in outcome.scalars:
            if path.endswith(SIZE):
                continue
            if _all_sent(value, [leaf]) and unset.get(path) not in (None, value, most):
                yield f"{name}={unset[path]!r}"


_MOST_OBJECTS = 100
"""The maximum number of positions in a text at which a JSON object is searched for."""

_IMAGE_TYPE = re.compile(r"\bimage/(\w+)")


def _wrong_types(outcome: Outcome, texts: str) -> list[str]:
    """Return the media types of images in the conversation that are missing in the request.

    The result is empty for a request without images.
    """
    if not (sent := set(_IMAGE_TYPE.findall(texts))):
        return []
    own = set(_IMAGE_TYPE.findall("\n".join(strings_of(dump(outcome.said.context)))))
    return [f"image/{name}" for name in own - sent]


def _spoilt_arguments(outcome: Outcome) -> Iterator[str]:
    """Yield the arguments of tool calls that the request does not contain as valid JSON."""
    assert outcome.asked is not None
    answers = (m for m in outcome.said.context.messages if isinstance(m, AssistantMessage))
    given = [call.arguments for answer in answers for call in answer.tool_calls if call.arguments]
    written = [*_written(outcome.asked.body)] if given else []
    yield from (f"JSON of the arguments {each}" for each in given if each not in written)


def _written(data: Any) -> Iterator[dict[str, Any]]:
    """Yield each object in JSON data, also from strings that contain JSON."""
    if isinstance(data, dict):
        yield data
        for value in data.values():
            yield from _written(value)
    elif isinstance(data, list):
        for value in data:
            yield from _written(value)
    elif isinstance(data, str):
        # A prompt may contain objects.
        for found in islice(re.finditer(r"\{", data), _MOST_OBJECTS):
            with suppress(ValueError):
                yield json.JSONDecoder().raw_decode(data, found.start())[0]


def _all_sent(value: Any, sent: list[Any]) -> bool:
    if isinstance(value, list):
        return all(_all_sent(item, sent) for item in value)
    if isinstance(value, str):
        return any(isinstance(leaf, str) and value in leaf for leaf in sent)
    # Protobuf's JSON writes 64-bit integers as strings.
    if isinstance(value, int) and str(value) in sent:
        return True
    return any(leaf == value for leaf in sent if not isinstance(leaf, bool | str))


def _unpaired(outcome: Outcome) -> str | None:
    asked = outcome.asked
    assert asked is not None
    if asked.wire_format not in READERS:
        return _alone(outcome)
    try:
        reading = read_request(asked.wire_format, asked.body)
    except (KeyError, TypeError) as error:
        return f"a request that cannot be read: {error!r}"
    calls, results = Counter(reading.ids("call")), Counter(reading.ids("result"))
    if None in calls:
        return "the id of a call"
    if between := _between_results(reading.steps):
        return between
    return None if calls == results else f"calls {dict(calls)} and results {dict(results)}"


def _between_results(steps: Sequence[tuple[str, str]]) -> str | None:
    """Describe a tool result that is separated from the other results of the same answer."""
    waiting: set[str] = set()
    begun = broken = False
    for step, id in steps:
        match step:
            case "call":
                waiting.add(id)
                begun = broken = False
            case "result" if broken and id in waiting:
                return f"the place of the result {id}, beside the other one,"
            case "result":
                begun = True
            case _:
                broken = begun
    return None


def _alone(outcome: Outcome) -> str | None:
    """Describe the calls that have no result and the results that have no call, by their ids."""
    messages = outcome.said.context.messages
    given = {m.tool_call_id for m in messages if isinstance(m, ToolResultMessage)}
    answers = [m for m in messages if isinstance(m, AssistantMessage)]
    given |= {c.id for m in answers for c in m.tool_calls if c.state == "complete"}
    counts = Counter(text for text in outcome.strings if text in given)
    alone = sorted(id for id, count in counts.items() if count % 2 and not _quoted(id, outcome))
    return f"the id {', '.join(alone)} of a tool call or its result" if alone else None


def _quoted(id: str, outcome: Outcome) -> bool:
    """Return True if an id is a word in a longer text, as in an API whose tool calls are text."""
    word = re.compile(rf"(?<![\w.-]){re.escape(id)}(?![\w.-])")
    return any(text != id and word.search(text) for text in outcome.strings)
