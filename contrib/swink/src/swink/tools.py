"""Create tools from functions: make schemas from annotations, and convert results for the model."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Generic, ParamSpec, TypeAlias, TypeVar, get_type_hints, overload

import msgspec
from attrs import NOTHING, define, field

from swink.schemas import Schema, plain_data
from swink.threads import in_thread
from swink_core import (
    AudioBlock,
    Block,
    DocumentBlock,
    ExtensionBlock,
    ImageBlock,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UsageError,
)
from swink_core.providers import LoopClock

__all__ = [
    "FunctionTool",
    "ToolLike",
    "described",
    "failed",
    "refuse_functions",
    "tool",
    "tools_by_name",
]

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_SHOWN = TextBlock | ImageBlock | DocumentBlock | AudioBlock | ExtensionBlock
"""The types of blocks that the result of a tool may contain."""


@define
class _Parameter:
    """A parameter of a function.

    `default` is `NOTHING` if the model must pass an argument, and may be a Field of pydantic, which
    makes a value for each call.
    """

    name: str
    schema: Schema[Any]
    default: Any


def _seconds(tool: Any, attribute: Any, value: Any) -> None:
    if value is not None and not (isinstance(value, int | float) and value > 0):  # also true of NaN
        raise UsageError(
            f"tool {tool.definition.name!r}: timeout is {value!r}",
            resolution="Give seconds, a number above 0, or None for no limit.",
        )


@define(eq=False)
class FunctionTool(Generic[P, R]):
    """A function that a model may call. A program can call the tool like the function itself.

    `definition` is sent to the model. `timeout` is in seconds (`None`: no limit). A blocking
    function runs in a thread, which cannot be stopped; if the timeout passes, the function's result
    is ignored. With `needs_approval`, each call waits for a decision of the application, see
    `Client.run`.
    """

    function: Callable[P, R]
    definition: Tool
    timeout: float | None = field(default=None, validator=_seconds)
    _parameters: list[_Parameter] = field(factory=list, repr=False)
    needs_approval: bool = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function like an ordinary function, without a model."""
        return self.function(*args, **kwargs)

    def refusal(self, call: ToolCallBlock) -> ToolResultMessage | None:
        """Return an error result if the arguments do not match the schema, otherwise `None`."""
        read = self._read(call)
        return read if isinstance(read, ToolResultMessage) else None

    async def carry_out(self, call: ToolCallBlock) -> ToolResultMessage:
        """Carry out a model's call and return its result, or an error result if the call fails."""
        arguments = self._read(call)
        if isinstance(arguments, ToolResultMessage):
            return arguments
        task = asyncio.current_task()
        try:
            async with LoopClock.limit(self.timeout) as limit:
                content = content_of(await self._called(arguments))
        except TimeoutError as error:
            if not limit.expired():
                return self._raised(call, error)
            return failed(call, f"The tool took longer than {self.timeout:g} seconds.")
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise  # the run or the program is stopped
        except GeneratorExit as error:
            if not _runs_in(task):
                raise  # the coroutine is closed
            return self._raised(call, error)
        except BaseException as error:  # sys.exit() as well: it ends the function, not the program
            return self._raised(call, error)
        return ToolResultMessage(call.id, call.name, content)

    def _raised(self, call: ToolCallBlock, error: BaseException) -> ToolResultMessage:
        log.warning("tool %s raised", call.name, exc_info=error)
        return failed(call, described(error))

    def _read(self, call: ToolCallBlock) -> dict[str, Any] | ToolResultMessage:
        """Return the arguments of a call, or an error result if they cannot be read."""
        try:
            return self._arguments(call)
        except ValueError as error:
            return failed(call, f"The arguments do not fit: {error}")
        except Exception as error:  # of the code of a parameter's type
            return self._raised(call, error)

    def _arguments(self, call: ToolCallBlock) -> dict[str, Any]:
        if call.state != "complete":
            raise ValueError(f"they are {_STATES[call.state]}: {call.raw_arguments or ''}")
        required = self.definition.parameters.get("required", ())
        if missing := [name for name in required if name not in call.arguments]:
            raise ValueError(f"{', '.join(missing)} missing")
        if unknown := call.arguments.keys() - self.definition.parameters["properties"].keys():
            raise ValueError(f"unknown parameter {', '.join(sorted(unknown))}")
        arguments = {}
        for one in self._parameters:
            if one.name in call.arguments:
                try:
                    arguments[one.name] = one.schema.load(call.arguments[one.name])
                except ValueError as error:
                    raise ValueError(f"{one.name}: {error}") from error
        return arguments

    async def _called(self, arguments: dict[str, Any]) -> Any:
        for one in self._parameters:
            if one.name in arguments or one.default is NOTHING:
                continue
            given = one.default
            made = given.get_default(call_default_factory=True) if _is_field(given) else given
            arguments[one.name] = made
        bound = inspect.signature(self.function).bind_partial()
        bound.arguments.update(arguments)
        if _is_async(self.function):
            result: Any = self.function(*bound.args, **bound.kwargs)
        else:
            result = await in_thread(self.function, *bound.args, **bound.kwargs)
        return await result if isinstance(result, Awaitable) else result


