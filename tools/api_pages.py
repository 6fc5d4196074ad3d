"""The pages of the reference on what callers hold: the client, messages, usage, errors, `swink`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import get_args

from reference_parts import MARK, about, code, fields, joined, section, signature, table

import swink
import swink_core
from swink import answers, approvals, batches, loop, media, sync, sync_streams, tools
from swink import client as swink_client
from swink import events as run_events
from swink_core.failures import exceptions
from swink_core.providers import Catalog
from swink_core.vocabulary.outcome import StopReason

SOURCES = ("Base64Source", "UrlSource", "FileSource", "FileIdSource")
BLOCKS = (
    "TextBlock",
    "ThinkingBlock",
    "ToolCallBlock",
    "ImageBlock",
    "DocumentBlock",
    "AudioBlock",
    "ExtensionBlock",
)
MESSAGES = ("SystemMessage", "UserMessage", "AssistantMessage", "ToolResultMessage")


def of_core(*names: str) -> Iterator[str]:
    """Yield a section for each of the core's classes."""
    for name in names:
        yield section(getattr(swink_core, name))


def functions(module: object, *names: str) -> Iterator[str]:
    """Yield a section for each of a module's functions."""
    for name in names:
        function = getattr(module, name)
        yield f"## `{name}`"
        yield signature(name, function)
        yield about(function)


def client() -> str:
    """Return the page of the client and its streams."""
    call = swink_core.Call
    facts = [(code(name), " ".join(about(vars(call)[name]).split())) for name in ("usage", "cost")]
    return joined(
        "# The client",
        MARK,
        "`swink.Client` is a subclass of this class, with [typed answers, tools and\n"
        "batches](swink.md). Both accept the same [options](options.md).",
        section(swink_core.Client, made=True),
        section(swink_core.EventStream, "observe", "begun_again"),
        "## `Call`",
        about(call),
        table(("property", "what"), facts),
        *functions(swink_core, "stream", "complete", "complete_sync"),
        section(Catalog),
        *of_core("Model", "ModelInfo", "Target", "Host"),
    )


def messages() -> str:
    """Return the page of messages and blocks."""
    return joined(
        "# Messages and blocks",
        MARK,
        "A conversation is a string, a list of messages, or a `Context`, which also contains a\n"
        "system prompt and tools. `swink_core.dump` converts them to JSON data, and\n"
        "`swink_core.load` reads it. A list can contain such data instead of messages.",
        *of_core(*MESSAGES),
        *of_core(*BLOCKS),
        *of_core(*SOURCES),
        *of_core("Context", "Tool"),
        *functions(swink_core, "dump", "load"),
    )


def usage_and_cost() -> str:
    """Return the page of usage and cost."""
    return joined(
        "# Usage and cost",
        MARK,
        "A message has the usage and cost of its attempt. `stream.call`, answers, runs, batches\n"
        "and clients contain sums over all attempts, including failed ones. `sum()` adds values.\n"
        "Unknown values are `None`, such as the cost of a model without prices:\n"
        "`sum(m.cost for m in messages if m.cost)`.",
        *of_core("Usage", "Cost", "Limits", "Charge"),
        "## `StopReason`",
        about(StopReason),
        ", ".join(code(str(each)) for each in StopReason) + ".",
    )


def errors() -> str:
    """Return the page of exceptions."""
    doc = about(exceptions)
    first, tree = doc.split("\n\n", 1)
    kinds = [
        (code(kind.__name__), code(str(getattr(kind, "kind", ""))), " ".join(about(kind).split()))
        for kind in (*vars(exceptions).values(), swink_core.CodecError)
        if inspect.isclass(kind)
        and issubclass(kind, swink_core.SwinkError)
        and kind is not exceptions.ProviderFailure
    ]
    return joined(
        "# Errors",
        MARK,
        first,
        f"```text\n{tree}\n```",
        "Every exception has a `title`, a `message` and a `resolution` (advice).\n"
        "[Failures](failures.md) explains the kinds of failures, and how swink handles them.",
        table(("exception", "kind", "what"), kinds),
        "`swink` has three more, [`BadAnswer`](swink.md#badanswer),\n"
        "[`RunPaused`](swink.md#runpaused) and [`TooManyTurns`](swink.md#toomanyturns).",
        "## Fields of a `StreamError`",
        fields(exceptions.StreamError),
    )


def swink_package() -> str:
    """Return the page of the package `swink`."""
    own = sorted(swink._HOME_OF)
    core = sorted(set(swink.__all__) - set(own))
    events = [getattr(run_events, name) for name in run_events.__all__ if name[0].isupper()]
    return joined(
        "# swink",
        MARK,
        "The package that applications install: its names, followed by those of the core.",
        "A [`Prompt`](types.md#prompt) is a string, a [message](messages.md), or a list of\n"
        "strings, media and messages.",
        section(swink_client.Client),
        section(sync.SyncClient),
        *functions(swink_client, "stream", "stream_answer", "complete", "answer"),
        *functions(swink_client, "gather", "gather_answers"),
        *functions(sync, "complete_sync", "answer_sync"),
        *functions(media, "image", "document", "audio"),
        *functions(tools, "tool"),
        section(answers.Answer),
        section(answers.AnswerStream),
        section(answers.BadAnswer),
        section(batches.Batch),
        section(tools.FunctionTool),
        section(loop.Run),
        section(loop.TooManyTurns),
        section(approvals.PausedRun),
        section(approvals.RunPaused),
        "## `PAUSE`",
        "Returned by `approve` to pause the run until the call is decided.",
        "## Events of a run",
        "`RunEvent` is one of these, or an event of a stream.",
        "## `Outcome`",
        "How a run ended, as a string that type checkers know: "
        + ", ".join(map(code, get_args(run_events.Outcome)))
        + ".\nThe run has an answer, waits for approvals, reached its limit of turns, failed, or\n"
        "was closed.",
        *(section(kind) for kind in events if inspect.isclass(kind)),
        section(sync_streams.SyncStream),
        section(sync_streams.SyncAnswerStream),
        section(sync_streams.SyncRun),
        "## Names of the core",
        "The same objects as in `swink_core`: " + ", ".join(map(code, core)) + ".",
    )
