"""Help with mistakes in a program: short tracebacks, and hints on what to write instead.

When a public function raises a `SwinkError`, the frames inside swink are removed from the
traceback, because the line to correct is in the user's program. The whole traceback is logged at
DEBUG level.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from swink_core import SwinkError, UsageError
from swink_core.providers import CONTEXT_WORDS
from swink_core.providers import takes_options as names_options

__all__ = ["ELSEWHERE", "missing_name", "shortened", "takes_options"]

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_TYPED = "run(…, tools=[…], type=…) is an agent with a typed answer"
_CALL = 'complete("provider/model", "…") makes a call'
_CHAT = f"{_CALL}, and stream(…) streams it"

ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "Client": {
        "ainvoke": _CALL,
        "ask": _CALL,
        "chat": _CHAT,
        "chat_completion": _CHAT,
        "completion": _CALL,
        "completions": _CHAT,
        "create": _CALL,
        "generate": _CALL,
        "generate_content": _CALL,
        "invoke": _CALL,
        "messages": _CHAT,
        "models": "client.catalog has the models",
        "prompt": _CALL,
        "responses": _CHAT,
        "run_sync": "SyncClient().run(…) runs without await",
        "tool": "@swink.tool makes a function a tool",
    },
    "swink": {
        "parse": "swink.answer_sync(…, type=…) returns an answer of a type",
        "AIMessage": "swink.AssistantMessage is the model's message",
        "Agent": f"swink.Client().{_TYPED}",
        "Anthropic": "swink.SyncClient() works with any provider",
        "AsyncAnthropic": "swink.Client() works with any provider",
        "AsyncClient": "swink.Client() is asynchronous, swink.SyncClient() is not",
        "AsyncOpenAI": "swink.Client() works with any provider",
        "BinaryContent": 'swink.image("a.png"), document(…) and audio(…) take bytes too',
        "ChatOpenAI": "swink.SyncClient() works with any provider",
        "HumanMessage": "swink.UserMessage is the user's message",
        "Image": 'swink.image("a.png") is an image',
        "ImageUrl": 'swink.image("https://…") is an image',
        "LimitGate": "swink_core.providers has LimitGate, which limits several calls together",
        "ModelRetry": "raise any exception in a tool: the model reads it and may try again",
        "OpenAI": "swink.SyncClient() works with any provider",
        "RateLimitError": "swink.ModelThrottled is raised for a rate limit",
        "ToolMessage": "swink.ToolResultMessage is the result of a tool",
        "acompletion": f"await swink.{_CALL}",
        "chat": f"swink.{_CHAT}",
        "completion": 'swink.complete_sync("provider/model", "…") makes a call',
        "generate": 'swink.complete_sync("provider/model", "…") makes a call',
        "get_model": "pass the model's name to each call of swink.SyncClient()",
        "run": f"swink.Client().{_TYPED}",
    },
}
"""Names in the clients and modules of other libraries, with their counterparts in swink."""


def missing_name(owner: str, name: str) -> str:
    """Return the text of the AttributeError for a name that `owner` does not have."""
    hint = ELSEWHERE.get(owner, {}).get(name)
    what = f"module {owner!r}" if owner == "swink" else f"{owner!r} object"
    return f"{what} has no attribute {name!r}" + (f"; {hint}" if hint else "")


def takes_options(kind: Any) -> Callable[[F], F]:
    """Decorate a public function that takes the options of a call or of a client.

    The signature of the decorated function lists each option. When the function raises a
    `SwinkError`, or is called with wrong arguments, the traceback contains no frames inside swink.
    """
    named = names_options(kind)

    def decorate(function: F) -> F:
        return _answering(named(function))

    return decorate


def _answering(function: F) -> F:
    """Wrap a function so that its errors have short tracebacks."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except SwinkError as error:
            raised: BaseException = shortened(error)
        except TypeError as error:
            raised = _misfit(function, args, options, error)
        raise raised

    if not inspect.iscoroutinefunction(function):
        return cast("F", call)

    @wraps(function)
    async def call_and_wait(*args: Any, **options: Any) -> Any:
        try:
            return await function(*args, **options)
        except SwinkError as error:
            raised: BaseException = shortened(error)
        except TypeError as error:
            raised = _misfit(function, args, options, error)
        raise raised

    @wraps(function)
    def begin(*args: Any, **options: Any) -> Unawaited:
        return Unawaited(call_and_wait(*args, **options), function.__name__)

    return cast("F", _marked(begin))


