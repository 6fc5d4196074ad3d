"""The second round of conversations, with the options of their calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.documented.parts import (
    INTEGER,
    LOOK,
    STRING,
    answer,
    asked,
    audio,
    call,
    calls,
    document,
    extension,
    file_id,
    image,
    link,
    marked,
    result,
    said,
    schema,
    system,
    t,
    thought,
    thread,
    tool,
    turns,
)
from swink_core import CacheStrategy, Context, StopReason, TextBlock, ToolCallBlock

__all__ = ["second_round"]

EPHEMERAL: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
POINT: dict[str, Any] = {"cachePoint": {"type": "default"}}

TREE = {
    **schema(value=STRING, children={"type": "array", "items": {"$ref": "#"}}),
}
LIST = {
    **schema(head={"$ref": "#/$defs/node"}),
    "$defs": {
        "node": schema(value=STRING, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
    },
}
BOUNDS = schema(
    short={"type": "string", "minLength": 1, "maxLength": 20, "pattern": "^[a-z]+$"},
    day={"type": "string", "format": "date"},
    size={"type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 2},
    some={"type": "array", "items": STRING, "minItems": 1, "maxItems": 3, "uniqueItems": True},
)


def _invalid(id: str) -> ToolCallBlock:
    return ToolCallBlock(id, "look", {}, '{"where": nonce', "invalid")


def second_round() -> Iterator[tuple[str, Context, dict[str, Any]]]:
    """Yield the name, the conversation and the options of each call."""
    look = [LOOK]
    used = [said("Look"), calls(call("k1", where=t("x"))), result("k1", "found")]
    yield (
        "an image inside sixty turns",
        thread(*turns(30), said("This?", image()), *turns(30), said("So?")),
        {},
    )
    yield (
        "system words after a result",
        thread(*used, system("Be brief."), said("So?"), tools=look),
        {},
    )
    yield (
        "system words between call and result",
        thread(
            said("Look"),
            calls(call("l1", where=t("x"))),
            system("Hurry."),
            result("l1", "r"),
            tools=look,
        ),
        {},
    )
    yield (
        "system words last",
        thread(said("Hi"), answer("Hello"), said("Go on"), system("In verse.")),
        {},
    )
    yield (
        "system words after an answer",
        thread(said("Hi"), answer("Hello"), system("In verse.")),
        {},
    )
    yield "system words alone before a call", thread(system("You look."), *used, tools=look), {}
    yield (
        "a system prompt of five blocks",
        asked("Hi", prompt=[TextBlock(t("rule")) for _ in range(5)]),
        {},
    )
    yield (
        "system blocks with points",
        asked("Hi", prompt=[marked("Rules", **POINT), TextBlock(t("Now"))]),
        {},
    )
    yield "marks on four blocks", asked(*(marked("block", **EPHEMERAL) for _ in range(4))), {}
    yield (
        "marks on results",
        thread(
            said("Look"),
            calls(call("m1", where=t("x"))),
            result("m1", marked("found", **EPHEMERAL)),
            tools=look,
        ),
        {},
    )
    yield (
        "a cache for an hour",
        thread(*turns(4), said("So?"), tools=look, prompt=t("Rules")),
        {"cache": CacheStrategy("auto", 3600)},
    )
    yield "a prefill after a tool", thread(*used, answer("It is"), tools=look), {}
    yield "a prefill of JSON", thread(said("JSON, please"), answer('{"a":')), {}
    yield (
        "a prefill with a schema",
        thread(said("Ann is 5"), answer("{")),
        {"response_format": schema(name=STRING)},
    )
    yield (
        "twelve calls at once",
        thread(
            said("Look"),
            calls(*(call(f"n{n}", where=t("x")) for n in range(12))),
            *(result(f"n{n}", "r") for n in range(12)),
            said("So?"),
            tools=look,
        ),
        {},
    )
    yield (
        "parallel calls of two tools, one failed",
        thread(
            said("Look"),
            calls("Two.", call("o1", where=t("x")), call("o2", "count", where=t("y"))),
            result("o1", "gone", failed=True),
            result("o2", "5", name="count"),
            answer("Five."),
            said("Why?"),
            tools=[LOOK, tool("count")],
        ),
        {},
    )
    yield (
        "words between two calls",
        thread(
            said("Look"),
            calls(call("p1", where=t("x")), "and", call("p2", where=t("y"))),
            result("p1", "r"),
            result("p2", "s"),
            tools=look,
        ),
        {},
    )
    yield (
        "an empty result",
        thread(
            said("Look"), calls(call("q1", where=t("x"))), result("q1", TextBlock("")), tools=look
        ),
        {},
    )
    yield (
        "an empty failure",
        thread(
            said("Look"),
            calls(call("q2", where=t("x"))),
            result("q2", TextBlock(""), failed=True),
            tools=look,
        ),
        {},
    )
    yield (
        "a result of two texts",
        thread(
            said("Look"), calls(call("q3", where=t("x"))), result("q3", "one", "two"), tools=look
        ),
        {},
    )
    yield (
        "a result of JSON",
        thread(
            said("Look"),
            calls(call("q4", where=t("x"))),
            result("q4", '{"a": [1, null]}'),
            tools=look,
        ),
        {},
    )
    yield (
        "a PDF from a tool",
        thread(
            said("Look"),
            calls(call("q5", where=t("x"))),
            result("q5", "see", document(name="a.pdf")),
            tools=look,
        ),
        {},
    )
    yield (
        "an image alone from a tool",
        thread(said("Look"), calls(call("q6", where=t("x"))), result("q6", image()), tools=look),
        {},
    )
    yield (
        "an image from each of two tools",
        thread(
            said("Look"),
            calls(call("q7", where=t("x")), call("q8", where=t("y"))),
            result("q7", "a", image()),
            result("q8", "b", image()),
            tools=look,
        ),
        {},
    )
    yield (
        "arguments that are no JSON",
        thread(said("Look"), calls(_invalid("r1")), result("r1", "wrong", failed=True), tools=look),
        {},
    )
    yield (
        "arguments of every kind",
        thread(
            said("Look"),
            calls(call("r2", where={"a": [1, 2.5, True, None, t("x")], "b": {}})),
            result("r2", "r"),
            tools=look,
        ),
        {},
    )
    yield (
        "a call with strange words for an id",
        thread(
            said("Look"),
            calls(call("call|1/ä b", where=t("x"))),
            result("call|1/ä b", "r"),
            tools=look,
        ),
        {},
    )
    yield (
        "a call with a long id",
        thread(
            said("Look"), calls(call("i" * 120, where=t("x"))), result("i" * 120, "r"), tools=look
        ),
        {},
    )
    yield (
        "thinking, then a call",
        thread(
            said("Look"),
            answer(thought("I should look"), call("s1", where=t("x")), reason=StopReason.TOOL_USE),
            result("s1", "r"),
            said("So?"),
            tools=look,
        ),
        {"thinking": "medium"},
    )
    yield (
        "a tool required while it thinks",
        asked("Look", tools=look),
        {"thinking": "high", "tool_choice": "required"},
    )
    yield (
        "high thinking with a limit",
        asked("Think"),
        {"thinking": "extra_high", "max_tokens": 4000},
    )
    yield (
        "thinking and sampling",
        asked("Think"),
        {"thinking": "high", "temperature": 0.2, "top_p": 0.9, "top_k": 5},
    )
    yield (
        "thinking and a schema",
        asked("Ann is 5"),
        {"thinking": "low", "response_format": schema(name=STRING)},
    )
    yield (
        "thinking in every turn",
        thread(
            *(m for _ in range(5) for m in (said("Hi"), answer(thought(), "Hello"))), said("So?")
        ),
        {"thinking": "low"},
    )
    yield (
        "a redacted thought of another",
        thread(
            said("Hi"),
            answer(thought("x", "c2lnbmF0dXJl"), "Hello", provider="elsewhere", model="m"),
            said("So?"),
        ),
        {"thinking": "low"},
    )
    yield "a recursive schema of a tool", asked("Look", tools=[tool("tree", TREE)]), {}
    yield "a linked list of a tool", asked("Look", tools=[tool("list", LIST)]), {}
    yield "bounds in a tool", asked("Look", tools=[tool("bounds", BOUNDS)]), {}
    yield (
        "a strict tool with bounds",
        asked("Look", tools=[tool("bounds", BOUNDS, strict=True)]),
        {},
    )
    yield (
        "a strict tool without required",
        asked(
            "Look",
            tools=[tool("loose", {"type": "object", "properties": {"a": STRING}}, strict=True)],
        ),
        {},
    )
    yield (
        "anyOf at a tool's root",
        asked("Look", tools=[tool("any", {"anyOf": [schema(a=STRING), schema(b=INTEGER)]})]),
        {},
    )
    yield (
        "oneOf, allOf, not, const",
        asked(
            "Look",
            tools=[
                tool(
                    "odd",
                    schema(
                        a={"oneOf": [STRING, INTEGER]},
                        b={"allOf": [STRING, {"minLength": 2}]},
                        c={"const": "x"},
                        d={"not": STRING},
                    ),
                )
            ],
        ),
        {},
    )
    yield (
        "types as a list",
        asked("Look", tools=[tool("list_of_types", schema(a={"type": ["string", "null"]}))]),
        {},
    )
    yield "a schema with bounds", asked("Ann"), {"response_format": BOUNDS}
    yield (
        "a schema with definitions",
        asked("Ann"),
        {"response_format": {**schema(p={"$ref": "#/$defs/p"}), "$defs": {"p": schema(x=INTEGER)}}},
    )
    yield (
        "a schema whose root is a list",
        asked("Ann"),
        {"response_format": {"type": "array", "items": STRING}},
    )
    yield (
        "a loose schema",
        asked("Ann"),
        {"response_format": {"type": "object", "properties": {"a": STRING}}},
    )
    yield (
        "a named schema",
        asked("Ann"),
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "person", "schema": schema(name=STRING)},
            }
        },
    )
    yield "twenty images", asked("These?", *(image() for _ in range(20))), {}
    yield "five documents", asked("Sum up", *(document(name=f"part {n}.pdf") for n in range(5))), {}
    yield (
        "two documents of one name",
        asked("Sum up", document(name="a.pdf"), document(name="a.pdf")),
        {},
    )
    yield "a document alone", asked(document("text/plain", "notes")), {}
    yield "media of every kind", asked("All", image(), document(name="a.pdf"), audio()), {}
    yield "an image with a mark", asked("This?", image(**EPHEMERAL)), {}
    yield "an uploaded image of Anthropic's", asked("This?", file_id("anthropic", "image")), {}
    yield (
        "a part of Anthropic's own",
        asked(
            "See",
            extension(
                "anthropic",
                "search_result",
                source="s",
                title=t("a"),
                content=[{"type": "text", "text": t("b")}],
            ),
        ),
        {},
    )
    yield "a sound at an address", asked("Hear", link("audio", "mp3")), {}
    yield "sixteen stops", asked("Go"), {"stop": [f"END{n}" for n in range(16)]}
    yield "a stop of white space", asked("Go"), {"stop": ["\n\n"]}
    yield "every option at once", thread(*turns(2), said("So?"), tools=look, prompt=t("Rules")), {
        "temperature": 1.0, "top_p": 1.0, "max_tokens": 1, "stop": ["END"], "seed": 0,
        "user": "u-1",
        "session_id": "s-1", "presence_penalty": 0.5, "frequency_penalty": 0.5, "top_k": 40,
        "tool_choice": "auto", "parallel_tool_calls": True, "cache": "auto",
    }  # fmt: skip