_STATES = {"invalid": "not a JSON object", "truncated": "cut off"}

ToolLike: TypeAlias = Callable[..., Any] | FunctionTool[..., Any]


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    strict: bool | None = None,
    needs_approval: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    strict: bool | None = None,
    needs_approval: bool = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a function a tool: `@tool`, or `@tool(timeout=5)`.

    Name, description and schema default to the function's name, docstring and annotations.
    `timeout` is in seconds. `strict` requests that the provider enforces the schema (`None`: the
    provider's default). With `needs_approval`, each call waits for a decision of the application,
    see `Client.run`. Raises UsageError for a lambda without `name`, a parameter without a JSON
    schema, and an invalid timeout.
    """

    def make(function: Callable[P, R]) -> FunctionTool[P, R]:
        said = _Docstring(function)
        called = name or _name_of(function)
        parameters = _parameters_of(function, called)
        text: str = description if description is not None else said.text
        schema = _object_of(parameters, said.parameters)
        definition = Tool(called, text, schema, strict=strict)
        return FunctionTool(function, definition, timeout, parameters, needs_approval)

    return make if function is None else make(function)


def _name_of(function: Any) -> str:
    """Return the name by which a model calls a function. Raises UsageError for a lambda."""
    while isinstance(function, partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    if name == "<lambda>":
        code = function.__code__
        raise UsageError(
            f"the lambda at {code.co_filename}:{code.co_firstlineno} has no name",
            resolution='Write a function with def, or tool(name="…", description="…")(lambda …).',
        )
    return name


def described(error: BaseException) -> str:
    """Return the class and message of an exception; only the class if `str(error)` fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def as_tool(given: ToolLike) -> FunctionTool[..., Any]:
    """Convert a function to a tool, and return a `FunctionTool` unchanged.

    Raises UsageError for an object of another type.
    """
    if isinstance(given, FunctionTool):
        return given
    if isinstance(given, Tool):
        raise UsageError(
            f"tool {given.name!r} has no function to carry it out",
            resolution="Pass a function, or call stream() and answer the tool's calls yourself.",
        )
    if isinstance(given, Mapping):
        raise UsageError(
            "run(…) accepts functions as tools, not dictionaries",
            resolution="Pass functions, from which run(…) makes the schemas; stream() and "
            "complete() take dictionaries, whose calls you answer yourself.",
        )
    if not callable(given):
        raise UsageError(
            f"a tool must be a function, not a value of type {type(given).__name__}",
            resolution="Pass functions.",
        )
    return tool(given)


def tools_by_name(given: Sequence[ToolLike]) -> dict[str, FunctionTool[..., Any]]:
    """Return tools by their names.

    Raises UsageError for an object that is not a tool, and for duplicate names.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise UsageError(
            f"tools are of type {type(given).__name__}", resolution="Pass a list of functions."
        )
    named: dict[str, FunctionTool[..., Any]] = {}
    for one in map(as_tool, given):
        name = one.definition.name
        if name in named:
            both = f"{_place_of(named[name])} and {_place_of(one)}"
            raise UsageError(
                f"two tools have the name {name!r}: {both}",
                resolution="Give one of them another name: tool(name=…)(function).",
            )
        named[name] = one
    return named


def _place_of(given: FunctionTool[..., Any]) -> str:
    """Return the module and the qualified name of a tool's function."""
    function: Any = given.function
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '?')}.{name}"


def refuse_functions(tools: Any) -> None:
    """Raise UsageError if `tools` contains functions; used by methods that never call tools."""
    given = tools if tools is None or isinstance(tools, Sequence) else [tools]
    if given and any(map(callable, given)):
        raise UsageError(
            "stream() and complete() call no functions",
            resolution="Use run(…, tools=[…]), or pass tool(function).definition and answer the "
            "model's calls yourself.",
        )


def failed(call: ToolCallBlock, why: str) -> ToolResultMessage:
    """Return the result of a call that failed."""
    return ToolResultMessage(call.id, call.name, why, is_error=True)


def _runs_in(task: asyncio.Task[Any] | None) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no event loop is running
        return False


def content_of(result: Any) -> str | list[Block]:
    """Return a tool's result as content for a model: text, media, or JSON."""
    if isinstance(result, str):
        return str.__str__(result)  # for a member of an enumeration, `str()` might be its name
    parts = list(result) if isinstance(result, list | tuple) else [result]
    if any(isinstance(part, _SHOWN) for part in parts):
        return [_block(part) for part in parts]
    data = plain_data(result)
    try:
        return msgspec.json.encode(data).decode()
    except UnicodeEncodeError:  # a lone surrogate, which is replaced when the text is sent
        # Decoding joins surrogate pairs, and turns NaN into null, as msgspec does.
        data = json.loads(json.dumps(data), parse_constant=lambda constant: None)
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _block(part: Any) -> Block:
    return part if isinstance(part, _SHOWN) else TextBlock(str(content_of(part)))


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # a callable object
    )


