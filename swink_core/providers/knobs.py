"""How the options that tune an answer become fields of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from swink_core.providers.fields import merge_fields
from swink_core.vocabulary.models import Model
from swink_core.vocabulary.options import StreamOptions

Convert: TypeAlias = Callable[[Model, StreamOptions], Mapping[str, Any]]
"""Returns the fields that an option becomes, none if it is not set."""

Knobs: TypeAlias = Mapping[str, str | Convert | None]
"""The options that an API has, and where they go; see `sent_options`."""


def sent_options(knobs: Knobs, model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return the fields of a request for options that tune an answer.

    `knobs` maps each option of the API to the name of the field that takes the value unchanged;
    `options.num_predict` is the field `num_predict` of the object `options`. A function converts
    instead: it is called whether or not the option is set, and returns fields, which may be in
    objects. `None`: the provider sends the option elsewhere, for example with the conversation. An
    option that is not set has no field.
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
    """Return the field of each option that goes out unchanged, as a dotted path."""
    named = knobs.items() if isinstance(knobs, Mapping) else ()
    return {name: (field,) for name, field in named if isinstance(field, str)}
