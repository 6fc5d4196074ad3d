"""Scripts for echo, selected by the model's name, or given in `settings={"script": …}`.

The dictionary `MODELS` contains the names and their scripts. Models that fail or stall accept the
suffix `-after-N`: `echo/fail-throttled-after-3` sends 3 deltas and then fails. The setting is one
script, or a list of scripts that answer a client's requests one after the other.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from difflib import get_close_matches
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import msgspec

from swink_core import Call, Failure, ProviderFailure, StopReason, StreamErrorKind, StreamOptions

__all__ = ["MODELS", "Script", "ScriptedCall", "Scripts"]

LONG = 2_000
SLOW = 0.05

MOST_LISTS = 1_000
"""The maximum number of lists of scripts for which echo remembers the next script."""

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]
_Status = Annotated[int, msgspec.Meta(ge=400, le=599)]
_Counted = Literal["input", "output", "cache_read", "cache_write", "reasoning", "total"]


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call to make. The request need not offer the tool.

    `arguments` are JSON data, or raw text, which may be invalid JSON. Without an `id`, echo creates
    an id from the number of the call.
    """

    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict)
    id: str | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describes the answer to give. Every field may be given in `settings={"script": {…}}`.

    **Content.** `reply` is the answer, used unchanged; `words` repeats the answer until it has this
    many words. `think` adds thinking before the answer; if `think` is a string, it is the text of
    the thinking. `json` answers in JSON; `silent` gives an empty answer.

    **Tool calls.** `tool` calls one tool (true: the first tool that the request offers). `parallel`
    calls all offered tools. The arguments of these calls are in `arguments`, as JSON data or as raw
    text. After a tool result, no more of these calls are made. In contrast, `calls` are made in
    every answer, in parallel, after the `reply` if there is one.

    **End.** `stop` is the stop reason of the answer. `usage` replaces the token usage, which by
    default is the number of words. `cost` is in US dollars (`None`: computed from the prices of the
    model, which are 0). `fail` is the kind of a failure; if only `fail_status` (an HTTP status) is
    set, the status determines the kind. The failure comes after `fail_after` deltas, in the first
    `fail_attempts` attempts (`None`: in all attempts). `fail_message` is the failure's message, and
    `retry_after` the number of seconds to wait before a retry. `cut_after` is the number of deltas
    after which the stream ends without the end of the answer. `stall_after` is the number of deltas
    after which echo sends nothing more.

    **Timing.** `delta` is the number of characters in a delta (`None`: one word). `delay` is the
    number of seconds before each delta, `first_delay` before the answer begins; both are measured
    by the client's clock.

    **Selection.** In a list of scripts, `match` is a regular expression. A script with `match`
    answers every request whose last message matches. Each script without `match` answers one
    request, in the order of the list. Retries of a request get the same script.
    """

    match: str | None = None
    reply: str | None = None
    words: _Count | None = None
    think: bool | str = False
    tool: bool | str = False
    parallel: bool = False
    arguments: dict[str, Any] | str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    json: bool = False
    silent: bool = False
    usage: dict[_Counted, _Count] | None = None
    cost: Annotated[float, msgspec.Meta(ge=0)] | None = None
    fail: StreamErrorKind | None = None
    fail_status: _Status | None = None
    fail_message: str | None = None
    fail_after: _Count = 0
    fail_attempts: _Count | None = None
    retry_after: _Seconds | None = None
    cut_after: _Count | None = None
    stall_after: _Count | None = None
    stop: StopReason | None = None
    delta: Annotated[int, msgspec.Meta(ge=1)] | None = None
    delay: _Seconds = 0.0
    first_delay: _Seconds = 0.0

    @property
    def fails(self) -> bool:
        """Whether the script ends in a failure, at least in some attempts."""
        return self.fail is not None or self.fail_status is not None


MODELS: dict[str, Script] = {
    "echo": Script(),
    "think": Script(think=True),
    "tool": Script(tool=True),
    "tools": Script(tool=True, parallel=True),
    "json": Script(json=True),
    "long": Script(words=LONG),
    "slow": Script(delay=SLOW),
    "silent": Script(silent=True),
    "stall": Script(stall_after=1),
    "flaky": Script(fail=StreamErrorKind.NETWORK, fail_attempts=1),
    **{f"fail-{kind.replace('_', '-')}": Script(fail=kind) for kind in StreamErrorKind},
    **{f"stop-{reason.replace('_', '-')}": Script(stop=reason) for reason in StopReason},
}

_AFTER = re.compile(r"(.+)-after-(\d+)")


class Scripts:
    """Selects the script that answers each call of a client."""

    def __init__(self) -> None:
        # How many scripts of each list have been used. The key is the list's JSON.
        self._turns: OrderedDict[bytes, int] = OrderedDict()
        self._taken: WeakKeyDictionary[Call, dict[bytes, int]] = WeakKeyDictionary()

    def script_for(self, call: Call, model_id: str, options: StreamOptions, heard: str) -> Script:
        """Return the script of a call; `heard` is the text of the last message.

        Raises ProviderFailure: `model_not_found` for an unknown model, `invalid_request` for an
        invalid script or if all scripts of a list have been used.
        """
        base = _base(model_id)
        given = options.settings.get("script", {})
        if not isinstance(given, list | tuple):
            return _read(base, given, 'settings["script"]')
        scripts = [
            _read(base, each, f'settings["script"][{number}]') for number, each in enumerate(given)
        ]
        for script in scripts:
            if script.match is not None and re.search(script.match, heard):
                return script
        queue = [script for script in scripts if script.match is None]
        turn = self._turn(call, msgspec.json.encode(given))
        if turn < len(queue):
            return queue[turn]
        raise _wrong(
            f'settings["script"] has no script left for request {turn + 1}: {len(queue)} without '
            f"`match` are used up, and no `match` fits {heard[:60]!r}"
        )

    def _turn(self, call: Call, key: bytes) -> int:
        """Return the number of earlier calls that have used this list of scripts.

        The number is the same for every attempt of a call.
        """
        taken = self._taken.setdefault(call, {})
        if key not in taken:
            taken[key] = self._turns.pop(key, 0)
            self._turns[key] = taken[key] + 1
            if len(self._turns) > MOST_LISTS:
                self._turns.popitem(last=False)
        return taken[key]


def _wrong(why: str) -> ProviderFailure:
    return ProviderFailure(Failure("request", kind=StreamErrorKind.INVALID_REQUEST, message=why))


def _base(model_id: str) -> Script:
    script = _named(model_id)
    if script is not None:
        return script
    names = [name for name in MODELS if not name.startswith(("fail-", "stop-"))]
    raise ProviderFailure(
        Failure(
            "request",
            kind=StreamErrorKind.MODEL_NOT_FOUND,
            message=f"echo has no model {model_id!r}; it has {', '.join(names)}, "
            "fail-<error kind> and stop-<stop reason>",
        )
    )


def _read(base: Script, given: Any, place: str) -> Script:
    """Return the script `base` of a model, with the fields in `given` replaced."""
    try:
        data = msgspec.to_builtins(given)
        if not isinstance(data, dict):
            raise TypeError(f"expected an object, or a list of objects, not {given!r}")
        script = msgspec.convert({**msgspec.structs.asdict(base), **data}, Script)
        re.compile(script.match or "")
    except (TypeError, ValueError, re.error) as error:
        raise _wrong(f"{place} is wrong: {error}{_hint(str(error))}") from error
    if why := _contradiction(script, {*data}):
        raise _wrong(f"{place} is wrong: {why}")
    return script


def _hint(error: str) -> str:
    """Return a hint for a misspelt field: the most similar field, or else all fields."""
    unknown = re.search(r"unknown field `(\w+)`$", error)
    if unknown is None:
        return ""
    names = Script.__struct_fields__
    near = get_close_matches(unknown[1], names, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; the fields are {', '.join(names)}"


def _contradiction(script: Script, given: set[str]) -> str:
    """Return the reason why the given fields contradict each other; `""` if they do not."""
    for fields, why in _APART.items():
        if len(both := sorted(given & fields)) > 1:
            return f"`{both[0]}` and `{both[1]}` {why}"
    if not script.fails and (idle := sorted(given & _OF_FAILURES)):
        return f"`{idle[0]}` needs `fail` or `fail_status`"
    return ""


_OF_FAILURES = {"fail_after", "fail_attempts", "fail_message", "retry_after"}

_APART = {
    frozenset({"calls", "tool"}): "both choose the tools to call",
    frozenset({"calls", "arguments"}): "both set the arguments",
    frozenset({"cut_after", "stall_after"}): "both end the answer early",
    frozenset({"fail", "cut_after"}): "both end the answer early",
    frozenset({"fail_status", "cut_after"}): "both end the answer early",
    frozenset({"silent", "reply"}): "contradict each other",
    frozenset({"silent", "calls"}): "contradict each other",
}
"""Sets of fields that cannot be combined, each with the reason."""


def _named(model_id: str) -> Script | None:
    if (script := MODELS.get(model_id)) is not None:
        return script
    match = _AFTER.fullmatch(model_id)
    script = MODELS.get(match[1]) if match else None
    if match is None or script is None:
        return None
    if script.fail is not None:
        return msgspec.structs.replace(script, fail_after=int(match[2]))
    if script.stall_after is not None:
        return msgspec.structs.replace(script, stall_after=int(match[2]))
    return None