class _Docstring:
    """The descriptions of a function and its parameters, from a docstring of any common style."""

    def __init__(self, function: Callable[..., Any]) -> None:
        from docstring_parser import parse

        said = parse(inspect.getdoc(function) or "")
        self.text: str = "\n\n".join(filter(None, (said.short_description, said.long_description)))
        self.parameters = {each.arg_name: each.description or "" for each in said.params}


def _parameters_of(function: Callable[..., Any], called: str) -> list[_Parameter]:
    hints = _hints(function, called)
    bound = _bound_keywords(function)
    found = []
    for one in inspect.signature(function).parameters.values():
        if one.name in bound:
            continue
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            stars = "*" if one.kind is one.VAR_POSITIONAL else "**"
            raise UsageError(
                f"tool {called!r}: {stars}{one.name} cannot be passed by a model",
                resolution="Give each parameter a name, or use a parameter that is a list or a "
                "dict.",
            )
        annotation: Any = hints.get(one.name, Any)
        default: Any = NOTHING if one.default is one.empty else one.default
        if _is_field(default):
            annotation = Annotated[annotation, default]
            default = NOTHING if default.is_required() else default
        try:
            schema = Schema(annotation)
            if default is None and not _takes_none(schema):
                schema = Schema(annotation | None)
            found.append(_Parameter(one.name, schema, default))
        except UsageError as error:
            raise UsageError(
                f"tool {called!r}: {one.name}: {error.message}", resolution=error.resolution
            ) from error
    return found


def _takes_none(schema: Schema[Any]) -> bool:
    try:
        schema.load(None)
    except Exception:  # also of the code of a parameter's type
        return False
    return True


def _is_field(default: Any) -> bool:
    """Return True for a Field of pydantic."""
    return hasattr(default, "is_required") and hasattr(default, "get_default")


def _object_of(parameters: list[_Parameter], said: dict[str, str]) -> dict[str, Any]:
    """Return the JSON schema of a call's arguments; `said` maps parameter names to descriptions."""
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for one in parameters:
        schema = {key: value for key, value in one.schema.json.items() if key != "title"}
        held = schema.get("$defs", {})
        taken = {name for name in held if definitions.get(name, held[name]) != held[name]}
        new: dict[str, str] = {}
        while taken:  # by other classes with the same names
            new |= {f"#/$defs/{name}": f"{name}_{one.name}" for name in taken}
            left = {name: each for name, each in held.items() if f"#/$defs/{name}" not in new}
            taken = {name for name, each in left.items() if _renamed(each, new) != each}
        if new:
            schema = _renamed(schema, new)
        definitions |= schema.pop("$defs", {})
        if said.get(one.name):
            schema.setdefault("description", said[one.name])
        if one.default is not NOTHING:
            schema |= _default(one.default)
        properties[one.name] = schema
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [one.name for one in parameters if one.default is NOTHING]:
        whole["required"] = required
    whole["additionalProperties"] = False
    return {**whole, "$defs": definitions} if definitions else whole


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    """Return a schema in which definitions have other names; `names` maps references to names."""
    if isinstance(schema, list):
        return [_renamed(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    renamed: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and value in names:
            renamed[key] = f"#/$defs/{names[value]}"
        elif key == "$defs":
            renamed[key] = {
                names.get(f"#/$defs/{name}", name): _renamed(each, names)
                for name, each in value.items()
            }
        else:
            renamed[key] = _renamed(value, names)
    return renamed


def _hints(function: Any, called: str) -> dict[str, Any]:
    while isinstance(function, partial):
        function = function.func
    if inspect.isclass(function):
        function = function.__init__
    elif not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"tool {called!r}: {error}",
            resolution="Annotate with types that stand in the module, not inside a function.",
        ) from error


def _bound_keywords(function: Any) -> set[str]:
    """Return the names of the keywords that `functools.partial` has bound, at any depth.

    The signature of a partial function lists them as parameters with defaults.
    """
    names: set[str] = set()
    while True:
        if isinstance(function, partial):
            names |= function.keywords.keys()
            function = function.func
        elif hasattr(function, "__wrapped__") and not hasattr(function, "__signature__"):
            function = function.__wrapped__
        else:
            return names


def _default(value: Any) -> dict[str, Any]:
    if _is_field(value):
        return {}  # the schema that pydantic made contains it
    try:
        return {"default": plain_data(value)}
    except TypeError:
        return {}  # JSON has no form for this default; the function still uses it
