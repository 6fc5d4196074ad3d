"""The first round of conversations, with the options of their calls."""

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
from swink_core import Context, StopReason, TextBlock

__all__ = ["first_round"]

EPHEMERAL = {"cache_control": {"type": "ephemeral"}}


def first_round() -> Iterator[tuple[str, Context, dict[str, Any]]]:
    """Yield the name, the conversation and the options of each call."""
    look = [LOOK]
    yield "hello", asked("Hello"), {}
    yield "sixty turns", thread(*turns(60), said("And now?")), {}
    yield "a long message", asked("word " * 20_000), {"max_tokens": 64}
    yield "two hundred short turns", thread(*turns(200, "ok"), said("go on")), {}
    yield (
        "system, then developer words inside",
        thread(
            system("Be kind."),
            said("Hi"),
            answer("Hello"),
            system("From now on in verse."),
            said("Go"),
        ),
        {},
    )
    yield (
        "three system messages first",
        thread(system("A"), system("B"), system("C"), said("Hi")),
        {},
    )
    yield "system prompt and system message", thread(system("B"), said("Hi"), prompt=t("A")), {}
    yield (
        "system blocks with a cache mark",
        asked("Hi", prompt=[marked("Rules", **EPHEMERAL), TextBlock(t("Today"))]),
        {},
    )
    yield "two users in a row", thread(said("One"), said("Two"), said("Three")), {}
    yield "two answers in a row", thread(said("Hi"), answer("A"), answer("B"), said("Go on")), {}
    yield "an answer first", thread(answer("Welcome."), said("Hi")), {}
    yield "a prefill", thread(said("A poem, please."), answer("Roses are")), {}
    yield "a prefill with space at its end", thread(said("Go"), answer("Once upon a ")), {}
    yield "a prefill while it thinks", thread(said("Go"), answer("So")), {"thinking": "low"}
    yield "names of users", thread(said("I am Ann", name="ann"), said("I Bob", name="bob")), {}
    yield "one tool", asked("Look", tools=look), {}
    yield "a tool required", asked("Look", tools=look), {"tool_choice": "required"}
    yield "a named tool", asked("Look", tools=[LOOK, tool("other")]), {"tool_choice": "look"}
    yield "no tool allowed", asked("Look", tools=look), {"tool_choice": "none"}
    yield (
        "three calls at once",
        thread(
            said("Look"),
            calls(call("a1", where=t("x")), call("a2", where=t("y")), call("a3", where=t("z"))),
            result("a1", "one"),
            result("a2", "two"),
            result("a3", "three"),
            tools=look,
        ),
        {},
    )
    yield (
        "results in another order",
        thread(
            said("Look"),
            calls(call("b1", where=t("x")), call("b2", where=t("y"))),
            result("b2", "two"),
            result("b1", "one"),
            tools=look,
        ),
        {},
    )
    yield (
        "a tool that failed",
        thread(
            said("Look"),
            calls(call("c1", where=t("x"))),
            result("c1", "not there", failed=True),
            tools=look,
        ),
        {},
    )
    yield (
        "results, then words",
        thread(
            said("Look"),
            calls("I look.", call("d1", where=t("x"))),
            result("d1", "found"),
            said("And?"),
            tools=look,
        ),
        {},
    )
    yield (
        "a history of calls without tools",
        thread(
            said("Look"),
            calls(call("e1", where=t("x"))),
            result("e1", "found"),
            answer("It is there."),
            said("Thanks"),
        ),
        {},
    )
    yield (
        "a call without an answer",
        thread(said("Look"), calls(call("f1", where=t("x"))), said("Never mind"), tools=look),
        {},
    )
    yield (
        "ten rounds of a tool",
        thread(
            said("Look"),
            *(
                m
                for n in range(10)
                for m in (calls(call(f"g{n}", where=t("x"))), result(f"g{n}", "r"))
            ),
            said("So?"),
            tools=look,
        ),
        {},
    )
    yield "one call not in parallel", asked("Look", tools=look), {"parallel_tool_calls": False}
    yield (
        "a tool without parameters",
        asked("Look", tools=[tool("now", {"type": "object", "properties": {}})]),
        {},
    )
    yield "a tool with an empty schema", asked("Look", tools=[tool("now", {})]), {}
    yield (
        "a tool with nested schemas",
        asked(
            "Look",
            tools=[
                tool(
                    "deep",
                    schema(
                        items={
                            "type": "array",
                            "items": schema(name=STRING, tags={"type": "array", "items": STRING}),
                        },
                        kind={"type": "string", "enum": ["a", "b"]},
                        size={"anyOf": [INTEGER, {"type": "null"}]},
                    ),
                )
            ],
        ),
        {},
    )
    yield (
        "a tool with definitions",
        asked(
            "Look",
            tools=[
                tool(
                    "defs",
                    {
                        **schema(point={"$ref": "#/$defs/point"}),
                        "$defs": {"point": schema(x={"type": "number"}, y={"type": "number"})},
                    },
                )
            ],
        ),
        {},
    )
    yield "a strict tool", asked("Look", tools=[tool("strict", strict=True)]), {}
    yield "a tool's name with a dot", asked("Look", tools=[tool("files.read")]), {}
    yield "a tool's name in Greek", asked("Look", tools=[tool("ζήτα")]), {}
    yield "a tool's name of 64 letters", asked("Look", tools=[tool("n" * 64)]), {}
    yield "a tool's name of 100 letters", asked("Look", tools=[tool("n" * 100)]), {}
    yield "one hundred tools", asked("Look", tools=[tool(f"tool_{n}") for n in range(100)]), {}
    yield "an image", asked("What is this?", image()), {}
    yield "an image before the words", asked(image("image/jpeg"), "What is this?"), {}
    yield (
        "four kinds of images",
        asked("These?", *(image(f"image/{k}") for k in ("png", "jpeg", "gif", "webp"))),
        {},
    )
    yield "an image alone", asked(image()), {}
    yield "an image at an address", asked("This?", link()), {}
    yield "an image with a detail", asked("This?", image(detail="low")), {}
    yield "a PDF", asked("Sum it up", document(name="report.pdf")), {}
    yield "a PDF at an address", asked("Sum it up", link("document", "pdf")), {}
    yield "a text file", asked("Sum it up", document("text/plain", "notes.txt")), {}
    yield "sound", asked("What is said?", audio()), {}
    yield (
        "an image from a tool",
        thread(
            said("Look"), calls(call("h1", where=t("x"))), result("h1", "see", image()), tools=look
        ),
        {},
    )
    yield "a file of OpenAI's", asked("Sum it up", file_id("openai")), {}
    yield "JSON", asked("Answer in JSON"), {"response_format": "json"}
    yield "a schema", asked("Ann is 5"), {"response_format": schema(name=STRING, age=INTEGER)}
    yield "a schema and tools", asked("Look", tools=look), {"response_format": schema(name=STRING)}
    yield "low thinking", asked("Think"), {"thinking": "low"}
    yield "a budget to think", asked("Think"), {"thinking": 4096, "max_tokens": 8192}
    yield "no thinking", asked("Do not think"), {"thinking": "off"}
    yield (
        "thinking of another provider",
        thread(
            said("Hi"), answer(thought("hm", "c2ln"), "Hello", provider="elsewhere"), said("Go on")
        ),
        {},
    )
    scripts = (
        "\U0001f469\u200d\U0001f4bb 日本語 العربية עברית ไทย \U0001f1e8\U0001f1ed e\u0301 \u200b"
    )
    yield "emoji and other scripts", asked(scripts), {}
    yield "control characters", asked("a\tb\r\nc\u0007d\u2028e\ufeff"), {}
    yield (
        "an answer that was cut",
        thread(said("Go"), answer("Once upon", reason=StopReason.LENGTH), said("Go on")),
        {},
    )
    yield "sampling", asked("Hi"), {"temperature": 0.3, "top_p": 0.8, "max_tokens": 100, "seed": 7}
