"""The parts of a client's protocol: requests, answers and failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.exchanges.plan import Options
from lab.exchanges.talk import NOT_JSON, Call, Entry, Failed, Seen

__all__ = ["Built", "Protocol", "arguments_of", "call_of", "dump", "loaded", "openai_failed"]


@dataclass(frozen=True, slots=True)
class Built:
    """A request: its path with the query, its headers and its body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Protocol:
    """A client's protocol.

    `api` is the vendor's API of the same form. `build` takes the model, the conversation, the
    options, whether to stream, and the key. `whole` reads the body of an answer, `events` the
    events of a streamed one (`Seen.failed` is set where one of them is a failure), `failed` the
    status and the body of a failure. `lines` says that the events of a stream are lines, not SSE.
    `unsaid` are options for which the protocol has no field.
    """

    api: str
    build: Callable[[str, Sequence[Entry], Options, bool, str], Built]
    whole: Callable[[dict[str, Any]], Seen]
    events: Callable[[list[Any]], Seen]
    failed: Callable[[int, Any], Failed]
    lines: bool = False
    unsaid: tuple[str, ...] = ()


def loaded(text: str | bytes) -> Any:
    """Decode JSON; return the text itself for anything else."""
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def dump(value: Any) -> str:
    """Encode JSON."""
    return json.dumps(value, ensure_ascii=False)


def arguments_of(text: Any) -> dict[str, Any] | None:
    """Return the arguments of a call: an object, or the JSON text of one."""
    value = text
    if isinstance(text, str):
        value = loaded(text) if text else {}
    return value if isinstance(value, dict) else None


def call_of(id: Any, name: Any, arguments: Any) -> Call:
    """Return a call of an answer."""
    raw = arguments if isinstance(arguments, str) else dump(arguments)
    value = arguments_of(arguments)
    if value is not None and value.keys() == {NOT_JSON}:
        return Call(str(id or ""), str(name), None, str(value[NOT_JSON]))
    return Call(str(id or ""), str(name), value, raw)


def openai_failed(status: int, body: Any) -> Failed:
    """Return a failure in the form of OpenAI's APIs."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return Failed(status=status, type="none", message=str(body)[:200])
    return Failed(
        status=status,
        code=error.get("code"),
        type=error.get("type"),
        message=str(error.get("message")),
    )
