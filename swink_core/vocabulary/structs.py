"""The base of the classes for messages and events, and a function that copies an object.

These classes are msgspec structs. The fields of a class define the JSON form of the objects, and
msgspec's compiled code checks, writes and reads this form.
"""

from __future__ import annotations

from sys import float_info
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

Finite: TypeAlias = Annotated[float, Meta(ge=-float_info.max, le=float_info.max)]
"""A number that JSON can represent."""


class Tagged(msgspec.StructMeta):
    """A metaclass that stores the tag of a class in the class attribute `type` or `role`."""

    def __init__(cls, *_: Any, **__: Any) -> None:
        config = cls.__struct_config__
        if config.tag is not None:
            setattr(cls, str(config.tag_field), config.tag)


class Record(msgspec.Struct, metaclass=Tagged, omit_defaults=True, weakref=True):
    """The base class of messages, blocks, sources, events, usage and cost.

    Fields with default values are left out of the JSON.
    """


R = TypeVar("R", bound=msgspec.Struct)


def replace(value: R, **changes: Any) -> R:
    """Return a copy of a message, block, event or other value, with new values for some fields.

    The copy is shallow. Raises TypeError for an unknown field name.
    """
    return msgspec.structs.replace(value, **changes)
