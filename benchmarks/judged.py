"""The same calls through swink and its peers, judged: `python -m benchmarks.judged`.

Each library is asked to make the same calls in its own words; the first request of each is caught
where it would leave and judged by the rules of the real API (`swink_testing.judge`). Counted are
requests that the API refuses, calls that the library refuses itself, and values of the call that
are not in the request without a word of it. Peers are installed beside (`make scoreboard` does it);
those that are not there are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scoreboard import PEERS_PYTHON, ROOT
from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Context,
    ImageBlock,
    Notice,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
)
from swink_core.providers import HTTPRequest
from swink_testing.judge import Judge, asked_of
from swink_testing.matrix.ask import Asker, Outcome
from swink_testing.matrix.cases import Case
from swink_testing.matrix.conversations import conversation
from swink_testing.matrix.ids import AskedModel
from swink_testing.matrix.lost import lost_values
from swink_testing.matrix.options import SCHEMA

PAGE_FILE = ROOT / "docs" / "reference" / "requests-under-the-judge.md"
SCRIPT = Path(__file__).with_name("judged_peers.py")
PEERS = ("litellm", "litellm-drop", "pydantic-ai", "langchain")
STUCK_SECONDS = 15 * 60

MODELS = {
    "openai": (
        "gpt-6.1-sol", "gpt-5.6-terra", "gpt-5.5", "gpt-5.4", "gpt-5", "o3", "gpt-4.1",
        "gpt-5.3-codex", "gpt-5-2025-08-07", "gpt-6.2-sol", "gpt-7",
    ),
    "anthropic": (
        "claude-opus-5-5", "claude-fable-5-2", "claude-sonnet-5", "claude-opus-4-8",
        "claude-opus-4-6", "claude-haiku-4-5", "claude-sonnet-4-5-20250929", "claude-opus-6",
    ),
}  # fmt: skip
"""Current models, a dated id, and successors that no catalogue lists."""

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("plain", {}),
    ("plain", {"temperature": 0.2}),
    ("plain", {"temperature": 0}),
    ("plain", {"top_p": 0.9}),
    ("plain", {"temperature": 0.2, "top_p": 0.9}),
    ("plain", {"max_tokens": 15}),
    ("plain", {"max_tokens": 9_999_999}),
    ("plain", {"stop": ["nonce_stop"]}),
    ("plain", {"stop": [f"nonce_stop{n}" for n in range(5)]}),
    ("plain", {"seed": 7}),
    ("plain", {"thinking": "off"}),
    ("plain", {"thinking": "low"}),
    ("plain", {"thinking": "high"}),
    ("plain", {"thinking": "high", "temperature": 0.2}),
    ("plain", {"response_format": SCHEMA}),
    ("tools", {}),
    ("tools", {"thinking": "high"}),
    ("tools", {"tool_choice": "required"}),
    ("tools", {"tool_choice": "required", "thinking": "high"}),
    ("tools", {"parallel_tool_calls": False}),
    ("tools", {"response_format": SCHEMA}),
    ("tool used", {}),
    ("tool used, then a user", {}),
    ("parallel calls", {}),
    ("odd ids", {}),
    ("tool name with dots", {}),
    ("tool name of 70", {}),
    ("schema deep", {}),
    ("schema anyOf at the root", {}),
    ("system prompt", {}),
    ("system message inside", {}),
    ("prefill", {}),
    ("image", {}),
    ("image in a result", {}),
    ("audio", {}),
)


class Answered(NamedTuple):
    """What became of one call: an outcome, `None` where the library has no word for the call."""

    outcome: Outcome | None
    refused_itself: str | None


class Column(NamedTuple):
    """A library, its version, and what became of each call."""

    library: str
    version: str
    answered: list[Answered]


def cases() -> list[Case]:
    """Return the calls to every model."""
    return [
        Case(provider, AskedModel(id, "listed", id), name, options)
        for provider, ids in MODELS.items()
        for id in ids
        for name, options in CALLS
    ]


# -- a conversation as every library takes it ----------------------------------------------------


def chat_messages(context: Context) -> list[dict[str, Any]]:
    """Write a conversation in the words of Chat Completions."""
    said: list[dict[str, Any]] = []
    if context.system_prompt:
        said.append({"role": "system", "content": context.system_prompt})
    for message in context.messages:
        if isinstance(message, ToolResultMessage):
            result = {"role": "tool", "tool_call_id": message.tool_call_id}
            said.append({**result, "name": message.tool_name, "content": _content(message.content)})
        elif isinstance(message, AssistantMessage):
            calls = [_call(block) for block in message.content if isinstance(block, ToolCallBlock)]
            text = "".join(b.text for b in message.content if isinstance(b, TextBlock))
            more = {"tool_calls": calls} if calls else {}
            said.append({"role": "assistant", "content": text or None, **more})
        else:
            role = "system" if isinstance(message, SystemMessage) else "user"
            said.append({"role": role, "content": _content(message.content)})
    return said


def _call(block: ToolCallBlock) -> dict[str, Any]:
    function = {"name": block.name, "arguments": json.dumps(block.arguments)}
    return {"id": block.id, "type": "function", "function": function}


def _content(content: str | list[Block]) -> Any:
    if isinstance(content, str):
        return content
    return [_part(block) for block in content if not isinstance(block, ThinkingBlock)]


def _part(block: Block) -> dict[str, Any]:
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ImageBlock(Base64Source(media_type, data)):
            url = f"data:{media_type};base64,{data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case AudioBlock(Base64Source(_, data)):
            assert base64.b64decode(data).startswith(b"RIFF")
            return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    raise AssertionError(f"no call has such a part: {block}")


def asked(case: Case) -> dict[str, Any]:
    """Return a call as data, for a library in another process."""
    context = conversation(case.conversation).context
    tools = [
        {"name": t.name, "description": t.description, "parameters": t.parameters}
        for t in context.tools
    ]
    return {
        "provider": case.provider,
        "model": case.model.id,
        "messages": chat_messages(context),
        "tools": tools,
        "options": case.options,
    }


# -- asking --------------------------------------------------------------------------------------


async def ask_swink(wanted: list[Case]) -> Column:
    """Make the calls through swink."""
    from importlib.metadata import version

    answered = []
    async with Asker() as asker:
        for case in wanted:
            outcome = await asker.outcome(case)
            why = outcome.refusal.error_message if outcome.refusal else outcome.fault
            answered.append(Answered(outcome, why or (str(outcome.usage_error or "") or None)))
    return Column("swink-core", version("swink-core"), answered)


def ask_peer(library: str, wanted: list[Case]) -> Column | None:
    """Make the calls through a peer; `None` where it is not installed."""
    if not PEERS_PYTHON.exists():
        return None
    done = subprocess.run(
        [str(PEERS_PYTHON), str(SCRIPT), library],
        input="\n".join(json.dumps(asked(case)) for case in wanted),
        capture_output=True,
        text=True,
        timeout=STUCK_SECONDS,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(lines) != len(wanted) + 1:
        print(f"{library} is left out: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    head, *rows = lines
    answered = [_answered(case, row) for case, row in zip(wanted, rows, strict=True)]
    return Column(library, head["version"], answered)


def _answered(case: Case, row: dict[str, Any]) -> Answered:
    if row["inexpressible"]:
        return Answered(None, None)
    outcome = Outcome(case, conversation(case.conversation))
    outcome.notices = [Notice("said", text) for text in row["said"]]
    if row["url"] is not None:
        outcome.request = HTTPRequest(row["url"], row["body"].encode())
        outcome.asked = asked_of(case.provider, row["url"], row["body"].encode())
    return Answered(outcome, None if outcome.asked else row["error"] or "nothing was sent")


# -- what became of them -------------------------------------------------------------------------

SENT = "accepted, whole"
SAID = "accepted, and said what was left out or changed"
SILENT = "accepted, but something is lost in silence"
OWN = "refused by the library before sending"
REFUSED = "refused by the API"
VERDICTS = (SENT, SAID, SILENT, OWN, REFUSED)


def verdict(judge: Judge, answered: Answered, plain: Outcome) -> str:
    """Say what became of a call."""
    outcome = answered.outcome
    if outcome is None or outcome.asked is None:
        return OWN
    told = outcome.asked
    if any(r.refuses for r in judge.refusals(told.provider, told.api, told.model, told.body)):
        return REFUSED
    if lost_values(outcome, plain):
        return SILENT
    return SAID if outcome.notices else SENT


def table(columns: list[Column], wanted: list[Case], provider: str) -> list[str]:
    """Write the table of a provider over the calls that every library has words for."""
    judge = Judge()
    places = [
        n
        for n, case in enumerate(wanted)
        if case.provider == provider and all(c.answered[n].outcome for c in columns)
    ]
    lines = ["| | " + " | ".join(f"{c.library} {c.version}" for c in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    counts = []
    for column in columns:
        plain = {
            wanted[n].model.id + wanted[n].conversation: column.answered[n].outcome
            for n in reversed(range(len(wanted)))
            if not wanted[n].options
        }
        count: Counter[str] = Counter()
        for n in places:
            base = plain[wanted[n].model.id + wanted[n].conversation]
            assert base is not None
            count[verdict(judge, column.answered[n], base)] += 1
        counts.append(count)
    for name in VERDICTS:
        cells = [f"{c[name]} ({c[name] / max(1, len(places)):.0%})" for c in counts]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def that_asked(columns: list[Column], wanted: list[Case], provider: str) -> list[Column]:
    """Return the libraries that sent this provider anything: an installation may be unable to."""
    return [
        column
        for column in columns
        if any(
            case.provider == provider and answered.outcome and answered.outcome.asked
            for case, answered in zip(wanted, column.answered, strict=True)
        )
    ]


def page(every: list[Column], wanted: list[Case]) -> str:
    """Write the page."""
    parts = []
    for provider, ids in MODELS.items():
        columns = that_asked(every, wanted, provider)
        common = sum(
            case.provider == provider and all(c.answered[n].outcome for c in columns)
            for n, case in enumerate(wanted)
        )
        parts.append(f"## `{provider}`: {common} calls\n")
        parts.append(f"Models: {', '.join(f'`{id}`' for id in ids)}.\n")
        parts.append("\n".join(table(columns, wanted, provider)) + "\n")
    return f"""\
