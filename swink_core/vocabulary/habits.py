"""Option names of other libraries, and the corresponding options of swink.

If such a name means exactly the same as an option of swink, callers may use it. For every other
name, the error message says what to write with swink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import define


@define(frozen=True)
class Habit:
    """An option of another library.

    `option` is the option of swink with the same meaning; `None` means that swink lacks such an
    option. `convert` converts a value to the value for swink's option (`None`: the value is used
    unchanged), and raises ValueError if swink's option has no equivalent value. `advice` says what
    to write if swink lacks an equivalent option or value.
    """

    name: str
    option: str | None
    advice: str = ""
    convert: Callable[[Any], Any] | None = None


def _effort(value: Any) -> Any:
    return {"none": "off", "xhigh": "extra_high"}.get(value, value) if value else None


def _reasoning(value: Any) -> Any:
    """Convert `{"effort": …}` or `{"max_tokens": …}` to `thinking`.

    Raises ValueError for a value that `thinking` cannot represent.
    """
    match value:
        case {"effort": str() as effort} if len(value) == 1:
            return _effort(effort)
        case {"max_tokens": int() as tokens} if len(value) == 1:
            return tokens
    raise ValueError


def _no_retries(value: Any) -> Any:
    if value is None or (value == 0 and not isinstance(value, bool)):
        return False if value == 0 else None
    raise ValueError


def _one(value: Any) -> None:
    if value != 1:
        raise ValueError


_RETRIES = (
    "Temporary failures are retried by default; write retry=False to turn retries off, or "
    'retry=RetryPolicy(retries={"network": 3}) to set their number. To have invalid typed answers '
    "corrected, write corrections=2."
)
_TYPED = "Write answer(…, type=…) for a value of a type."
_LIMITED = "Write limits=Limits(cost=…, tokens=…, requests=…)."
_SHOWN = "Leave it out: stream(…) streams, and complete(…) returns the whole answer."
_FIELD = "This is a field of one provider's requests: write extra={{{name!r}: …}}."


def _table() -> tuple[Habit, ...]:
    same = {
        "api_base": "base_url",
        "budget_tokens": "thinking",
        "extra_body": "extra",
        "extra_headers": "headers",
        "instructions": "system_prompt",
        "max_completion_tokens": "max_tokens",
        "max_new_tokens": "max_tokens",
        "max_output_tokens": "max_tokens",
        "max_tokens_to_sample": "max_tokens",
        "random_seed": "seed",
        "stop_sequences": "stop",
        "system": "system_prompt",
        "system_instruction": "system_prompt",
        "thinking_budget": "thinking",
    }
    instead = {
        "attachments": 'Put them into the prompt: ["What is this?", image("a.png")].',
        "budget": _LIMITED,
        "callbacks": "Write Client(plugins=[…]) with an observer.",
        "default_headers": 'Write Client(providers={"acme": {"headers": {…}}}).',
        "fallbacks": "Pass a list of models in place of the model.",
        "function_call": "Write tool_choice='auto', 'none', 'required' or the name of a tool.",
        "functions": "Write tools=[…].",
        "images": 'Put them into the prompt: ["What is this?", image("a.png")].',
        "limit": f"{_LIMITED} gather(…, limit=10) limits concurrent calls.",
        "max_budget": _LIMITED,
        "max_cost": _LIMITED,
        "max_tool_calls": "Write limits=Limits(tool_calls=…) for a run.",
        "mock_response": "Call the model echo/echo, which needs no key.",
        "model_name": "Pass the model as the first argument: provider/model.",
        "output_format": _TYPED,
        "output_schema": _TYPED,
        "output_type": _TYPED,
        "request_timeout": "Write timeout=20 for the whole call, or timeouts=Timeouts(idle=20).",
        "response_model": _TYPED,
        "response_schema": _TYPED,
        "result_type": _TYPED,
        "schema": _TYPED,
        "stream": _SHOWN,
        "usage_limits": _LIMITED,
    }
    fields = ("logit_bias", "logprobs", "metadata", "service_tier", "store", "top_logprobs")
    return (
        *(Habit(name, option) for name, option in same.items()),
        Habit("n", None, "A call has one answer: write gather(model, [prompt] * 3).", _one),
        Habit("reasoning", "thinking", 'Write thinking="low" or a budget of tokens.', _reasoning),
        Habit("reasoning_effort", "thinking", 'Write thinking="low".', _effort),
        *(
            Habit(name, "retry", _RETRIES, _no_retries)
            for name in ("max_retries", "num_retries", "retries")
        ),
        *(Habit(name, None, advice) for name, advice in instead.items()),
        *(Habit(name, None, _FIELD.format(name=name)) for name in fields),
    )


HABITS: Mapping[str, Habit] = MappingProxyType({habit.name: habit for habit in _table()})
"""Options of other libraries, by their names in these libraries."""

_NAMES = frozenset(HABITS)

CONTEXT_WORDS = ("contents", "conversation", "input", "inputs", "messages", "prompt", "text")
"""Names of the argument `context` in other libraries."""


_OF_MESSAGE = {
    "choices": "message.text is the text, message.tool_calls are the calls",
    "content_blocks": "message.content has the blocks",
    "finish_reason": "message.stop_reason says why it ended",
    "message": "this is the message",
    "output": "message.content has the blocks, message.text the text",
    "output_text": "message.text is the text",
    "parsed": "answer(…, type=…) returns an answer with parsed",
    "reasoning_content": "message.thinking is the reasoning",
    "usage_metadata": "message.usage has the tokens",
}

_OF_EVENT = {
    "choices": "a TextDelta has its text in event.delta",
    "content": "a TextDelta has its text in event.delta; stream.text gives the text alone",
    "text": "a TextDelta has its text in event.delta; stream.text gives the text alone",
}

READ_AS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"message": _OF_MESSAGE, "event": _OF_EVENT}
)
"""Maps attribute names of messages and events in other libraries to swink's attributes."""


def missing_part(whole: str, value: object, name: str) -> AttributeError:
    """Return the error for an attribute that a message or event does not have, with advice."""
    hint = READ_AS[whole].get(name)
    text = f"{type(value).__name__!r} object has no attribute {name!r}"
    return AttributeError(text + (f"; {hint}" if hint else ""), name=name, obj=value)


def in_own_words(given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace option names of other libraries by swink's names.

    Raises ValueError, with advice, if swink has no equivalent option or if the equivalent option is
    given, too.
    """
    options = dict(given)
    if _NAMES.isdisjoint(given):
        return options
    for name in given.keys() & _NAMES:
        habit = HABITS[name]
        value = options.pop(name)
        if habit.option is not None and habit.option in options:
            raise ValueError(
                f"{name} and {habit.option} are the same option", f"Write {habit.option} alone."
            )
        if habit.convert is None and habit.option is None:
            raise ValueError(f"no option {name!r}", habit.advice)
        try:
            value = habit.convert(value) if habit.convert is not None else value
        except ValueError:
            raise ValueError(f"no option {name!r}", habit.advice) from None
        if habit.option is not None:
            options[habit.option] = value
    return options
