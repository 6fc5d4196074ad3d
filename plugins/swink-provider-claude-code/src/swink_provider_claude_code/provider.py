"""`claude-code/<model>`: the `claude` command as a child process.

The conversation goes to its standard input, its answer comes as JSON lines on standard output.
Leaving the stream ends the process. `extra` may hold `args`, a list of further words for the
command line; `SWINK_CLAUDE_COMMAND` names another command.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from swink_core import (
    AssistantMessage,
    Call,
    Classification,
    Context,
    Failure,
    Message,
    Model,
    ProviderFailure,
    StreamOptions,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import HTTPProvider, NDJSONDecoder, by_tables, normalise, text_of
from swink_provider_claude_code.parser import StreamJsonParser

__all__ = ["ClaudeCodeProvider"]

COMMAND_ENV = "SWINK_CLAUDE_COMMAND"
READ_BYTES = 64 * 1024
STDERR_BYTES = 4096
GRACE_SECONDS = 2.0
"""How long the process may take to end after it was asked to."""

CODES = {"error_max_turns": Kind.OUTPUT_TOO_LARGE}
WORDINGS = (
    ("invalid api key", Kind.AUTH),
    ("please run /login", Kind.AUTH),
    ("oauth token", Kind.AUTH),
    ("usage limit", Kind.QUOTA_EXHAUSTED),
    ("credit balance", Kind.QUOTA_EXHAUSTED),
    ("rate limit", Kind.THROTTLED),
    ("overloaded", Kind.OVERLOADED),
    ("prompt is too long", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("may not exist or you may not have access", Kind.MODEL_NOT_FOUND),
    ("connection error", Kind.NETWORK),
    ("connection refused", Kind.NETWORK),
    ("internal server error", Kind.NETWORK),
)


class ClaudeCodeProvider(HTTPProvider):
    """The command that is installed here, with its own sign-in and its own tools."""

    features = frozenset()
    knobs = frozenset()
    decoder = NDJSONDecoder
    content_types = ("application/x-ndjson",)

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the prompt: the last words alone, or the conversation as a script."""
        messages = normalise(context, self.name)
        if len(messages) == 1 and isinstance(messages[0], UserMessage):
            prompt = text_of(messages[0].content)
        else:
            script = "\n\n".join(map(_line, messages))
            prompt = f"Continue this conversation as the assistant.\n\n{script}"
        return {"prompt": prompt, "system": context.system_prompt}

    def parser(self, model: Model) -> StreamJsonParser:
        """Make a parser for one run."""
        return StreamJsonParser()

    def classify(self, failure: Failure) -> Classification | None:
        """Go by what the command says."""
        return by_tables(failure, CODES, WORDINGS)

    def command(self, model: Model, payload: Any, options: StreamOptions) -> list[str]:
        """Return the command line. Raises ProviderFailure where there is no command."""
        program = os.environ.get(COMMAND_ENV) or "claude"
        found = shutil.which(program)
        if found is None:
            raise ProviderFailure(
                Failure(
                    "connect",
                    kind=Kind.INVALID_REQUEST,
                    code="no_command",
                    message=f"the command {program!r} was not found; install it with: "
                    "npm install -g @anthropic-ai/claude-code",
                )
            )
        words = [found, "-p", "--output-format", "stream-json", "--include-partial-messages"]
        words.append("--verbose")
        if model.id != "default":
            words += ["--model", model.id]
        if payload["system"]:
            words += ["--system-prompt", payload["system"]]
        if options.session_id:
            words += ["--resume", options.session_id]
        return [*words, *map(str, options.extra.get("args", ()))]

    async def chunks(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncIterator[bytes]:
        """Run the command and yield its output. Raises ProviderFailure."""
        payload = call.convert()
        process = await asyncio.create_subprocess_exec(
            *self.command(model, payload, options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        complaints = asyncio.create_task(_tail(process.stderr))
        try:
            with suppress(ConnectionError):  # it may be gone already; its output says why
                process.stdin.write(payload["prompt"].encode())
                await process.stdin.drain()
            process.stdin.close()
            while data := await process.stdout.read(READ_BYTES):
                yield data
            if code := await process.wait():
                said = (await complaints).decode("utf-8", "replace").strip()
                message = said or f"the command ended with code {code}"
                raise ProviderFailure(Failure("streaming", code="exit", message=message))
        finally:
            complaints.cancel()
            await _end(process)


def _line(message: Message) -> str:
    """Write a message as a line of a script."""
    if isinstance(message, UserMessage):
        return f"User: {text_of(message.content)}"
    if isinstance(message, AssistantMessage):
        calls = [f"[calls {c.name} {json.dumps(c.arguments)}]" for c in message.tool_calls]
        return "Assistant: " + "\n".join([*filter(None, [message.text]), *calls])
    failed = " failed" if message.is_error else ""
    return f"Tool {message.tool_name}{failed}: {text_of(message.content)}"


async def _tail(stream: asyncio.StreamReader | None) -> bytes:
    """Read a stream to its end and return the last of it."""
    tail = b""
    while stream is not None and (data := await stream.read(READ_BYTES)):
        tail = (tail + data)[-STDERR_BYTES:]
    return tail


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that still runs, first by asking."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
