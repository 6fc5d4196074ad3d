"""The page of `docs/reference` on what the gateway loses, from its own table of losses."""

from __future__ import annotations

from pathlib import Path

from reference_parts import MARK

from swink_gateway.protocols.table import PROTOCOLS, losses_between

OBJECTS = Path(__file__).parent.parent / "lab" / "clients" / "objects.md"
"""The table that `python -m lab.clients.objects --write` stores."""

ABOUT = """\
The gateway translates the answers of all providers to the client's protocol. The tables list the
content that is lost, because the published schema of the protocol has no field for it. Types are
named as in the vendor's Python SDK. Opaque data that a provider needs in the next turn is not lost
if the protocol has an opaque field: the gateway encodes the data and stores the result in this
field, which clients do not interpret. The response header `x-swink-dropped` lists the paths of the
request fields that could not be translated.

Generated images are items with a `result` in Responses, inline data in Gemini, and `images` of a
message in Chat (data URLs, in OpenRouter's format). Code that a provider ran is an item of the code
interpreter in Responses and a part in Gemini. A refusal that OpenAI's APIs mark as such is in the
field `refusal` in Chat and in a part of the type `refusal` in Responses, both streamed and whole. A
refusal of another provider is text, with the finish reason for a refusal: `content_filter` in Chat,
`refusal` in Messages, `SAFETY` in Gemini. Log probabilities and citations are in the fields that
Chat and Responses have for them.

Only providers with the client's protocol can return several answers to one request, in Chat (`n`,
at most 128) and in Gemini (`candidateCount`, at most 8). In a Chat stream, the first answer arrives
in pieces, and the others arrive as complete choices at the end. Gemini's API does not stream
several answers: the gateway requests a complete response, and all answers arrive together. For such
a request, the gateway skips those models of a route whose provider has another protocol. If no
model remains, the gateway responds with the status 400. The client must then send one request for
each answer.

The tables come from `swink_gateway.protocols.table`. A property test translates answers from each
protocol to every other protocol and back, and checks that nothing else is lost."""

READ = """\
This table compares the objects that the SDKs of OpenAI, Anthropic and Google return when they call
a simulated vendor (`lab/vendor`) directly and through the gateway. The answers, streamed and whole,
contain text, reasoning, tool calls, a refusal, JSON or log probabilities, or end because of a
content filter, a token limit or a stop sequence. `python -m lab.clients.objects --write` compares
the fields of the objects, and fails if a value is lost for which the program lists no reason. A row
lists the models behind the gateway with which the value is lost or different, and the reason.
Values that are the same with all models are omitted, as are ids, times and opaque data that differ
in every answer. Without the gateway, each SDK calls a model of its own vendor: OpenAI's SDK calls
gpt-4.1 over Chat Completions and gpt-5.4-mini over Responses."""

BETWEEN = """\
If the client's protocol (column) differs from the provider's (row), content can be lost. The client
protocol's table above lists the kinds of content that it cannot represent. Each cell is the number
of these kinds that the provider's protocol can represent."""


def page() -> str:
    """Return the page."""
    sections = [_section(name) for name in PROTOCOLS]
    between = ["## From one protocol to another", BETWEEN, _matrix()]
    read = ["## What SDKs read", READ, OBJECTS.read_text("utf-8").rstrip()]
    title = "# What the gateway translates, and what is lost"
    parts = [title, MARK, ABOUT, *sections, *between, *read]
    return "\n\n".join(parts) + "\n"


def _section(name: str) -> str:
    rows = [f"| {loss.what} | {loss.section} |" for loss in PROTOCOLS[name].losses]
    table = "\n".join(
        [
            "| lost content | type or field of the schema that cannot represent the content |",
            "|---|---|",
            *rows,
        ]
    )
    source = PROTOCOLS[name].schema
    schema = f"<{source}>" if "://" in source else f"[{source}]({source.rpartition('/')[2]})"
    return f"## {name}\n\nSchema: {schema}\n\n" + (table if rows else "Nothing is lost.")


def _matrix() -> str:
    head = "| from \\ to | " + " | ".join(PROTOCOLS) + " |"
    lines = [head, "|---" * (len(PROTOCOLS) + 1) + "|"]
    for source in PROTOCOLS:
        counts = " | ".join(str(len(losses_between(source, target))) for target in PROTOCOLS)
        lines.append(f"| {source} | {counts} |")
    return "\n".join(lines)