def _marked(function: F) -> F:
    """Mark a function so that `iscoroutinefunction` returns True for it."""
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    mark: Any = asyncio.coroutines
    function._is_coroutine = mark._is_coroutine  # type: ignore[attr-defined]  # asyncio's mark
    return function


class Unawaited(Coroutine[Any, Any, Any]):
    """The coroutine of a call, with helpful errors if it is used without `await`."""

    __slots__ = ("_coroutine", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._coroutine = coroutine
        self._name = name

    def send(self, value: Any) -> Any:
        """Resume the coroutine."""
        return self._coroutine.send(value)

    def throw(self, *raised: Any) -> Any:
        """Raise an exception in the coroutine."""
        return self._coroutine.throw(*raised)

    def close(self) -> None:
        """Close the coroutine."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __repr__(self) -> str:
        return f"<{self._name}(…) was not awaited: write await {self._name}(…)>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Attributes of a coroutine, used by asyncio and debuggers.
            if name.startswith(("cr_", "__")):
                return getattr(self._coroutine, name)
            text = f"{self._name}(…) was not awaited; write (await {self._name}(…)).{name}"
            raise AttributeError(text, name=name, obj=self)

        def __iter__(self) -> Any:
            name = self._name
            raise UsageError(
                f"{name}(…) was not awaited", resolution=f"Write for … in await {name}(…)."
            )


def shortened(error: SwinkError) -> SwinkError:
    """Remove the traceback of an error, and return the error.

    The cause of a UsageError is removed as well, because the error's message contains the cause.
    """
    if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
        log.debug("raised to the program", exc_info=error)
    if isinstance(error, UsageError):
        error.__cause__ = None
        error.__suppress_context__ = True
    return error.with_traceback(None)


def _misfit(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], error: TypeError
) -> BaseException:
    """Return the error for arguments that a function does not accept; it shows the correct call.

    A TypeError that was raised inside the function is returned unchanged.
    """
    traceback = error.__traceback__
    if traceback is None or traceback.tb_next is not None:
        return error  # the error was raised inside the function
    name = function.__name__
    parameters = list(inspect.signature(function).parameters.values())
    own = parameters[1:] if parameters[0].name == "self" else parameters
    if name == "__init__":
        owner = function.__qualname__.partition(".")[0]
        return UsageError(
            f"{owner}() takes options by name alone",
            resolution=f'Write {owner}(timeout=20); a key is passed as {owner}(providers={{"acme": '
            '{"api_key": …}}).',
        )
    given = {*options, *(one.name for one in parameters[: len(args)])}
    required = [one.name for one in own if one.default is one.empty]
    missing = [each for each in required if each not in given]
    if not missing:
        text = str(error).partition("() ")[2]
        return UsageError(f"{name}() {text}", resolution=f"Write {name}({_form(required)}, …).")
    if "context" in missing and (words := [word for word in CONTEXT_WORDS if word in options]):
        return UsageError(
            f"{name}() has no argument {words[0]!r}: the conversation is called 'context'",
            resolution=f"Write {name}(model, …), or context=… in place of {words[0]}=….",
        )
    return UsageError(
        f"{name}() lacks {' and '.join(map(repr, missing))}",
        resolution=f"Write {name}({_form(required)}).{_ADVICE.get(missing[0], '')}",
    )


_EXAMPLES = {
    "model": '"provider/model"',
    "context": '"Why is the sky blue?"',
    "prompts": '["One?", "Two?"]',
    "tools": "tools=[function]",
    "type": "type=int",
}

_ADVICE = {"tools": " For a call without tools, use complete(…)."}


def _form(required: list[str]) -> str:
    """Return example source code for the required arguments of a call."""
    return ", ".join(_EXAMPLES.get(name, f"{name}=…") for name in required)
