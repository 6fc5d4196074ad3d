"""Events and messages to JSON data and back, through one converter.

Every class of a union carries its tag (`type` or `role`), whichever way it is reached, because a
tagged union dumped without naming the union would silently lose it. Defaults are left out.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from attrs import has

from swink_core.vocabulary import events as ev
from swink_core.vocabulary import messages as ms
from swink_core.vocabulary.checks import held_to
from swink_core.vocabulary.outcome import StopReason, StreamErrorKind

if TYPE_CHECKING:
    from cattrs import Converter
    from typing_extensions import TypeForm


T = TypeVar("T")


class CodecError(ValueError):
    """JSON data that is not what it should be; the message says where and why."""


@cache
def _converter(allow_files: bool = False, exact: bool = False) -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_unstructure_fn

    converter = Converter(omit_if_default=True, forbid_extra_keys=exact)

    def tagged(cls: type[Any]) -> Any:
        plain: Any = make_dict_unstructure_fn(cls, converter, _cattrs_omit_if_default=True)
        tag = _tag_of(cls)
        return lambda obj: {tag: getattr(cls, tag), **plain(obj)}

    def union(kind: Any, tag: str = "type") -> None:
        by_tag = {getattr(cls, tag): cls for cls in get_args(kind)}

        def structure(data: Any, _: Any) -> Any:
            if not isinstance(data, dict):
                raise CodecError(f"an object with {tag!r} was expected, not {data!r:.80}")
            value = data.get(tag)
            cls = by_tag.get(value) if isinstance(value, str) else None
            if cls is None:
                known = ", ".join(by_tag)
                raise CodecError(f"unknown {tag} {value!r:.80}; known: {known}")
            own = {n: v for n, v in data.items() if n != tag} if exact else data
            return converter.structure(own, cls)

        converter.register_structure_hook_func(lambda cls: cls == kind, structure)

    converter.register_unstructure_hook_factory(lambda cls: has(cls) and bool(_tag_of(cls)), tagged)
    _be_strict(converter)
    union(ms.Source)  # before those that hold it: a class's hook is made of those of its fields
    union(ms.Block)
    blocks = list[ms.Block]
    each = converter.get_structure_hook(blocks)
    converter.register_structure_hook_func(
        lambda kind: kind in (blocks, str | blocks),  # an answer makes a block of a string itself
        lambda data, _: data if isinstance(data, str) else each(data, blocks),
    )
    union(ms.Message, "role")
    union(ev.Event)
    if not allow_files:
        converter.register_structure_hook(ms.FileSource, _refuse_file)
    return converter


def _tag_of(cls: type[Any]) -> str:
    return next((tag for tag in ("role", "type") if getattr(cls, tag, None)), "")


def _refuse_file(_: Any, __: Any) -> Any:
    why = "data from elsewhere could name any file of this machine"
    raise CodecError(f"a file source is loaded with allow_files=True alone, because {why}")


def _be_strict(converter: Converter) -> None:
    """Refuse what cattrs would convert (`str(None)`, the letters of a text as a list)."""
    from cattrs.cols import list_structure_factory
    from cattrs.gen import make_dict_structure_fn

    def held(data: Any, kind: Any) -> Any:
        if kind is int and isinstance(data, float) and data.is_integer():
            data = int(data)
        try:
            return held_to(kind, data)
        except ValueError as error:
            raise CodecError(f"{error}: {data!r:.80}") from None

    def lists(kind: Any) -> Any:
        plain = list_structure_factory(kind, converter)
        return lambda data, _: plain(held(data, list), kind)

    def objects(kind: Any) -> Any:
        exact = converter.forbid_extra_keys
        plain: Any = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=exact)
        return lambda data, _: plain(held(data, dict), kind)

    for kind in (str, bool, float, int, StopReason, StreamErrorKind):
        converter.register_structure_hook(kind, held)
    converter.register_structure_hook_func(_are(dict), held)
    converter.register_structure_hook_factory(_are(list), lists)
    converter.register_structure_hook_factory(has, objects)


def _are(origin: Any) -> Any:
    return lambda kind: get_origin(kind) is origin


def dump(value: Any) -> Any:
    """Return JSON data for an event, message, block, context or list of these."""
    return _converter().unstructure(value)


def load(kind: TypeForm[T], data: Any, *, allow_files: bool = False, exact: bool = False) -> T:
    """Return an object of `kind` (`Context`, `AssistantMessage`, `Message`, …).

    `allow_files` says that the data may name files of this machine, as a conversation does that
    was saved here. Raises CodecError, which says where the data is wrong.
    """
    from cattrs import transform_error

    try:
        loaded: T = _converter(allow_files, exact).structure(data, kind)  # type: ignore[arg-type]
        return loaded
    except CodecError:
        raise
    except Exception as error:
        reasons = transform_error(error, format_exception=_reason)
        raise CodecError("; ".join(reasons)) from error


def _reason(error: BaseException, kind: type | None) -> str:
    """Our own words for what we found ourselves: a union's list of classes helps nobody."""
    from cattrs.v import format_exception

    return str(error) if isinstance(error, CodecError) else format_exception(error, kind)


def load_event(data: Any) -> ev.Event:
    """Return the event that JSON data describes. Raises CodecError."""
    return load(ev.Event, data)
