"""Print which values of a prompt reach the request, and which vanish without a notice.

    python -m lab.findings.lost_values

Each case names text that the request has to contain, or a notice or a failure has to explain.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import swink
from lab.findings.upstreams import chat_chunk, event_stream, sent, verdict
from swink_testing.driver import MemoryHTTPClient

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
    "DwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CLAUDE = "anthropic/claude-haiku-4-5"
GPT = "openai/gpt-5.4-mini"
CHAT_GPT = "openai/gpt-4.1"
GEMINI = "gemini/gemini-3.6-flash"
BEDROCK = "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0"

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
TOOL = swink.Tool("look", "Look.", {"type": "object", "properties": {}})
CALL = swink.ToolCallBlock("call_1", "look", {})
IMAGE = swink.ImageBlock(swink.Base64Source("image/png", PNG))


def user(text: str = "Why?") -> swink.UserMessage:
    """Return a message of the user."""
    return swink.UserMessage(text)


def assistant(*blocks: Any) -> swink.AssistantMessage:
    """Return an answer; text may be given as a string."""
    return swink.AssistantMessage(
        [swink.TextBlock(each) if isinstance(each, str) else each for each in blocks]
    )


def system(*blocks: swink.TextBlock) -> swink.SystemMessage:
    """Return a system prompt of blocks."""
    return swink.SystemMessage(list(blocks))


@dataclass(frozen=True)
class Case:
    """A call, and text that its request has to contain."""

    name: str
    model: str
    messages: list[swink.Message]
    needed: str
    options: dict[str, Any] = field(default_factory=dict)


def media_cases() -> list[Case]:
    """Return the cases of media in answers and in results of tools."""
    drawing: list[swink.Message] = [user("Draw."), assistant("Here:", IMAGE), user("Bluer.")]
    cases = [
        Case(f"image beside text in an answer, {model}", model, drawing, PNG[:60])
        for model in (GEMINI, GPT, CLAUDE)
    ]
    cases.append(
        Case("image alone in an answer", GPT, [user(), assistant(IMAGE), user("Bluer.")], PNG[:60])
    )
    pdf = swink.DocumentBlock(swink.Base64Source("application/pdf", "JVBERi0xLjQK"))
    for model in (CLAUDE, GPT, GEMINI, BEDROCK):
        for kind, block, needed in (("image", IMAGE, PNG[:60]), ("document", pdf, "JVBERi0xLjQK")):
            result = swink.ToolResultMessage("call_1", "look", [block])
            messages: list[swink.Message] = [user(), assistant(CALL), result]
            options = {"tools": [TOOL]}
            cases.append(Case(f"{kind} in a result, {model}", model, messages, needed, options))
    return cases


def system_cases() -> list[Case]:
    """Return the cases of cache marks on system text."""
    point = {"cachePoint": {"type": "default"}}
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    rules = swink.TextBlock("Rules.", HOUR)
    return [
        Case("cached system block, Anthropic", CLAUDE, [system(rules), user()], '"1h"'),
        Case(
            "two system blocks, the first cached, Anthropic",
            CLAUDE,
            [system(rules, swink.TextBlock("More.")), user()],
            '"1h"',
        ),
        Case(
            "cache point in the system prompt, Bedrock",
            BEDROCK,
            [system(swink.TextBlock("Rules.", point)), user()],
            "cachePoint",
        ),
        Case(
            "cache breakpoint in the system prompt, OpenAI",
            GPT,
            [system(swink.TextBlock("Rules.", mark)), user()],
            "prompt_cache_breakpoint",
        ),
        Case(
            "cache mark on a result",
            CLAUDE,
            [
                user(),
                assistant(CALL),
                swink.ToolResultMessage("call_1", "look", [swink.TextBlock("Sea.", HOUR)]),
            ],
            '"1h"',
            {"tools": [TOOL]},
        ),
    ]


def limit_cases() -> list[Case]:
    """Return the cases that an API refuses; a notice or a failure has to come first."""
    root = {"type": "array", "items": {"type": "string"}}
    documents = [
        swink.DocumentBlock(swink.Base64Source("application/pdf", "JVBERi0xLjQK"), f"d{number}")
        for number in range(6)
    ]
    many = [swink.Tool(f"tool_{number}") for number in range(130)]
    six = swink.UserMessage([swink.TextBlock("Read."), *documents])
    return [
        Case("blank last message of the user", CLAUDE, [user(), assistant("A."), user("   ")], ""),
        Case("array as response format", GPT, [user()], "", {"response_format": root}),
        Case("six documents, Bedrock", BEDROCK, [six], ""),
        Case("130 tools, Chat Completions", CHAT_GPT, [user()], "", {"tools": many}),
        Case("blank stop sequence, Bedrock", BEDROCK, [user()], "", {"stop": [" "]}),
        Case("history that begins with a call, Gemini", GEMINI,
             [assistant(CALL), swink.ToolResultMessage("call_1", "look", "Sea."), user()], "",
             {"tools": [TOOL]}),
    ]  # fmt: skip


NAMES = ("mcp.server/read file", "wetter_für_日本", "x" * 128)
"""Names of tools that some APIs refuse."""


async def check(case: Case) -> None:
    """Print what became of the value of a case."""
    try:
        found = await sent(case.model, swink.Context(case.messages), **case.options)
    except swink.SwinkError as error:
        verdict(True, case.name, f"raised before: {type(error).__name__}")
        return
    if case.needed and case.needed in found.body:
        verdict(True, case.name, "sent")
    elif found.failure or found.notices:
        verdict(True, case.name, f"explained: {found.failure or found.notices[0]}"[:90])
    else:
        verdict(False, case.name, "lost in silence" if case.needed else "sent without a notice")


async def names() -> None:
    """Print which names of tools are renamed for each API."""
    for model in (GPT, CLAUDE, GEMINI, BEDROCK, "moonshot/kimi-k3", "mistral/mistral-large-latest"):
        shown: list[str] = []
        for name in NAMES:
            try:
                found = await sent(model, "Hi", tools=[swink.Tool(name)])
                whole = f'"{name}"' in found.body
                shown.append("unchanged" if whole else "renamed" if found.body else "refused")
            except swink.SwinkError as error:
                shown.append(type(error).__name__)
        print(
            f"names of tools, {model}: dots and slashes {shown[0]}, letters beyond ASCII", end=" "
        )
        print(f"{shown[1]}, 128 characters {shown[2]}")


async def zero_values() -> None:
    """Print whether a call is read where the server writes the empty fields of another kind."""
    function = {"name": "look", "arguments": '{"city":"Oslo"}'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    delta = {"tool_calls": [{**call, "custom": {"input": "", "name": ""}}]}
    http = MemoryHTTPClient(event_stream(chat_chunk(delta, "tool_calls")))
    providers = {"vllm": {"api_key": "test", "base_url": "http://vendor.invalid/v1"}}
    async with (
        swink.Client(http=http, providers=providers, retry=False) as client,
        client.stream("vllm/m", "Hi") as stream,
    ):
        async for _ in stream:
            pass
    calls = [(each.name, each.arguments) for each in stream.message.tool_calls]
    right = calls == [("look", {"city": "Oslo"})]
    verdict(right, "a function beside an empty custom tool is a call", f"{calls}")


async def run() -> None:
    """Print the lines of all cases."""
    for case in (*media_cases(), *system_cases(), *limit_cases()):
        await check(case)
    await zero_values()
    await names()


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()
