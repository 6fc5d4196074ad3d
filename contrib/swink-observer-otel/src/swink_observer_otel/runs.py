"""Convert the events of tool loops to spans.

    invoke_agent                       INTERNAL
      chat gpt-5                       a turn: the span of its call
      execute_tool get_weather         INTERNAL; the parent of spans that the tool creates
      chat gpt-5

Only the spans of calls have token counts and costs.
"""

from __future__ import annotations

from opentelemetry import context
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.invocation import ToolInvocation
from opentelemetry.util.genai.types import Error, OutputMessage

import swink_core
from swink.events import RunEnd, RunStart, ToolEnd, ToolStart, TurnStart
from swink_observer_otel.content import arguments, definitions, input_messages, result, system_parts

__all__ = ["Run", "Runs"]

TOOL_ERROR = "tool_error"
"""The `error.type` of a failed tool. The error message is recorded only with content capture."""

MAX_TURNS = "max_turns"
"""The `error.type` of a run that was stopped because it reached its maximum number of turns."""


class Run:
    """The span of one run. `answered` is called when a call of the run ends."""

    def __init__(self, handler: TelemetryHandler, call: swink_core.Call) -> None:
        self._handler = handler
        self._asked = call.context
        self._invocation = handler.invoke_local_agent(
            request_model=call.model.id, conversation_id=call.options.session_id
        )
        self._invocation.suspend()
        self._tools: dict[str, ToolInvocation] = {}
        self._failure: Error | None = None

    @property
    def context(self) -> context.Context:
        """The parent context of the run's calls and tools."""
        return self._invocation.context

    def answered(self, reason: str, answer: list[OutputMessage], failure: Error | None) -> None:
        """Store a call's finish reason, answer and failure.

        The data of the run's last call become attributes of the run's span.
        """
        self._invocation.finish_reasons, self._failure = [reason], failure
        self._invocation.output_messages = answer

    def tool_started(self, call: swink_core.ToolCallBlock) -> None:
        """Start a tool's span, and make it the current span."""
        tool = self._tools[call.id] = self._handler.tool(
            call.name, tool_type="function", context=self.context
        )
        tool.suspend()  # so that the span can end in another context
        context.attach(tool.context)
        tool.tool_call_id = call.id
        told = (each.description for each in self._asked.tools if each.name == call.name)
        tool.tool_description = next(told, None)
        if self._handler.should_capture_content():
            tool.arguments = arguments(call)

    def tool_ended(self, message: swink_core.ToolResultMessage) -> None:
        """End the span of a tool; record its error message if content capture is enabled."""
        tool = self._tools.pop(message.tool_call_id)
        is_content = self._handler.should_capture_content()
        said = result(message) if is_content else None
        tool.tool_result = said
        if message.is_error:
            tool.fail(Error(said if isinstance(said, str) else None, TOOL_ERROR))
        else:
            tool.stop()

    def end(self, event: RunEnd) -> None:
        """End the spans of tools that were stopped, and then the span of the run."""
        for tool in self._tools.values():
            tool.stop()
        ended = self._invocation
        ended.attributes |= {"swink.turns": event.turns, "swink.outcome": event.outcome}
        if self._handler.should_capture_content():
            ended.input_messages = input_messages(self._asked)
            ended.system_instruction = system_parts(self._asked)
            ended.tool_definitions = definitions(self._asked)
        failure = self._failure
        if event.outcome == MAX_TURNS:
            failure = Error("in its last turn the model still called tools", MAX_TURNS)
        if failure is None:
            ended.stop()
        else:
            ended.fail(failure)


class Runs:
    """All running tool loops."""

    def __init__(self, handler: TelemetryHandler) -> None:
        self._handler = handler
        self._running: dict[str, Run] = {}
        self._turns: dict[str, Run] = {}  # by the id of the call that is about to begin

    def take(self, event: swink_core.AssistantMessageEvent, call: swink_core.Call) -> None:
        """Start and end spans for the events of runs. Ignore events of unknown runs."""
        if isinstance(event, RunStart):
            self._running[event.run_id] = Run(self._handler, call)
        run = self._running.get(getattr(event, "run_id", ""))
        if run is None:
            return
        match event:
            case TurnStart():
                self._turns[call.id] = run
            case ToolStart(tool_call=tool_call):
                run.tool_started(tool_call)
            case ToolEnd(result=message):
                run.tool_ended(message)
            case RunEnd(run_id=run_id):
                self._turns.pop(call.id, None)
                del self._running[run_id]
                run.end(event)

    def turn_of(self, call: swink_core.Call) -> Run | None:
        """Return the run of a call that begins; `None` if the call belongs to no run."""
        return self._turns.pop(call.id, None)
