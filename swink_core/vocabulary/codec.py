"""Events and messages to JSON data and back, through one converter.

Every class of a union carries its tag (`type` or `role`), whichever way it is reached, because a
tagged union dumped without naming the union would silently lose it. Defaults are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar, get_origin

from attrs import has

from swink_core.vocabulary import events as ev
from swink_core.vocabulary import messages as ms
from swink_core.vocabulary.grammar import RULES
from swink_core.vocabulary.outcome import Cost, StopReason, StreamErrorKind, Usage

if TYPE_CHECKING:
    from cattrs import Converter


T = TypeVar("T")


_BLOCKS = (
    ms.TextBlock, ms.ThinkingBlock, ms.ToolCallBlock, ms.ImageBlock, ms.DocumentBlock,
    ms.AudioBlock, ms.ExtensionBlock,
)  # fmt: skip

_SOURCES = (ms.Base64Source, ms.UrlSource, ms.FileSource, ms.FileIdSource)

_MESSAGES = (ms.SystemMessage, ms.UserMessage, ms.AssistantMessage, ms.ToolResultMessage)


class CodecError(ValueError):
    """JSON data that is not what it should be; the message says where and why."""


@cache
def _converter(allow_files: bool = False) -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_unstructure_fn

    converter = Converter()

    def tagged(cls: type[Any], tag: str) -> None:
        plain: Any = make_dict_unstructure_fn(cls, converter, _cattrs_omit_if_default=True)
        value = getattr(cls, tag)
        converter.register_unstructure_hook(cls, lambda obj: {tag: value, **plain(obj)})

    def union(kind: Any, classes: tuple[type, ...], tag: str) -> None:
        by_tag = {getattr(cls, tag): cls for cls in classes}

        def structure(data: Any, _: Any) -> Any:
            if not isinstance(data, dict):
                raise CodecError(f"an object with {tag!r} was expected, not {data!r:.80}")
            value = data.get(tag)
            cls = by_tag.get(value) if isinstance(value, str) else None
            if cls is None:
                known = ", ".join(by_tag)
                raise CodecError(f"unknown {tag} {value!r:.80}; known: {known}")
            return converter.structure(data, cls)

        # by predicate, because a hook for a base class serves its subclasses too: without end
        converter.register_structure_hook_func(lambda cls: cls == kind, structure)
        converter.register_unstructure_hook(kind, lambda obj: converter.unstructure(obj, type(obj)))

    def content(data: Any, _: Any) -> Any:
        if isinstance(data, str):
            return data
        return converter.structure(data, list[ms.Block])

    def plainly(cls: type[Any]) -> None:
        plain: Any = make_dict_unstructure_fn(cls, converter, _cattrs_omit_if_default=True)
        converter.register_unstructure_hook(cls, plain)

    _be_strict(converter)
    plainly(Usage)  # first, since a class's hook finds those of its fields when it is made
    plainly(Cost)
    converter.register_structure_hook(str | list[ms.Block], content)
    converter.register_unstructure_hook(
        str | list[ms.Block],
        lambda data: data if isinstance(data, str) else [converter.unstructure(b) for b in data],
    )
    union(ms.Source, _SOURCES, "type")
    union(ms.Block, _BLOCKS, "type")
    union(ms.Message, _MESSAGES, "role")
    union(ev.AssistantMessageEvent, tuple(RULES), "type")
    for part in (*_SOURCES, *_BLOCKS, *RULES):
        tagged(part, "type")
    for message in _MESSAGES:
        tagged(message, "role")
    plainly(ms.Tool)
    plainly(ms.Context)
    if not allow_files:
        converter.register_structure_hook(ms.FileSource, _refuse_file)
    return converter


def _refuse_file(_: Any, __: Any) -> Any:
    raise CodecError(
        "a file source is loaded with allow_files=True alone, because data from elsewhere could "
        "name any file of this machine"
    )


def _be_strict(converter: Converter) -> None:
    """Refuse what cattrs would convert (`str(None)`, the letters of a text as a list)."""
    from cattrs.cols import list_structure_factory
    from cattrs.gen import make_dict_structure_fn

    def register(kind: Callable[[Any], Any], name: str, fits: Callable[[Any], bool]) -> None:
        def structure(data: Any, _: Any) -> Any:
            return kind(_expected(name, fits(data), data))

        converter.register_structure_hook(kind, structure)

    def lists(kind: Any) -> Any:
        plain = list_structure_factory(kind, converter)
        return lambda data, _: plain(_expected("a list", isinstance(data, list), data), kind)

    def objects(kind: Any) -> Any:
        plain: Any = make_dict_structure_fn(kind, converter)
        return lambda data, _: plain(_expected("an object", isinstance(data, dict), data), kind)

    register(str, "text", lambda data: isinstance(data, str))
    register(bool, "true or false", lambda data: isinstance(data, bool))
    register(float, "a number", _is_number)
    register(int, "a whole number", lambda data: _is_number(data) and data == int(data))
    for words in (StopReason, StreamErrorKind):
        register(words, f"one of {', '.join(words)}", list(words).__contains__)
    converter.register_structure_hook_func(
        lambda cls: cls == dict[str, Any],
        lambda data, _: dict(_expected("an object", isinstance(data, dict), data)),
    )
    converter.register_structure_hook_factory(_is_list, lists)
    converter.register_structure_hook_factory(has, objects)


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list


def _is_number(data: Any) -> bool:
    return isinstance(data, int | float) and not isinstance(data, bool) and isfinite(data)


def _expected(name: str, fits: bool, data: Any) -> Any:
    if not fits:
        raise CodecError(f"{name} was expected, not {data!r:.80}")
    return data


def dump(value: Any) -> Any:
    """Return JSON data for an event, message, block, context or list of these."""
    return _converter().unstructure(value)


def load(kind: type[T], data: Any, *, allow_files: bool = False) -> T:
    """Return an object of `kind` (`Context`, `AssistantMessage`, `Message`, …).

    `allow_files` says that the data may name files of this machine, as a conversation does that
    was saved here. Raises CodecError, which says where the data is wrong.
    """
    from cattrs import transform_error

    try:
        return _converter(allow_files).structure(data, kind)
    except CodecError:
        raise
    except Exception as error:
        reasons = transform_error(error, format_exception=_reason)
        raise CodecError("; ".join(reasons)) from error


def _reason(error: BaseException, kind: type | None) -> str:
    """Our own words for what we found ourselves: a union's list of classes helps nobody."""
    from cattrs.v import format_exception

    return str(error) if isinstance(error, CodecError) else format_exception(error, kind)


def load_event(data: Any) -> ev.AssistantMessageEvent:
    """Return the event that JSON data describes. Raises CodecError."""
    return load(ev.AssistantMessageEvent, data)
