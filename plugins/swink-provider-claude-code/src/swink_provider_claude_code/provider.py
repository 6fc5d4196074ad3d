"""`claude-code/<model>`: the `claude` command as a child process.

The conversation goes to its standard input, the system prompt into a file, and its answer comes
as JSON lines on standard output. Leaving the stream ends the process and what it started.
`SWINK_CLAUDE_COMMAND` names another command. Source: https://code.claude.com/docs/en/cli-reference.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
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
    SystemMessage,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    HTTPProvider,
    NDJSONDecoder,
    by_tables,
    normalise,
    text_of,
)
from swink_provider_claude_code.child_process import ChildProcess
from swink_provider_claude_code.parser import StreamJsonParser

__all__ = ["ClaudeCodeProvider"]

COMMAND_ENV = "SWINK_CLAUDE_COMMAND"
OPTIONS = {
    "resume": "--resume",
    "continue": "--continue",
    "fork": "--fork-session",
    "permission_mode": "--permission-mode",
    "allowed_tools": "--allowedTools",
    "disallowed_tools": "--disallowedTools",
    "max_turns": "--max-turns",
}
"""Settings, and the command's names for them."""

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
        """Return the prompt: the last words alone, or the conversation as a script.

        A session that goes on has heard what came before the model's last word.
        """
        messages = normalise(context, self.name)
        if options.settings.get("resume") or options.settings.get("continue"):
            spoken = [isinstance(message, AssistantMessage) for message in messages]
            messages = messages[len(spoken) - [*reversed(spoken), True].index(True) :]
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

    def command(self, model: Model, options: StreamOptions) -> list[str]:
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
        # a value in the word of its option is never taken for another option
        if model.id != "default":
            words.append(f"--model={model.id}")
        for name, option in OPTIONS.items():
            value = options.settings.get(name)
            if value is True:
                words.append(option)
            elif value not in (None, False):
                words.append(f"{option}={','.join(value) if name.endswith('tools') else value}")
        return [*words, *options.settings.get("args", ())]

    async def chunks(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncIterator[bytes]:
        """Run the command and yield its output. Raises ProviderFailure.

        The conversation and the system prompt may be longer than a command line takes.
        """
        payload = call.convert()
        command = self.command(model, options)
        with TemporaryDirectory(prefix="swink-") as folder:
            if payload["system"]:
                command += ["--system-prompt-file", _file(folder, payload["system"])]
            child = await ChildProcess.start(command, _encoded(payload["prompt"]))
            try:
                async for data in child:
                    yield data
                if child.code:
                    said = child.complaint.decode("utf-8", "replace").strip()
                    message = said or f"the command ended with code {child.code}"
                    raise ProviderFailure(Failure("streaming", code="exit", message=message))
            finally:
                await child.aclose()


def _file(folder: str, text: str) -> str:
    path = Path(folder, "system.txt")
    path.write_bytes(_encoded(text))
    return str(path)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # half of a surrogate pair has no bytes


def _line(message: Message) -> str:
    """Write a message as a line of a script; instructions have become user turns."""
    if isinstance(message, UserMessage | SystemMessage):
        return f"User: {text_of(message.content)}"
    if isinstance(message, AssistantMessage):
        calls = [f"[calls {c.name} {json.dumps(c.arguments)}]" for c in message.tool_calls]
        return "Assistant: " + "\n".join([*filter(None, [message.text]), *calls])
    failed = " failed" if message.is_error else ""
    return f"Tool {message.tool_name}{failed}: {text_of(message.content)}"
