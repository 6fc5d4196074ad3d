"""What echo is told to do: by the model's name, and by `settings={"script": {…}}` on top of that.

A name is a row of `MODELS`; those that fail or stall take `-after-N`, for N deltas:
`echo/fail-throttled-after-3`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from swink_core import Failure, ProviderFailure, StopReason, StreamErrorKind, StreamOptions

__all__ = ["MODELS", "Script", "script_for"]

LONG = 2_000
SLOW = 0.05

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to answer. Every field may be given in `settings={"script": {…}}`.

    `reply` is the answer, as it is; `words` repeats the answer until it has so many. `think`
    thinks first. `tool` calls a tool (true: the first offered), `parallel` all offered ones, with
    `arguments` as JSON data or as raw text. `json` answers in JSON, `silent` not at all.

    `fail` fails so after `fail_after` deltas, in the first `fail_attempts` attempts (`None`: in
    all), asking for `retry_after` seconds. `stall_after` falls silent after so many deltas. `stop`
    ends with that reason. `delta` is the characters of a delta (`None`: one word), `delay` the
    seconds before each.
    """

    reply: str | None = None
    words: _Count | None = None
    think: bool = False
    tool: bool | str = False
    parallel: bool = False
    arguments: dict[str, Any] | str | None = None
    json: bool = False
    silent: bool = False
    fail: StreamErrorKind | None = None
    fail_after: _Count = 0
    fail_attempts: _Count | None = None
    retry_after: _Seconds | None = None
    stall_after: _Count | None = None
    stop: StopReason | None = None
    delta: Annotated[int, msgspec.Meta(ge=1)] | None = None
    delay: _Seconds = 0.0


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


def script_for(model_id: str, options: StreamOptions) -> Script:
    """Return what a call asks for.

    Raises ProviderFailure: `model_not_found` for another name, `invalid_request` for directions
    that are none.
    """
    script = _named(model_id)
    if script is None:
        names = [name for name in MODELS if not name.startswith(("fail-", "stop-"))]
        raise ProviderFailure(
            Failure(
                "request",
                kind=StreamErrorKind.MODEL_NOT_FOUND,
                message=f"echo has no model {model_id!r}; it has {', '.join(names)}, "
                "fail-<error kind> and stop-<stop reason>",
            )
        )
    told = options.settings.get("script", {})
    try:
        return msgspec.convert({**msgspec.structs.asdict(script), **told}, Script)
    except (msgspec.ValidationError, TypeError) as error:
        raise ProviderFailure(
            Failure(
                "request",
                kind=StreamErrorKind.INVALID_REQUEST,
                message=f'settings["script"] does not say what to do: {error}',
            )
        ) from error


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
