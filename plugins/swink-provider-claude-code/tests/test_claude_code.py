"""The `claude` command, played by a small stand-in that speaks recorded stream-json."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_core.providers import LimitGate, NDJSONDecoder, rule_of
from swink_provider_claude_code import ClaudeCodeProvider
from swink_provider_claude_code.prompt import prompt_of
from swink_test_helpers.corpus import Case, ids, stream_cases
from swink_testing.chunking import chunkings, frame_ends, truncations
from swink_testing.driver import comparable_events, drive_bytes, fold

PROVIDER = ClaudeCodeProvider("claude-code")
MODEL = swink.Model("claude-code", "sonnet")
STREAMS = stream_cases("claude_cli")

STAND_IN = """\
#!{python}
import json, os, sys, time
from pathlib import Path

here = Path(__file__).parent
args = sys.argv[1:]
named = "--system-prompt-file" in args
system = Path(args[args.index("--system-prompt-file") + 1]).read_text() if named else ""
said = json.loads(sys.stdin.readline())
asked = {{"args": args, "prompt": said["message"]["content"], "system": system}}
asked["environ"] = dict(os.environ)
(here / "asked.json").write_text(json.dumps(asked))
(here / "pid").write_text(str(os.getpid()))
sys.stdout.write((here / "output").read_text())
sys.stdout.flush()
sys.stderr.write((here / "complaint").read_text())
time.sleep(float((here / "stay").read_text()))
sys.exit(int((here / "code").read_text()))
"""


class Command:
    """A stand-in: what it prints, complains, how long it stays and how it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "claude"
        self.path.write_text(STAND_IN.format(python=sys.executable))
        self.path.chmod(0o755)
        self.says()

    def says(self, *lines: Any, complaint: str = "", stay: float = 0, code: int = 0) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        for name, value in (
            ("output", text), ("complaint", complaint), ("stay", stay), ("code", code)
        ):  # fmt: skip
            (self.folder / name).write_text(str(value))

    @property
    def asked(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.folder / "asked.json").read_text())
        return data

    def has_file(self, path: str) -> bool:
        return os.path.exists(path)

    def is_alive(self) -> bool:
        try:
            os.kill(int((self.folder / "pid").read_text()), 0)
        except ProcessLookupError:
            return False
        return True


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    stand_in = Command(tmp_path)
    monkeypatch.setenv("SWINK_CLAUDE_COMMAND", str(stand_in.path))
    return stand_in


def piece(text: str, index: int = 0) -> dict[str, Any]:
    delta = {"type": "text_delta", "text": text}
    event = {"type": "content_block_delta", "index": index, "delta": delta}
    return {"type": "stream_event", "event": event}


INIT = {"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-sonnet"}
WHOLE = {
    "type": "assistant",
    "message": {"model": "claude-sonnet", "content": [{"type": "text", "text": "Hello there"}]},
}
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Hello there",
    "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4},
    "total_cost_usd": 0.25,
}


def took(**models: int) -> dict[str, Any]:
    """Return a result of models that each read a million tokens, and wrote so many millions."""
    million = 1_000_000
    used = {
        id.replace("_", "-"): {"inputTokens": million, "outputTokens": written * million}
        for id, written in models.items()
    }
    return {**RESULT, "modelUsage": used}


async def run(
    conversation: Any = "Hi", model: str = "claude-code/sonnet", **options: Any
) -> tuple[list[swink.AssistantMessageEvent], swink.AssistantMessage]:
    async with swink.Client(retry=swink.RetryPolicy.none()) as client:
        async with client.stream(model, conversation, **options) as stream:
            events = [event async for event in stream]
        return events, stream.message


async def test_pieces_stream_and_are_not_said_again(command: Command) -> None:
    command.says(INIT, piece("Hello"), piece(" there"), WHOLE, RESULT)
    events, message = await run()
    deltas = [event.delta for event in events if isinstance(event, swink.TextDelta)]
    assert deltas == ["Hello", " there"]
    assert message.text == "Hello there"
    assert message.model == "claude-sonnet"
    assert message.response_id == "s1"
    assert message.usage == swink.Usage(input=7, output=2, cache_read=4, total=9, reported=True)
    assert message.cost is None


