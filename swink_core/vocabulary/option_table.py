"""The table of a call's options, and function signatures that are generated from this table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from attrs import define, fields_dict

from swink_core.vocabulary.checks import annotations_of
from swink_core.vocabulary.options import (
    ClientOptions,
    OptionKind,
    Options,
    StreamOptions,
    TargetOptions,
)

F = TypeVar("F", bound=Callable[..., Any])


@define(frozen=True, kw_only=True)
class Option:
    """A row of the table of options.

    `type` is the annotation of the keyword argument. `default` is the value that applies if the
    option is not set, or `None` if the provider decides. `example` is a value for documentation and
    tests, or `None`. `kind` is the category of the option:

    * `tuning`: sampling and output, such as the temperature. An option that a provider does not
      support is left out with a `Notice`.
    * `answer`: the form of the answer. If a provider does not support the option, the call is
      refused.
    * `call`: how swink makes the call, such as time limits and retries.
    * `provider`: credentials, address and fields of one provider, which no other provider receives.
    * `conversation`: an addition to the conversation, such as its tools.

    `local` means that the option affects only this machine's connection and is not sent to a
    gateway.
    """

    name: str
    type: str
    kind: OptionKind
    meaning: str
    default: Any = None
    example: Any = None
    local: bool = False

    @property
    def set_by(self) -> tuple[str, ...]:
        """Where the option can be set: `client`, `provider`, `model` or `call`.

        `provider` means `Client(providers=…)`, and `model` means a model of a fallback chain.
        """
        if self.name in ClientOptions.__annotations__:
            return ("client", "provider", "model", "call")
        return ("provider", "model", "call") if self.name in _OF_TARGETS else ("call",)

    @property
    def annotation(self) -> Any:
        """The annotation of the option's field in `StreamOptions`; `None` if it has no field."""
        return annotations_of(StreamOptions).get(self.name)

    @property
    def types(self) -> frozenset[Any]:
        """The types that a value may have, except `NoneType`.

        For a literal, this is the type of the literal.
        """
        return frozenset(_types(self.annotation)) - {NoneType}


def _types(annotation: Any) -> Iterator[Any]:
    """Yield the types in an annotation, without constraints such as a minimum."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _types(annotation.__origin__)
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _types(part)
    elif origin is Literal:
        yield from map(type, get_args(annotation))
    else:
        yield origin or annotation


_OF_TARGETS = frozenset(TargetOptions.__annotations__)

_BESIDE: Mapping[str, Option] = {
    option.name: option
    for option in (
        Option(
            name="timeout",
            type="float | None",
            kind="call",
            meaning="Seconds for the whole call, or in a model's own options for this model of a "
            "fallback chain; short for `timeouts=Timeouts(total=…)`.",
            local=True,
        ),
        Option(
            name="system_prompt",
            type="str | Sequence[str | Block] | None",
            kind="conversation",
            meaning=(
                "The system prompt, in place of the conversation's: a string, or a list of texts "
                "and blocks, which may have cache marks."
            ),
        ),
        Option(
            name="tools",
            type="Sequence[Tool] | None",
            kind="conversation",
            meaning="The tools, in place of the conversation's.",
        ),
    )
}
"""Options without a field in `StreamOptions`."""


def _written(kind: Any) -> Mapping[str, str]:
    """Map the keys of a typed dictionary to their annotations, as written in the source code."""
    annotations = kind.__annotations__.items()
    return {name: getattr(each, "__forward_arg__", str(each)) for name, each in annotations}


def _table() -> Iterator[Option]:
    """Yield a row for each keyword argument of a call, in their order."""
    known = fields_dict(StreamOptions)
    for name, written in _written(Options).items():
        if name in _BESIDE:
            yield _BESIDE[name]
            continue
        kept: Any = known[name]
        default = kept.default.factory() if hasattr(kept.default, "factory") else kept.default
        yield Option(name=name, type=written, default=default, **kept.metadata)


OPTIONS: Mapping[str, Option] = MappingProxyType({option.name: option for option in _table()})
"""All options by name, in the order of a call's keyword arguments."""

TUNING: tuple[str, ...] = tuple(name for name, each in OPTIONS.items() if each.kind == "tuning")
"""The sampling and output options; a provider leaves out unsupported ones, with a notice."""

StreamOptions.__doc__ = "\n".join(
    (
        f"{inspect.cleandoc(StreamOptions.__doc__ or '')}\n\nOptions:\n",
        *(
            f"* {each.name}: {each.meaning}"
            for each in OPTIONS.values()
            if each.name not in _BESIDE
        ),
    )
)


@cache
def _parameters(kind: Any) -> tuple[inspect.Parameter, ...]:
    """Return the keyword parameters of a typed dictionary.

    If an option's default is neither a number nor a string, the parameter's default is `None`,
    which has the same effect: it selects the option's default.
    """
    made = []
    for name, written in _written(kind).items():
        default = OPTIONS[name].default
        if not isinstance(default, bool | int | float | str):
            default = None
        keyword = inspect.Parameter.KEYWORD_ONLY
        made.append(inspect.Parameter(name, keyword, default=default, annotation=written))
    return tuple(made)


if TYPE_CHECKING:
    # Jedi completes scripts without running them, and does not support `Unpack`. It follows
    # `**options` into the calls in a function's body and uses the parameters and fields of the
    # called function. Therefore such functions contain a call under `TYPE_CHECKING`.

    def call_options(*, system_prompt: Any = None, tools: Any = None, **options: Any) -> None:
        """List the options of a call."""
        target_options(**options)

    def target_options(*, timeout: Any = None, **options: Any) -> None:
        """List the options of a model in a chain."""
        StreamOptions(**options)

    def client_options(*, timeout: Any = None, **options: Any) -> None:
        """List the options of a client, without those that apply to a single provider."""
        StreamOptions(api_key="", base_url="", headers={}, settings={}, extra={}, **options)


def takes_options(kind: Any) -> Callable[[F], F]:
    """Return a decorator that replaces `**options` in a function's signature with the options.

    `kind` is a typed dictionary whose keys are in `OPTIONS`; the new signature has a keyword
    parameter for each key. `inspect.signature`, `help()` and the completion of IPython and Jupyter
    use this signature. For type checkers, annotate the parameter as `**options: Unpack[kind]`.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters = [*own, *_parameters(kind)]
        named: Any = function
        named.__signature__ = signature.replace(parameters=parameters)
        return function

    return decorate
