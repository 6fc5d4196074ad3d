"""Checks of schemas whose fields have the names of JSON Schema keywords."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swink_core import Context, UserMessage, replace
from swink_judge.matrix.asker import Outcome
from swink_judge.matrix.conversations import LOOK_UP
from swink_judge.request_readers import strings_of
from swink_testing.conformance.check import require
from swink_testing.conformance.subject import Subject

__all__ = ["require_names"]

_NAMES = (
    "minimum", "maxItems", "minLength", "format", "pattern", "type", "properties", "required",
    "additionalProperties", "items", "enum", "const", "anyOf", "default", "title", "description",
)  # fmt: skip
"""Names of fields that are keywords of JSON Schema."""


async def require_names(subject: Subject) -> None:
    """Check that fields named like keywords are kept, and that fields in `required` exist."""
    async with subject.asker() as asker:
        for name, said, context, options in _calls():
            outcome = await subject.outcome(asker, name, context, options)
            case = outcome.case
            require(outcome.fault is None, f"{case} fails: {outcome.fault}", options)
            if outcome.asked is None:
                continue
            body = outcome.asked.body
            missing = ", ".join(_without(body))
            require(not missing, f"{case} requires {missing}, which is no property", body)
            told = _is_told(outcome) or said in "\n".join(strings_of(body))
            require(told, f"{case} loses the field, and no Notice says so", body, said)


def _is_told(outcome: Outcome) -> bool:
    """Return True if a notice is about a tool or the response format."""
    paths = [path for notice in outcome.notices for path in notice.paths]
    return any(path.startswith(("tools", "options.response_format")) for path in paths)


def _calls() -> Iterator[tuple[str, str, Context, dict[str, Any]]]:
    """Yield calls: the name, the description of the field, the conversation, the options."""
    for name in _NAMES:
        said = f"nonce_{name}."
        schema = {
            "type": "object",
            "properties": {name: {"type": "string", "description": said}},
            "required": [name],
            "additionalProperties": False,
        }
        question, tool = [UserMessage("nonce_question")], replace(LOOK_UP, parameters=schema)
        strict = replace(tool, strict=True)
        yield f"a field {name} of a tool", said, Context([*question], tools=[tool]), {}
        yield f"a field {name} of a strict tool", said, Context([*question], tools=[strict]), {}
        wanted = {"response_format": schema}
        yield f"a field {name} of an answer", said, Context([*question]), wanted


def _without(data: Any) -> Iterator[str]:
    """Yield the fields that schemas require but do not contain."""
    if isinstance(data, dict):
        required, has = data.get("required"), data.get("properties")
        if isinstance(required, list):
            yield from (each for each in required if not isinstance(has, dict) or each not in has)
    for each in data.values() if isinstance(data, dict) else data:
        if isinstance(each, dict | list):
            yield from _without(each)
