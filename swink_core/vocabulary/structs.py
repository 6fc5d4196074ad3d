"""The base of the vocabulary's classes, and how to copy one with changes.

They are structs of msgspec: the fields of a class are its JSON form, checked, written and read by
compiled code.
"""

from __future__ import annotations

from sys import float_info
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

Finite: TypeAlias = Annotated[float, Meta(ge=-float_info.max, le=float_info.max)]
"""A number that JSON has a form for."""


class Tagged(msgspec.StructMeta):
    """Makes the tag of a class readable on the class and its instances, as `type` or `role`."""

    def __init__(cls, *_: Any, **__: Any) -> None:
        config = cls.__struct_config__
        if config.tag is not None:
            setattr(cls, str(config.tag_field), config.tag)


class Record(msgspec.Struct, metaclass=Tagged, omit_defaults=True, weakref=True):
    """The base of messages, blocks, sources, events and counts. Defaults are left out of JSON."""


R = TypeVar("R", bound=msgspec.Struct)


def replace(value: R, **changes: Any) -> R:
    """Return a copy of a message, block, event or other value, with new values for some fields.

    The copy is shallow. Raises TypeError for an unknown field name.
    """
    return msgspec.structs.replace(value, **changes)
