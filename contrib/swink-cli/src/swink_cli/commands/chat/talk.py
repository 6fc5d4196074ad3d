"""Send the messages of a chat, show the answers, and store them.

The API key and base URL on the command line apply only to the provider of the first model; for
models of other providers in the same chat, the stored keys and base URLs are used. Tools, such as
MCP servers, stay open between turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import reduce
from typing import TYPE_CHECKING, Any

import swink_core as swink
from swink.amounts import added
from swink_cli.calling import exit_code, show_call, show_end
from swink_cli.clients import PERSONAL, client_parts
from swink_cli.commands.chat.conversation import Conversation
from swink_cli.display import make_sink
from swink_cli.memory import Memory
from swink_cli.options import CallOptions
from swink_cli.summary import money, tokens
from swink_cli.tools import ToolOptions

if TYPE_CHECKING:
    from swink import Run
    from swink_cli.tool_loop import OpenTools

__all__ = ["Talk"]


class Talk:
    """A conversation, and the models that answer it.

    `conversation` and `models` may be replaced between answers; `interrupted` is true if Ctrl-C
    stopped the last answer.
    """

    def __init__(
        self, call: CallOptions, history: list[swink.Message], memory: Memory, tools: ToolOptions
    ) -> None:
        self.models = call.models
        self.conversation = Conversation(call.context(history))
        self.memory = memory
        self.interrupted = False
        self.plain = False
        self._call = call
        self._owner = call.models[0].partition("/")[0]
        self._runner = asyncio.Runner()
        self._tools: OpenTools | None = None
        parts = client_parts(None, memory.plugins)
        self.client = swink.Client(**parts)
        if tools:
            from swink import Client
            from swink_cli.tool_loop import OpenTools

            self._tools, self.client = OpenTools(tools), Client(**parts)
        self._earlier = _taken(history)
        self._secrets: set[str] = set()

    def begin(self) -> None:
        """Start the tools. Raises UsageError if a tool cannot be loaded or started."""
        if self._tools is not None:
            self._runner.run(self._tools.open())

    def close(self) -> None:
        """Close all connections and tools after everything is stored."""
        try:
            self._runner.run(self._close())
        finally:
            self._runner.close()

    async def _close(self) -> None:
        if self._tools is not None:
            await self._tools.aclose()
        async with self.memory:
            await self.client.aclose()

    def open(self, models: list[str], conversation: swink.Context | str) -> swink.EventStream:
        """Create a call, whose request is sent when the stream is first read.

        Raises UsageError for invalid arguments.
        """
        chain, options = self._asked(models)
        return self.client.stream(chain, conversation, limits=self._call.limits, **options)

    def answer(self) -> int:
        """Request an answer to the conversation, and return its exit code.

        If the call fails, the partial answer is kept.
        """
        if self._tools is not None:
            return self._answer_with(self._tools)
        stream = self.open(self.models, self.conversation.context)
        stream.call.secrets |= self._secrets  # earlier answers may contain other providers' keys
        try:
            display = self._shown(show_call(stream, make_sink(plain=self.plain)))
        finally:
            self.conversation.answer(stream.message)
            self._keep(stream.call, stream.message.stop_reason is swink.StopReason.ABORTED)
        show_end(stream, display)
        return exit_code(stream.message, self._call.options)

    def totals(self) -> str:
        """Return the tokens and cost of the conversation so far, including failed attempts."""
        usage, cost = self._earlier
        usage, cost = added(usage, self.client.usage), added(cost, self.client.cost)
        if cost is None or cost.total is None:
            return tokens(usage)
        return f"{tokens(usage)} · {money(cost.total, cost.estimated)}"

    def _answer_with(self, tools: OpenTools) -> int:
        from swink_cli.tool_loop import CODES, show_run

        chain, options = self._asked(self.models)
        context = self.conversation.context
        client: Any = self.client
        limits = self._call.limits
        run: Run = client.run(chain, context, limits=limits, **tools.options, **options)
        tools.approval.sink = sink = make_sink(plain=self.plain)
        try:
            self._shown(show_run(run, sink))
        finally:
            context.messages[:] = run.conversation
            if run.message.stop_reason in (swink.StopReason.ERROR, swink.StopReason.ABORTED):
                self.conversation.answer(run.message)
            self._keep(run.call, run.outcome == "aborted")
        code = CODES.get(run.outcome)
        return exit_code(run.message, self._call.options) if code is None else code

    def _asked(self, models: list[str]) -> tuple[list[Any], dict[str, Any]]:
        options = dict(self._call.options)
        personal = {name: options.pop(name) for name in PERSONAL if name in options}
        chain = [
            (model, personal) if model.partition("/")[0] == self._owner else model
            for model in models
        ]
        return chain, options

    def _shown(self, showing: Coroutine[Any, Any, Any]) -> Any:
        async def show() -> Any:
            self.memory.mark()
            return await showing

        return self._runner.run(show())

    def _keep(self, call: swink.Call, interrupted: bool) -> None:
        self.interrupted = interrupted
        self._secrets |= call.secrets
        self.memory.keep(self.conversation.context, self.models, self._secrets)


def _taken(messages: list[swink.Message]) -> tuple[swink.Usage | None, swink.Cost | None]:
    """Return the total usage and cost of all answers among the messages (`None`: unknown)."""
    answers = [message for message in messages if isinstance(message, swink.AssistantMessage)]
    return (
        reduce(added, [answer.total_usage or answer.usage for answer in answers], None),
        reduce(added, [answer.total_cost or answer.cost for answer in answers], None),
    )
