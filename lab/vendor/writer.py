"""Writes answers: by a script if the request brings one, else words drawn by its prompt.

A script is JSON, in the header `x-vendor-script`, queued through the control API, or in the last
text of the user between `[[vendor` and `]]`:

    [[vendor {"turns": [[{"thought": "Hm."}, {"call": "add", "arguments": {"a": 1}}],
                        [{"text": "It is 2."}]]}]]

`turns` are the model's turns after that text, each a list of parts: `thought`, `redacted`, `text`,
`refusal`, `call` with `arguments` (an object, or text that is sent as it stands), `tokens` (a text
of so many tokens). `parts` is a single turn; `stop` overrides why the turn ends. A turn that the
script does not have is drawn.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import dataclass, replace
from typing import Any, get_args

from lab.vendor import jsons, tokens
from lab.vendor.answers import Answer, Call, Choice, Part, Refusal, Stop, Text, Thought
from lab.vendor.ask import Ask

__all__ = ["Script", "marked", "write"]

_MARK = re.compile(r"\[\[vendor\s+(?=\{)")
_WORDS = (
    "the", "river", "keeps", "a", "slow", "account", "of", "stones", "and", "light", "until",
    "evening", "counts", "boats", "three", "at", "time", "while", "harbour", "bells", "answer",
    "wind", "from", "northern", "islands", "with", "careful", "measure", "7", "42", "1,204",
)  # fmt: skip
_RARE = (
    "東京では雨です。",
    "河流很慢。",
    "서울은 맑다. ",
    "café — naïve ",
    "🚢🌊 ",
    "x = [i for i in y]\n",
)
_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Script:
    """The answers of several turns. `stop` ends the last one.

    `begins_at` is the model's turn, since the last text of the user, that the first of `turns` is.
    """

    turns: tuple[tuple[dict[str, Any], ...], ...]
    stop: Stop | None = None
    begins_at: int = 0

    def split(self) -> list[Script]:
        """Return a script for each turn."""
        last = len(self.turns) - 1
        return [
            Script((turn,), self.stop if at == last else None) for at, turn in enumerate(self.turns)
        ]

    @classmethod
    def of(cls, data: Any) -> Script:
        """Read a script from JSON data. Raises ValueError for one that cannot be read."""
        if not isinstance(data, dict) or not {"turns", "parts"} & data.keys():
            raise ValueError(f"a script is an object with `turns` or `parts`, not {data!r}")
        turns = data["turns"] if "turns" in data else [data["parts"]]
        stop = data.get("stop")
        if stop is not None and stop not in get_args(Stop):
            raise ValueError(f"unknown stop {stop!r}; one of {', '.join(get_args(Stop))}")
        if not isinstance(turns, list) or not all(isinstance(turn, list) for turn in turns):
            raise ValueError("`turns` is a list of lists of parts")
        for turn in turns:
            for part in turn:
                _part(part)
        return cls(tuple(tuple(turn) for turn in turns), stop)


def marked(text: str) -> dict[str, Any]:
    """Return the JSON between `[[vendor` and `]]` in a text; `{}` without one."""
    found = _MARK.search(text)
    if found is None:
        return {}
    try:
        data, _ = json.JSONDecoder().raw_decode(text, found.end())
    except ValueError:
        return {}
    return jsons.obj(data)


def write(ask: Ask, script: Script | None) -> Answer:
    """Write the answer to a request."""
    choices = [_choice(ask, script, number) for number in range(ask.count)]
    return Answer(tuple(choices))


def _choice(ask: Ask, script: Script | None, number: int) -> Choice:
    chance = _chance(ask, number)
    stop: Stop | None = None
    turn = ask.steps - script.begins_at if script is not None else -1
    if script is not None and 0 <= turn < len(script.turns):
        parts = [_part(each) for each in script.turns[turn]]
        if turn == len(script.turns) - 1:
            stop = script.stop
    else:
        parts = _drawn(ask, chance)
    calls = any(isinstance(part, Call) for part in parts)
    choice = Choice(tuple(parts), stop or ("tools" if calls else "stop"))
    return _limited(_stopped(choice, ask.stops), ask.limit)


def _chance(ask: Ask, number: int) -> random.Random:
    digest = hashlib.sha256(f"{ask.model.id} {number} {ask.steps}".encode())
    for segment in ask.segments:
        digest.update(f"\0{segment.role}\0{segment.text}".encode())
    return random.Random(digest.digest())


def _part(data: Any) -> Part:
    """Read one part of a script. Raises ValueError for one that cannot be read."""
    data = jsons.obj(data)
    if "thought" in data:
        return Thought(str(data["thought"]))
    if "redacted" in data:
        return Thought(str(data["redacted"]), redacted=True)
    if "text" in data:
        return Text(str(data["text"]))
    if "refusal" in data:
        return Refusal(str(data["refusal"]))
    if "tokens" in data:
        return Text(_of_tokens(random.Random(0), int(data["tokens"])))
    if "call" in data:
        arguments = data.get("arguments", {})
        text = arguments if isinstance(arguments, str) else jsons.compact(arguments)
        return Call(str(data["call"]), text, str(data.get("id", "")))
    raise ValueError(f"unknown part of a script: {data!r}")


def _drawn(ask: Ask, chance: random.Random) -> list[Part]:
    parts: list[Part] = []
    if ask.thinking:
        parts.append(Thought(_of_tokens(chance, chance.randint(5, 30))))
    names = [tool.name for tool in ask.tools]
    if ask.tools and ask.choice in ("any", "tool"):
        named = ask.tool if ask.choice == "tool" else chance.choice(names)
        parts.append(_call(ask, named, chance))
        return parts
    lot = chance.random()
    wants_call = lot < (0.5 if ask.steps == 0 else 0.15) and ask.steps < 4
    if ask.tools and ask.choice == "auto" and wants_call:
        if chance.random() < 0.3:
            parts.append(Text(_of_tokens(chance, chance.randint(3, 12))))
        several = ask.parallel and chance.random() < 0.5
        for _ in range(2 if several else 1):
            parts.append(_call(ask, chance.choice(names), chance))
        return parts
    if ask.schema is not None:
        schema = ask.schema or {"type": "object", "properties": {"answer": {"type": "string"}}}
        parts.append(Text(jsons.compact(_instance(schema, schema, chance, 0))))
        return parts
    parts.append(Text(_of_tokens(chance, chance.randint(12, 60))))
    return parts


def _call(ask: Ask, name: str, chance: random.Random) -> Call:
    schema = next((tool.schema for tool in ask.tools if tool.name == name), {})
    arguments = _instance(schema, schema, chance, 0)
    return Call(name, jsons.compact(arguments if isinstance(arguments, dict) else {}))


def _of_tokens(chance: random.Random, number: int) -> str:
    """Return a text of exactly `number` tokens, in time that grows with `number` alone."""
    found: list[tuple[str, int]] = []
    size = 0
    while size < number:
        rare = chance.random() < 0.04
        more = chance.choice(_RARE) if rare else chance.choice(_WORDS)
        if found:
            # Only the last piece can grow with what follows.
            last, weight = found.pop()
            size -= weight
            more = f"{last} {more}"
        found += tokens.pieces(more)
        size += tokens.count(more)
    kept: list[str] = []
    size = 0
    for piece, weight in found:
        if size + weight > number:
            break
        kept.append(piece)
        size += weight
    return "".join(kept) + "." * (number - size)


def _instance(
    schema: dict[str, Any], root: dict[str, Any], chance: random.Random, depth: int
) -> Any:
    """Return a value that a JSON schema accepts."""
    if "$ref" in schema:
        return _instance(_resolved(str(schema["$ref"]), root), root, chance, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        options = jsons.objects(schema.get(several))
        if options:
            option = options[0] if depth < _DEPTH else min(options, key=_size)
            return _instance(option, root, chance, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    kind = str(kind).lower()
    if kind == "object":
        return _object(schema, root, chance, depth)
    if kind == "array":
        least = int(schema.get("minItems", 1 if depth < _DEPTH else 0))
        items = jsons.obj(schema.get("items"))
        return [_instance(items, root, chance, depth + 1) for _ in range(least)]
    if kind == "integer":
        return _number(schema, chance)
    if kind == "number":
        return _number(schema, chance) + (0 if "maximum" in schema else 0.5)
    if kind == "boolean":
        return chance.random() < 0.5
    if kind == "null":
        return None
    return _string(schema, chance)


def _size(schema: dict[str, Any]) -> int:
    """Order schemas by the size of their values: `null`, a plain value, an object, a reference."""
    if "$ref" in schema:
        return 3
    if schema.get("type") == "null":
        return 0
    return 2 if schema.get("type") in ("object", "array") else 1


def _object(schema: dict[str, Any], root: dict[str, Any], chance: random.Random, depth: int) -> Any:
    properties = jsons.obj(schema.get("properties"))
    required = schema.get("required") or []
    made = {}
    for name, each in properties.items():
        if name in required or (depth < _DEPTH and chance.random() < 0.5):
            made[name] = _instance(jsons.obj(each), root, chance, depth + 1)
    return made


def _number(schema: dict[str, Any], chance: random.Random) -> int:
    least = int(schema.get("minimum", 0))
    most = int(schema.get("maximum", least + 100))
    return chance.randint(least, max(least, most))


def _string(schema: dict[str, Any], chance: random.Random) -> str:
    formats = {
        "date": "2026-11-25",
        "date-time": "2026-11-25T12:00:00Z",
        "email": "someone@example.com",
        "uri": "https://example.com/",
        "uuid": "6f2ab5c4-0c52-4c30-9c6e-6d2f4a1f5e11",
    }
    if schema.get("format") in formats:
        return formats[str(schema["format"])]
    made = " ".join(chance.choice(_WORDS) for _ in range(chance.randint(1, 4)))
    made = made.ljust(int(schema.get("minLength", 0)), "x")
    return made[: int(schema.get("maxLength", len(made)))]


def _resolved(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    found: Any = root
    for name in reference.removeprefix("#/").split("/"):
        if name and name != "#":
            found = jsons.obj(found).get(name)
    return jsons.obj(found)


def _stopped(choice: Choice, stops: list[str]) -> Choice:
    """End a choice before the first stop sequence."""
    kept: list[Part] = []
    for part in choice.parts:
        if isinstance(part, Text):
            places = [(part.text.find(stop), stop) for stop in stops if stop and stop in part.text]
            if places:
                at, stop = min(places)
                kept.append(Text(part.text[:at]))
                return Choice(tuple(kept), "sequence", stop)
        kept.append(part)
    return choice


def _limited(choice: Choice, limit: int | None) -> Choice:
    """End a choice where its output reaches a limit of tokens."""
    if limit is None:
        return choice
    left = limit
    kept: list[Part] = []
    for part in choice.parts:
        size = tokens.count(part.text)
        if size <= left:
            kept.append(part)
            left -= size
            continue
        text = ""
        for piece, weight in tokens.pieces(part.text):
            if weight > left:
                break
            text += piece
            left -= weight
        if text:
            kept.append(replace(part, text=text))
        return Choice(tuple(kept), "length")
    return choice