async def test_whole_blocks_are_said_where_there_were_no_pieces(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    _, message = await run()
    assert message.text == "Hello there"


async def test_the_command_line_and_the_prompt(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    await run(
        "Why?",
        system_prompt="Be brief.",
        settings={"resume": "s0", "max_turns": 3, "args": ["--debug"]},
    )
    assert command.asked["prompt"] == "Why?"
    assert command.asked["args"] == [
        "-p", "--input-format=stream-json", "--output-format=stream-json",
        "--include-partial-messages", "--verbose", "--model=sonnet",
        "--resume=s0", "--max-turns=3", "--debug", "--system-prompt-file", ANY,
    ]  # fmt: skip
    assert command.asked["system"] == "Be brief."
    assert not command.has_file(command.asked["args"][-1])


SESSION = "5d1f0a52-3a0e-4f0b-9a1c-7a2b8f0c4e01"

HOSTILE = [
    ("an option", "--dangerously-skip-permissions"),
    ("a short option", "-c"),
    ("words", "a b; rm -rf /"),
]


@pytest.mark.parametrize("word", [row[1] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
async def test_nothing_that_is_given_becomes_an_option(command: Command, word: str) -> None:
    command.says(INIT, WHOLE, RESULT)
    await run(word, model=f"claude-code/{word}", settings={"resume": word}, system_prompt=word)
    assert command.asked["args"][5:] == [
        f"--model={word}", f"--resume={word}", "--system-prompt-file", ANY,
    ]  # fmt: skip
    assert (command.asked["prompt"], command.asked["system"]) == (word, word)


# (settings, words of the command line)
SETTINGS: list[tuple[dict[str, Any], list[str]]] = [
    ({"resume": "s0"}, ["--resume=s0"]),
    ({"resume": "s0", "fork": True}, ["--resume=s0", "--fork-session"]),
    ({"continue": True}, ["--continue"]),
    ({"continue": False}, []),
    ({"permission_mode": "plan"}, ["--permission-mode=plan"]),
    (
        {"allowed_tools": ["Read", "Bash(git *)"], "disallowed_tools": ["Edit"]},
        ["--allowedTools=Read,Bash(git *)", "--disallowedTools=Edit"],
    ),
    ({"max_turns": 3}, ["--max-turns=3"]),
    ({"tools": []}, ["--tools="]),
    ({"tools": ["Bash", "Read"]}, ["--tools=Bash,Read"]),
    ({"session": SESSION}, [f"--session-id={SESSION}"]),
]


@pytest.mark.parametrize(("settings", "words"), SETTINGS)
async def test_settings_are_options_of_the_command(
    settings: dict[str, Any], words: list[str], command: Command
) -> None:
    command.says(INIT, WHOLE, RESULT)
    events, _ = await run(settings=settings)
    assert command.asked["args"][6:] == words
    assert [event for event in events if isinstance(event, swink.Notice)] == []


async def test_a_session_id_resumes_nothing_and_is_said_to_be_left_out(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    events, _ = await run(session_id="s0")
    assert command.asked["args"][6:] == []
    [notice] = [event for event in events if isinstance(event, swink.Notice)]
    assert "session_id" in notice.detail


async def test_a_session_that_goes_on_hears_only_what_is_new(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    said = swink.AssistantMessage([swink.TextBlock("Hello")], provider="claude-code")
    turns = [swink.UserMessage("Hi"), said, swink.UserMessage("And now?")]
    await run(turns, settings={"resume": "s0"})
    assert command.asked["prompt"] == "And now?"


LONG = [
    ("long", "x" * 3_000_000, "x" * 3_000_000),
    ("with a null", "a\0b", "a\0b"),
    ("with half a character", "a\ud800b", "a?b"),
]


async def test_what_it_cost_is_counted_from_what_each_model_took(command: Command) -> None:
    command.says(INIT, WHOLE, took(claude_sonnet_5_5=1, claude_opus_5_5=0))
    _, message = await run()
    assert message.cost == swink.Cost(total=2 + 10 + 4)


LONG_KEPT = {
    "service_tier": "standard",
    "speed": "standard",
    "inference_geo": "not_available",
    "cache_creation_input_tokens": 2_000_000,
    "cache_creation": {"ephemeral_1h_input_tokens": 2_000_000, "ephemeral_5m_input_tokens": 0},
}
TERMS = [
    ("kept for an hour", {}, 4 + 2 * 8),
    ("kept for five minutes", {"cache_creation": None}, 4 + 2 * 5),
    ("fast", {"speed": "fast"}, 2 * (4 + 2 * 8)),
    ("in the US alone", {"inference_geo": "us"}, 1.1 * (4 + 2 * 8)),
]


@pytest.mark.parametrize(("name", "told", "cost"), TERMS, ids=[name for name, *_ in TERMS])
async def test_what_a_run_says_of_its_terms_is_kept_and_paid(
    name: str, told: dict[str, Any], cost: float, command: Command
) -> None:
    used = {"inputTokens": 1_000_000, "cacheCreationInputTokens": 2_000_000}
    usage = {**LONG_KEPT, **told}
    command.says(INIT, WHOLE, {**RESULT, "usage": usage, "modelUsage": {"claude-opus-5-5": used}})
    _, message = await run()
    assert message.cost is not None
    assert message.cost.total == pytest.approx(cost)
    assert message.usage is not None
    terms = {word: usage[word] for word in ("service_tier", "speed", "inference_geo")}
    assert message.usage.extra.items() >= terms.items()


@pytest.mark.parametrize("model", ["sonnet", "claude-sonnet-5-5"])
async def test_the_commands_own_guess_at_a_price_counts_for_nothing(
    model: str, command: Command
) -> None:
    command.says(INIT, WHOLE, took(claude_sonnet_5_5=1, claude_unheard_of=0))
    _, message = await run(model=f"claude-code/{model}")
    assert message.cost is None


async def test_a_limit_counts_a_run_of_unknown_cost(command: Command) -> None:
    command.says(INIT, WHOLE, took(claude_sonnet_5_5=1, claude_unheard_of=0))
    gate = LimitGate(swink.Limits(cost=100.0))
    _, message = await run(model="claude-code/claude-sonnet-5-5", limits=gate)
    assert message.cost is None
    assert (gate.charge.cost or 0.0) > 0.0
    assert gate.charge.estimated


async def test_the_cost_of_several_models_has_no_parts_at_the_prices_of_one(
    command: Command,
) -> None:
    command.says(INIT, WHOLE, took(claude_sonnet_5_5=1, claude_haiku_5_5=0))
    costs = [
        (await run(model=f"claude-code/{id}"))[1].cost for id in ("sonnet", "claude-sonnet-5-5")
    ]
    assert costs[0] is not None
    assert costs[0] == costs[1] == swink.Cost(total=costs[0].total)


@pytest.mark.parametrize("id", ["claude-sonnet-5-5", "claude-opus-5-5", "claude-opus-4-6"])
async def test_a_model_with_the_long_context_costs_what_the_model_costs(
    id: str, command: Command
) -> None:
    used = {"inputTokens": 1000, "outputTokens": 100}
    costs = []
    for name in (id, f"{id}[1m]"):
        command.says(INIT, WHOLE, {**RESULT, "modelUsage": {name: used}})
        _, message = await run(model=f"claude-code/{name}")
        assert f"--model={name}" in command.asked["args"]
        costs.append(message.cost)
    assert costs[0] is not None
    assert costs[0] == costs[1]


# (id, when it retires: an empty string if it stays)
WITH_THE_LONG_CONTEXT = [("claude-sonnet-5-5[1m]", ""), ("claude-sonnet-4-5[1m]", "2026-11-30")]


@pytest.mark.parametrize(("id", "retires"), WITH_THE_LONG_CONTEXT)
async def test_the_catalogue_knows_a_model_with_the_long_context(id: str, retires: str) -> None:
    async with swink.Client() as client:
        model = client.catalog.resolve(f"claude-code/{id}")
    assert model.info is not None
    assert model.info.prices is not None
    assert rule_of(model).retires == retires


async def test_counts_under_unknown_names_leave_the_commands_own_figure(command: Command) -> None:
    used = {"claude-sonnet-5-5": {"prompt": 1_000_000, "answer": 9}}
    command.says(INIT, WHOLE, {**RESULT, "modelUsage": used})
    _, message = await run()
    assert message.cost == swink.Cost(total=0.25)


PIXEL = base64.b64encode(b"\x89PNG").decode()
IMAGE = swink.ImageBlock(swink.Base64Source("image/png", PIXEL))
NOTES = swink.DocumentBlock(
    swink.Base64Source("text/plain", base64.b64encode(b"High water.").decode()), name="Tides"
)
SHOWN = {"type": "base64", "media_type": "image/png", "data": PIXEL}
READ = {"type": "text", "media_type": "text/plain", "data": "High water."}


async def test_images_and_documents_go_with_the_words(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    await run([swink.UserMessage([swink.TextBlock("What?"), IMAGE, NOTES])])
    assert command.asked["prompt"] == [
        {"type": "text", "text": "What?"},
        {"type": "image", "source": SHOWN},
        {"type": "document", "source": READ, "title": "Tides"},
    ]


async def test_an_image_of_the_past_stands_in_its_place_of_the_script(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    shown = swink.UserMessage([swink.TextBlock("What?"), IMAGE])
    said = swink.AssistantMessage([swink.TextBlock("A boat.")], provider="acme")
    await run([shown, said, swink.UserMessage("Sure?")])
    before, image, after = command.asked["prompt"]
    assert before["text"].endswith("User: What?")
    assert image["type"] == "image"
    assert after["text"] == "\n\nAssistant: A boat.\n\nUser: Sure?"


async def test_media_by_their_address_are_refused(command: Command) -> None:
    image = swink.ImageBlock(swink.UrlSource("https://example.com/a.png"))
    events, _ = await run([swink.UserMessage([image])])
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is Kind.UNSUPPORTED


EFFORTS = [("low", "low", 0), ("extra_high", "xhigh", 0), ("off", "low", 1), ("minimal", "low", 1)]


@pytest.mark.parametrize(("level", "word", "notices"), EFFORTS)
async def test_thinking_is_an_effort(level: str, word: str, notices: int, command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    events, _ = await run(thinking=level)
    assert f"--effort={word}" in command.asked["args"]
    assert len([event for event in events if isinstance(event, swink.Notice)]) == notices


async def test_a_session_is_named_by_a_uuid(command: Command) -> None:
    events, _ = await run(settings={"session": "user-42"})
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is Kind.INVALID_REQUEST
    assert "not a UUID" in events[-1].error_message
    assert not (command.folder / "asked.json").exists()


async def test_the_system_prompt_may_come_after_the_commands_own(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    await run(system_prompt="Be brief.", settings={"append_system_prompt": True})
    assert command.asked["args"][-2] == "--append-system-prompt-file"


SYNTHETIC = {
    "type": "assistant",
    "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 529"}]},
}
ASKS_AGAIN = {
    "type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
    "error": "overloaded",
}  # fmt: skip


async def test_an_error_that_is_called_a_success_is_an_error(command: Command) -> None:
    refused = {**RESULT, "is_error": True, "result": "API Error: 529", "api_error_status": 529}
    command.says(INIT, ASKS_AGAIN, SYNTHETIC, refused, code=1)
    events, message = await run()
    assert message.error_kind is Kind.OVERLOADED
    assert message.text == ""
    (notice,) = [event for event in events if isinstance(event, swink.Notice)]
    assert notice == swink.Notice("retry", "the command retries, attempt 1 of 10: overloaded")


def event(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": type, **fields}}


def thought(text: str) -> dict[str, Any]:
    delta = {"type": "thinking_delta", "thinking": text}
    return event("content_block_delta", index=0, delta=delta)


def start(id: str) -> dict[str, Any]:
    return event("message_start", message={"id": id})


def lines(id: str, *blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of an answer that has not been streamed."""
    message = {"id": id, "model": "claude-sonnet"}
    return [{"type": "assistant", "message": {**message, "content": [block]}} for block in blocks]


def streamed(id: str, text: str, index: int = 0) -> list[dict[str, Any]]:
    """Return the events and the line of a block of text."""
    [line] = lines(id, {"type": "text", "text": text})
    return [piece(text, index), line, event("content_block_stop", index=index)]


STOP = event("message_stop")
CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
FOUND = {"type": "tool_result", "tool_use_id": "t1", "content": "notes.md"}
FIRST_TURN = [
    start("m0"), *streamed("m0", "I look."), *lines("m0", CALL), STOP,
    {"type": "user", "message": {"content": [FOUND]}},
]  # fmt: skip
FIRST_BLOCKS = [
    swink.TextBlock("I look."),
    swink.ExtensionBlock("claude-code", "tool_use", CALL),
    swink.ExtensionBlock("claude-code", "tool_result", FOUND),
]
HALF = [start("m1"), piece("The answer is")]
TEXT = "The answer is 42."
OTHER = "It is 42."

# (name, lines, how often the answer is discarded, the content)
REPEATED: list[tuple[str, list[Any], int, list[swink.ContentBlock]]] = [
    ("streamed", [*HALF, ASKS_AGAIN, start("m2"), *streamed("m2", TEXT), STOP], 1, [
        swink.TextBlock(TEXT),
    ]),
    ("streamed, without a word", [*HALF, start("m2"), *streamed("m2", OTHER), STOP], 1, [
        swink.TextBlock(OTHER),
    ]),
    ("whole", [*HALF, *lines("m2", {"type": "text", "text": TEXT})], 1, [swink.TextBlock(TEXT)]),
    ("whole, as a call", [*HALF, *lines("m2", CALL)], 1, [
        swink.ExtensionBlock("claude-code", "tool_use", CALL),
    ]),
    ("whole, with the rest", [*HALF, *lines("m1", {"type": "text", "text": TEXT})], 0, [
        swink.TextBlock(TEXT),
    ]),
    ("whole, with another text", [*HALF, *lines("m1", {"type": "text", "text": OTHER})], 1, [
        swink.TextBlock(OTHER),
    ]),
    ("twice", [*HALF, start("m2"), piece("The"), *lines("m3", {"type": "text", "text": TEXT})], 2, [
        swink.TextBlock(TEXT),
    ]),
    ("after events that the command adds", [
        start("m1"), thought("Hm, let"), event("content_block_stop", index=0), STOP, ASKS_AGAIN,
        start("m2"), *streamed("m2", TEXT), STOP,
    ], 1, [swink.TextBlock(TEXT)]),
    ("with its complete blocks", [
        start("m1"), *streamed("m1", "Well."), ASKS_AGAIN,
        start("m2"), *streamed("m2", "Well."), *streamed("m2", TEXT, 1), STOP,
    ], 1, [swink.TextBlock("Well."), swink.TextBlock(TEXT)]),
    ("in the second turn", [*FIRST_TURN, *HALF, start("m2"), *streamed("m2", OTHER), STOP], 1, [
        *FIRST_BLOCKS, swink.TextBlock(OTHER),
    ]),
    ("in the second turn, whole", [*FIRST_TURN, *HALF, *lines("m2", {"type": "text", "text": OTHER})
    ], 1, [*FIRST_BLOCKS, swink.TextBlock(OTHER)]),
    ("by another agent", [start("m1"), piece("The answer"), ASKS_AGAIN, piece(" is 42."),
        *lines("m1", {"type": "text", "text": TEXT}), STOP], 0, [swink.TextBlock(TEXT)]),
    ("before it has content", [start("m1"), ASKS_AGAIN, start("m2"), *streamed("m2", TEXT), STOP],
        0, [swink.TextBlock(TEXT)]),
    ("never, while a tool ends within a block", [
        start("m1"), *lines("m1", CALL), event("content_block_start", index=1),
        piece("I also ", 1), {"type": "user", "message": {"content": [FOUND]}}, piece("look.", 1),
        *lines("m1", {"type": "text", "text": "I also look."}),
        event("content_block_stop", index=1), STOP, start("m2"), *streamed("m2", "Done."), STOP,
    ], 0, [
        swink.ExtensionBlock("claude-code", "tool_use", CALL), swink.TextBlock("I also "),
        swink.ExtensionBlock("claude-code", "tool_result", FOUND), swink.TextBlock("look."),
        swink.TextBlock("Done."),
    ]),
    ("never", [start("m1"), *streamed("m1", "One."), STOP, start("m2"), *streamed("m2", "Two.")], 0,
        [swink.TextBlock("One."), swink.TextBlock("Two.")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "restarts", "content"), [row[1:] for row in REPEATED], ids=[row[0] for row in REPEATED]
)
async def test_a_request_that_the_command_repeats_is_answered_once(
    command: Command, said: list[Any], restarts: int, content: list[swink.ContentBlock]
) -> None:
    command.says(INIT, *said, RESULT)
    events, message = await run()
    assert message.content == content
    assert message.stop_reason is swink.StopReason.STOP
    assert (message.response_id, message.model) == ("s1", "claude-sonnet")
    assert len([event for event in events if isinstance(event, swink.Retry)]) == restarts


# (what arrives before the run fails, the text of the message)
CUT_OFF: list[tuple[list[Any], str]] = [
    ([*HALF], "The answer is"),
    ([*HALF, ASKS_AGAIN], "The answer is"),
    ([*HALF, ASKS_AGAIN, start("m2"), ASKS_AGAIN], "The answer is"),
    ([*HALF, ASKS_AGAIN, start("m2"), piece("It")], "It"),
]


@pytest.mark.parametrize(("said", "text"), CUT_OFF)
async def test_what_has_arrived_stays_if_repeating_the_request_fails(
    command: Command, said: list[Any], text: str
) -> None:
    failed = {**RESULT, "is_error": True, "result": "API Error: 529", "api_error_status": 529}
    command.says(INIT, *said, SYNTHETIC, failed, code=1)
    _, message = await run()
    assert message.error_kind is Kind.OVERLOADED
    assert message.text == text


async def test_half_an_answer_is_discarded_although_the_next_one_is_only_in_the_result(
    command: Command,
) -> None:
    command.says(INIT, *HALF, start("m2"), STOP, {**RESULT, "result": TEXT})
    _, message = await run()
    assert message.text == TEXT
    assert message.usage is not None
    assert message.usage.input == 7


SHORT_READ, LONG_READ, WRITTEN = 30_000, 150_000, 1_000
SHORT_COST = (SHORT_READ * 0.1 + WRITTEN * 0.5) / 1e6
LONG_COST = (LONG_READ * 0.5 + WRITTEN * 2.5) / 1e6
HAIKU = "claude-haiku-5-5"


def request(id: str, prompt: int, output: int | None = None, **fields: Any) -> list[dict[str, Any]]:
    """Return the lines of a request. If the count of the output is given, they are streamed."""
    usage = {"input_tokens": prompt - 10, "cache_read_input_tokens": 10, "output_tokens": 1}
    message = {"id": id, "model": HAIKU, "usage": usage}
    told = [
        {"type": "assistant", "message": {**message, "content": [block]}, **fields}
        for block in ({"type": "text", "text": "One."}, CALL)
    ]
    if output is None:
        return told
    ended = event("message_delta", usage={"output_tokens": output})
    return [event("message_start", message=message), *told, ended, STOP]


def spent(prompt: int, output: int) -> dict[str, Any]:
    return {"inputTokens": prompt - 20, "cacheReadInputTokens": 20, "outputTokens": output}


# (name, lines, the usage of the models, the number of turns, the cost if no token were cached)
TIERS: list[tuple[str, list[Any], dict[str, Any], int, float]] = [
    ("one prompt", [], {HAIKU: spent(LONG_READ, WRITTEN)}, 1, LONG_COST),
    ("short prompts", [
        line for id in "abcd" for line in request(id, SHORT_READ, WRITTEN)
    ], {HAIKU: spent(4 * SHORT_READ, 4 * WRITTEN)}, 4, 4 * SHORT_COST),
    ("a short and a long prompt", [
        *request("a", SHORT_READ, WRITTEN), *request("b", LONG_READ, WRITTEN),
    ], {HAIKU: spent(SHORT_READ + LONG_READ, 2 * WRITTEN)}, 2, SHORT_COST + LONG_COST),
    ("the prompt of a sub-agent", [
        *request("a", SHORT_READ, WRITTEN), *request("b", LONG_READ, parent_tool_use_id="t1"),
    ], {HAIKU: spent(SHORT_READ + LONG_READ, 2 * WRITTEN)}, 1, SHORT_COST + LONG_COST),
    ("prompts without the count of output", [
        *request("a", SHORT_READ), *request("b", LONG_READ),
    ], {HAIKU: spent(SHORT_READ + LONG_READ, 2 * WRITTEN)}, 2, SHORT_COST + LONG_COST),
    ("names with and without the long context", [
        *request("a", SHORT_READ, WRITTEN), *request("b", LONG_READ, WRITTEN),
    ], {f"{HAIKU}[1m]": spent(LONG_READ, WRITTEN), HAIKU: spent(SHORT_READ, WRITTEN)}, 2,
        SHORT_COST + LONG_COST),
    ("a prompt of which the command tells nothing", request("a", SHORT_READ, WRITTEN),
        {HAIKU: spent(SHORT_READ + LONG_READ, 2 * WRITTEN)}, 2,
        SHORT_COST + LONG_COST),
    ("prompts of which the command tells nothing", [],
        {HAIKU: spent(4 * SHORT_READ, 4 * WRITTEN)}, 4, 4 * SHORT_COST),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "used", "turns", "cost"), [row[1:] for row in TIERS], ids=[row[0] for row in TIERS]
)
async def test_the_price_of_a_request_depends_on_its_length(
    command: Command, said: list[Any], used: dict[str, Any], turns: int, cost: float
) -> None:
    command.says(INIT, *said, {**RESULT, "modelUsage": used, "num_turns": turns})
    _, message = await run()
    assert message.cost is not None
    assert message.cost.total == pytest.approx(cost, abs=2e-5)


@pytest.mark.parametrize(("text", "heard"), [row[1:] for row in LONG], ids=[row[0] for row in LONG])
async def test_any_text_gets_there(command: Command, text: str, heard: str) -> None:
    command.says(INIT, WHOLE, RESULT)
    _, message = await run(text, system_prompt=text)
    assert message.text == "Hello there"
    assert command.asked["prompt"] == heard
    assert command.asked["system"] == heard


async def test_any_name_of_a_document_gets_there(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    notes = swink.DocumentBlock(swink.Base64Source("text/plain", "SGk="), name="a\ud800.txt")
    await run([swink.UserMessage([notes])])
    [document] = command.asked["prompt"]
    assert document["title"] == "a?.txt"


async def test_a_session_that_no_command_line_holds_is_the_callers_mistake() -> None:
    with pytest.raises(swink.UsageError, match="resume"):
        await run(settings={"resume": "a\0b"})


async def test_a_command_that_is_no_program_is_not_a_fault_in_swink(command: Command) -> None:
    command.path.write_bytes(b"\x7fELF and no more")
    events, _ = await run()
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is Kind.INVALID_REQUEST
    assert str(command.path) in events[-1].error_message


async def test_an_exit_is_noticed_although_someone_holds_the_pipes(command: Command) -> None:
    command.path.write_text("#!/bin/sh\nsleep 600 &\necho 'Invalid API key' >&2\nexit 5\n")
    events, _ = await run(timeouts=swink.Timeouts(total=60))
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is Kind.AUTH


async def test_the_default_model_is_the_commands_choice(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    await run(model="claude-code/default")
    assert "--model" not in command.asked["args"]


async def test_a_conversation_goes_as_a_script(command: Command) -> None:
    command.says(INIT, WHOLE, RESULT)
    call = swink.ToolCallBlock("c1", "f", {})
    await run(
        [
            swink.UserMessage("One?"),
            swink.AssistantMessage([swink.TextBlock("Two."), call], provider="acme"),
            swink.ToolResultMessage("c1", "f", "42"),
            swink.UserMessage("Three?"),
        ]
    )
    assert command.asked["prompt"].splitlines()[2:] == [
        "User: One?", "", "Assistant: Two.", "[calls f {}]", "", "Tool f: 42", "", "User: Three?",
    ]  # fmt: skip


def test_arguments_that_are_no_json_stand_in_the_script() -> None:
    call = swink.ToolCallBlock("c1", "f", {}, '{"city": Paris}', "invalid")
    context = swink.Context(
        [
            swink.UserMessage("Where?"),
            swink.AssistantMessage([call]),
            swink.ToolResultMessage("c1", "f", "That is no JSON."),
        ]
    )
    assert '[calls f {"INVALID_JSON": "{\\"city\\": Paris}"}]' in str(
        prompt_of(context, "claude-code", goes_on=False)
    )


async def test_an_answer_of_every_kind_is_kept_and_said_again_as_a_script(command: Command) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "notes.md"}
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "S"},
        call,
        {"type": "text", "text": "One file."},
    ]
    lines: list[dict[str, Any]] = [
        {"type": "assistant", "message": {"model": "claude-opus-5-5", "content": [block]}}
        for block in blocks
    ]
    lines.insert(2, {"type": "user", "message": {"content": [result]}})
    command.says(INIT, *lines, RESULT)
    _, first = await run()

    stored = swink.load(swink.AssistantMessage, swink.dump(first))
    command.says(INIT, WHOLE, RESULT)
    await run([swink.UserMessage("What is here?"), stored, swink.UserMessage("Read it.")])

    assert stored == first
    assert first.content == [
        swink.ThinkingBlock("Hm.", "S"),
        swink.ExtensionBlock("claude-code", "tool_use", call),
        swink.ExtensionBlock("claude-code", "tool_result", result),
        swink.TextBlock("One file."),
    ]
    prompt = command.asked["prompt"]
    assert "Assistant:" in prompt
    assert "One file." in prompt
    assert prompt.endswith("User: Read it.")


SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
SHAPED = {**INIT, "tools": ["Read", "StructuredOutput"]}


def shaped(id: str, **arguments: Any) -> dict[str, Any]:
    """Return a call of the tool that the command adds for the schema."""
    call = {"type": "tool_use", "id": id, "name": "StructuredOutput", "input": arguments}
    return {"type": "assistant", "message": {"model": "claude-sonnet", "content": [call]}}


async def test_the_answer_to_a_schema_is_what_keeps_to_it(command: Command) -> None:
    no = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no such field"}
    refused = {"type": "user", "message": {"content": [no]}}
    told = {**RESULT, "result": '{"at":"14:20"}', "structured_output": {"at": "14:20"}}
    calls = [shaped("t1", time="14:20"), refused, shaped("t2", at="14:20")]
    command.says(SHAPED, piece("Hello"), piece(" there"), WHOLE, *calls, told)

    events, message = await run(response_format=SCHEMA)

    [word] = [word for word in command.asked["args"] if word.startswith("--json-schema=")]
    assert json.loads(word.partition("=")[2]) == SCHEMA
    assert message.text == '{"at":"14:20"}'
    beside = [block for block in message.content if isinstance(block, swink.ExtensionBlock)]
    assert [block.kind for block in beside] == ["text", "tool_use", "tool_result", "tool_use"]
    assert beside[0].data == {"type": "text", "text": "Hello there"}
    assert [event for event in events if isinstance(event, swink.Notice)] == []


async def test_an_answer_that_keeps_to_no_schema_is_handed_out_as_it_is(command: Command) -> None:
    command.says(SHAPED, WHOLE, RESULT)
    _, message = await run(response_format=SCHEMA)
    assert message.text == "Hello there"


# (response_format, the feature that is missing)
UNSHAPED = [("json", "json"), ({"type": "array", "items": {}}, "structured_output")]


@pytest.mark.parametrize(("wanted", "code"), UNSHAPED)
async def test_what_no_schema_says_is_refused_before_the_command_runs(
    wanted: Any, code: str, command: Command
) -> None:
    events, _ = await run(response_format=wanted)
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is Kind.UNSUPPORTED
    assert code in (events[-1].code or "")
    assert not (command.folder / "asked.json").exists()


FAILURES = [
    (
        "no_call_kept_to_the_schema",
        [SHAPED, {"type": "result", "subtype": "error_max_structured_output_retries"}],
        {},
        Kind.EMPTY_RESPONSE,
        "",
    ),
    ("it_ends_before_the_result", [INIT, piece("Hel")], {}, Kind.NETWORK, "Hel"),
    (
        "it_dies_with_a_complaint",
        [INIT],
        {"complaint": "Invalid API key", "code": 1},
        Kind.AUTH,
        "",
    ),
    (
        "the_result_is_an_error",
        [INIT, {**RESULT, "is_error": True, "result": "Claude AI usage limit reached"}],
        {},
        Kind.QUOTA_EXHAUSTED,
        "",
    ),
    (
        "an_error_without_words_is_unknown",
        [INIT, {"type": "result", "subtype": "error_during_execution", "is_error": True}],
        {},
        Kind.UNKNOWN,
        "",
    ),
]


@pytest.mark.parametrize(
    ("lines", "how", "kind", "text"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES]
)
async def test_failures(
    command: Command, lines: list[Any], how: dict[str, Any], kind: Kind, text: str
) -> None:
    command.says(*lines, **how)
    events, message = await run()
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is kind
    assert events[-1].error_message
    assert message.text == text


async def test_a_missing_command_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWINK_CLAUDE_COMMAND", "no-such-claude")
    events, _ = await run()
    error = events[-1]
    assert isinstance(error, swink.Error)
    assert error.error_kind is Kind.INVALID_REQUEST
    assert "npm install -g @anthropic-ai/claude-code" in error.error_message


async def test_tools_are_refused_before_the_command_runs(command: Command) -> None:
    events, _ = await run(tools=[swink.Tool("f")])
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is Kind.UNSUPPORTED
    assert not (command.folder / "asked.json").exists()


async def test_leaving_the_stream_ends_the_process(command: Command) -> None:
    command.says(INIT, piece("Hello"), stay=60)
    async with swink.Client() as client, client.stream("claude-code/sonnet", "Hi") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
        assert command.is_alive()
    assert not command.is_alive()
    assert stream.message.text == "Hello"
    assert stream.message.stop_reason is swink.StopReason.ABORTED


async def test_a_cancelled_task_ends_the_process(command: Command) -> None:
    command.says(INIT, piece("Hello"), stay=60)
    seen = asyncio.Event()

    async def read() -> None:
        async with swink.Client() as client, client.stream("claude-code/sonnet", "Hi") as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    seen.set()

    task = asyncio.create_task(read())
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not command.is_alive()


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_recorded_runs(case: Case) -> None:
    message = fold(await drive_bytes(PROVIDER, MODEL, [case.body]))
    reference = case.reference
    said = (reference["partial_text"] or "") + reference["assistant_text_top_level"]
    assert message.text == said
    uses = [
        block.data["id"]
        for block in message.content
        if isinstance(block, swink.ExtensionBlock) and block.kind == "tool_use"
    ]
    assert uses == [
        block["id"]
        for block in reference["assistant_blocks"]
        if block["type"] == "tool_use" and block["parent_tool_use_id"] is None
    ]
    [result] = reference["results"]
    assert (message.stop_reason is swink.StopReason.ERROR) == result["is_error"]


@pytest.mark.parametrize(
    ("word", "reason", "notices"),
    [
        (None, swink.StopReason.STOP, []),
        ("end_turn", swink.StopReason.STOP, []),
        ("max_tokens", swink.StopReason.LENGTH, []),
        ("model_context_window_exceeded", swink.StopReason.LENGTH, []),
        ("refusal", swink.StopReason.CONTENT_FILTER, []),
        ("pause_turn", swink.StopReason.PAUSE, []),
        ("bored", swink.StopReason.STOP, ["stop_reason"]),
    ],
)
async def test_why_an_answer_stopped(
    word: str | None, reason: swink.StopReason, notices: list[str]
) -> None:
    lines = (INIT, WHOLE, {**RESULT, "stop_reason": word})
    events = await drive_bytes(
        PROVIDER, MODEL, [json.dumps(line).encode() + b"\n" for line in lines]
    )
    assert fold(events).stop_reason is reason
    assert [event.code for event in events if isinstance(event, swink.Notice)] == notices


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_where_a_read_ends_never_matters(case: Case) -> None:
    expected = comparable_events(await drive_bytes(PROVIDER, MODEL, [case.body]))
    for name, chunks in chunkings(case.body, NDJSONDecoder, range(3)):
        assert comparable_events(await drive_bytes(PROVIDER, MODEL, chunks)) == expected, name


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_a_run_cut_before_its_result_is_a_network_error(case: Case) -> None:
    ends = frame_ends(case.body, NDJSONDecoder)
    for frames, body in truncations(case.body, ends):
        if frames < len(ends):
            events = await drive_bytes(PROVIDER, MODEL, [body])
            assert isinstance(events[-1], swink.Error), frames
            assert events[-1].error_kind is Kind.NETWORK, frames


async def test_the_command_gets_the_environment_and_nothing_that_a_call_was_given(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"ANTHROPIC_API_KEY": "its-sign-in", "GITHUB_TOKEN": "its-tools-sign-in"}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    command.says(INIT, WHOLE, RESULT)
    await run(api_key="given-to-the-call", headers={"X-Key": "given-to-the-call"})
    environ = command.asked["environ"]
    assert own.items() <= environ.items()
    assert "given-to-the-call" not in json.dumps(command.asked)
