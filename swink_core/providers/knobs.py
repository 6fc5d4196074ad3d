"""Convert sampling and output options, such as `temperature`, to fields of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from swink_core.providers.fields import merge_fields
from swink_core.vocabulary.models import Model
from swink_core.vocabulary.options import StreamOptions

Convert: TypeAlias = Callable[[Model, StreamOptions], Mapping[str, Any]]
"""A function that returns the request fields for an option, or `{}` if the option is not set."""

Knobs: TypeAlias = Mapping[str, str | Convert | None]
"""The options that an API supports, and the fields in which they are sent; see `sent_options`."""


def sent_options(knobs: Knobs, model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return the request fields for sampling and output options.

    `knobs` maps the name of each option that the API supports to the field in which its value is
    sent unchanged; `options.num_predict` means the field `num_predict` of the object `options`. The
    field is not sent if the option is not set. `knobs` may also map an option to a function that
    returns the fields; the function is called even if the option is not set. `None` in place of a
    field means that other code of the provider sends the option, for example with the conversation.
    """
    fields: dict[str, Any] = {}
    for name, place in knobs.items():
        if callable(place):
            if converted := place(model, options):
                fields = merge_fields(fields, converted)
        elif place is not None and (value := getattr(options, name)) is not None:
            *path, last = place.split(".")
            inner = fields
            for step in path:
                inner = inner.setdefault(step, {})
            inner[last] = value
    return fields


def fields_of(knobs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map each option whose value is sent unchanged to its request field, as a dotted path."""
    named = knobs.items() if isinstance(knobs, Mapping) else ()
    return {name: (field,) for name, field in named if isinstance(field, str)}