# Requests under the judge

<!-- Generated by `make scoreboard` (benchmarks.judged.py). -->

The same calls, made by swink and by its peers in each library's own words: options alone and
together, tools, schemas, media, long and odd names, for current models, a dated id, and names that
no catalogue lists yet. The first request of each call was caught where it would leave, and judged
by the known rules of the real API ([the strict servers](../how-to/test-against-strict-servers.md)
refuse by the same ones). Only calls that every library has words for are counted.

*Lost in silence*: a value of the call is not in the request, with no exception, warning or notice.
`litellm-drop` is litellm with `drop_params=True`. pydantic-ai asks OpenAI over Responses, as its
manual shows; langchain is its package for each provider. A library is left out of the table of a
provider whose SDK, of the version installed beside the others, it cannot use.

{chr(10).join(parts)}"""


def main() -> None:
    """Ask all libraries and write the page."""
    parser = argparse.ArgumentParser(description="Judge the requests of swink and its peers.")
    parser.add_argument("--only", help="peers, separated by commas; the page is printed")
    only = parser.parse_args().only
    wanted = cases()
    columns = [asyncio.run(ask_swink(wanted))]
    for library in only.split(",") if only else PEERS:
        column = ask_peer(library, wanted)
        if column is not None:
            columns.append(column)
            print(library, column.version, file=sys.stderr)
    if only:
        print(page(columns, wanted))
    else:
        PAGE_FILE.write_text(page(columns, wanted), "utf-8")


if __name__ == "__main__":
    main()
