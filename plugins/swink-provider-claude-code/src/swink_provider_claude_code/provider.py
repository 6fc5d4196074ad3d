"""`claude-code/<model>`: the `claude` command as a child process.

The conversation is passed on standard input, the system prompt in a file, and the answer is read as
JSON lines from standard output. Closing the stream ends the process and its child processes. The
environment variable `SWINK_CLAUDE_COMMAND` sets another command. Source:
https://code.claude.com/docs/en/cli-reference.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import msgspec

from swink_core import (
    Classification,
    Context,
    Failure,
    Host,
    InvalidOption,
    Model,
    ModelInfo,
    ProviderFailure,
    StreamOptions,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    Catalog,
    Exchange,
    Fitted,
    HTTPProvider,
    Knobs,
    NDJSONDecoder,
    by_tables,
    rule_of,
    sent_options,
    unsupported,
)
from swink_provider_claude_code.child_process import ChildProcess
from swink_provider_claude_code.parser import StreamJsonParser
from swink_provider_claude_code.prompt import prompt_of

__all__ = ["ClaudeCodeProvider"]

COMMAND_ENV = "SWINK_CLAUDE_COMMAND"
OPTIONS = {
    "session": "--session-id",
    "resume": "--resume",
    "continue": "--continue",
    "fork": "--fork-session",
    "permission_mode": "--permission-mode",
    "tools": "--tools",
    "allowed_tools": "--allowedTools",
    "disallowed_tools": "--disallowedTools",
    "max_turns": "--max-turns",
}
"""Maps settings to command-line options of the command."""

CODES = {
    "error_max_turns": Kind.OUTPUT_TOO_LARGE,
    "error_max_structured_output_retries": Kind.EMPTY_RESPONSE,
}
WORDINGS = (
    ("invalid api key", Kind.AUTH),
    ("please run /login", Kind.AUTH),
    ("oauth token", Kind.AUTH),
    ("no conversation found", Kind.INVALID_REQUEST),
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


def _effort(model: Model, options: StreamOptions) -> dict[str, Any]:
    if (level := options.thinking_level) is None:
        return {}
    return {"--effort": rule_of(model).efforts.get(level, level)}


KNOBS: Knobs = {"thinking": _effort}
"""Maps sampling and output options to options of the command."""


class ClaudeCodeProvider(HTTPProvider):
    """Runs the `claude` command of this machine, which has its own sign-in and tools."""

    features = frozenset(
        {"images", "documents", "assistant_images", "assistant_documents", "structured_output"}
    )
    knobs = KNOBS
    speaks_http = False
    decoder = NDJSONDecoder
    content_types = ("application/x-ndjson",)

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call, adapted to the command.

        Raises InvalidOption if the setting `session` (the id of a new session) is not a UUID.
        """
        if (session := options.settings.get("session")) is not None:
            try:
                UUID(session)
            except ValueError:
                raise InvalidOption(
                    f"session {session!r} is not a UUID",
                    resolution="Pass a UUID, for example from uuidgen.",
                ) from None
        return super().fit(model, context, options)

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the complete input of the command.

        The result has four keys: `prompt` is the result of `prompt_of`. `system` is the system
        prompt. `options` maps names of command-line options to their values, and `arguments` are
        further words of the command line. An answer schema must describe an object, because it
        becomes the schema of a tool's arguments. Raises ProviderFailure for another schema, or for
        content that the command does not accept.
        """
        schema = options.response_format
        if isinstance(schema, Mapping) and schema.get("type", "object") != "object":
            raise unsupported("structured_output", "Claude Code supports only schemas of objects")
        goes_on = bool(options.settings.get("resume") or options.settings.get("continue"))
        asked: dict[str, Any] = {} if model.id == "default" else {"--model": model.id}
        asked |= sent_options(self.knobs, model, options)
        asked |= {option: options.settings.get(name) for name, option in OPTIONS.items()}
        if isinstance(schema, Mapping):
            asked["--json-schema"] = schema
        return {
            "prompt": prompt_of(context, self.name, goes_on),
            "system": context.system_prompt,
            "options": {name: v for name, v in asked.items() if v not in (None, False)},
            "arguments": [*options.settings.get("args", ())],
        }

    def parser(self, model: Model) -> StreamJsonParser:
        """Create a parser for one run."""
        return StreamJsonParser(self._info)

    @cached_property
    def _catalog(self) -> Catalog:
        return Catalog(Host())

    def _info(self, id: str) -> ModelInfo | None:
        """Return the catalogue entry of a model that the command has chosen for an answer."""
        return self._catalog.model(self.name, id)

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by the wording of the command's messages."""
        return by_tables(failure, CODES, WORDINGS)

    def command(self, payload: Mapping[str, Any]) -> list[str]:
        """Return the command line for a payload from `convert`.

        Raises ProviderFailure if the command is not installed.
        """
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
        words = [found, "-p", "--input-format=stream-json", "--output-format=stream-json"]
        words += ["--include-partial-messages", "--verbose"]
        # a value in the same word as the option cannot be mistaken for another option
        words += [
            name if v is True else f"{name}={_word(v)}" for name, v in payload["options"].items()
        ]
        return [*words, *payload["arguments"]]

    async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        """Run the command and yield its output. Raises ProviderFailure if the command fails.

        The conversation and the system prompt are not arguments of the command, because the system
        limits the length of a command line.
        """
        payload = x.payload
        options = x.options
        command = self.command(payload)
        with TemporaryDirectory(prefix="swink-") as folder:
            if payload["system"]:
                how = "append-system" if options.settings.get("append_system_prompt") else "system"
                command += [f"--{how}-prompt-file", _file(folder, payload["system"])]
            child = await ChildProcess.start(command, _turn(payload["prompt"]))
            try:
                async for data in child:
                    yield data
                if child.code:
                    said = child.complaint.decode("utf-8", "replace").strip()
                    message = said or f"the command ended with code {child.code}"
                    raise ProviderFailure(Failure("streaming", code="exit", message=message))
            finally:
                await child.aclose()


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return msgspec.json.encode(value).decode()
    return ",".join(value) if isinstance(value, list | tuple) else str(value)


def _file(folder: str, text: str) -> str:
    path = Path(folder, "system.txt")
    path.write_bytes(_encoded(text))
    return str(path)


def _turn(content: Any) -> bytes:
    """Return the user message as one line of JSON, as the command reads it."""
    said = {"type": "user", "message": {"role": "user", "content": content}}
    return msgspec.json.encode(said) + b"\n"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # a lone surrogate cannot be encoded
