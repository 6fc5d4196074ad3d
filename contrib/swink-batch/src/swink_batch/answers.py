"""`Answer`: the result of a row, which is stored as a line of JSON.

Fields without a value are omitted. The whole message is stored if it contains more than text (tool
calls, reasoning, citations).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from swink import Answer as TypedAnswer
from swink import BadAnswer
from swink_core import (
    AssistantMessage,
    Cost,
    ProviderFailure,
    StreamError,
    SwinkError,
    TextBlock,
    Usage,
    dump,
)

__all__ = [
    "Answer", "Failed", "Id", "as_json", "bad_row", "failed", "in_dollars", "read_answer",
    "succeeded",
]  # fmt: skip

_FIELDS = ("input", "output", "cache_read", "cache_write", "reasoning", "total")


Id: TypeAlias = str | int | float
"""The id of a row. The number 7 and the string "7" are the same id."""


class Failed(msgspec.Struct, omit_defaults=True):
    """The reason why a row has no answer.

    `kind` is the kind of the failure (see the page "Failures"), or `bad_row` if the row is
    invalid, or `bad_answer` if the answer does not match the requested type, or `batch_ended` if
    the vendor's batch ended without an answer to the row, or `batch_failed` if the whole batch
    failed.
    """

    kind: str
    message: str
    resolution: str = ""


class Answer(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The result of a row.

    `id` is the id of the row, as a number if the row has a number, and otherwise as text. `value`
    is the answer parsed as JSON, if a type or a schema was requested. `message` is the whole
    message in its JSON form, if it contains more than text. For a failed row, `text` and `message`
    contain the partial answer. `cost` is in US dollars; `estimated` is true if the provider did not
    report all usage; `attempts` and `seconds` include retries and corrections. `attempts` does not
    include answers from a cache.
    """

    id: Id
    text: str = ""
    value: Any = msgspec.UNSET
    error: Failed | None = None
    model: str = ""
    stop_reason: str | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, int] = {}
    cost: float | None = None
    estimated: bool = False
    seconds: float = 0.0
    attempts: int = 1


DECIMALS = 12
"""Decimal places of a dollar amount; further digits are rounding noise of sums."""

read_answer = msgspec.json.Decoder(Answer).decode
"""Decodes a line of JSON to an `Answer`."""


def succeeded(id: Id, result: AssistantMessage | TypedAnswer[Any], model: str) -> Answer:
    """Create the answer to a row from a successful result."""
    if isinstance(result, AssistantMessage):
        return _told(id, result, model, result.total_usage, result.total_cost)
    answer = _told(id, result.message, model, result.usage, result.cost)
    answer.text = result.text
    answer.value = _plain(result.parsed)
    return answer


def failed(id: Id, error: SwinkError, model: str) -> Answer:
    """Create the result of a failed row: the failure's kind and message, and the partial answer."""
    if isinstance(error, StreamError):
        partial = error.partial or AssistantMessage([])
        answer = _told(id, partial, model, partial.total_usage, partial.total_cost)
        answer.attempts = error.attempts
        kind = str(error.kind)
    elif isinstance(error, BadAnswer):
        answer, kind = _told(id, error.answer, model, error.usage, error.cost), "bad_answer"
    else:
        answer, kind = Answer(id=id, model=model), "bad_row"
        if isinstance(error, ProviderFailure):
            kind = str(error.failure.kind)
    told = f"{error.title}: {error.message}" if error.title else error.message
    answer.error = Failed(kind, told, error.resolution)
    return answer


def bad_row(id: Id, why: str) -> Answer:
    """Create the result of an invalid row; `why` is the reason."""
    return Answer(id=id, error=Failed("bad_row", why, "Correct the row, and start the run again."))


def as_json(answer: Answer) -> Answer:
    """Set an answer's `value` by parsing its text as JSON, or set `error` if that fails."""
    try:
        answer.value = msgspec.json.decode(answer.text)
    except (msgspec.DecodeError, RecursionError) as error:
        what = f"The answer is not JSON: {error}"
        answer.error = Failed("bad_answer", what, "Ask again with --retry-failed.")
    return answer


def in_dollars(cost: float | None) -> float | None:
    """Round a cost to remove the error of floating-point arithmetic."""
    return None if cost is None else round(cost, DECIMALS)


def _told(
    id: Id, message: AssistantMessage, model: str, usage: Usage | None, cost: Cost | None
) -> Answer:
    content = message.content
    plain = not content or (len(content) == 1 and _is_plain(content[0]))
    return Answer(
        id=id,
        text=message.text,
        model=f"{message.provider}/{message.model}" if message.model else model,
        stop_reason=message.stop_reason,
        message=None if plain else dump(message),
        usage=_counts(usage) if usage is not None else {},
        cost=in_dollars(cost.total if cost is not None else None),
        estimated=cost is not None and cost.estimated,
    )


def _is_plain(block: object) -> bool:
    return isinstance(block, TextBlock) and not block.metadata


def _counts(usage: Usage) -> dict[str, int]:
    return {name: n for name in _FIELDS if (n := getattr(usage, name)) is not None}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=_dumped)


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # pydantic models have this method
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} cannot be converted to JSON")
