"""The typed value that a run returns.

Each request contains the schema of the type. If the model's answer does not match, a further
request asks the model to correct the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from swink.answers import ANSWER, Answer, AnswerForm, BadAnswer, answer_in, corrections_of
from swink_core import (
    AssistantMessage,
    Cost,
    Message,
    Options,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    V = TypeVarWithDefault("V", default=None)
else:  # typing_extensions takes longer to import than the rest of this package
    V = TypeVar("V")

__all__ = ["Goal", "V"]

T = TypeVar("T")

RECEIVED = "The answer was received."


class Goal(Generic[T]):
    """The typed value that a run returns at its end.

    `by_tool` is true if the answer consists of the arguments of a tool, because the model has no
    structured output. `answer` or `fault` is set when the run has ended. `corrections` is the
    maximum number of requests for a corrected answer.
    """

    def __init__(self, form: AnswerForm[T], corrections: int) -> None:
        self.form = form
        self.by_tool = False
        self.answer: Answer[T] | None = None
        self.fault: BadAnswer | None = None
        self._left = corrections

    def asked(self, options: Options) -> Options:
        """Add the type's schema, or the answer tool, to the options of a call."""
        if not self.by_tool:
            return {**options, "response_format": self.form.json}
        return {**options, "tools": [*(options.get("tools") or ()), self.form.tool]}

    def is_given_by(self, calls: list[ToolCallBlock]) -> bool:
        """Return True if the model called the tool whose arguments are the answer."""
        return any(call.name == ANSWER for call in calls)

    def read(
        self, message: AssistantMessage, usage: Usage | None, cost: Cost | None, *, may_ask: bool
    ) -> list[Message]:
        """Read the value from the last message.

        If the value does not match the type and `may_ask` is true, the result is a list of messages
        that request a correction. Otherwise `answer` or `fault` is set, and the list is empty.
        """
        try:
            self.answer = answer_in(message, self.form, usage, cost)
        except BadAnswer as fault:
            self.fault = fault
        except ValueError as error:
            if self._left == 0 or not may_ask:
                self.fault = BadAnswer(str(error), message, usage, cost)
                return []
            self._left -= 1
            return [*corrections_of(message, str(error))]
        return []

    def results(self, calls: list[ToolCallBlock]) -> list[ToolResultMessage]:
        """For each call of the answer tool, return a tool result that confirms the answer."""
        given = [call for call in calls if call.name == ANSWER]
        return [ToolResultMessage(call.id, call.name, RECEIVED) for call in given]
